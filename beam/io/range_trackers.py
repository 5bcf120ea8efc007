"""RangeTrackers: Beam's ranges of positions of a source, which a reader claims position by position.

A range can be split behind its last claim while it is read: `try_split`.  Trackers are thread-safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from threading import Lock
from typing import Any, Final


class RangeTracker:
    """Base class: a range from `start_position` up to, and without, `stop_position`.

    Positions at which a range can be split are split points.  A reader claims each split point before it reads there,
    and reports other positions by `set_current_position`.
    """

    SPLIT_POINTS_UNKNOWN: Final[Any] = object()

    def start_position(self) -> Any:
        """Return the first position."""
        raise NotImplementedError(f"{type(self).__name__}.start_position")

    def stop_position(self) -> Any:
        """Return the position behind the last one."""
        raise NotImplementedError(f"{type(self).__name__}.stop_position")

    def try_claim(self, position: Any) -> bool:
        """Return whether a split point is in the range.  If not, the reader stops."""
        raise NotImplementedError(f"{type(self).__name__}.try_claim")

    def set_current_position(self, position: Any) -> None:
        """Report a position that isn't a split point."""
        raise NotImplementedError(f"{type(self).__name__}.set_current_position")

    def position_at_fraction(self, fraction: float) -> Any:
        """Return the position at a fraction of the range, from 0 up to 1."""
        raise NotImplementedError(f"{type(self).__name__}.position_at_fraction")

    def try_split(self, position: Any) -> tuple[Any, float] | None:
        """End the range at a position that isn't claimed yet.

        Returns the position, and the fraction that the rest of this range is of the former one; None if it was refused.
        """
        raise NotImplementedError(f"{type(self).__name__}.try_split")

    def fraction_consumed(self) -> float:
        """Return the fraction of the range that has been claimed."""
        raise NotImplementedError(f"{type(self).__name__}.fraction_consumed")

    def split_points(self) -> tuple[Any, Any]:
        """Return how many split points are done, and how many remain with the current one, if that is known."""
        return RangeTracker.SPLIT_POINTS_UNKNOWN, RangeTracker.SPLIT_POINTS_UNKNOWN

    def set_split_points_unclaimed_callback(self, callback: Callable[[Any], Any]) -> None:
        """Set the function that returns how many split points are unclaimed before a stop position."""
        raise NotImplementedError(f"{type(self).__name__}.set_split_points_unclaimed_callback")


