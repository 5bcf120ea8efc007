"""assert_that on every runner that takes a TestStream: what is retracted, and what comes with it."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as beam
from penstock.testing import TestPane, TestPipeline, TestStream, assert_that, equal_to, equal_to_panes, is_not_empty
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark, PaneInfo
from penstock.triggers.pane import PaneInfoTiming
from penstock.windowing import FixedWindows, IntervalWindow, TimestampedValue

EARLY = PaneInfoTiming.EARLY
WINDOW = IntervalWindow(0, 10)


def retracted_sums(p: Any) -> Any:
    """1, which is then replaced by 3."""
    stream = (
        TestStream()
        .add_elements([TimestampedValue(1, 1)])
        .add_elements([TimestampedValue(2, 2)])
        .advance_watermark_to_infinity()
    )
    windows = beam.WindowInto(
        FixedWindows(10),
        trigger=AfterWatermark(early=AfterCount(1)),
        accumulation_mode=AccumulationMode.RETRACTING,
    )
    return p | stream | windows | beam.CombineGlobally(sum).without_defaults()


def failure(streaming_runner: Any, matcher: Any) -> str:
    with pytest.raises(AssertionError) as raised, TestPipeline(streaming_runner) as p:
        assert_that(retracted_sums(p), matcher)
    return str(raised.value)


def test_a_matcher_is_given_what_is_left_and_its_failure_says_what_came(streaming_runner: Any) -> None:
    """With windows, timestamps, pane infos and signs, and how to compare these."""
    with TestPipeline(streaming_runner) as p:
        assert_that(retracted_sums(p), equal_to([3]))
    said = failure(streaming_runner, equal_to([1, 3]))

    assert (
        "Failed assert: expected [1, 3], got [3]: missing elements [1]. Elements were retracted; "
        "the elements that are left are compared" in said
    )
    assert "+1 in [0.0, 10.0) @ Timestamp(9.999999) EARLY pane 0/-1 first" in said
    assert "-1 in [0.0, 10.0) @ Timestamp(9.999999) EARLY pane 0/-1 first" in said
    assert "equal_to_panes(...) compares panes and signs" in said


def test_a_failure_says_nothing_of_signs_where_nothing_was_taken_back(streaming_runner: Any) -> None:
    """The actual elements are those left after retractions."""
    p = TestPipeline(streaming_runner)
    assert_that(p | beam.Create([1]), equal_to([2]))
    with pytest.raises(
        AssertionError, match=r"expected \[2\], got \[1\]: unexpected elements \[1\], missing elements \[2\]"
    ) as raised:
        p.run()
    assert "came" not in str(raised.value)


def test_panes_are_compared_with_all_that_comes_with_them(streaming_runner: Any) -> None:
    """An expected element may leave out properties that don't matter."""
    first = PaneInfo(True, False, EARLY, 0, -1)
    with TestPipeline(streaming_runner) as p:
        sums = retracted_sums(p)
        values = [TestPane(1), TestPane(1, sign=-1), TestPane(3)]
        assert_that(sums, equal_to_panes(values), label="any")
        assert_that(sums, is_not_empty(), label="values")
        expected = [
            TestPane(1, WINDOW, first, timestamp=9.999999),
            TestPane(1, WINDOW, first, sign=-1),
            TestPane(3, WINDOW, EARLY),
        ]
        assert_that(sums, equal_to_panes(expected), label="all")
