"""Clocks: processing time, which follows a script or the wall clock, and the monotonic clock for intervals.

The wall clock may be set, forward or back, while a pipeline runs.  Intervals and time-outs follow the monotonic clock
and are unaffected.  Processing time follows the wall clock forward.  Where that is set back, processing time continues
at the pace of the monotonic clock.

>>> wall, steady = [5_000_000], [0]
>>> now = ProcessingTime(lambda: wall[0], lambda: steady[0])
>>> now()
5000000
>>> wall[0], steady[0] = 3_000_000, 1_000_000
>>> now(), now.ahead_of_wall()
(6000000, 3000000)
>>> wall[0] = 60_000_000
>>> now(), now.jumped
(60000000, 54000000)
"""

from __future__ import annotations

import time
from collections.abc import Callable

# The advance over the monotonic clock, in microseconds, from which the wall clock counts as set and not adjusted.
_JUMP = 100_000


class Clock:
    """Processing time, in microseconds.  It starts at zero, and its owner advances it."""

    __slots__ = ("now",)

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def advance(self, micros: int) -> None:
        """Advance by this much."""
        self.now += micros


def time_of_day() -> int:
    """Return the microseconds since 1970 of the wall clock."""
    return time.time_ns() // 1000


def steady_time() -> int:
    """Return the microseconds of the monotonic clock."""
    return time.monotonic_ns() // 1000


class ProcessingTime:
    """Microseconds since 1970 that never regress, in one thread.  Picklable: a copy continues from the same time.

    Args:
      wall: the wall clock, in microseconds since 1970.
      steady: the monotonic clock, in microseconds.

    Attributes:
      jumped: the microseconds by which the wall clock was set forward since the first call, in total.
    """

    __slots__ = ("_ahead", "_steady", "_wall", "jumped")

    def __init__(self, wall: Callable[[], int] = time_of_day, steady: Callable[[], int] = steady_time) -> None:
        self._wall = wall
        self._steady = steady
        # The difference of processing time and the monotonic clock; None before the first call.
        self._ahead: int | None = None
        self.jumped = 0

    @staticmethod
    def of(clock: Callable[[], int]) -> ProcessingTime:
        """Return the clock itself if it is one of these, otherwise one that follows `clock`."""
        return clock if isinstance(clock, ProcessingTime) else ProcessingTime(clock, clock)

    def __call__(self) -> int:
        # In this order a pause in between makes the difference too small, which the next call corrects.
        wall = self._wall()
        steady = self._steady()
        known, ahead = self._ahead, wall - steady
        if known is None:
            self._ahead = known = ahead
        elif ahead > known:
            if ahead - known >= _JUMP:
                self.jumped += ahead - known
            self._ahead = known = ahead
        return steady + known

    def go_on_from(self, micros: int) -> int:
        """Advance to at least `micros`, and return the time."""
        now = self()
        if micros > now:
            assert self._ahead is not None
            self._ahead += micros - now
        return max(micros, now)

    def ahead_of_wall(self) -> int:
        """Return the microseconds by which it is ahead of the wall clock: 0 unless that was set back."""
        now = self()
        return max(0, now - self._wall())

    def peek(self) -> int:
        """Return the time, in another thread than the one that calls this object."""
        return self._steady() + (self._ahead or 0)
