"""Batch runs on Spark: `driver` makes RDDs of the segments, and `task` runs one on a partition in an executor."""
