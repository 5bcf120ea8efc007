"""A subtask: one of the parallel instances of a task, with its sources, watermarks and barriers.

`subtask` processes messages one at a time.  `barriers` has the algorithms of asynchronous barrier snapshots.
"""
