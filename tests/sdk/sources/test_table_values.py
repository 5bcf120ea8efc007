"""The rows of tables and DataFrames are the Rows of Python's values."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import numpy
import pandas
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines.arrow_tables import Table, same, tables

import penstock as beam
from penstock.sdk.columns.column_bundle import COLUMN_BUNDLE_SIZE
from penstock.sdk.elements.bundle import BUNDLE_SIZE
from penstock.sdk.errors import ColumnError
from penstock.sdk.sources.bounded import ValuesSource
from penstock.sdk.sources.table_values import TableValues


def values_of(given: Any) -> TableValues:
    found = TableValues.of(given, "Create")
    assert found is not None
    return found


def dicts(rows: Any) -> list[dict[str, Any]]:
    rows = list(rows)
    assert {beam.Row} >= set(map(type, rows))
    return [row.as_dict() for row in rows]


@given(table=tables(), splits=st.integers(1, 4))
def test_rows_have_the_values_that_the_table_is_made_of(table: Table, splits: int) -> None:
    """Whole, in splits, and from another process."""
    values = values_of(table.arrow)
    assert same(table.rows, dicts(values))
    assert len(values) == len(table.rows)
    source: ValuesSource[Any] = ValuesSource(values)
    parts = [pickle.loads(pickle.dumps(split)) for split in source.split(splits)]
    assert same(table.rows, [row for p in parts for b in source.read_bundles(p) for row in dicts(b.values)])
    if table.rows:
        assert same(table.rows[-1], values[-1].as_dict())
    for batch in table.arrow.to_batches():
        assert same(table.rows, dicts(values_of(batch)))


@given(table=tables(max_rows=3), other=tables(max_rows=3))
def test_digests_are_those_of_equal_tables(table: Table, other: Table) -> None:
    """Also of slices of larger tables."""
    source = ValuesSource(values_of(table.arrow))
    doubled = pa.concat_tables([table.arrow, table.arrow])
    half = ValuesSource(values_of(doubled.slice(table.arrow.num_rows)))
    assert source.identity() == half.identity()
    if not same(table.rows, other.rows):
        assert (
            table.arrow.schema != other.arrow.schema
            or source.identity() != ValuesSource(values_of(other.arrow)).identity()
        )


def test_a_slice_is_pickled_without_the_table() -> None:
    values = values_of(pa.table({"a": range(100_000)}))
    assert len(pickle.dumps(values[500:510])) < 2_000


def test_values_of_a_dataframe_are_pythons() -> None:
    """NaN is a number among floats, and a missing value elsewhere."""
    frame = pandas.DataFrame(
        {
            "int": numpy.array([1, 2], "int16"),
            "float": [1.5, numpy.nan],
            "text": ["x", None],
            "mixed": ["y", numpy.nan],
            "at": pandas.to_datetime(["2020-01-01 01:02:03.5", None]),
            "there": pandas.to_datetime(["2020-06-01", "2020-06-02"]).tz_localize("Europe/Berlin"),
            "for": pandas.to_timedelta([90, 1], "s"),
            "category": pandas.Categorical(["u", "v"]),
            "nullable": pandas.array([7, None], "Int64"),
            "price": [Decimal("1.50"), None],
            "items": [[1], []],
        },
        index=[7, 8],
    )
    first, second = dicts(values_of(frame))
    berlin = datetime.timezone(datetime.timedelta(hours=2))
    expected: dict[str, Any] = {
        "int": 1,
        "float": 1.5,
        "text": "x",
        "mixed": "y",
        "at": datetime.datetime(2020, 1, 1, 1, 2, 3, 500_000),
        "there": datetime.datetime(2020, 6, 1, tzinfo=berlin),
        "for": datetime.timedelta(seconds=90),
        "category": "u",
        "nullable": 7,
        "price": Decimal("1.50"),
        "items": [1],
    }
    assert expected == first
    assert [type(value) for value in expected.values()] == [type(value) for value in first.values()]
    assert numpy.isnan(second.pop("float"))
    assert [2, None, None, None, expected["there"] + datetime.timedelta(days=1)] == list(second.values())[:5]
    assert [datetime.timedelta(seconds=1), "v", None, None, []] == list(second.values())[5:]


@pytest.mark.parametrize("empty", [pa.table({"a": pa.array([], "int64")}), pandas.DataFrame({"a": []})])
def test_an_empty_table_has_no_rows(empty: Any) -> None:
    assert list(beam.Create(empty).values) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            pa.table({"u": pa.UnionArray.from_dense(pa.array([0], "int8"), pa.array([0], "int32"), [pa.array([1])])}),
            "Create: column 'u' has the type dense_union",
        ),
        (pa.table({"r": pa.array([1, 1]).dictionary_encode().cast("int64")}), None),
        (pa.table({"r": pa.RunEndEncodedArray.from_arrays([2], [1])}), "column 'r' has the type run_end_encoded"),
        (pa.table({"l": pa.array([[1]], pa.list_view(pa.int64()))}), r"column 'l' has the type list_view<.*cast it to"),
        (
            pa.table({"s": pa.array([{"u": (1, 2, 3)}], pa.struct([("u", pa.month_day_nano_interval())]))}),
            "column 's' has the type struct<u: month_day_nano_interval>",
        ),
        (pa.table([[1], [2]], names=["a", "a"]), "two columns are called 'a'; rename one"),
        (pa.table({"t": pa.array([1], pa.timestamp("ns"))}), "column 't' has times with nanoseconds"),
        (pa.table({"t": pa.array([1], pa.time64("ns"))}), "column 't' has times with nanoseconds"),
        (pa.table({"t": pa.array([[1]], pa.list_(pa.duration("ns")))}), "column 't' has times with nanoseconds"),
        (pandas.DataFrame({1: [2]}), "columns of the DataFrame with a string as their name, got 1"),
        (pandas.DataFrame({"o": [1, "x"]}), "column 'o' has values of the types int, str; expected values of one of"),
        (pandas.DataFrame({"o": [{"a": 1}]}), "column 'o' has values of the types dict; expected"),
        (pandas.DataFrame({"o": [2**70, None]}, dtype=object), "column 'o' can't be converted to Arrow's types"),
    ],
)
def test_columns_that_elements_can_not_have_are_named(given: Any, expected: str | None) -> None:
    if expected is None:
        assert list(beam.Create(given).values) == [beam.Row(r=1), beam.Row(r=1)]
        return
    with pytest.raises(ColumnError, match=expected):
        beam.Create(given)


@pytest.mark.parametrize(("width", "size"), [(1, COLUMN_BUNDLE_SIZE), (20, BUNDLE_SIZE)])
def test_bundles_of_narrow_rows_are_larger(width: int, size: int) -> None:
    """Those of rows of 160 bytes are no larger than bundles of elements."""
    n = COLUMN_BUNDLE_SIZE + 1
    table = pa.table({f"c{i}": pa.array(range(n)) for i in range(width)})
    sizes = [len(bundle) for bundle in beam.Create(table).values.bundles()]
    assert (size, n) == (sizes[0], sum(sizes))
