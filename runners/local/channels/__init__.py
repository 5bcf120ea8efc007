"""Channels between subtasks: messages, in order, in this process or between two.

`exchange` partitions what a task sends over the channels to the next task's subtasks.
"""
