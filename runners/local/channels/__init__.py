"""Channels between subtasks: ordered messages, within this process or between two.

`exchange` partitions a task's output over the channels to the subtasks of the next task.
"""
