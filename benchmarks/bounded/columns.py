"""(l) Columns of Parquet files: against loops over their rows, against Polars with one thread, and Spark's DataFrames.

Polars and Spark are left out where they aren't installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from harness.inputs import events, scratch_directory
from harness.keeping_sink import KeepingSink
from harness.processes import cpu_of_this_and_children
from harness.spark_session import WARM_UP, started_session
from harness.timing import RUNS, Ratio, compare

import penstock as beam

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = 60
# So many that start-up takes a twentieth of the time.
_NUMBERS = 4_000_000
_ROW_GROUP = 1 << 17
_ROWS_OF_A_BATCH = 1 << 14


@cache
def event_table(number: int = 1_000_000) -> Path:
    """A Parquet file of `events`: user, at, value."""
    import pyarrow

    users, seconds, values = zip(*events(number), strict=True)
    return _written(f"events-{number}.parquet", pyarrow.table({"user": users, "at": seconds, "value": values}))


@cache
def number_table() -> Path:
    """A Parquet file of four million integers: x."""
    import numpy
    import pyarrow

    return _written(f"numbers-{_NUMBERS}.parquet", pyarrow.table({"x": numpy.arange(_NUMBERS)}))


def _written(name: str, table: Any) -> Path:
    import pyarrow.parquet

    path = scratch_directory() / name
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}")
        pyarrow.parquet.write_table(table, unfinished, row_group_size=_ROW_GROUP)
        unfinished.rename(path)
    return path


def _rows(path: Path) -> Iterator[tuple[Any, ...]]:
    import pyarrow.parquet

    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(_ROWS_OF_A_BATCH, use_threads=False):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def windowed_sums(path: Path, runner: Any = "local") -> KeepingSink:
    """Sum the values of each user and minute."""
    sink = KeepingSink()
    with beam.Pipeline(runner) as p:
        (
            p
            | beam.io.ReadFromParquet(path, as_rows=True)
            | beam.WithTimestamps("at")
            | beam.WindowInto(beam.window.FixedWindows(MINUTE))
            | beam.GroupBy("user").aggregate_field("value", sum, "total")
            | beam.io.Write(sink)
        )
    return sink


def sums_by_hand(path: Path) -> dict[tuple[str, int], int]:
    sums: dict[tuple[str, int], int] = {}
    for user, at, value in _rows(path):
        cell = user, at // MINUTE
        sums[cell] = sums.get(cell, 0) + value
    return sums


def sums_of(sink: KeepingSink) -> dict[tuple[str, int], int]:
    return {
        (user, int(windows[0].start) // MINUTE): total
        for bundle in sink.bundles
        for (user, total), _, windows, _, _ in bundle.rows()
    }


def chain(source: beam.PTransform) -> KeepingSink:
    """Compute five expressions and a filter."""
    x, sink = beam.col("x"), KeepingSink()
    with beam.Pipeline() as p:
        (
            p
            | source
            | "1" >> beam.Select(x=x + 1)
            | "2" >> beam.Select(x=x * 3)
            | "3" >> beam.Select(x=x ^ 0x5555)
            | "4" >> beam.Filter(x % 3 != 0)
            | "5" >> beam.Select(x=x - 7)
            | "6" >> beam.Select(x=x // 2)
            | beam.io.Write(sink)
        )
    return sink


def chain_by_hand(numbers: Iterable[int]) -> list[int]:
    f1, f2, f3, f4, f5, f6 = (
        lambda x: x + 1,
        lambda x: x * 3,
        lambda x: x ^ 0x5555,
        lambda x: x % 3 != 0,
        lambda x: x - 7,
        lambda x: x // 2,
    )
    results = []
    for number in numbers:
        x = f3(f2(f1(number)))
        if f4(x):
            results.append(f6(f5(x)))
    return results


# Groups once for each line that it reads, and answers with the CPU seconds, the number of groups and the sum of all.
_POLARS = """
import sys, time
import polars

