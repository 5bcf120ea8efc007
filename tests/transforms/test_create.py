"""Create and Impulse."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as beam
from penstock.testing import TestPipeline, TestWindowedValue, assert_that, equal_to
from penstock.windowing import MIN_TIMESTAMP, GlobalWindow, TimestampedValue


@pytest.mark.parametrize(
    ("values", "expected"), [([1, 2], [1, 2]), ({"a": 1}, [("a", 1)]), (range(2), [0, 1]), ([], [])]
)
def test_the_values_of_an_iterable_are_the_elements(values: Any, expected: list[Any]) -> None:
    """Of a dict, the items."""
    with TestPipeline() as p:
        assert_that(p | beam.Create(values), equal_to(expected))


def test_values_may_bring_their_timestamps() -> None:
    """The others are from the beginning of time."""
    with TestPipeline() as p:
        expected = [
            TestWindowedValue("a", 5, [GlobalWindow()]),
            TestWindowedValue("b", MIN_TIMESTAMP, [GlobalWindow()]),
        ]
        assert_that(p | beam.Create([TimestampedValue("a", 5), "b"]), equal_to(expected), reify_windows=True)


def test_the_type_is_what_the_values_have_in_common() -> None:
    """With timestamps or without."""
    p = TestPipeline()
    assert str is (p | "strings" >> beam.Create(["a"])).element_type
    assert tuple[str, int] == (p | "stamped" >> beam.Create([TimestampedValue(("a", 1), 5), ("b", 2)])).element_type
    assert float is (p | "said" >> beam.Create([1]).with_output_types(float)).element_type


def test_a_string_is_probably_meant_to_be_one_value() -> None:
    """The message suggests it."""
    with pytest.raises(TypeError, match=r"did you mean Create\(\['abc'\]\)"):
        beam.Create("abc")


def test_an_impulse_is_one_empty_string_of_bytes() -> None:
    """At the beginning of time."""
    with TestPipeline() as p:
        expected = [TestWindowedValue(b"", MIN_TIMESTAMP, [GlobalWindow()])]
        assert_that(p | beam.Impulse(), equal_to(expected), reify_windows=True)


def test_annotations_may_tell_the_type_of_values_with_timestamps() -> None:
    """The elements are of that type."""

    def stamped(text: str) -> TimestampedValue[int]:
        return TimestampedValue[int](len(text), 5)

    with TestPipeline() as p:
        lengths = p | beam.Create(["a"]) | beam.Map(stamped)
        assert int is lengths.element_type
        assert_that(lengths, equal_to([TestWindowedValue(1, 5, [GlobalWindow()])]), reify_windows=True)


@pytest.mark.parametrize(
    "source", [beam.Create([2]), beam.Impulse(), beam.PeriodicImpulse(0, 5, 1)], ids=["Create", "Impulse", "periodic"]
)
def test_a_source_takes_no_elements(source: beam.PTransform) -> None:
    """They would be dropped."""
    numbers = TestPipeline() | "numbers" >> beam.Create([1])
    with pytest.raises(TypeError, match="Input to a source must be a PBegin, the pipeline, but found PCollection"):
        _ = numbers | source
