"""Claims and splits of ranges.  The expected values are those of Beam's trackers."""

from __future__ import annotations

import pytest

from penstock.io.iobase import RangeTracker
from penstock.io.range_trackers import LexicographicKeyRangeTracker, OffsetRangeTracker, UnsplittableRangeTracker


def test_offsets_are_claimed_in_order_up_to_the_end() -> None:
    tracker = OffsetRangeTracker(3, 10)
    assert (3, 10, -1) == (tracker.start_position(), tracker.stop_position(), tracker.last_record_start)
    assert tracker.try_claim(3)
    tracker.set_current_position(5)
    assert 5 == tracker.last_record_start
    with pytest.raises(ValueError, match="claims increase; the last one was 3, got 3"):
        tracker.try_claim(3)
    with pytest.raises(ValueError, match="the last one was at 5, got one at 4"):
        tracker.set_current_position(4)
    assert not tracker.try_claim(10)
    assert (5, 10) == (tracker.last_record_start, tracker.last_attempted_record_start)


def test_the_first_record_must_be_claimed() -> None:
    with pytest.raises(ValueError, match="the first record must be claimed"):
        OffsetRangeTracker(0, 3).set_current_position(1)


def test_a_range_is_split_behind_its_last_record() -> None:
    tracker = OffsetRangeTracker(0, 10)
    assert tracker.try_split(5) is None
    assert tracker.try_claim(4)
    assert [None, None] == [tracker.try_split(4), tracker.try_split(10)]
    assert (5, 0.5) == tracker.try_split(5)
    assert 0.8 == tracker.fraction_consumed()
    assert 3 == tracker.position_at_fraction(0.6)
    assert not tracker.try_claim(5)


def test_a_range_without_end_is_not_split() -> None:
    tracker = OffsetRangeTracker(0, OffsetRangeTracker.OFFSET_INFINITY)
    assert tracker.try_claim(10**9)
    assert tracker.try_split(10**9 + 1) is None
    with pytest.raises(ValueError, match="without end"):
        tracker.position_at_fraction(0.5)


@pytest.mark.parametrize("wrong", [(None, 1), (1, None), (2, 1), ("a", 1), (0, 1.5)])
def test_offsets_are_checked(wrong: tuple[int, int]) -> None:
    with pytest.raises((ValueError, AssertionError), match="OffsetRangeTracker: "):
        OffsetRangeTracker(*wrong)


def test_split_points_are_counted() -> None:
    tracker = OffsetRangeTracker(0, 10)
    unknown = RangeTracker.SPLIT_POINTS_UNKNOWN
    assert (0, unknown) == tracker.split_points()
    for position in 1, 3:
        assert tracker.try_claim(position)
    tracker.set_split_points_unclaimed_callback(lambda stop: int(stop) - 4)
    assert (1, 7) == tracker.split_points()


def test_a_tracker_can_be_made_unsplittable() -> None:
    tracker = UnsplittableRangeTracker(OffsetRangeTracker(0, 10))
    assert tracker.try_claim(2)
    tracker.set_current_position(4)
    assert (None, 0.4, 5, (0, 1)) == (
        tracker.try_split(5),
        tracker.fraction_consumed(),
        tracker.position_at_fraction(0.5),
        tracker.split_points(),
    )


@pytest.mark.parametrize(
    ("start", "end", "fraction", "key"),
    [
        (None, None, 0.5, b"\x80"),
        (b"a", b"b", 0.5, b"a\x80"),
        (b"ab", b"abd", 0.25, b"ab\x19"),
        (None, b"b", 0.1, b"\t\xcc\xcc\xcc\xcc\xcc\xcd"),
        (b"\xff", None, 0.5, b"\xff\x80"),
        ("a", "c", 0.5, "b"),
        (b"a", b"b", 0, b"a"),
        (b"a", b"b", 1, b"b"),
    ],
)
def test_keys_are_the_digits_of_a_number(start: bytes, end: bytes, fraction: float, key: bytes) -> None:
    """Both ways."""
    tracker = LexicographicKeyRangeTracker(start, end)
    assert key == tracker.position_at_fraction(fraction)
    assert fraction == pytest.approx(tracker.position_to_fraction(key, start, end))


def test_keys_are_claimed_in_order_and_split_behind_the_last_one() -> None:
    tracker = LexicographicKeyRangeTracker(b"a", b"c")
    with pytest.raises(ValueError, match="the range starts at b'a'"):
        tracker.try_claim(b"A")
    assert 0 == tracker.fraction_consumed()
    assert tracker.try_claim(b"a\x80")
    assert [None, None, None] == [tracker.try_split(key) for key in (b"a\x80", b"c", b"a")]
    assert (b"b", 0.5) == tracker.try_split(b"b")
    assert 0.5 == tracker.fraction_consumed()
    with pytest.raises(ValueError, match="claims are in order"):
        tracker.try_claim(b"a")
    assert not tracker.try_claim(b"b")
