"""Running on Spark.

batch_runner.py   SparkBatchRunner: what `--runner=spark-batch` starts
session.py        the SparkSession that it runs in
java.py           a Java to start Spark with
segments.py       the plan cut at its shuffles
batch.py          the segments as one graph of RDDs, on the driver
task.py           one segment on one partition, in an executor
block_spool.py    a partition's blocks by key group, on disk if they are many
jobs.py           the run's Spark jobs: described, watched, cancelled
task_reports.py   what tasks report besides their results
"""

from .batch_runner import SparkBatchRunner

__all__ = ["SparkBatchRunner"]
