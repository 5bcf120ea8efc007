"""Microseconds: the base class of Timestamp and Duration.

Both store an integer of microseconds, and represent seconds: they compare with each other and with numbers of seconds,
and equal values have equal hashes.

>>> from penstock.windowing import Duration, Timestamp
>>> Timestamp(5) == 5, Duration(1.5) < 2, hash(Timestamp(0.1)) == hash(0.1)
(True, True, True)
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from importlib import import_module
from numbers import Integral, Real
from typing import Any

MICROS_PER_SECOND = 1_000_000


def micros_of_seconds(seconds: Any, wanted: str = "a number of seconds") -> int:
    """Return the microseconds of seconds, rounded to the nearest one.

    Raises `TypeError` for other values than real numbers, and `ValueError` for NaN and the infinities, with the
    `wanted` value in the message.

    >>> micros_of_seconds(1.001)
    1001000
    """
    if isinstance(seconds, int):
        return seconds * MICROS_PER_SECOND
    if isinstance(seconds, float):
        if not math.isfinite(seconds):
            raise ValueError(f"expected {wanted}, got {seconds!r}; for 'forever' use MIN_TIMESTAMP or MAX_TIMESTAMP")
        return round(seconds * MICROS_PER_SECOND)
    # NumPy's scalars and fractions.
    if isinstance(seconds, Integral):
        return int(seconds) * MICROS_PER_SECOND
    if isinstance(seconds, Real):
        return micros_of_seconds(float(seconds), wanted)
    raise TypeError(f"expected {wanted}, got {seconds!r} of type {type(seconds).__name__}{_hint(seconds)}")


def _hint(got: Any) -> str:
    if isinstance(got, str):
        return "; did you mean Timestamp.from_rfc3339(...)?"
    if isinstance(got, datetime):
        return ", which is an instant, not a span of time"
    if isinstance(got, timedelta):
        return ", which is a span of time, not an instant"
    return ""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros_of_datetime(time: datetime) -> int:
    """Return the microseconds since 1970 of a datetime.  Raises `ValueError` for a naive datetime, which is ambiguous.

    >>> micros_of_datetime(datetime(1970, 1, 2, tzinfo=UTC))
    86400000000
    """
    if time.utcoffset() is None:
        raise ValueError(
            f"expected a datetime with a time zone, got {time!r}, which is naive; if it is in UTC use "
            "time.replace(tzinfo=timezone.utc), if it is local use time.astimezone()"
        )
    return (time - _EPOCH) // _MICROSECOND


def micros_of_timedelta(span: timedelta) -> int:
    """Return the microseconds of a timedelta.

    >>> micros_of_timedelta(timedelta(minutes=1))
    60000000
    """
    return span // _MICROSECOND


class Microseconds:
    """An ordered integer of microseconds: the base class of `Timestamp` and `Duration`."""

    __slots__ = ("micros",)
    micros: int

    # A float is compared with the float nearest to this object instead of being rounded to microseconds: otherwise two
    # floats with different hashes could equal one timestamp.
    def _beside(self, other: object) -> tuple[float, float] | None:
        """Return both sides of a comparison, or None for values that can't be compared."""
        if isinstance(other, Microseconds):
            return self.micros, other.micros
        if isinstance(other, int):
            return self.micros, other * MICROS_PER_SECOND
        if isinstance(other, Real):
            return self.micros / MICROS_PER_SECOND, float(other)
        return None

    def __eq__(self, other: object) -> bool:
        sides = self._beside(other)
        return NotImplemented if sides is None else sides[0] == sides[1]

    def __lt__(self, other: Microseconds | float) -> bool:
        sides = self._beside(other)
        return NotImplemented if sides is None else sides[0] < sides[1]

    def __le__(self, other: Microseconds | float) -> bool:
        sides = self._beside(other)
        return NotImplemented if sides is None else sides[0] <= sides[1]

    def __gt__(self, other: Microseconds | float) -> bool:
        sides = self._beside(other)
        return NotImplemented if sides is None else sides[0] > sides[1]

    def __ge__(self, other: Microseconds | float) -> bool:
        sides = self._beside(other)
        return NotImplemented if sides is None else sides[0] >= sides[1]

    def __hash__(self) -> int:
        return hash(self.micros / MICROS_PER_SECOND)

    def __float__(self) -> float:
        return self.micros / MICROS_PER_SECOND

    def __repr__(self) -> str:
        sign = "-" if self.micros < 0 else ""
        whole, fraction = divmod(abs(self.micros), MICROS_PER_SECOND)
        digits = f".{fraction:06d}" if fraction else ""
        return f"{type(self).__name__}({sign}{whole}{digits})"


def proto_module(name: str) -> Any:
    """Return a module of Protocol Buffers' well-known types.  Raises `ImportError` without the package protobuf.

    >>> proto_module("duration_pb2").Duration(seconds=5).seconds
    5
    """
    try:
        return import_module(f"google.protobuf.{name}")
    except ImportError as error:
        raise ImportError(f"to_proto needs the package protobuf (pip install protobuf): {error}") from error