for line in sys.stdin:
    before = time.process_time()
    events = polars.scan_parquet(sys.argv[1])
    cells = events.group_by("user", polars.col("at") // 60).agg(polars.col("value").sum()).collect()
    print(time.process_time() - before, len(cells), cells["value"].sum(), flush=True)
"""


def against_polars(path: Path) -> Ratio:
    process = subprocess.Popen(
        [sys.executable, "-c", _POLARS, str(path)],
        env={**os.environ, "POLARS_MAX_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    times: list[tuple[float, float]] = []
    with process:
        # The first runs import and allocate.
        for _ in range(RUNS + 1):
            before = time.process_time()
            sink = windowed_sums(path)
            ours = time.process_time() - before
            process.stdin.write("\n")
            process.stdin.flush()
            seconds, number, total = process.stdout.readline().split()
            found = sums_of(sink)
            assert (len(found), sum(found.values())) == (int(number), int(total)), "Polars: the results differ"
            times.append((ours, float(seconds)))
        process.stdin.close()
    ours, by_hand = map(median, zip(*times[1:], strict=True))
    return Ratio("(l) windowed sums of columns, Polars", ours, by_hand, 3.0)


def write_sums(path: Path, to: Path, runner: Any) -> Path:
    """Write the sums of each user and minute to Parquet files of a directory."""
    import pyarrow

    to.mkdir()
    schema = pyarrow.schema([("user", pyarrow.string()), ("total", pyarrow.int64())])
    with beam.Pipeline(runner) as p:
        windowed = (
            p
            | beam.io.ReadFromParquet(path, as_rows=True)
            | beam.WithTimestamps("at")
            | beam.WindowInto(beam.window.FixedWindows(MINUTE))
        )
        sums = windowed | beam.GroupBy("user").aggregate_field("value", sum, "total")
        _ = sums | beam.Select("user", "total") | beam.io.WriteToParquet(to / "sums", schema)
    return to


def write_dataframe(session: SparkSession, path: Path, to: Path) -> Path:
    """Do the same with Spark's own operators."""
    from pyspark.sql import functions

    at = functions.timestamp_seconds("at")
    grouped = session.read.parquet(str(path)).groupBy(functions.window(at, "60 seconds"), "user")
    grouped.agg(functions.sum("value").alias("total")).select("user", "total").write.parquet(str(to))
    return to


def against_dataframe(path: Path) -> Ratio:
    import pyarrow.compute
    import pyarrow.dataset

    from penstock.runners.spark import SparkBatchRunner

    session = started_session()

    def count_and_total(to: Path) -> tuple[int, int]:
        table = pyarrow.dataset.dataset([str(file) for file in to.glob("*") if file.name[0] in "sp"]).to_table()
        return table.num_rows, pyarrow.compute.sum(table["total"]).as_py()

    with TemporaryDirectory(dir=scratch_directory()) as directory:
        places = (Path(directory) / str(i) for i in count())
        try:
            return compare(
                "(l) windowed sums of columns, Spark's DataFrame",
                lambda: write_sums(path, next(places), SparkBatchRunner(spark_session=session)),
                lambda: write_dataframe(session, path, next(places)),
                2.0,
                result=count_and_total,
                of_both=True,
                clock=cpu_of_this_and_children,
                warm_up=WARM_UP,
            )
        finally:
            session.stop()


def run() -> Iterator[Ratio]:
    import pyarrow.parquet

    path, numbers = event_table(), number_table()
    yield compare(
        "(l) windowed sums of columns, a loop",
        lambda: windowed_sums(path),
        lambda: sums_by_hand(path),
        0.2,
        result=sums_of,
        warm_up=1,
    )
    column = pyarrow.parquet.read_table(numbers)
    listed = column["x"].to_pylist()
    # Half of the first is Snappy's.
    for name, source, values in (
        ("of Parquet", lambda: beam.io.ReadFromParquet(numbers, as_rows=True), lambda: (x for (x,) in _rows(numbers))),
        ("in memory", lambda: beam.Create(column), lambda: listed),
    ):
        yield compare(
            f"(l) five expressions and a Filter {name}, a loop",
            lambda source=source: chain(source()),
            lambda values=values: chain_by_hand(values()),
            0.1,
            result=lambda sink: [row.x for row in sink.values()],
            warm_up=1,
        )
    if find_spec("polars") is None:
        print("(l) without Polars, which isn't installed")
    else:
        yield against_polars(path)
    if find_spec("pyspark") is None:
        print("(l) without Spark, which isn't installed")
    else:
        yield against_dataframe(path)
