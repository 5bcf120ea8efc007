"""MillWheel's guarantees: each step of a subtask is durable before anybody hears of it.

production.py           what one is: taken, changed, put out, as one record
differences.py          what has changed in the parts of a snapshot that have no changes of their own
outbox.py               a sender's end of a channel: kept until it is acknowledged
inbox.py                a receiver's end: duplicates are dropped
producer.py             a subtask and its log: taken, committed, released
replay.py               a log, read again
slot.py                 producers that take turns
fenced_transactions.py  of a job's sinks, which a zombie can't begin
attempt.py              sinks committed behind productions; a worker that died goes on from its logs
fold.py                 all logs as one snapshot: a consistent cut at any moment
layout.py               whose logs there are: savepoints, and going on with other subtasks
job.py                  one run, from its first start to its end
delivery.py             which tasks are strong, and which are weak

Source: MillWheel, section 5.
"""
