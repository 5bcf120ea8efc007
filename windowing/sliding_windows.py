"""SlidingWindows: windows of one size that start every period (Dataflow Model, section 1.2)."""

from __future__ import annotations

from typing import Any

from .duration import Duration, DurationTypes
from .timestamp import Timestamp, micros_of
from .timestamp_window_fn import TimestampWindowFn, positive_duration, quotient
from .window_fn import NonMergingWindowFn
from .windows import IntervalWindow


class SlidingWindows(TimestampWindowFn, NonMergingWindowFn):
    """Windows [N * period + offset, N * period + offset + size), for all whole N.

    An element is in several windows if the size exceeds the period.  If the period exceeds the size, elements in the
    gaps are in no window and are dropped.

    Args:
      size, period: seconds or Duration.
      offset: seconds, Duration or Timestamp; taken modulo period.

    Raises `ValueError` if size or period isn't positive.

    >>> from penstock.windowing import SlidingWindows
    >>> SlidingWindows(120, 60).assign_micros(70_000_000)
    ([60.0, 180.0), [0.0, 120.0))
    """

    def __init__(self, size: DurationTypes, period: DurationTypes, offset: DurationTypes | Timestamp = 0) -> None:
        self.size = positive_duration("size", size)
        self.period = positive_duration("period", period)
        self._size = self.size.micros
        self._period = self.period.micros
        self._offset = micros_of(offset) % self._period
        self.offset = Duration.of_micros(self._offset)

    def assign_micros(self, micros: int) -> tuple[IntervalWindow, ...]:
        """Return the windows of a timestamp, the latest first."""
        size = self._size
        latest = micros - (micros - self._offset) % self._period
        return tuple(
            IntervalWindow.of_micros(start, start + size) for start in range(latest, micros - size, -self._period)
        )

    # The windows change when one starts and when one ends.  Both counts grow with time, so their sum identifies every
    # combination.
    def bucket_of(self, micros: Any) -> Any:
        """Return the number of started windows, plus that of ended ones where these change apart."""
        started = quotient(micros, self._offset, self._period)
        if self._size % self._period == 0:
            return started
        before, offset = divmod(self._offset + self._size, self._period)
        return started + quotient(micros, offset, self._period) - before
