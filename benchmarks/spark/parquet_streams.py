"""Streams of Parquet files, summed by key and minute, against the same in Structured Streaming, in one session.

(a) with functions of rows, (b) with expressions of columns: 600,000 rows in six files, each of which is a batch.  The
comparison is of the CPU time of the driver, its JVM and the Python workers together.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.processes import cpu_of_this_and_children
from harness.spark_session import started_session
from harness.timing import Result, compare

import penstock as beam
from penstock.sdk.options import PipelineOptions
from spark.micro_batch import TotalSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, ROWS, KEYS = 6, 100_000, 1000
MINUTES = 10


def write(directory: Path) -> None:
    """Write the files: each has rows of ten minutes, and is older than the next one."""
    import numpy
    import pyarrow
    from pyarrow import parquet

    for file in range(FILES):
        n = numpy.arange(ROWS)
        micros = (file * MINUTES * 60 + n * MINUTES * 60 / ROWS) * 1_000_000
        table = pyarrow.table(
            {
                "at": pyarrow.array(micros.astype(numpy.int64), pyarrow.timestamp("us", tz="UTC")),
                "click": [f"page {i % KEYS}" for i in range(ROWS)],
                "n": n,
            }
        )
        path = directory / f"{file}.parquet"
        parquet.write_table(table, path)
        os.utime(path, (1_700_000_000 + file, 1_700_000_000 + file))


def stream(session: SparkSession, directory: Path) -> Any:
    reader = session.readStream.schema("at timestamp, click string, n bigint").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(directory))


def of_rows(rows: Any) -> Any:
    return (
        rows
        | beam.Map(lambda row: (row.click, row.n))
        | beam.WindowInto(beam.window.FixedWindows(60))
        | beam.CombinePerKey(sum)
    )


def of_columns(rows: Any) -> Any:
    return (
        rows | beam.WindowInto(beam.window.FixedWindows(60)) | beam.GroupBy("click").aggregate_field("n", sum, "total")
    )


def ours(session: SparkSession, directory: Path, build: Callable[[Any], Any]) -> tuple[int, int]:
    """Return the number of sums, and their total."""
    from penstock.runners.spark import SparkMicroBatchRunner

    sink = TotalSink()
    with tempfile.TemporaryDirectory() as checkpoints:
        options = PipelineOptions([], checkpoint_dir=checkpoints, available_now=True)
        p = beam.Pipeline(SparkMicroBatchRunner(session), options=options)
        _ = build(p | beam.io.FromSparkStream(stream(session, directory), timestamp="at")) | beam.io.Write(sink)
        p.run().wait_until_finish()
    return sink.found


def by_hand(session: SparkSession, directory: Path) -> tuple[int, int]:
    from pyspark.sql import functions as f

    rows = stream(session, directory).withWatermark("at", "0 seconds")
    sums = rows.groupBy(f.window("at", "1 minute"), "click").agg(f.sum("n").alias("total"))
    found: list[tuple[int, int]] = []

    def keep(frame: Any, number: int) -> None:
        (row,) = frame.select(f.count("*"), f.coalesce(f.sum("total"), f.lit(0))).collect()
        found.append((row[0], row[1]))

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoints:
        writer = sums.writeStream.outputMode("append").option("checkpointLocation", checkpoints)
        writer.trigger(availableNow=True).foreachBatch(keep).start().awaitTermination()
    return sum(count for count, _ in found), sum(total for _, total in found)


def run() -> Iterator[Result]:
    session = started_session()
    session.conf.set("spark.sql.shuffle.partitions", session.sparkContext.defaultParallelism)
    try:
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place)
            write(directory)
            for name, build, limit in (("(a) rows", of_rows, 2.0), ("(b) columns", of_columns, 1.5)):
                yield compare(
                    f"{name} of Parquet, by hand: CPU",
                    lambda build=build: ours(session, directory, build),
                    lambda: by_hand(session, directory),
                    limit,
                    clock=cpu_of_this_and_children,
                    warm_up=2,
                    runs=3,
                )
    finally:
        session.stop()
