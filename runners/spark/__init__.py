"""Running on Spark.

runner.py              SparkRunner: one of the two others, by whether the input ends
session.py             the SparkSession that runners run in
java.py                a Java to start Spark with
jobs.py                a run's Spark jobs: described, watched, cancelled
failures.py            what made one fail

Batch:

batch_runner.py        SparkBatchRunner: what `--runner=spark-batch` starts
batch.py               the segments as one graph of RDDs, on the driver
task.py                a segment on one partition, in an executor
frame_blocks.py        a DataFrame's rows, as Spark's tasks are given them
frame_output.py        elements that become a DataFrame
task_reports.py        what tasks report besides their results

Micro-batches:

micro_batch_runner.py  SparkMicroBatchRunner: what `--runner=spark-microbatch` starts
micro_batch_query.py   batch after batch: planned, run, committed, published
micro_batch_flags.py   what its flags say: how batches are driven, where state goes
committed_batch.py     what is known of the batch that was committed last
recovery.py            where a run goes on, and what it refuses to go on from
commit_points.py       where a batch may fail, by name
write_ahead.py         the plan of a batch, written down before it runs
planned_batch.py       what a batch is given
driver_sources.py      the sources, as the driver sees them
script_on_driver.py    a script, event by event
unbounded_on_driver.py an unbounded source: what a batch may read of each partition
stream_on_driver.py    a streaming DataFrame: what Spark's own query brings
gathered.py            what they give to the next batch
micro_batch.py         the batch: one Spark job, level by level
shard_chain.py         that job's shuffles, and a worker for each shard
level_task.py          one level on one shard, in an executor, and what its worker keeps
shard.py               that task's state and steps at work
parcels.py             what tasks hand to each other, and tell the driver
"""

from .batch_runner import SparkBatchRunner
from .micro_batch_runner import SparkMicroBatchRunner
from .runner import SparkRunner

__all__ = ["SparkBatchRunner", "SparkMicroBatchRunner", "SparkRunner"]
