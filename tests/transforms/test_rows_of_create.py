"""Rows of Create: the types of their fields, and what transforms that need them make of the rows."""

# ruff: noqa: UP007, UP045 (as the types are shown)

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, Optional, Union
from uuid import UUID

import pytest

import penstock as beam
from penstock.dataframe.convert import to_dataframe, to_pcollection
from penstock.sdk.errors import TypeHintError
from penstock.sdk.typehints.schema import schemas_of, with_schema
from penstock.testing import assert_that, equal_to
from penstock.transforms.sql import SqlTransform
from penstock.windowing.timestamp import Timestamp

NOON = datetime.datetime(2026, 1, 2, 12)
# By the name of a field: two values, its type, and the values in a result of SQL, if they are of other types.
FIELDS: dict[str, tuple[list[Any], Any] | tuple[list[Any], Any, list[Any]]] = {
    "pair": ([(1, "a"), (2, None)], tuple[int, Optional[str]]),
    "numbers": ([(1, 2), (3, 4)], tuple[int, int]),
    "tags": ([{"x": 1}, {"y": 2, "z": 3}], dict[str, int]),
    "nested": ([{"x": [(1, 2.5)]}, {}], dict[str, list[tuple[int, float]]]),
    "weight": ([Decimal("1.5"), Decimal("1234567.000000001")], "decimal128(38, 9)"),
    "fine": ([Decimal("1e-12"), Decimal(1)], "decimal128(38, 12)"),
    "day": ([NOON.date(), None], datetime.date),
    "time": ([NOON.time(), datetime.time(1, 2, 3, 4)], datetime.time),
    "local": ([NOON, NOON], "timestamp[us]"),
    "aware": ([NOON.replace(tzinfo=datetime.UTC)] * 2, "timestamp[us, tz=UTC]"),
    "at": ([Timestamp(3), Timestamp.of_micros(1)], Timestamp, [datetime.datetime.fromtimestamp(3, datetime.UTC)] * 2),
    "uuid": ([UUID(int=7), UUID(int=8)], UUID),
    "place": ([beam.Row(x=1), beam.Row(x=2)], with_schema(beam.Row, [("x", "int64")]), [{"x": 1}, {"x": 2}]),
    "set": ([{1}, {2}], set[int], [[1], [2]]),
    "frozen": ([frozenset("a"), frozenset("b")], frozenset[str], [["a"], ["b"]]),
}
FIELDS["at"][2][1] = datetime.datetime(1970, 1, 1, 0, 0, 0, 1, datetime.UTC)  # type: ignore[misc]


def fields_of(pcoll: beam.PCollection[Any]) -> list[tuple[str, str]]:
    """Return the names of fields, and their types as text."""
    ((_, schema),) = schemas_of(pcoll.hint)
    return [(name, repr(kind)) for name, kind in schema.fields]


def rows(name: str) -> list[beam.Row]:
    return [beam.Row(id=i, value=value) for i, value in enumerate(FIELDS[name][0])]


@pytest.mark.parametrize("name", FIELDS)
def test_fields_have_the_types_of_their_values(name: str) -> None:
    assert [("id", "'int64'"), ("value", repr(FIELDS[name][1]))] == fields_of(beam.Pipeline() | beam.Create(rows(name)))


def test_fields_of_several_types_are_of_any() -> None:
    """A dict of values of several types is known as such."""
    values = [beam.Row(a=1, b={"x": 1, "y": "z"}), beam.Row(a="x", b={})]
    assert [("a", "None"), ("b", repr(dict[str, Union[int, str]]))] == fields_of(beam.Pipeline() | beam.Create(values))


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("by", ["by row", "by group"])
def test_queries_take_the_fields(name: str, by: str, pipeline: Any) -> None:
    given, _, *other = FIELDS[name]
    query = "SELECT id, value FROM PCOLLECTION" + ("" if by == "by row" else " ORDER BY id LIMIT 2")
    with pipeline as p:
        found = p | beam.Create(rows(name)) | SqlTransform(query)
        # As they are behind other operations on columns, too.
        values = found | beam.Filter(beam.col("id") >= 0) | beam.Select("value") | beam.Map(lambda row: row.value)
        assert_that(values, equal_to(other[0] if other else given))


@pytest.mark.parametrize("name", FIELDS)
def test_frames_have_the_fields_as_they_are(name: str, pipeline: Any) -> None:
    with pipeline as p:
        df = to_dataframe(p | beam.Create(rows(name)))
        df["next"] = df.id + 1
        found = to_pcollection(df[df.id >= 0]) | beam.Map(lambda row: (row.next, repr(row.value)))
        assert_that(found, equal_to([(i + 1, repr(value)) for i, value in enumerate(FIELDS[name][0])]))


def test_a_query_may_leave_out_fields_without_a_type_of_columns() -> None:
    """One that has them in its result is refused with their names."""
    values = [beam.Row(id=1, value={"x": 1, "y": "z"}), beam.Row(id=2, value={})]
    with beam.Pipeline() as p:
        created = p | beam.Create(values)
        assert_that(created | SqlTransform("SELECT id FROM PCOLLECTION") | beam.Map(lambda r: r.id), equal_to([1, 2]))
        total = created | "Sum" >> SqlTransform("SELECT SUM(id) AS total FROM PCOLLECTION")
        assert_that(total | "Total" >> beam.Map(lambda row: row.total), equal_to([3]), "total")
        for query in (
            "SELECT * FROM PCOLLECTION",
            "SELECT value FROM PCOLLECTION",
            "SELECT MAX(value) AS m FROM PCOLLECTION",
        ):
            with pytest.raises(TypeHintError, match=r"^Ask: PCOLLECTION: .*the field 'value'"):
                _ = created | "Ask" >> SqlTransform(query)


@pytest.mark.parametrize("name", ["pair", "tags", "day", "time", "uuid", "nested", "set"])
def test_rows_that_a_function_makes_have_the_types_of_what_they_are_made_of(name: str) -> None:
    with beam.Pipeline() as p:
        made = p | beam.Create(rows(name)) | beam.Map(lambda row: beam.Row(key=(row.id, "x"), value=row.value))
        assert [("key", repr(tuple[int, str])), ("value", repr(FIELDS[name][1]))] == fields_of(made)
        values = made | SqlTransform("SELECT value, key FROM PCOLLECTION WHERE key.item0 >= 0")
        expected = [(value, (i, "x")) for i, value in enumerate(FIELDS[name][-1 if name == "set" else 0])]
        assert_that(values | beam.Map(tuple), equal_to(expected))
