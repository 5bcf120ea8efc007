"""Values that equal no copy of themselves, taken out of lists and sets downstream."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as beam
from penstock.testing import TestPipeline, TestStream, assert_that, equal_to
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import FixedWindows


class Plain:
    """Has no `__eq__`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Plain({self.name})"


VALUES = {
    "not a number": (lambda key: float("nan"), "nan"),
    "not a number in a tuple": (lambda key: (key, float("nan")), "('a', nan)"),
    "an object without __eq__": (Plain, "Plain(a)"),
}
GROUPINGS = {
    "values": beam.GroupByKey,
    "list": lambda: beam.CombinePerKey(beam.combiners.ToListCombineFn()),
    "set": lambda: beam.CombinePerKey(beam.combiners.ToSetCombineFn()),
}


@pytest.mark.parametrize("value", VALUES)
def test_what_equals_no_copy_of_itself_is_taken_back(streaming_runner: Any, value: str) -> None:
    """The value of `b` is replaced; that of `a`, and the new one, are left."""
    make, shown = VALUES[value]
    stream = TestStream().add_elements([("a", 1)]).add_elements([("b", 1)]).add_elements([("b", 1)])
    each, mode = Repeatedly(AfterCount(1)), AccumulationMode.RETRACTING
    with TestPipeline(streaming_runner) as p:
        totals = (
            p
            | stream.advance_watermark_to_infinity()
            | beam.WindowInto(beam.window.GlobalWindows(), trigger=each, accumulation_mode=mode)
            | beam.CombinePerKey(sum)
        )
        values = totals | beam.MapTuple(lambda key, total: ("k", make(key) if total == 1 else "new"))
        for name, grouping in GROUPINGS.items():
            left = values | name >> grouping() | f"Shown {name}" >> beam.MapTuple(lambda _, v: sorted(map(repr, v)))
            assert_that(left, equal_to([sorted(["'new'", shown])]), f"left {name}")


def with_sign(pair: Any, sign: Any = beam.DoFn.SignParam, pane: Any = beam.DoFn.PaneInfoParam) -> Any:
    return pair[0], pair[1], sign, pane.index


def test_a_reshuffle_passes_retractions_on_as_they_are(streaming_runner: Any) -> None:
    """With their panes and windows: a grouping behind it has what is left."""
    stream = TestStream().add_elements([("a", 1), ("b", 5)]).add_elements([("a", 2)]).add_elements([("a", 4)])
    each, mode = Repeatedly(AfterCount(1)), AccumulationMode.RETRACTING
    with TestPipeline(streaming_runner) as p:
        sums = (
            p
            | stream.advance_watermark_to_infinity()
            | beam.WindowInto(FixedWindows(10), trigger=each, accumulation_mode=mode)
            | beam.CombinePerKey(sum)
            | beam.ReshufflePerKey()
            | beam.Reshuffle()
        )
        panes = [("a", 1, 1, 0), ("a", 1, -1, 0), ("a", 3, 1, 1), ("a", 3, -1, 1), ("a", 7, 1, 2), ("b", 5, 1, 0)]
        assert_that(sums | beam.Map(with_sign), equal_to(panes), "panes")
        total = sums | beam.Map(lambda pair: ("all", pair[1])) | "total" >> beam.CombinePerKey(sum)
        assert_that(total, equal_to([("all", 12)]), "total")
