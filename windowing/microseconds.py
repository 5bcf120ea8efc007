"""Microseconds: what a Timestamp and a Duration have in common.

Both are one integer of microseconds inside, and seconds to whoever reads or writes
them: they compare with each other and with plain numbers of seconds, and equal things
hash alike.

>>> from penstock.windowing import Duration, Timestamp
>>> Timestamp(5) == 5, Duration(1.5) < 2, hash(Timestamp(0.1)) == hash(0.1)
(True, True, True)
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from numbers import Integral, Real
from typing import Any

MICROS_PER_SECOND = 1_000_000


def micros_of_seconds(seconds: Any, wanted: str = "a number of seconds") -> int:
    """Microseconds from an int or float of seconds, rounded to the nearest one.

    Raises `TypeError` for what is no real number and `ValueError` for NaN and the
    infinities, saying what was `wanted`.

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
        return ", which is a time and no span"
    if isinstance(got, timedelta):
        return ", which is a span and no time"
    return ""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros_of_datetime(time: datetime) -> int:
    """Microseconds since 1970; `ValueError` for a naive datetime, which may be any of two dozen times.

    >>> micros_of_datetime(datetime(1970, 1, 2, tzinfo=UTC))
    86400000000
    """
    if time.utcoffset() is None:
        raise ValueError(
            f"expected a datetime with a time zone, got {time!r}, which is naive; if it is in UTC say "
            "time.replace(tzinfo=timezone.utc), if it is local say time.astimezone()"
        )
    return (time - _EPOCH) // _MICROSECOND


def micros_of_timedelta(span: timedelta) -> int:
    """Microseconds of a timedelta.

    >>> micros_of_timedelta(timedelta(minutes=1))
    60000000
    """
    return span // _MICROSECOND


class Microseconds:
    """One integer of microseconds, ordered.  The base of `Timestamp` and `Duration`."""

    __slots__ = ("micros",)
    micros: int

    # A float is compared with the float nearest to us, not rounded to microseconds:
    # otherwise two floats could equal one timestamp and have different hashes.
    def _beside(self, other: object) -> tuple[float, float] | None:
        """Both sides of a comparison, or None where there is none to make."""
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


def micros_of_subseconds(subseconds: int, precision: int) -> int:
    """Microseconds from units of ten to the minus `precision` seconds.

    Raises `ValueError` where that would lose something: a timestamp holds no
    nanoseconds.

    >>> micros_of_subseconds(5_000, 9), micros_of_subseconds(5, 3)
    (5, 5000)
    """
    if not 0 <= precision <= 9:
        raise ValueError(f"expected a precision of 0 to 9 digits, got {precision!r}")
    if precision <= 6:
        return int(subseconds * 10 ** (6 - precision))
    micros, rest = divmod(subseconds, 10 ** (precision - 6))
    if rest:
        raise ValueError(
            f"{subseconds} units of 1e-{precision} seconds are no whole number of microseconds; round first"
        )
    return int(micros)
