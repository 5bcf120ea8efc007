"""FixedWindows: consecutive windows of one size (Dataflow Model, section 1.2)."""

from __future__ import annotations

from .duration import Duration, DurationTypes
from .microseconds import MICROS_PER_SECOND
from .timestamp import Timestamp, micros_of
from .timestamp_window_fn import TimestampWindowFn, positive_duration
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

    def bucket_expression(self, t: str) -> str:
        """Return the expression of the window's number."""
        since = f"({t} - {self._offset})" if self._offset else t
        return f"{since} // {self._size}"

    def bucket_of_seconds(self, seconds: str) -> str | None:
        """Return the same for seconds instead of microseconds, or None if size or offset aren't whole seconds."""
        (size, a), (offset, b) = divmod(self._size, MICROS_PER_SECOND), divmod(self._offset, MICROS_PER_SECOND)
        if a or b:
            return None
        since = f"({seconds} - {offset})" if offset else seconds
        return f"{since} // {size}"
