"""SortAndBatchElements."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as beam
from penstock.testing import TestPipeline, TestWindowedValue, assert_that, equal_to
from penstock.transforms.batches.sort_and_batch import batches
from penstock.windowing import FixedWindows, IntervalWindow, TimestampedValue


def test_elements_of_similar_size_come_together() -> None:
    """Smallest first; those of one size in the order they came."""
    words = ["cccc", "a", "dddd", "bb", "e"]
    assert [["a", "e"], ["bb", "cccc"], ["dddd"]] == words | beam.SortAndBatchElements(1, 2, 100)


def test_a_batch_is_ended_before_it_gets_too_heavy() -> None:
    """An element that is too heavy for any batch gets one of its own."""
    words = ["a", "bbb", "cc", "dddddddd"]
    assert [["a", "cc"], ["bbb"], ["dddddddd"]] == words | beam.SortAndBatchElements(1, 10, 4)


def test_a_batch_is_not_ended_for_its_weight_below_the_least_size() -> None:
    """Where the two contradict each other."""
    assert [["aaa", "bbb"], ["ccc"]] == ["aaa", "bbb", "ccc"] | beam.SortAndBatchElements(2, 10, 4)


def test_the_size_can_be_a_function_of_the_element() -> None:
    """Without one it is the length; of what has none, 1."""
    assert [[3, 2], [1]] == [1, 2, 3] | beam.SortAndBatchElements(1, 2, 100, element_size_fn=lambda x: -x)
    assert [[1, 2], [3]] == [1, 2, 3] | "ones" >> beam.SortAndBatchElements(1, 10, 2)


def test_windows_are_not_mixed() -> None:
    """A batch has the timestamp of its window's end."""
    with TestPipeline() as p:
        stamped = p | beam.Create([TimestampedValue(word, t) for word, t in (("bb", 1), ("c", 11), ("a", 2))])
        batched = stamped | beam.WindowInto(FixedWindows(10)) | beam.SortAndBatchElements(1, 5, 100)
        expected = [
            TestWindowedValue(["a", "bb"], 9.999999, [IntervalWindow(0, 10)]),
            TestWindowedValue(["c"], 19.999999, [IntervalWindow(10, 20)]),
        ]
        assert_that(batched, equal_to(expected), reify_windows=True)


@given(st.lists(st.integers(0, 20)), st.integers(1, 5), st.integers(0, 5), st.integers(1, 50))
def test_batches_keep_all_elements_and_all_limits(sizes: list[int], least: int, more: int, weight: int) -> None:
    """With any sizes."""
    found = batches([(size, size) for size in sizes], least, least + more, weight)
    assert sorted(sizes) == [size for batch in found for size in batch]
    for batch in found:
        assert 1 <= len(batch) <= least + more
        assert sum(batch) <= weight or len(batch) <= least


@pytest.mark.parametrize("arguments", [(0, 1, 1), (2, 1, 1), (1, 1, 0)])
def test_limits_that_contradict_each_other_are_refused(arguments: Any) -> None:
    """When the transform is made."""
    with pytest.raises(ValueError, match="SortAndBatchElements: "):
        beam.SortAndBatchElements(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 10, 100), "min_batch_size must be >= 1, got 0"),
        ((5, 4, 100), "min_batch_size <= max_batch_size, got 5 and 4"),
        ((1, 10, 0), "max_batch_weight must be >= 1, got 0"),
        ((1, 10, 100, 123), "element_size_fn must be callable, got 123"),
    ],
)
def test_arguments_are_checked(arguments: Any, message: str) -> None:
    """Each has its message."""
    with pytest.raises((ValueError, TypeError), match=message):
        beam.SortAndBatchElements(*arguments)
