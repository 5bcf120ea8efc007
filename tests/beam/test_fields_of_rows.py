"""Fields of Rows that are known without a hint: from a function's code, and from values."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import penstock as beam
from penstock import Row
from penstock.beam.typehints.row_type import RowTypeConstraint
from penstock.dataframe.convert import to_dataframe, to_pcollection
from penstock.sdk.typehints.schema import schemas_of
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.transforms.sql import SqlTransform
from penstock.typehints import List


class Word(NamedTuple):
    text: str
    n: int


RATE = 2.5


def fields_of(pcoll: beam.PCollection[Any]) -> str | None:
    found = schemas_of(pcoll.hint)
    return str(found[0][1]) if found else None


@pytest.mark.parametrize(
    ("values", "function", "expected"),
    [
        ([1], lambda n: beam.Row(a=n, b=str(n), c=n * 2, d=n / 2, e=f"{n:3}{n}", f=-n, g=n > 1), "abcdefg"),
        ([Word("a", 1)], lambda w: Row(a=w.n + 1, b=w.text.upper(), c=len(w.text), d=w.n * RATE), "abcd"),
        ([("a", 1)], lambda p: Row(a=p[1], b=p[0], c=not p[1]), "abc"),
        ([{"n": 1}], lambda p: Row(a=p["n"]), "a"),
        (["1"], lambda text: Row(a=int(text), b="%s" % text, c=eval(text)), "abc"),  # noqa: UP031
    ],
)
def test_the_fields_of_a_lambda_are_known(values: list[Any], function: Any, expected: str) -> None:
    """With the types that its results have."""
    found = fields_of(beam.Pipeline() | beam.Create(values) | beam.Map(function))

    names = {int: "int64", float: "double", str: "string", bool: "bool"}
    types = {name: names[type(value)] for name, value in function(values[0]).as_dict().items() if name in expected}
    types = {name: f"{name}: {kind}" for name, kind in types.items()}
    if values == ["1"]:
        types["c"] = "c"
    assert ", ".join(types.values()) == found


def unknown(text: str):  # type: ignore[no-untyped-def]
    return "?"


@pytest.mark.parametrize("function", [lambda n: Row(**{unknown(n): n}), lambda n: Row(a=n).a])
def test_fields_may_be_unknown(function: Any) -> None:
    """Of names that aren't in the code, and of what is no Row."""
    assert fields_of(beam.Pipeline() | beam.Create([1]) | beam.Map(function)) is None


def test_rows_that_are_given_have_fields() -> None:
    """None counts for no type; Rows with different fields have none in common."""
    p = beam.Pipeline()
    rows = p | "rows" >> beam.Create([Row(a=1, b=None, c="x"), Row(a=None, b=None, c=2)])

    assert fields_of(rows) == "a: int64, b, c"
    assert fields_of(p | "others" >> beam.Create([Row(a=1), Row(b=1)])) is None
    assert fields_of(rows | beam.Map(lambda row: Row(twice=row.a * 2))) == "twice: int64"


def test_fields_of_rows_may_be_lists() -> None:
    """Of one type, which Beam has, too, and SQL and data frames take."""
    p = beam.Pipeline()
    rows = p | "rows" >> beam.Create([Row(a=[1], b=[["x"]], c=None, d=[]), Row(a=[], b=None, c=[2.5, None], d=[])])
    mixed = p | "mixed" >> beam.Create([Row(a=[1, "x"])])

    assert fields_of(rows) == "a: list<item: int64>, b: list<item: list<item: string>>, c: list<item: double>, d"
    assert ["List[<class 'int'>]", "List[List[<class 'str'>]]", "List[<class 'float'>]", "Any"] == [
        repr(kind) for _, kind in rows.element_type.fields
    ]
    assert fields_of(mixed) == "a: list[int | str]"
    constraint = RowTypeConstraint.from_fields([("a", List[int]), ("b", List[Any])])
    assert fields_of(p | "declared" >> beam.Create([]).with_output_types(constraint)) == "a: list<item: int64>, b"


def test_rows_that_are_given_are_queried_and_made_a_data_frame() -> None:
    """Without a declared type."""
    rows = [Row(a=1, b=["x", "y"]), Row(a=2, b=None)]
    with TestPipeline() as p:
        given = p | beam.Create(rows)
        longest = given | SqlTransform("SELECT a, len(b) AS n FROM PCOLLECTION WHERE b IS NOT NULL")
        assert_that(longest | "lengths" >> beam.Map(tuple), equal_to([(1, 2)]))
        frame = to_dataframe(given)
        large = to_pcollection(frame[frame.a > 1]) | "large" >> beam.Map(tuple)
        assert_that(large, equal_to([(2, None)]), label="frame")
