"""The streaming engine: the operators of a task between two shuffles, and the task's part of a checkpoint.

`task_program` runs the operators of a task, in a subtask of the local runner or of a micro-batch.  `snapshot` writes
and restores its state.
"""
