"""Reify."""

from __future__ import annotations

import penstock as beam
from penstock.testing import TestPipeline, TestWindowedValue, assert_that, equal_to
from penstock.windowing import IntervalWindow, SlidingWindows, TimestampedValue

FIRST, SECOND = IntervalWindow(0, 10), IntervalWindow(5, 15)


def stamped(p: TestPipeline) -> beam.PCollection:
    """A pair at 7, in two windows."""
    return p | beam.Create([TimestampedValue(("a", 1), 7)]) | beam.WindowInto(SlidingWindows(10, 5))


def test_timestamp_leaves_an_element_as_it_is() -> None:
    """A TimestampedValue that a function returns is taken for the element at that time."""
    with TestPipeline() as p:
        expected = [TestWindowedValue(("a", 1), 7, [w]) for w in (FIRST, SECOND)]
        assert_that(stamped(p) | beam.Reify.Timestamp(), equal_to(expected), reify_windows=True)


def test_window_adds_timestamp_and_window_for_each_window() -> None:
    """The timestamp stays, too."""
    with TestPipeline() as p:
        expected = [TestWindowedValue((("a", 1), 7, w), 7, [w]) for w in (FIRST, SECOND)]
        assert_that(stamped(p) | beam.Reify.Window(), equal_to(expected), reify_windows=True)


def test_timestamp_in_value_wraps_the_value_of_a_pair() -> None:
    """The pair itself isn't wrapped."""
    with TestPipeline() as p:
        values = stamped(p) | beam.Reify.TimestampInValue()
        expected = [TestWindowedValue(("a", TimestampedValue(1, 7)), 7, [w]) for w in (FIRST, SECOND)]
        assert_that(values, equal_to(expected), reify_windows=True)


def test_window_in_value_adds_timestamp_and_window_to_the_value_of_a_pair() -> None:
    """For each window."""
    with TestPipeline() as p:
        expected = [("a", (1, 7, w)) for w in (FIRST, SECOND)]
        assert_that(stamped(p) | beam.Reify.WindowInValue(), equal_to(expected))


def test_labels_are_the_names() -> None:
    """Or what is given."""
    assert ["Reify.Window", "mine"] == [beam.Reify.Window().label, beam.Reify.Window("mine").label]
