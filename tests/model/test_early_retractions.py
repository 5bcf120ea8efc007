"""A retraction may come before its addition: after a shuffle of several subtasks no order is promised."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import penstock as beam
from penstock.sdk.elements.element_wrappers import Retracted
from penstock.testing import assert_that, equal_to
from penstock.trigger import AccumulationMode
from penstock.windowing import GlobalWindows

# In the end 3 and 7 are left.
CHANGES = [(5, -1), (3, -1), (7, 1), (3, 1), (5, 1), (3, 1)]


class Signed(beam.DoFn):
    """Adds or retracts the values of a list, one after the other."""

    retracts = True

    def process(self, pair: Any) -> Any:
        key, changes = pair
        for value, sign in changes:
            yield (key, value) if sign > 0 else Retracted((key, value))


def signed(p: Any, orders: list[Any]) -> Any:
    """Return the changes, in each of these orders by key."""
    changes = p | beam.Create(list(enumerate(orders))) | beam.ParDo(Signed())
    return changes | beam.WindowInto(GlobalWindows(), accumulation_mode=AccumulationMode.RETRACTING)


COMBINERS: dict[str, Any] = {
    "list": beam.combiners.ToListCombineFn,
    "set": beam.combiners.ToSetCombineFn,
    "distinct": beam.combiners.CountDistinctCombineFn,
    "mean": beam.combiners.MeanCombineFn,
    "count": beam.combiners.CountCombineFn,
    "sum": lambda: sum,
    "largest": lambda: max,
    "top": lambda: beam.combiners.TopCombineFn(3),
}


@pytest.mark.parametrize("name", COMBINERS)
def test_results_are_those_of_what_is_left(name: str, make_pipeline: Any) -> None:
    """Whatever the order of the signs."""
    orders = sorted(set(itertools.permutations(CHANGES)))[::7]
    fn = COMBINERS[name]()
    expected = {"list": [3, 7], "set": {3, 7}, "distinct": 2, "mean": 5.0, "count": 2, "sum": 10, "largest": 7}
    wanted = expected.get(name, [7, 3])
    with make_pipeline() as p:
        combined = signed(p, orders) | beam.CombinePerKey(fn)
        ordered = combined | beam.MapTuple(lambda key, found: (key, sorted(found) if name == "list" else found))
        assert_that(ordered, equal_to([(key, wanted) for key in range(len(orders))]))


def test_groups_have_what_is_left(make_pipeline: Any) -> None:
    """A plain grouping keeps counts of its values, which may be below zero for a while."""
    orders = sorted(set(itertools.permutations(CHANGES)))[::7]
    with make_pipeline() as p:
        groups = signed(p, orders) | beam.GroupByKey()
        found = groups | beam.MapTuple(lambda key, values: (key, sorted(values)))
        assert_that(found, equal_to([(key, [3, 7]) for key in range(len(orders))]))
