"""Parquet files whose schema is that of the elements' class."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Optional, TypedDict

import attrs
import msgspec
import pyarrow
import pyarrow.parquet
import pytest

import penstock as beam
from penstock.windowing.timestamp import Timestamp


class Tuple(NamedTuple):
    whole: int
    text: str | None
    numbers: list[float]
    day: datetime.date


@dataclass
class Data:
    flag: bool
    raw: bytes
    counts: dict[str, int]


@attrs.frozen
class Attrs:
    flag: Optional[bool]  # noqa: UP045 (the older way to write it)
    texts: Sequence[str] = ()


class Struct(msgspec.Struct):
    numbers: tuple[int, ...]


class Typed(TypedDict):
    whole: int


DAY = datetime.date(2020, 2, 29)
FLAG, WHOLE, TEXT = pyarrow.bool_(), pyarrow.int64(), pyarrow.string()
FLOATS = pyarrow.list_(pyarrow.field("element", pyarrow.float64()))
TEXTS, WHOLES = (pyarrow.list_(pyarrow.field("element", kind)) for kind in (TEXT, WHOLE))
CASES: list[Any] = [
    (Tuple(1, None, [0.5], DAY), Tuple, {"whole": WHOLE, "text": TEXT, "numbers": FLOATS, "day": pyarrow.date32()}),
    (
        Data(True, b"x", {}),
        Data,
        {"flag": FLAG, "raw": pyarrow.binary(), "counts": pyarrow.map_(TEXT, WHOLE)},
    ),
    (Attrs(None, ("x",)), Attrs, {"flag": FLAG, "texts": TEXTS}),
    (Struct((1, 2)), Struct, {"numbers": WHOLES}),
    (Typed(whole=3), Typed, {"whole": WHOLE}),
]


@pytest.mark.parametrize(("element", "kind", "fields"), CASES, ids=[kind.__name__ for _, kind, _ in CASES])
def test_the_fields_of_a_class_are_the_columns_of_the_file(
    tmp_path: Path, element: Any, kind: Any, fields: dict[str, Any]
) -> None:
    with beam.Pipeline() as p:
        elements = p | beam.Create([element]) | beam.Map(lambda value: value).with_output_types(kind)
        _ = elements | beam.io.WriteToParquet(tmp_path / "out", file_name_suffix=".parquet")

    (file,) = tmp_path.glob("*.parquet")
    table = pyarrow.parquet.read_table(file)
    assert fields == dict(zip(table.schema.names, table.schema.types, strict=True))
    first = element["whole"] if kind is Typed else getattr(element, next(iter(fields)))
    assert [list(first) if isinstance(first, tuple) else first] == table.column(0).to_pylist()


class Ambiguous(NamedTuple):
    when: datetime.datetime


class Nested(NamedTuple):
    inner: Struct


@pytest.mark.parametrize(
    ("element_type", "found"),
    [
        (int, "the type of the elements, int, has no fields with types"),
        (Any, "the type of the elements, Any, has no fields with types"),
        (beam.Row, "the type of the elements, Row, has no fields with types"),
        (Ambiguous, "the field 'when' is of the type datetime"),
        (Nested, "the field 'inner' is of the type Struct"),
    ],
)
def test_a_type_without_columns_is_an_error_that_asks_for_a_schema(
    tmp_path: Path, element_type: Any, found: str
) -> None:
    p = beam.Pipeline()
    elements = p | beam.Impulse() | beam.Map(lambda _: 1).with_output_types(element_type)

    with pytest.raises(TypeError, match=f"^Save: {found}.*give schema= a pyarrow.Schema"):
        _ = elements | "Save" >> beam.io.WriteToParquet(tmp_path / "out")


def test_tables_need_a_schema(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"WriteToParquetBatched: schema must be a pyarrow.Schema, got None"):
        beam.io.WriteToParquetBatched(tmp_path / "out")


@pytest.mark.parametrize("is_declared", [True, False])
def test_values_that_arrow_takes_for_others_are_converted(tmp_path: Path, is_declared: bool) -> None:
    """A Timestamp isn't a number of microseconds; nested rows are structs, and sets lists."""
    row = beam.Row(at=Timestamp(3), inner=beam.Row(at=Timestamp(4), tags={1}), pair=(1, "a"))
    instant, inner = pyarrow.timestamp("us", "UTC"), [("at", pyarrow.timestamp("us", "UTC")), ("tags", WHOLES)]
    pair = pyarrow.struct([("item0", WHOLE), ("item1", pyarrow.string())])
    schema = pyarrow.schema([("at", instant), ("inner", pyarrow.struct(inner)), ("pair", pair)])
    with beam.Pipeline() as p:
        _ = p | beam.Create([row]) | beam.io.WriteToParquet(tmp_path / "out", schema if is_declared else None)

    (file,) = tmp_path.glob("out*")
    table = pyarrow.parquet.read_table(file)
    assert schema == table.schema
    at = [datetime.datetime.fromtimestamp(seconds, datetime.UTC) for seconds in (3, 4)]
    expected = {"at": at[0], "inner": {"at": at[1], "tags": [1]}, "pair": {"item0": 1, "item1": "a"}}
    assert [expected] == table.to_pylist()
