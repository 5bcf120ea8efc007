"""OffsetRange: a restriction that is a range of whole numbers, and its tracker."""

from __future__ import annotations

from collections.abc import Iterator

from ...frozen import frozen
from ...persistence import stored_as
from .splittable_dofn import RestrictionProgress, RestrictionTracker


@stored_as("offset-range", 1)
@frozen
class OffsetRange:
    """The whole numbers from `start` up to, and without, `stop`.

    >>> list(OffsetRange(0, 10).split(4))
    [OffsetRange(start=0, stop=4), OffsetRange(start=4, stop=8), OffsetRange(start=8, stop=10)]
    """

    start: int
    stop: int

    def __attrs_post_init__(self) -> None:
        if self.start > self.stop:
            raise ValueError(f"OffsetRange: its start must not be after its stop, got {self.start} and {self.stop}")

    def split(self, desired_num_offsets_per_split: int, min_num_offsets_per_split: int = 1) -> Iterator[OffsetRange]:
        """Yield ranges of this size.  A remainder below the minimum is part of the last range."""
        size, start = max(desired_num_offsets_per_split, min_num_offsets_per_split), self.start
        while start < self.stop:
            stop = min(start + size, self.stop)
            remaining = self.stop - stop
            if remaining < desired_num_offsets_per_split // 4 or remaining < min_num_offsets_per_split:
                stop = self.stop
            yield OffsetRange(start, stop)
            start = stop

    def split_at(self, split_pos: int) -> tuple[OffsetRange, OffsetRange]:
        """Return the range before a position, and the range from it on."""
        return OffsetRange(self.start, split_pos), OffsetRange(split_pos, self.stop)

    def new_tracker(self) -> OffsetRestrictionTracker:
        """Return a tracker of the range."""
        return OffsetRestrictionTracker(self)

    def size(self) -> int:
        """Return the number of offsets."""
        return self.stop - self.start


class OffsetRestrictionTracker(RestrictionTracker):
    """Tracker of an offset range, with increasing claims.  The range behind the last claim can be split off.

    >>> tracker = OffsetRestrictionTracker(OffsetRange(0, 10))
    >>> tracker.try_claim(2), tracker.try_split(0), tracker.try_claim(3)
    (True, (OffsetRange(start=0, stop=3), OffsetRange(start=3, stop=10)), False)
    """

    def __init__(self, offset_range: OffsetRange) -> None:
        self._range = offset_range
        self._last: int | None = None

    def current_restriction(self) -> OffsetRange:
        return self._range

    def try_claim(self, position: int) -> bool:
        if position < self._range.start or (self._last is not None and position <= self._last):
            least = self._range.start if self._last is None else self._last + 1
            raise ValueError(f"OffsetRestrictionTracker: claims increase; expected {least} or more, got {position}")
        self._last = position
        return position < self._range.stop

    def try_split(self, fraction_of_remainder: float) -> tuple[OffsetRange, OffsetRange] | None:
        last = self._range.start - 1 if self._last is None else self._last
        position = last + max(1, int((self._range.stop - last) * fraction_of_remainder))
        if position >= self._range.stop:
            return None
        self._range, rest = self._range.split_at(position)
        return self._range, rest

    def check_done(self) -> bool:
        last = self._range.start - 1 if self._last is None else self._last
        if last < self._range.stop - 1:
            raise ValueError(
                f"OffsetRestrictionTracker: the work from {last + 1} to {self._range.stop} was not claimed; "
                "continue until try_claim returns False, or call defer_remainder"
            )
        return True

    def current_progress(self) -> RestrictionProgress:
        done = 0 if self._last is None else min(self._last + 1, self._range.stop) - self._range.start
        return RestrictionProgress(completed=float(done), remaining=float(self._range.size() - done))
