"""DataFrames as PCollections, and PCollections as DataFrames, on the batch runner."""

from __future__ import annotations

import datetime
import gc
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.programs.running_program import wait_until

import penstock as beam
from penstock.runners.execution.plan.fusion import fuse, shrinks
from penstock.runners.spark import SparkBatchRunner
from penstock.runners.spark.batch.segment_rdds import SparkBatchExecution
from penstock.sdk.errors import PipelineError, SinkError, SourceError
from penstock.testing import assert_that, equal_to
from penstock.windowing import FixedWindows, Timestamp

DAY = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)


class Total(NamedTuple):
    word: str
    n: int


def with_task(row: Any) -> tuple[int, int]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.partitionId(), row.id


def test_rows_keep_their_columns_types_and_nesting(spark: Any) -> None:
    """A struct is a Row, an array a list, a map a dictionary, a timestamp a datetime in UTC."""
    frame = spark.sql(
        "select 'a' as word, 1 as n, cast(null as double) as x, timestamp_seconds(1709208000) as at, "
        "date'2024-02-29' as day, array(struct(1 as q)) as parts, map('k', 2) as counts, binary('z') as raw, "
        "cast(1.50 as decimal(5, 2)) as price"
    )
    expected = beam.Row(
        word="a",
        n=1,
        x=None,
        at=DAY,
        day=DAY.date(),
        parts=[beam.Row(q=1)],
        counts={"k": 2},
        raw=b"z",
        price=Decimal("1.50"),
    )
    with beam.Pipeline(SparkBatchRunner(spark)) as p:
        assert_that(p | beam.io.FromSpark(frame), equal_to([expected]))


def test_partitions_are_read_where_spark_computes_them(spark: Any) -> None:
    """Each row is read by its own task; none goes through the driver."""

    def check(found: list[tuple[int, int]]) -> None:
        assert {0, 1, 2} == {task for task, _ in found}
        assert list(range(30)) == sorted(id for _, id in found)

    with beam.Pipeline(SparkBatchRunner(spark)) as p:
        assert_that(p | beam.io.FromSpark(spark.range(0, 30, 1, 3)) | beam.Map(with_task), check)


def test_a_column_is_the_event_time(spark: Any) -> None:
    """A function creates a DataFrame, its rows are windowed by their times, and the results are another DataFrame."""
    with beam.Pipeline(SparkBatchRunner(spark)) as p:
        totals = (
            p
            | beam.io.FromSpark(lambda session: session.range(6).selectExpr("id", "id * 10 as at"), timestamp="at")
            | beam.Map(lambda row: (row.id % 2, row.id))
            | beam.WindowInto(FixedWindows(30))
            | beam.CombinePerKey(sum)
            | beam.Map(lambda pair, window=beam.DoFn.WindowParam: (pair[0], pair[1], window.start))
            | beam.io.ToSpark("key bigint, total bigint, since timestamp")
        )
    frame = totals.dataframe().selectExpr("key", "total", "unix_seconds(since)")

    assert [(0, 2, 0), (0, 4, 30), (1, 1, 0), (1, 8, 30)] == sorted(map(tuple, frame.collect()))


