"""Micro-batches on Spark: `query` plans, runs, commits and publishes one batch after the other.

A batch is one Spark job (`spark_job`).  Its subtasks (`subtask`) run in executors and send messages to each other
(`exchange`).  `commit_log` has the plans and the committed batches, and `recovery` finds the batch that a run continues
from.
"""
