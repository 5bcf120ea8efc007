"""FixedWindows: consecutive windows of one size (Dataflow Model, section 1.2)."""

from __future__ import annotations

from typing import Any

from .duration import Duration, DurationTypes
from .timestamp import Timestamp, micros_of
from .timestamp_window_fn import TimestampWindowFn, positive_duration, quotient
from .window_fn import NonMergingWindowFn
from .windows import IntervalWindow

_new_window = tuple.__new__


class FixedWindows(TimestampWindowFn, NonMergingWindowFn):
    """Windows [N * size + offset, (N + 1) * size + offset), for all whole N.

    Args:
      size: seconds or Duration.
      offset: seconds, Duration or Timestamp; taken modulo size.

    Raises `ValueError` if the size isn't positive.

    >>> from penstock.windowing import FixedWindows
    >>> FixedWindows(60, offset=5).assign_micros(64_000_000)
    ([5.0, 65.0),)
    """

    def __init__(self, size: DurationTypes, offset: DurationTypes | Timestamp = 0) -> None:
        self.size = positive_duration("size", size)
        self._size = self.size.micros
        self._offset = micros_of(offset) % self._size
        self.offset = Duration.of_micros(self._offset)

    def assign_micros(self, micros: int) -> tuple[IntervalWindow, ...]:
        """Return the window of a timestamp."""
        size = self._size
        start = micros - (micros - self._offset) % size
        return (_new_window(IntervalWindow, (start, start + size)),)

    def bucket_of(self, micros: Any) -> Any:
        """Return the number of the window of a timestamp, or of each of an array of timestamps."""
        return quotient(micros, self._offset, self._size)