def test_expressions_compute_columns_of_a_dataframe(spark: Any) -> None:
    """With nulls, event times and windows."""
    frame = spark.range(20).selectExpr("id", "id * 10 as at", "if(id % 3 = 0, null, concat('u', id % 2)) as user")
    with beam.Pipeline(SparkBatchRunner(spark)) as p:
        rows = (
            p
            | beam.io.FromSpark(frame, timestamp="at")
            | beam.Filter(beam.col("user").is_null() | (beam.col("id") > 10))
            | beam.WindowInto(FixedWindows(50))
            | beam.Select("user", twice=beam.col("id") * 2)
            | beam.Map(lambda row, window=beam.DoFn.WindowParam: (row.user, row.twice, window.start.micros))
        )
        kept = [id for id in range(20) if id % 3 == 0 or id > 10]
        expected = [(None if id % 3 == 0 else f"u{id % 2}", 2 * id, id // 5 * 50_000_000) for id in kept]
        assert_that(rows, equal_to(expected))


def test_rows_dictionaries_and_tuples_become_a_dataframe(spark: Any) -> None:
    """Nested fields keep their places, and the DataFrame can be read many times."""
    values = [
        ("a", [1, 2], {"x": 1.5}, ("p", Timestamp(1))),
        beam.Row(word="b", ns=[], weights={}, part=beam.Row(name="q", at=Timestamp(2))),
        {"part": {"name": None, "at": DAY}, "word": "c"},
    ]
    schema = "word string, ns array<int>, weights map<string, double>, part struct<name: string, at: timestamp>"
    with beam.Pipeline(SparkBatchRunner(spark)) as p:
        result = p | beam.Create(values) | beam.io.ToSpark(schema)
    frame = result.dataframe()
    rows = frame.selectExpr("word", "ns", "weights", "part.name", "unix_seconds(part.at)").collect()

    assert [
        ("a", [1, 2], {"x": 1.5}, "p", 1),
        ("b", [], {}, "q", 2),
        ("c", None, None, None, 1709208000),
    ] == sorted(map(tuple, rows), key=lambda row: row[0])
    assert 3 == frame.count()


def test_several_inputs_of_one_dataframe_are_computed_once(spark: Any) -> None:
    """Reading the DataFrame doesn't run the pipeline again; the type hint gives the columns."""
    p = beam.Pipeline(SparkBatchRunner(spark))
    counted = beam.metrics.Metrics.counter("test", "made")

    def make(n: int) -> Total:
        counted.inc()
        return Total(str(n), n)

    parts = [p | f"create {i}" >> beam.Create([i, i + 10]) for i in range(2)]
    made = parts | beam.Flatten() | beam.Map(make).with_output_types(Total)
    result = made | beam.io.ToSpark()
    assert_that(made | beam.combiners.Count.Globally(), equal_to([4]))
    with pytest.raises(PipelineError, match=r"ToSpark: there is no DataFrame before the pipeline has run"):
        result.dataframe()
    ran = p.run()
    frame = result.dataframe()

    assert [0, 1, 10, 11] == sorted(row.n for row in frame.where("word = n").collect())
    assert 4 == frame.count()
    assert [4] == [
        counter.committed for counter in ran.metrics().query()["counters"] if counter.key.metric.name == "made"
    ]


def test_spark_shows_stages_by_the_labels_of_transforms(spark: Any) -> None:
    """Each stage is named by its transforms between two shuffles."""
    p = beam.Pipeline()
    numbers = p | "numbers" >> beam.Create(range(10)) | "pair" >> beam.Map(lambda n: (n % 2, n))
    _ = numbers | "sum" >> beam.GroupByKey() | "show" >> beam.Map(str)
    execution = SparkBatchExecution(fuse(p.graph(), shrinks), spark)
    execution.run()
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(id) for id in tracker.getJobIdsForGroup(f"penstock-{execution.program.transaction}")]

    assert [["numbers/Values → pair → sum", "sum → show"]] == [
        [tracker.getStageInfo(stage).name for stage in sorted(job.stageIds)] for job in jobs
    ]


def test_a_value_that_does_not_fit_the_schema_is_named(spark: Any) -> None:
    """The error names the transform, the column, and the value."""
    p = beam.Pipeline(SparkBatchRunner(spark))
    p | beam.Create([("a", "b")]) | beam.io.ToSpark("word string, n bigint")
    with pytest.raises(SinkError, match=r"ToSpark: column 'n' of type int64 got a value that doesn't fit"):
        p.run()


REFUSED = {
    "missing": (
        lambda spark: beam.io.FromSpark(spark.range(1), timestamp="at"),
        SourceError,
        r"no column 'at'; it has",
    ),
    "null": (
        lambda spark: beam.io.FromSpark(spark.sql("select cast(null as timestamp) as at"), timestamp="at"),
        SourceError,
        r"1 rows have no value in column 'at'",
    ),
    "text": (
        lambda spark: beam.io.FromSpark(spark.sql("select 'x' as at"), timestamp="at"),
        SourceError,
        r"column 'at' has the type string; an event time is",
    ),
    "twice": (
        lambda spark: beam.io.FromSpark(spark.sql("select 1 as a, 2 as a")),
        SourceError,
        r"two columns are called 'a'",
    ),
    "kind": (
        lambda spark: beam.io.FromSpark(spark.sql("select parse_json('1') as v")),
        SourceError,
        r"column 'v' has the type variant",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_dataframe_that_cannot_be_read_is_refused(spark: Any, case: str) -> None:
    """The error names the transform and the column."""
    make, kind, message = REFUSED[case]
    p = beam.Pipeline(SparkBatchRunner(spark))
    p | "people" >> make(spark)
    with pytest.raises(kind, match=f"people: .*{message}"):
        p.run()


def test_rows_are_released_with_the_last_dataframe_of_them(spark: Any) -> None:
    """They are kept while the pipeline is, or a DataFrame that was derived from theirs."""

    def written() -> Any:
        p = beam.Pipeline(SparkBatchRunner(spark))
        frame = p | beam.Create([beam.Row(n=n) for n in range(10)]) | beam.io.ToSpark("n long")
        p.run()
        return frame.dataframe().filter("n < 5")

    def kept() -> set[int]:
        gc.collect()
        # Spark's bus has its last event, and with it a query, until the next one.
        spark.range(1).count()
        spark._jvm.java.lang.System.gc()
        return set(spark.sparkContext._jsc.getPersistentRDDs())

    before = kept()
    derived = written()
    own = kept() - before
    assert own
    assert 5 == derived.count()
    del derived
    wait_until(lambda: not own & kept(), "the rows are released")


def test_rows_are_in_the_checkpoint_directory_of_spark_if_there_is_one(spark: Any, tmp_path: Path) -> None:
    """No executor has to keep them."""
    context = spark.sparkContext
    before = context.getCheckpointDir()
    context.setCheckpointDir(str(tmp_path))
    try:
        with beam.Pipeline(SparkBatchRunner(spark)) as p:
            frame = p | beam.Create([beam.Row(n=n) for n in range(10)]) | beam.io.ToSpark("n long")
        assert list(range(10)) == sorted(row.n for row in frame.dataframe().collect())
        assert any(path.name.startswith("part-") for path in tmp_path.rglob("*"))
    finally:
        # PySpark has no way back.
        getattr(context._jsc.sc(), "checkpointDir_$eq")(spark._jvm.scala.Option.apply(before))