class OffsetRangeTracker(RangeTracker):
    """A range of whole numbers.  With `OFFSET_INFINITY` as its end it can't be split.

    >>> tracker = OffsetRangeTracker(0, 10)
    >>> tracker.try_claim(2), tracker.try_split(5), tracker.try_claim(5)
    (True, (5, 0.5), False)
    """

    OFFSET_INFINITY: Final = float("inf")

    def __init__(self, start: int, end: float) -> None:
        for name, offset in ("start", start), ("end", end):
            if offset is None:
                raise ValueError(f"OffsetRangeTracker: {name} offset must not be None")
        assert isinstance(start, int), f"OffsetRangeTracker: start must be an int, got {start!r}"
        assert isinstance(end, int) or end == self.OFFSET_INFINITY, (
            f"OffsetRangeTracker: end must be an int, got {end!r}"
        )
        assert start <= end, f"OffsetRangeTracker: start must not be after end, got {start} and {end}"
        self._start = start
        self._stop = end
        # The last record, the last split point, and the last claim, which may have been refused: -1 for none.
        self._record = self._split_point = self._attempt = -1
        self._claims = 0
        self._unclaimed: Callable[[Any], Any] | None = None
        self._lock = Lock()

    def start_position(self) -> int:
        return self._start

    def stop_position(self) -> float:
        return self._stop

    @property
    def last_record_start(self) -> int:
        """The position of the last record; -1 before the first one."""
        return self._record

    @property
    def last_attempted_record_start(self) -> int:
        """The last claimed position, also if the claim was refused; -1 before the first claim."""
        return self._attempt

    def try_claim(self, record_start: int) -> bool:
        with self._lock:
            if record_start <= self._attempt:
                raise ValueError(
                    f"OffsetRangeTracker: claims increase; the last one was {self._attempt}, got {record_start}"
                )
            self._check(record_start)
            self._attempt = record_start
            if record_start >= self._stop:
                return False
            self._record = self._split_point = record_start
            self._claims += 1
            return True

    def set_current_position(self, record_start: int) -> None:
        with self._lock:
            self._check(record_start)
            if self._record == -1:
                raise ValueError(f"OffsetRangeTracker: the first record must be claimed, got one at {record_start}")
            self._record = record_start

    def _check(self, record_start: int) -> None:
        if record_start < self._record:
            raise ValueError(
                f"OffsetRangeTracker: records are read in order; the last one was at {self._record}, "
                f"got one at {record_start}"
            )

    def try_split(self, split_offset: int) -> tuple[int, float] | None:
        assert isinstance(split_offset, int), f"OffsetRangeTracker: expected an int to split at, got {split_offset!r}"
        with self._lock:
            if self._stop == self.OFFSET_INFINITY or self._record == -1 or split_offset <= self._record:
                return None
            if not self._start <= split_offset < self._stop:
                return None
            fraction = (split_offset - self._start) / (self._stop - self._start)
            self._stop = split_offset
            return split_offset, fraction

    def fraction_consumed(self) -> float:
        with self._lock:
            return self.position_to_fraction(self._record, self._start, self._stop)

    def position_to_fraction(self, pos: float, start: float, stop: float) -> float:
        """Return the fraction of a range before a position."""
        return max(0.0, min(1.0, (pos - start) / (stop - start))) if start != stop else 0.0

    def position_at_fraction(self, fraction: float) -> int:
        if self._stop == self.OFFSET_INFINITY:
            raise ValueError("OffsetRangeTracker: a range without end has no position at a fraction")
        return math.ceil(self._start + fraction * (self._stop - self._start))

    def split_points(self) -> tuple[Any, Any]:
        with self._lock:
            unknown = RangeTracker.SPLIT_POINTS_UNKNOWN
            unclaimed = unknown if self._unclaimed is None else self._unclaimed(self._stop)
            return max(0, self._claims - 1), unknown if unclaimed is unknown else unclaimed + 1

    def set_split_points_unclaimed_callback(self, callback: Callable[[Any], Any]) -> None:
        self._unclaimed = callback


class OrderedPositionRangeTracker(RangeTracker):
    """Base class of trackers whose positions can be compared.  None as start or stop is no limit.

    A subclass defines `fraction_to_position` and `position_to_fraction`.
    """

    UNSTARTED: Final = object()

    def __init__(self, start_position: Any = None, stop_position: Any = None) -> None:
        self._start = start_position
        self._stop = stop_position
        self._last: Any = self.UNSTARTED
        self._lock = Lock()

    def start_position(self) -> Any:
        return self._start

    def stop_position(self) -> Any:
        with self._lock:
            return self._stop

    def try_claim(self, position: Any) -> bool:
        name = type(self).__name__
        with self._lock:
            if self._last is not self.UNSTARTED and position < self._last:
                raise ValueError(f"{name}: claims are in order; the last one was {self._last!r}, got {position!r}")
            if self._start is not None and position < self._start:
                raise ValueError(f"{name}: the range starts at {self._start!r}, got a claim of {position!r}")
            if self._stop is not None and position >= self._stop:
                return False
            self._last = position
            return True

    def position_at_fraction(self, fraction: float) -> Any:
        return self.fraction_to_position(fraction, self._start, self._stop)

    def try_split(self, position: Any) -> tuple[Any, float] | None:
        with self._lock:
            is_outside = (self._stop is not None and position >= self._stop) or (
                self._start is not None and position <= self._start
            )
            if is_outside or (self._last is not self.UNSTARTED and self._last >= position):
                return None
            fraction = self.position_to_fraction(position, self._start, self._stop)
            self._stop = position
            return position, fraction

    def fraction_consumed(self) -> float:
        return 0 if self._last is self.UNSTARTED else self.position_to_fraction(self._last, self._start, self._stop)

    def fraction_to_position(self, fraction: float, start: Any, end: Any) -> Any:
        """Return the position at a fraction of a range."""
        raise NotImplementedError(f"{type(self).__name__}.fraction_to_position")

    def position_to_fraction(self, position: Any, start: Any, end: Any) -> float:
        """Return the fraction of a range before a position."""
        raise NotImplementedError(f"{type(self).__name__}.position_to_fraction")


