"""WithTimestamps."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as beam
from penstock.testing import TestPipeline, TestWindowedValue, assert_that, equal_to
from penstock.windowing import FixedWindows, GlobalWindow, IntervalWindow, Timestamp


@pytest.mark.parametrize("time", [5, 5.0, Timestamp(5)])
def test_the_function_says_when_an_element_happened(time: Any) -> None:
    """In seconds, or as a Timestamp; the windows stay."""
    with TestPipeline() as p:
        stamped = p | beam.Create(["a"]) | beam.WithTimestamps(lambda _: time)
        assert_that(stamped, equal_to([TestWindowedValue("a", 5, [GlobalWindow()])]), reify_windows=True)


def test_windows_assigned_afterwards_are_those_of_the_new_time() -> None:
    """That is the purpose of the transform."""
    with TestPipeline() as p:
        stamped = p | beam.Create([("a", 17)]) | beam.WithTimestamps(lambda pair: pair[1])
        windows = stamped | beam.WindowInto(FixedWindows(10)) | beam.Map(lambda _, w=beam.DoFn.WindowParam: w)
        assert_that(windows, equal_to([IntervalWindow(10, 20)]))


def test_the_function_is_given_further_arguments_and_markers() -> None:
    """As a Map's is."""
    with TestPipeline() as p:

        def later(element: str, seconds: int, timestamp: Any = beam.DoFn.TimestampParam) -> Timestamp:
            return timestamp + seconds

        stamped = p | beam.Create(["a"]) | "at 1" >> beam.WithTimestamps(lambda _: 1) | beam.WithTimestamps(later, 4)
        times = stamped | beam.Map(lambda _, t=beam.DoFn.TimestampParam: t)
        assert_that(times, equal_to([Timestamp(5)]))


def test_what_is_no_time_fails_at_the_element() -> None:
    """Most often milliseconds, or text."""
    with pytest.raises(TypeError, match="did you mean Timestamp.from_rfc3339"):
        ["a"] | beam.WithTimestamps(lambda _: "2015-08-31T12:00:00Z")
    with pytest.raises(ValueError, match="is it in milliseconds or microseconds"):
        ["a"] | beam.WithTimestamps(lambda _: 10**14)


def test_what_is_no_function_is_refused() -> None:
    """When the transform is made."""
    with pytest.raises(TypeError, match="WithTimestamps: expected a function from element to timestamp, got 3"):
        beam.WithTimestamps(3)  # type: ignore[arg-type]


def test_elements_keep_their_type_whatever_the_function_returns() -> None:
    """Its annotation is that of the time."""

    def when(element: str) -> int:
        return len(element)

    assert str is (TestPipeline() | beam.Create(["a"]) | beam.WithTimestamps(when)).element_type
