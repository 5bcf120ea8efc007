"""DataFrames that are refused before Spark starts."""

from __future__ import annotations

import dataclasses
import datetime
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.pipelines.arrow_tables import COLUMNS, Table, same, tables

import penstock as beam
from penstock.io.spark.dataframes import DataFrameSource
from penstock.io.spark.schema import schema_of
from penstock.sdk.columns.column_bundle import ColumnBundle
from penstock.sdk.errors import ColumnError, PipelineError, UnsupportedError
from penstock.sdk.spark_interfaces import Block
from penstock.sdk.typehints.schema import schemas_of
from penstock.triggers import AccumulationMode
from penstock.windowing import FixedWindows


def nothing(session: Any) -> Any:
    raise AssertionError("no runner should ask for it")


TRANSFORMS = {
    "FromSpark": lambda p: p | beam.io.FromSpark(nothing),
    "FromSparkStream": lambda p: p | beam.io.FromSparkStream(nothing, timestamp="at"),
    "ToSpark": lambda p: p | beam.Create([(1,)]) | beam.io.ToSpark("n bigint"),
}
RUNNERS = {
    ("FromSpark", "local"): "it reads a DataFrame, which --runner=local can't; it needs --runner=spark-batch or",
    ("FromSparkStream", "local"): "--runner=local can't; it needs --runner=spark-microbatch",
    ("FromSparkStream", "spark-batch"): "--runner=spark-batch can't; it needs --runner=spark-microbatch",
    ("ToSpark", "local"): "it makes a DataFrame, which --runner=local can't; it needs --runner=spark-batch",
    ("ToSpark", "spark-microbatch"): "--runner=spark-microbatch can't; it needs --runner=spark-batch",
}


@pytest.mark.parametrize(("transform", "runner"), RUNNERS)
def test_a_runner_that_has_no_dataframes_says_which_one_has(transform: str, runner: str) -> None:
    """Before anything runs, by the transform's label."""
    p = beam.Pipeline(runner=runner)
    TRANSFORMS[transform](p)
    with pytest.raises(UnsupportedError, match=f"{transform}.*: .*{RUNNERS[transform, runner]}"):
        p.run()


def test_rows_that_may_be_taken_back_are_refused() -> None:
    """A DataFrame only has rows; the message names both transforms."""
    p = beam.Pipeline()
    sums = (
        p
        | beam.Create([("a", 1)])
        | beam.WindowInto(
            FixedWindows(10),
            trigger=beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)),
            accumulation_mode=AccumulationMode.RETRACTING,
        )
        | "sums" >> beam.CombinePerKey(sum)
    )
    with pytest.raises(UnsupportedError, match=r"ToSpark: a DataFrame can't retract rows, but sums"):
        sums | beam.io.ToSpark("key string, n bigint")


def test_elements_without_a_type_need_a_schema() -> None:
    """There is nothing else to tell the columns by."""
    p = beam.Pipeline()
    mixed = p | beam.Create([1]) | beam.Map(lambda n: {"n": n})
    with pytest.raises(PipelineError, match=r"ToSpark: the elements' type hint doesn't say which columns"):
        mixed | beam.io.ToSpark()


@dataclasses.dataclass
class Point:
    x: float
    labels: dict[str, int | None]


class Line(NamedTuple):
    start: Point
    ends: list[Point]


NESTED = (
    "`start` struct<`x`: double, `labels`: map<string, bigint>>, "
    "`ends` array<struct<`x`: double, `labels`: map<string, bigint>>>"
)
HINTS = [
    (int, "`value` bigint"),
    (tuple[str, bytes], "`_1` string, `_2` binary"),
    (Point, "`x` double, `labels` map<string, bigint>"),
    (Line, NESTED),
    (tuple[int, ...], None),
    (dict, None),
    (Any, None),
]


@pytest.mark.parametrize(("hint", "schema"), HINTS)
def test_a_type_hint_says_the_columns(hint: Any, schema: str | None) -> None:
    """As DDL; None where it doesn't."""
    assert schema == schema_of(hint)


_NOT_OF_SPARK = {f"uint{n}" for n in (8, 16, 32, 64)} | {"seconds", "day", "time_of_day", "wide_decimal", "two_bytes"}


@given(
    table=tables(sorted({*COLUMNS} - _NOT_OF_SPARK), max_rows=5),
    timestamp=st.sampled_from([None, "int64", "time", "instant", "date"]),
)
def test_blocks_are_columns_unless_they_are_nested(table: Table, timestamp: str | None) -> None:
    """The rows are the same; those of nested columns have Rows within them."""
    name = next((name for name in table.arrow.column_names if timestamp and name.startswith(f"{timestamp} ")), None)
    if name is not None:
        assume(not table.arrow[name].null_count)
    if timestamp == "int64" and name is not None:
        assume(all(abs(row[name]) < 10**9 for row in table.rows))
    source = DataFrameSource(nothing, name).labelled("Read")
    schema = table.arrow.schema
    bundles = [
        bundle
        for batch in table.arrow.to_batches()
        for bundle in source.read_bundles(Block(schema.serialize().to_pybytes(), batch.serialize().to_pybytes()))
    ]
    has_nested = any(map(pa.types.is_nested, schema.types))
    assert all(isinstance(bundle, ColumnBundle) != has_nested for bundle in bundles)
    rows = [row for bundle in bundles for row in bundle.rows()]
    assert same(table.rows, [{n: plain(v) for n, v in value.as_dict().items()} for value, *_ in rows])
    if name is not None:
        assert [micros(row[name]) for row in table.rows] == [stamp for _, stamp, *_ in rows]


def plain(value: Any) -> Any:
    return value.as_dict() if isinstance(value, beam.Row) else value


def micros(value: Any) -> int:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=datetime.UTC)
        return (value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
    return int(value * 1_000_000)


def test_a_dataframe_has_known_fields() -> None:
    """Of a function that makes one, they aren't known yet."""
    types = pytest.importorskip("pyspark.sql.types")
    schema = (
        types.StructType().add("item", "string").add("price", "integer").add("tags", types.ArrayType(types.LongType()))
    )
    frame = SimpleNamespace(schema=schema, isStreaming=False, columns=schema.names)
    rows = beam.Pipeline() | beam.io.FromSpark(frame)
    ((_, known),) = schemas_of(rows.hint)
    assert "item: string, price: int32, tags" == str(known)
    with pytest.raises(ColumnError, match="there is no field 'prize'; the elements have item, price, tags"):
        _ = rows | beam.Select("prize")
    assert beam.Row is (beam.Pipeline() | beam.io.FromSpark(lambda spark: frame)).element_type
