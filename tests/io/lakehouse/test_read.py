"""Reads of tables of a lakehouse: a snapshot as columns, and the rows that are added later."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from support.io.lakehouse_tables import LakeTable

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.plan.read_columns import with_read_columns
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.sdk.columns.column_bundle import ColumnBundle
from penstock.sdk.elements.row import Row
from penstock.sdk.errors import SourceError
from penstock.sdk.runner import PipelineState
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.windowing import Timestamp

NOON = datetime.datetime(2026, 1, 2, 12, 0, 0, 7, tzinfo=datetime.UTC)
VALUES = {
    "n": [1, 2, None],
    "moment": [NOON, NOON + datetime.timedelta(1), None],
    "word": ["x y", "é/%", None],
    "day": [NOON.date(), None, NOON.date()],
    "yes": [True, False, None],
}
NAMES = tuple(VALUES)
ROWS = [tuple(row) for row in zip(*VALUES.values(), strict=True)]


def source_of(read: Any) -> Any:
    p = beam.Pipeline()
    _ = p | read
    (source,) = (t.primitive.source for t in p.graph().transforms if hasattr(t.primitive, "source"))
    return source


def plain(row: Any) -> tuple[Any, ...]:
    return tuple(v.replace(tzinfo=datetime.UTC) if isinstance(v, datetime.datetime) else v for v in row)


@pytest.mark.parametrize("partition_by", [None, "word", "moment", "day"])
def test_rows_have_the_values_that_were_written(
    table: LakeTable, other_table: LakeTable, partition_by: str | None
) -> None:
    """Whatever the table is partitioned by; and are the same in a table that they are written to."""
    table.append(VALUES, partition_by)
    with TestPipeline() as p:
        rows = p | table.read()
        _ = rows | other_table.write(partition_by=partition_by or ())
        assert_that(rows | beam.Map(lambda row: plain(getattr(row, name) for name in NAMES)), equal_to(ROWS))
    sql = f"SELECT {', '.join(NAMES)} FROM lake ORDER BY ALL"
    assert table.rows(sql) == other_table.rows(sql)


def test_a_read_on_each_runner(table: LakeTable, make_pipeline: Any) -> None:
    for start in range(0, 300, 100):
        table.append({"n": list(range(start, start + 100)), "word": ["a"] * 100})
    with make_pipeline() as p:
        numbers = p | table.read(filter=beam.col("n") >= 50) | beam.Filter(beam.col("n") < 250) | beam.Select("n")
        assert_that(numbers | beam.Map(lambda row: row.n), equal_to(list(range(50, 250))))


def test_files_and_columns_are_left_out(table: LakeTable) -> None:
    """By the bounds of the table's statistics, and by what the pipeline uses."""
    for start in range(0, 300, 100):
        table.append({"n": list(range(start, start + 100)), "word": ["a"] * 100})
    source = pickle.loads(
        pickle.dumps(source_of(table.read(filter=(beam.col("n") == 120) & beam.col("word").isin(["a"]))))
    )
    splits = source.split(8)
    assert 1 == len(splits)
    (bundle,) = source.read_bundles(splits[0])
    assert isinstance(bundle, ColumnBundle)
    assert [Row(n=120, word="a")] == bundle.values
    p = beam.Pipeline()
    _ = p | table.read() | beam.Filter(beam.col("n") > 7) | beam.Select(m=beam.col("n") + 1)
    used = with_read_columns(p.graph()).transforms[0].primitive.source
    assert [["n"]] * 3 == [b.batch.schema.names for split in used.split(8) for b in used.read_bundles(split)]
    assert 3 == len(source_of(table.read(columns=["n"])).split(8))


def test_a_field_that_no_row_has_is_refused_when_the_pipeline_is_built(table: LakeTable) -> None:
    table.append({"n": [1]})
    p = TestPipeline()
    with pytest.raises(SourceError, match="has no column 'm'; it has n"):
        _ = p | table.read(columns=["m"])
    with pytest.raises(SourceError, match="has no column 'm'; it has n"):
        _ = p | "Filtered" >> table.read(filter=beam.col("m") > 1)
    with pytest.raises(ValueError, match="there is no field 'm'; the elements have n"):
        _ = p | "Read" >> table.read() | beam.Filter(beam.col("m") > 1)
    with pytest.raises(TypeError, match=r"n / 2.* can't be computed while files are read; use beam.Filter"):
        _ = table.read(filter=beam.col("n") / 2 > 1)


def test_a_missing_table_is_named(table: LakeTable) -> None:
    with pytest.raises(SourceError, match=r"^Read\w+: there is no .*table"):
        _ = TestPipeline() | table.read()


def test_a_stream_resumes_at_each_offset(table: LakeTable) -> None:
    """Polls, replays, and micro-batches give the same, by versions and rows within them."""
    for start in (0, 5, 10):
        table.append({"n": list(range(start, start + 5))})
    source = source_of(table.read(streaming=True, poll_interval=0.01))
    now = Timestamp(0)
    reader = source.open("table", None)
    found, offsets = [], []
    for start in range(15, 25, 5):
        table.append({"n": list(range(start, start + 5))})
    while len(found) < 25:
        offsets.append((reader.offset(), len(found)))
        bundle = reader.poll(3, now)
        found += [] if bundle is None else [row.n for row in bundle.values]
    assert list(range(25)) == sorted(found)
    assert None is reader.poll(3, now)
    for offset, count in offsets:
        again = source.open("table", offset)
        rest = []
        while len(rest) < 25 - count:
            bundle = again.poll(7, now)
            rest += [] if bundle is None else [row.n for row in bundle.values]
        assert found[count:] == rest
    planner, position, batches = source.open("table", None), source.start(), []
    position = planner.offset()
    while (end := planner.admit(4, None, now)) != position:
        worker = source.open("table", position)
        batches.append([row.n for bundle in worker.read_to(end, now) for row in bundle.values])
        position = end
    assert list(range(15, 25)) + list(range(15)) == sorted(
        [n for batch in batches for n in batch], key=lambda n: (n < 15, n)
    )
    assert 4 == max(map(len, batches))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"timestamp_fn": lambda row: row.n}, "timestamp_fn needs streaming=True"),
        ({"idle_after": 3}, "idle_after needs streaming=True"),
        ({"streaming": True, "timestamp_fn": lambda row: row.n}, "give a watermark_estimator too"),
    ],
)
def test_options_that_do_not_go_together_are_refused(table: LakeTable, options: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        table.read(**options)


def test_times_of_nanoseconds_are_those_of_python(table: LakeTable) -> None:
    table.append({"moment": pyarrow.array([NOON], pyarrow.timestamp("us", "UTC"))})
    with TestPipeline() as p:
        assert_that(p | table.read() | beam.Map(lambda row: plain([row.moment])), equal_to([(NOON,)]))


def test_a_stream_on_spark_from_table_to_table(
    table: LakeTable, other_table: LakeTable, spark: Any, tmp_path: Path
) -> None:
    """In micro-batches, from where the batch before ended; each row is written once."""

    def run() -> list[int]:
        options = PipelineOptions([], checkpoint_dir=str(tmp_path / "checkpoints"), available_now=True)
        p = beam.Pipeline(SparkMicroBatchRunner(spark), options=options)
        _ = p | table.read(streaming=True, poll_interval=0.01) | other_table.write()
        assert PipelineState.DONE == p.run().wait_until_finish()
        return other_table.values()

    table.append({"n": list(range(100)), "word": ["a"] * 100})
    assert list(range(100)) == run()
    table.append({"n": list(range(100, 150)), "word": ["a"] * 50})
    assert list(range(150)) == run()
