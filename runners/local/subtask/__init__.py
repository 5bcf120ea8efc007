"""A subtask: one of the parallel instances of a task, with its sources, watermarks and barriers.

`subtask` takes in messages one at a time.  `aligned`, `unaligned` and `feedback_log` are the algorithms of
asynchronous barrier snapshots.
"""
