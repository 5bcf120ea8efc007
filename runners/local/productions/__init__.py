"""MillWheel's strong productions: each step of a subtask is durable before its output is delivered.

`producer` is a subtask with a log.  `delivery` is the strategy of a job of producers, and `merged_logs` makes a
consistent snapshot of all logs at any moment.  Source: MillWheel, section 5.
"""
