"""The batch engine: tasks of a bounded plan, independent of processes and of Spark.

`segment_task` runs segments on partitions of their input.  `schedule`, `file_tasks` and `shuffle_files` are for runners
that pass the blocks of a shuffle through files.
"""
