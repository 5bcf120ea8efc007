"""The batch engine: segments of a bounded plan at work, wherever a runner has them run.

segment_task.py        segments at work: one on partitions of its input, or all of a plan
bounded_grouping.py    a grouping whose windows have one result each
block_spool.py         a partition's blocks by key group, on disk if they are many

Several partitions, whose blocks go through files:

schedule.py            which task is next
file_tasks.py          what a task needs to run anywhere, and what it makes
shuffle_files.py       blocks in files, by partition and key group
"""
