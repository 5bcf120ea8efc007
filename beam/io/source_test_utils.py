"""Checks of a source that is read by ranges of positions: `io.iobase.BoundedSource` (Beam's `io.source_test_utils`).

Each check raises `ValueError` for a source that isn't as it has to be.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

from .bounded_source import BoundedSource

# A source with the positions that it is read between; None for the source's own.
SourceInfo = tuple[BoundedSource, Any, Any]

# The least distance of two fractions that a source is split at.
_FINEST = 0.001
# The number of splits while another thread reads, for each number of elements that were read before.
_CONCURRENT_TRIALS = 20


class ExpectedSplitOutcome:
    """What is expected of a split while a range is read."""

    MUST_SUCCEED_AND_BE_CONSISTENT = 1
    MUST_FAIL = 2
    MUST_BE_CONSISTENT_IF_SUCCEEDS = 3


class SplitAtFractionResult(NamedTuple):
    """The number of elements of both parts; the second is -1 if there was no split."""

    num_primary_items: int
    num_residual_items: int


class SplitFractionStatistics(NamedTuple):
    """The fractions at which a source was split, and those at which neither part was empty."""

    successful_fractions: list[float]
    non_trivial_fractions: list[float]


def read_from_source(source: BoundedSource, start_position: Any = None, stop_position: Any = None) -> list[Any]:
    """Return the elements of a range."""
    return list(source.read(source.get_range_tracker(start_position, stop_position)))


def assert_sources_equal_reference_source(
    reference_source_info: SourceInfo, sources_info: Iterable[SourceInfo]
) -> None:
    """Check that several ranges have the elements of one, in any order, and the same coder."""
    reference = _checked(reference_source_info)
    coder = type(reference[0].default_output_coder())
    expected, found = read_from_source(*reference), []
    for info in sources_info:
        source = _checked(info)[0]
        if type(source.default_output_coder()) is not coder:
            raise ValueError(
                f"expected the coder {coder.__name__}, got {source.default_output_coder()!r} of {source!r}"
            )
        found += read_from_source(*info)
    _compare(expected, found, "the sources")


def assert_reentrant_reads_succeed(source_info: SourceInfo) -> None:
    """Check that a range can be read while another reader of it is in the middle."""
    source, start, stop = _checked(source_info)
    expected = read_from_source(source, start, stop)
    if len(expected) < 2:
        raise ValueError(f"expected a source of at least 2 elements, got {len(expected)}")
    for count in range(1, len(expected)):
        reader = iter(source.read(source.get_range_tracker(start, stop)))
        begun = list(islice(reader, count))
        _compare(expected, read_from_source(source, start, stop), f"a read beside one of {count} elements")
        _compare(expected, [*begun, *reader], f"a read that was interrupted after {count} elements")


def assert_split_at_fraction_behavior(
    source: BoundedSource, num_items_to_read_before_split: int, split_fraction: float, expected_outcome: int
) -> SplitAtFractionResult:
    """Check a split at a fraction of the range after some elements were read: its success, and the two parts."""
    expected = read_from_source(source)
    return _split(source, expected, num_items_to_read_before_split, split_fraction, expected_outcome)


def assert_split_at_fraction_succeeds_and_consistent(
    source: BoundedSource, num_items_to_read_before_split: int, split_fraction: float
) -> None:
    """Check that the source is split, and that both parts together have its elements."""
    outcome = ExpectedSplitOutcome.MUST_SUCCEED_AND_BE_CONSISTENT
    assert_split_at_fraction_behavior(source, num_items_to_read_before_split, split_fraction, outcome)


def assert_split_at_fraction_fails(
    source: BoundedSource, num_items_to_read_before_split: int, split_fraction: float
) -> None:
    """Check that the source refuses the split."""
    outcome = ExpectedSplitOutcome.MUST_FAIL
    assert_split_at_fraction_behavior(source, num_items_to_read_before_split, split_fraction, outcome)


def assert_split_at_fraction_binary(
    source: BoundedSource,
    expected_items: list[Any],
    num_items_to_read_before_split: int,
    left_fraction: float,
    left_result: SplitAtFractionResult | None,
    right_fraction: float,
    right_result: SplitAtFractionResult | None,
    stats: SplitFractionStatistics,
    start_position: Any = None,
    stop_position: Any = None,
) -> None:
    """Check splits at fractions between two, by bisection down to neighbours that differ by an element.

    Args:
      left_result, right_result: the results of the splits at the two fractions; None if they are unknown.
      stats: gets the fractions at which the source was split.
    """

    def split(fraction: float) -> SplitAtFractionResult:
        outcome = ExpectedSplitOutcome.MUST_BE_CONSISTENT_IF_SUCCEEDS
        count, positions = num_items_to_read_before_split, (start_position, stop_position)
        return _split(source, expected_items, count, fraction, outcome, *positions)

    pending = [
        (left_fraction, left_result or split(left_fraction), right_fraction, right_result or split(right_fraction))
    ]
    while pending:
        left, at_left, right, at_right = pending.pop()
        if right - left < _FINEST:
            continue
        middle = (left + right) / 2
        at_middle = split(middle)
        if at_middle.num_residual_items >= 0:
            stats.successful_fractions.append(middle)
        if at_middle.num_residual_items > 0:
            stats.non_trivial_fractions.append(middle)
        if at_left.num_primary_items != at_middle.num_primary_items:
            pending.append((left, at_left, middle, at_middle))
        # A split at the end of a range is refused, so its result is that of no split.
        if right == 1.0 or at_middle.num_primary_items != at_right.num_primary_items:
            pending.append((middle, at_middle, right, at_right))


def assert_split_at_fraction_exhaustive(
    source: BoundedSource,
    start_position: Any = None,
    stop_position: Any = None,
    perform_multi_threaded_test: bool = True,
) -> None:
    """Check splits at all fractions, after each number of elements, and while another thread reads."""
    expected = read_from_source(source, start_position, stop_position)
    if len(expected) < 2:
        raise ValueError(f"expected a source of at least 2 elements, got {len(expected)}")
    every = SplitFractionStatistics([], [])
    for count in range(len(expected)):
        stats = SplitFractionStatistics([], [])
        assert_split_at_fraction_binary(
            source, expected, count, 0.0, None, 1.0, None, stats, start_position, stop_position
        )
        every.successful_fractions.extend(stats.successful_fractions)
        every.non_trivial_fractions.extend(stats.non_trivial_fractions)
        if perform_multi_threaded_test and stats.non_trivial_fractions:
            _split_while_reading(
                source, expected, count, min(stats.non_trivial_fractions), start_position, stop_position
            )
    if not every.non_trivial_fractions:
        raise ValueError(f"{source!r} was never split into two parts with elements")


def _split_while_reading(
    source: BoundedSource, expected: list[Any], count: int, fraction: float, start: Any, stop: Any
) -> None:
    with ThreadPoolExecutor(2) as threads:
        for _ in range(_CONCURRENT_TRIALS):
            tracker = source.get_range_tracker(start, stop)
            reader = iter(source.read(tracker))
            begun, last = list(islice(reader, count)), tracker.stop_position()
            reading = threads.submit(list, reader)
            splitting = threads.submit(tracker.try_split, tracker.position_at_fraction(fraction))
            primary = begun + reading.result()
            residual = [] if splitting.result() is None else read_from_source(source, tracker.stop_position(), last)
            _in_order(expected, primary + residual, f"splits at {fraction} while an element after {count} was read")


def _split(
    source: BoundedSource,
    expected: list[Any],
    count: int,
    fraction: float,
    outcome: int,
    start: Any = None,
    stop: Any = None,
) -> SplitAtFractionResult:
    tracker = source.get_range_tracker(start, stop)
    reader = iter(source.read(tracker))
    current, last = list(islice(reader, count)), tracker.stop_position()
    where = f"{source!r} at {fraction} after {count} elements"
    split = tracker.try_split(tracker.position_at_fraction(fraction))
    if split is None and outcome == ExpectedSplitOutcome.MUST_SUCCEED_AND_BE_CONSISTENT:
        raise ValueError(f"expected a split of {where}, and there was none")
    if split is not None and outcome == ExpectedSplitOutcome.MUST_FAIL:
        raise ValueError(f"expected no split of {where}, got one at {split[0]!r}")
    if split is not None and (tracker.stop_position() != split[0] or split[0] == last):
        raise ValueError(
            f"the split of {where} is at {split[0]!r}, but the range that ended at {last!r} ends at "
            f"{tracker.stop_position()!r}"
        )
    current += reader
    primary = read_from_source(source, tracker.start_position(), tracker.stop_position())
    _in_order(primary, current, f"the reader before and after the split of {where}")
    residual = [] if split is None else read_from_source(source, split[0], last)
    _in_order(expected, primary + residual, f"the parts of {where}")
    return SplitAtFractionResult(len(primary), -1 if split is None else len(residual))


def _checked(info: SourceInfo) -> SourceInfo:
    if not (isinstance(info, tuple) and len(info) == 3 and isinstance(info[0], BoundedSource)):
        raise ValueError(f"expected a tuple of an io.iobase.BoundedSource and two positions, got {info!r}")
    return info


def _in_order(expected: list[Any], found: list[Any], what: str) -> None:
    if expected != found:
        raise ValueError(f"{what}: expected the elements {expected!r}, got {found!r}")


def _compare(expected: list[Any], found: list[Any], what: str) -> None:
    left = list(found)
    for element in expected:
        if element not in left:
            raise ValueError(f"{what}: {element!r} is missing among {found!r}")
        left.remove(element)
    if left:
        raise ValueError(f"{what}: unexpected elements {left!r}")
