"""Hand-written Structured Streaming queries, to compare micro-batches with."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import attrs
from harness.processes import cpu_of_this_and_children
from pyspark import cloudpickle
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from spark.batched_pairs import STRIDE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Workers can't import modules of the benchmarks.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class SumUntilItsWindowEnds(StatefulProcessor):
    """The sum of a key and window, with the minimal work: one `get` and one `update` a batch, and no timer.

    The sum is output in the last batch of a window (`ends`).
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._sum = handle.getValueState("sum", "total bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        from pyspark.sql import Row

        found = self._sum.get()
        total, ends = found[0] if found else 0, False
        for row in rows:
            total += row.value
            ends = row.ends
        self._sum.update((total,))
        if ends:
            yield Row(key=key[0], window=key[1], total=total)

    def close(self) -> None:
        pass


@attrs.frozen
class Summed:
    """Measurements and output of a query that sums.

    Attributes:
      batches: the number of batches.
      seconds, cpu_seconds: of each batch, without the first and the last.
      found: the number of sums that were output, and their total.
    """

    batches: int
    seconds: list[float]
    cpu_seconds: list[float]
    found: tuple[int, int]


def sums(session: SparkSession, keys: int, size: int, batches: int) -> Summed:
    """Sum `BatchedPairs`."""
    from pyspark.sql import functions as f

    pairs = _pairs(session, size).select(
        (f.col("value") * STRIDE % keys).alias("key"),
        f.window("timestamp", "1 day").start.alias("window"),
        "value",
        (f.col("value") >= (batches - 1) * size).alias("ends"),
    )
    result = pairs.groupBy("key", "window").transformWithState(
        SumUntilItsWindowEnds(), "key bigint, window timestamp, total bigint", "Update", "None"
    )
    out: list[tuple[int, int]] = []
    cpu: list[float] = []

    def keep(frame: DataFrame, number: int) -> None:
        (row,) = frame.select(f.count("*"), f.coalesce(f.sum("total"), f.lit(0))).collect()
        out.append((row[0], row[1]))
        cpu.append(cpu_of_this_and_children())

    seconds = _batches(result.writeStream.outputMode("update").foreachBatch(keep), batches)
    of_each = [after - before for before, after in pairwise(cpu[:batches])]
    return Summed(batches, seconds[1:-1], of_each[:-1], out[batches - 1])


def empty(session: SparkSession, batches: int) -> list[float]:
    """Return the seconds of each batch of an empty query, whose `foreachBatch` runs a job with one shuffle."""

    def shuffled(frame: DataFrame, number: int) -> None:
        partitions = session.sparkContext.defaultParallelism
        rows = session.sparkContext.parallelize([(partition, b"") for partition in range(partitions)], partitions)
        rows.partitionBy(partitions, lambda partition: partition).collect()

    return _batches(_pairs(session, 2).writeStream.foreachBatch(shuffled), batches)


def _pairs(session: SparkSession, size: int) -> DataFrame:
    """Return Spark's stream of numbered rows, with this many in a batch."""
    return (
        session.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", size)
        .option("numPartitions", session.sparkContext.defaultParallelism)
        .option("advanceMillisPerBatch", 1000)
        .load()
    )


def _batches(writer: Any, batches: int) -> list[float]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        query = writer.option("checkpointLocation", directory).start()
        try:
            while len(query.recentProgress) < batches and query.isActive:
                time.sleep(0.1)
            if query.exception() is not None:
                raise query.exception()
            return [progress["durationMs"]["triggerExecution"] / 1000 for progress in query.recentProgress[:batches]]
        finally:
            query.stop()
