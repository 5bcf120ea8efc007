"""The batch engine: tasks of a bounded plan, which know neither processes nor Spark.

`segment_task` runs segments on partitions of their input.  `schedule`, `file_tasks` and `shuffle_files` are for
runners that pass the blocks of a shuffle through files.
"""