class LexicographicKeyRangeTracker(OrderedPositionRangeTracker):
    r"""A range of strings or bytes in their order.  Fractions take a key's bytes for the digits of a number below 1.

    >>> LexicographicKeyRangeTracker(b"a", b"c").position_at_fraction(0.75)
    b'b\x80'
    """

    # How many bytes are needed behind the common prefix for the digits of a float.
    _DIGITS = 7

    @classmethod
    def fraction_to_position(cls, fraction: float, start: Any = None, end: Any = None) -> Any:
        assert 0 <= fraction <= 1, f"expected a fraction from 0 to 1, got {fraction}"
        if fraction in (0, 1):
            return end if fraction else (b"" if start is None else start)
        first, last = _bytes_of(start), _bytes_of(end)
        prefix = 0
        bound = last or b"\xff" * len(first)
        while prefix < min(len(first), len(bound)) and first[prefix] == bound[prefix]:
            prefix += 1
        digits = prefix + int(-math.log(fraction, 256)) + cls._DIGITS
        low, high = _as_number(first, digits), _as_number(last, digits) if last else 1 << (8 * digits)
        # Neither the start nor the end, which rounding may give.
        number = min(max(low + int((high - low) * fraction), low + 1), max(low + 1, high - 1))
        key = number.to_bytes(digits, "big").rstrip(b"\0")
        return key.decode("latin-1") if isinstance(start, str) else key

    @classmethod
    def position_to_fraction(cls, key: Any = None, start: Any = None, end: Any = None) -> float:
        if not key:
            return 0
        position, first, last = _bytes_of(key), _bytes_of(start), _bytes_of(end)
        digits = len(first) + cls._DIGITS
        if position.startswith(first):
            # A key close to the start has zeros behind the start.
            rest = position[len(first) :]
            digits += len(rest) - len(rest.lstrip(b"\0"))
        low, high = _as_number(first, digits), _as_number(last, digits) if last else 1 << (8 * digits)
        return (_as_number(position, digits) - low) / (high - low)


class UnsplittableRangeTracker(RangeTracker):
    """A tracker that refuses splits, and leaves everything else to another tracker."""

    def __init__(self, range_tracker: RangeTracker) -> None:
        assert isinstance(range_tracker, RangeTracker), f"expected a RangeTracker, got {range_tracker!r}"
        self._range_tracker = range_tracker

    def start_position(self) -> Any:
        return self._range_tracker.start_position()

    def stop_position(self) -> Any:
        return self._range_tracker.stop_position()

    def position_at_fraction(self, fraction: float) -> Any:
        return self._range_tracker.position_at_fraction(fraction)

    def try_claim(self, position: Any) -> bool:
        return self._range_tracker.try_claim(position)

    def try_split(self, position: Any) -> None:
        return None

    def set_current_position(self, position: Any) -> None:
        self._range_tracker.set_current_position(position)

    def fraction_consumed(self) -> float:
        return self._range_tracker.fraction_consumed()

    def split_points(self) -> tuple[Any, Any]:
        return 0, 1

    def set_split_points_unclaimed_callback(self, callback: Callable[[Any], Any]) -> None:
        self._range_tracker.set_split_points_unclaimed_callback(callback)


def _bytes_of(key: Any) -> bytes:
    return key.encode() if isinstance(key, str) else key or b""


def _as_number(key: bytes, digits: int) -> int:
    return int.from_bytes(key[:digits].ljust(digits, b"\0"), "big")
