"""The batch engine: segments of a bounded plan at work, wherever a runner has them run.

segment_task.py        segments at work on partitions of their input
bounded_grouping.py    a grouping whose windows have one result each
block_spool.py         a partition's blocks by key group, on disk if they are many
"""
