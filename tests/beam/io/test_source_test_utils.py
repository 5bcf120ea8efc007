"""Checks of sources that are read by ranges of positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.io import source_test_utils as checks
from penstock.io.iobase import BoundedSource, SourceBundle
from penstock.io.range_trackers import OffsetRangeTracker, UnsplittableRangeTracker


class Numbers(BoundedSource):
    """0 to 9; a wrong `read` may ignore the end of its range, or where it begins."""

    def __init__(self, size: int = 10, claims: bool = True, forgets: int | None = None) -> None:
        self.size = size
        self.claims = claims
        self.forgets = forgets

    def estimate_size(self) -> int:
        return self.size

    def get_range_tracker(self, start_position: int | None, stop_position: int | None) -> Any:
        return OffsetRangeTracker(start_position or 0, self.size if stop_position is None else stop_position)

    def read(self, range_tracker: Any) -> Iterator[int]:
        for n in range(range_tracker.start_position(), self.size):
            if not range_tracker.try_claim(n) and self.claims:
                return
            if n != self.forgets or range_tracker.start_position() == 0:
                yield n

    def split(self, desired_bundle_size: int, start_position: Any = None, stop_position: Any = None) -> Any:
        for n in range(0, self.size, desired_bundle_size):
            yield SourceBundle(desired_bundle_size, self, n, min(n + desired_bundle_size, self.size))


class Unsplittable(Numbers):
    def get_range_tracker(self, start_position: int | None, stop_position: int | None) -> Any:
        return UnsplittableRangeTracker(super().get_range_tracker(start_position, stop_position))


class Once(Numbers):
    """Its readers share their position."""

    def read(self, range_tracker: Any) -> Iterator[int]:
        self.next = 0
        while self.next < self.size:
            self.next += 1
            yield self.next - 1


def infos(source: Numbers, size: int) -> list[Any]:
    return [(bundle.source, bundle.start_position, bundle.stop_position) for bundle in source.split(size)]


def test_a_right_source_passes() -> None:
    numbers = Numbers()
    assert [2, 3] == checks.read_from_source(numbers, 2, 4)
    checks.assert_sources_equal_reference_source((numbers, None, None), infos(numbers, 3))
    checks.assert_reentrant_reads_succeed((numbers, None, None))
    checks.assert_split_at_fraction_exhaustive(numbers)
    checks.assert_split_at_fraction_succeeds_and_consistent(numbers, 2, 0.5)
    checks.assert_split_at_fraction_fails(numbers, 8, 0.1)
    outcome = checks.ExpectedSplitOutcome.MUST_SUCCEED_AND_BE_CONSISTENT
    assert (5, 5) == checks.assert_split_at_fraction_behavior(numbers, 2, 0.5, outcome)
    outcome = checks.ExpectedSplitOutcome.MUST_BE_CONSISTENT_IF_SUCCEEDS
    assert (10, -1) == checks.assert_split_at_fraction_behavior(numbers, 8, 0.5, outcome)


def test_a_source_without_splits_fails() -> None:
    for check in (
        checks.assert_split_at_fraction_exhaustive,
        lambda s: checks.assert_split_at_fraction_succeeds_and_consistent(s, 1, 0.5),
    ):
        with pytest.raises(ValueError, match="never split|expected a split"):
            check(Unsplittable())
    with pytest.raises(ValueError, match="expected no split"):
        checks.assert_split_at_fraction_fails(Numbers(), 2, 0.5)


def test_a_reader_that_ignores_the_end_of_its_range_fails() -> None:
    with pytest.raises(ValueError, match="the parts of"):
        checks.assert_split_at_fraction_succeeds_and_consistent(Numbers(claims=False), 2, 0.5)
    with pytest.raises(ValueError, match="unexpected elements"):
        checks.assert_sources_equal_reference_source((Numbers(), None, None), infos(Numbers(claims=False), 5))


def test_a_reader_that_loses_elements_fails() -> None:
    with pytest.raises(ValueError, match="the parts of"):
        checks.assert_split_at_fraction_exhaustive(Numbers(forgets=7))
    with pytest.raises(ValueError, match="7 is missing"):
        checks.assert_sources_equal_reference_source((Numbers(), None, None), infos(Numbers(forgets=7), 5))


def test_readers_that_disturb_each_other_fail() -> None:
    with pytest.raises(ValueError, match="a read that was interrupted after 1 elements"):
        checks.assert_reentrant_reads_succeed((Once(3), None, None))


def test_a_trivial_source_is_refused() -> None:
    for check in (
        checks.assert_reentrant_reads_succeed,
        lambda info: checks.assert_split_at_fraction_exhaustive(info[0]),
    ):
        with pytest.raises(ValueError, match="at least 2 elements, got 1"):
            check((Numbers(1), None, None))
    with pytest.raises(ValueError, match="expected a tuple of an io.iobase.BoundedSource"):
        checks.assert_reentrant_reads_succeed((1, 2, 3))
