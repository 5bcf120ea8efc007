"""Elements that a program has made, behind operations on columns: fields are what they were."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

import penstock as beam
from penstock.sdk.errors import ColumnError
from penstock.testing import assert_that, equal_to

col = beam.col

# Two values of a field each.  Arrow makes structs of dicts, lists of tuples, and has no type for others.
VALUES: dict[str, list[Any]] = {
    "dicts": [{"x": 1}, {"y": 2}],
    "tuples": [(1, 2), (3, 4)],
    "tuples of several types": [(1, "a"), (2, "b")],
    "sets": [{1}, {2, 3}],
    "lists of tuples": [[(1, 2)], []],
    "rows": [beam.Row(x=1), beam.Row(x=2)],
    "numbers": [1, 2.5],
    "decimals": [Decimal("1.50"), Decimal(1)],
    "dates": [datetime.date(2026, 1, 2), None],
    "frozen sets": [frozenset([1]), frozenset()],
}


@pytest.fixture(params=VALUES)
def values(request: pytest.FixtureRequest) -> list[Any]:
    """The values of one kind in turn."""
    return VALUES[request.param]


def shown(values: Any) -> list[str]:
    """`1` and `1.0` are equal."""
    return sorted(map(repr, values))


STEPS = {
    "Select": beam.Select("value") | beam.Map(lambda row: row.value),
    "Select an expression": beam.Select(other=col("value")) | beam.Map(lambda row: row.other),
    "Map": beam.Map(col("value")),
    "WithKeys": beam.WithKeys(col("value")) | beam.Map(lambda pair: pair[0]),
    "aggregate a field": beam.GroupBy("item").aggregate_field("value", beam.combiners.ToListCombineFn(), "all")
    | beam.FlatMap(lambda result: result.all),
    "aggregate an expression": beam.GroupBy(col("item")).aggregate_field(
        col("value"), beam.combiners.ToListCombineFn(), "all"
    )
    | beam.FlatMap(lambda result: result.all),
}


@pytest.mark.parametrize("step", STEPS)
def test_fields_behind_a_filter_are_what_they_were(values: list[Any], step: str, pipeline: Any) -> None:
    """Whether Arrow has a type for them or not."""
    with pipeline as p:
        rows = p | beam.Create([beam.Row(item="tea", n=i, value=value) for i, value in enumerate(values)])
        found = rows | beam.Filter(col("n") < 5) | step >> STEPS[step] | beam.Map(repr)
        assert_that(found, equal_to(shown(values)))


@pytest.mark.parametrize("kind", ["tuples", "tuples of several types", "numbers", "decimals", "frozen sets", "rows"])
@pytest.mark.parametrize("by", ["value", col("value")])
def test_keys_behind_a_filter_are_what_they_were(kind: str, by: Any, pipeline: Any) -> None:
    values = VALUES[kind]
    with pipeline as p:
        rows = p | beam.Create([beam.Row(n=i, value=value) for i, value in enumerate(values)])
        totals = rows | beam.Filter(col("n") < 5) | beam.GroupBy(z=by).aggregate_field("n", sum, "total")
        assert_that(totals | beam.Map(lambda total: repr(total.z)), equal_to(shown(values)))


def test_an_expression_over_a_field_without_a_column_is_refused_by_name() -> None:
    p = beam.Pipeline()
    _ = p | beam.Create([beam.Row(value=frozenset([1]))]) | beam.Map(col("value") + 1)
    with pytest.raises(ColumnError, match=r"Map\(value \+ 1\): .*the field 'value': Could not convert frozenset"):
        p.run()


def test_elements_without_any_column_are_kept() -> None:
    with beam.Pipeline() as p:
        rows = p | beam.Create([beam.Row(value=frozenset([1])), beam.Row(value=frozenset([2]))])
        assert_that(rows | beam.Map(col("value")), equal_to([frozenset([1]), frozenset([2])]))
