"""Elements that are made of columns: times, and rows with the fields alone that a function reads."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

import penstock as beam
from penstock.sdk.columns.column_elements import values_of
from penstock.sdk.user_code.signatures import fields_read
from penstock.testing import assert_that, equal_to

MICROS = [0, None, -1, 1_709_208_000_123_456, -62_135_596_800_000_000, 253_402_300_799_999_999]
TIMES = [
    *(pyarrow.timestamp("us", zone) for zone in (None, "UTC", "+02:00", "-00:30", "Europe/Vienna")),
    *(pyarrow.timestamp(unit, "UTC") for unit in ("s", "ms", "ns")),
]


@pytest.mark.parametrize("kind", TIMES, ids=str)
def test_times_are_those_of_arrow(kind: Any) -> None:
    """With their zones, before 1970, and with nulls in between; in slices as well."""
    least = MICROS[4:5] if kind.unit == "us" and kind.tz in (None, "UTC") else []
    numbers = [*MICROS[:4], *least, None]
    column = pyarrow.array(numbers, pyarrow.timestamp("us", kind.tz)).cast(kind, safe=False)
    for array in (column, column[1:3], column[2:2]):
        expected = array.to_pylist()
        found = values_of(array)
        assert expected == found
        assert [getattr(time, "tzinfo", None) for time in expected] == [getattr(time, "tzinfo", None) for time in found]


def test_dates_are_those_of_arrow() -> None:
    """From the year 1 to 9999."""
    column = pyarrow.array([0, None, -719_162, 2_932_896, 19_000], pyarrow.int32()).cast(pyarrow.date32())

    assert column.to_pylist() == values_of(column)
    assert [datetime.date(1, 1, 1)] == values_of(column[2:3])


def test_a_time_that_python_does_not_have_is_an_error() -> None:
    """As with Arrow, instead of a number."""
    with pytest.raises(OverflowError):
        values_of(pyarrow.array([1 << 62], pyarrow.timestamp("us", "UTC")))


def nothing(row: Any) -> Any:
    return 1


def changed(row: Any) -> Any:
    row = row.part
    return row.a


def deleted(row: Any) -> Any:
    a = row.a
    del row
    return a


def written(row: Any) -> Any:
    row.a = 2
    return row.b


def captured(row: Any) -> Any:
    return [other for other in range(3) if (lambda: other == row.a)()]


def seen(row: Any) -> Any:
    return row.a, locals()


def either(row: Any) -> Any:
    return (row if row.a else (row.b, row.c))[0]


@pytest.mark.parametrize("fn", [nothing, changed, deleted, written, captured, seen, either, lambda row: row, lambda: 1])
def test_what_may_be_done_with_a_row_besides_reading_fields_is_found(fn: Callable[..., Any]) -> None:
    """Then all of its fields are needed."""
    assert None is fields_read(fn.__code__)


def test_fields_that_are_read_are_found() -> None:
    """Wherever they are in a function."""

    def of(row: Any, other: Any = 1) -> Any:
        for _ in range(row.n):
            if row.n > other and not row.flag:
                yield (row.name, other.row, {"row": row.part.of})

    assert ("n", "flag", "name", "part") == fields_read(of.__code__)


@pytest.fixture
def rows(tmp_path: Path) -> Any:
    table = pyarrow.table({"name": ["a", "b", "a"], "n": [1, 2, None], "at": pyarrow.array([1, 2, 3], "timestamp[us]")})
    parquet.write_table(table, tmp_path / "rows.parquet")
    return beam.io.ReadFromParquet(tmp_path / "rows.parquet", as_rows=True)


def test_functions_of_fields_see_the_same_values(rows: Any, make_pipeline: Callable[..., Any]) -> None:
    """In a filter, before windows, as methods of Row that aren't fields, and where a row is kept."""
    at = [datetime.datetime(1970, 1, 1, microsecond=n) for n in (1, 2, 3)]
    with make_pipeline() as p:
        read = p | rows
        pairs = read | "pairs" >> beam.Map(lambda row: (row.name, row.n))
        assert_that(pairs, equal_to([("a", 1), ("b", 2), ("a", None)]), label="of fields")
        kept = (
            read
            | "kept" >> beam.Filter(lambda row: row.n is None or row.n > 1)
            | "window" >> beam.WindowInto(beam.window.FixedWindows(60))
            | "times" >> beam.FlatMap(lambda row, window=beam.DoFn.WindowParam: [(row.at, window.start.micros)])
        )
        assert_that(kept | "at" >> beam.Keys(), equal_to(at[1:]), label="of times")
        names = read | "names" >> beam.Map(lambda row: row.as_dict()["name"])
        assert_that(names, equal_to(["a", "b", "a"]), label="of methods")
        whole = read | "whole" >> beam.Filter(lambda row: row.name == "b")
        assert_that(whole, equal_to([beam.Row(name="b", n=2, at=at[1])]), label="of rows")


def test_a_field_that_is_missing_is_named(rows: Any, make_pipeline: Callable[..., Any]) -> None:
    """With those that there are."""
    p = make_pipeline()
    _ = p | rows | beam.Map(lambda row: (row.name, row.nmae))
    with pytest.raises(AttributeError, match="the row has no field 'nmae'; it has name, n, at"):
        p.run().wait_until_finish()
