"""The streaming engine: a task between two shuffles while time goes by, and its part of a checkpoint.

`task_execution` runs the operators of a task, in a subtask of the local runner or of a micro-batch.  `snapshot` says
what of it a checkpoint holds.
"""
