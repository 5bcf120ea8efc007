"""Partition."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as beam
from penstock.sdk.errors import PipelineError
from penstock.testing import TestPipeline, assert_that, equal_to


def test_each_element_goes_to_the_partition_of_its_number() -> None:
    """In the order of the numbers; a partition may be empty."""
    with TestPipeline() as p:
        parts = p | beam.Create(range(6)) | beam.Partition(lambda x, n: x % 2 * 2, 3)
        for i, expected in enumerate([[0, 2, 4], [], [1, 3, 5]]):
            assert_that(parts[i], equal_to(expected), label=f"part {i}")


def test_the_function_is_given_the_number_of_partitions_and_further_arguments() -> None:
    """Side inputs among them."""
    with TestPipeline() as p:
        offset = beam.pvalue.AsSingleton(p | "offset" >> beam.Create([1]))
        small, large = p | beam.Create([0, 1]) | beam.Partition(lambda x, n, o, by: (x + o) * by % n, 2, offset, by=3)
        assert_that(small, equal_to([1]), label="small")
        assert_that(large, equal_to([0]), label="large")


def test_a_partition_fn_is_an_object_with_a_method() -> None:
    """The label is the name of its class."""

    class ByLength(beam.PartitionFn):
        def partition_for(self, element: str, num_partitions: int) -> int:
            return min(len(element), num_partitions) - 1

    assert "Partition(ByLength)" == beam.Partition(ByLength(), 2).label
    with TestPipeline() as p:
        short, long = p | beam.Create(["a", "bb", "ccc"]) | beam.Partition(ByLength(), 2)
        assert_that(short, equal_to(["a"]), label="short")
        assert_that(long, equal_to(["bb", "ccc"]), label="long")


OUTSIDE = "the partition function returned .*"
NO_INTEGER = "PartitionFn yielded a '.*' when it should only yield integers: .*"


@pytest.mark.parametrize(
    ("answer", "found"),
    [(2, OUTSIDE), (-1, OUTSIDE), (None, NO_INTEGER), (True, NO_INTEGER), (0.5, NO_INTEGER), ("0", NO_INTEGER)],
)
def test_an_answer_that_is_no_partition_fails_naming_the_transform(answer: Any, found: str) -> None:
    """A bool is no number of a partition, as in Beam."""
    with pytest.raises(ValueError, match=f"Outer/Halves: {found}, expected an int from 0 to 1"):
        [1] | "Outer" >> beam.ptransform_fn(lambda pcoll: pcoll | "Halves" >> beam.Partition(lambda x, n: answer, 2))()


@pytest.mark.parametrize("n", [0, -1, 1.5, "2", True])
def test_how_many_partitions_there_are_must_be_a_whole_number(n: Any) -> None:
    """At least one."""
    with pytest.raises(ValueError, match="Partition: expected a number of partitions"):
        beam.Partition(lambda x, n: 0, n)


def test_what_is_no_function_is_refused() -> None:
    """Most often by way of a forgotten pair of brackets."""
    with pytest.raises(TypeError, match="did you forget to call it: PartitionFn()"):
        beam.Partition(beam.PartitionFn, 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Partition: expected a function"):
        beam.Partition(2, 2)  # type: ignore[arg-type]


def test_partitions_have_the_type_and_the_windows_of_the_input() -> None:
    """Only the elements are divided."""
    pcoll = TestPipeline() | beam.Create(["a"]) | beam.WindowInto(beam.window.FixedWindows(10))
    for part in pcoll | beam.Partition(lambda x, n: 0, 2):
        assert (pcoll.element_type, pcoll.windowing) == (part.element_type, part.windowing)


def test_a_partition_function_may_ask_for_more_than_the_element() -> None:
    """Markers are filled in, and arguments skip them."""

    def by_window(x: int, n: int, window: Any = beam.DoFn.WindowParam, offset: int = 0) -> int:
        return (int(window.start) // 10 + offset) % n

    with TestPipeline() as p:
        stamped = p | beam.Create([beam.window.TimestampedValue(second, second) for second in (1, 12)])
        windowed = stamped | beam.WindowInto(beam.window.FixedWindows(10))
        even, odd = windowed | beam.Partition(by_window, 2, 1)
        assert_that(even, equal_to([12]), label="even")
        assert_that(odd, equal_to([1]), label="odd")


def test_arguments_that_a_partition_function_does_not_take_are_found_when_the_pipeline_is_built() -> None:
    """The message names the transform and the function."""
    first = beam.Partition(lambda element, n: 0, 2, 1)
    with pytest.raises(PipelineError, match=r"mine/Split: <lambda at .*>\(element\) can't be called"):
        TestPipeline() | beam.Create([1]) | "mine" >> first
