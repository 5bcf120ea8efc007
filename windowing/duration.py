"""Duration: a span of time, in microseconds."""

from __future__ import annotations

from datetime import timedelta
from numbers import Real
from typing import Any, TypeAlias, Union

from ..persistence import restores
from .microseconds import (
    MICROS_PER_SECOND,
    Microseconds,
    micros_of_seconds,
    micros_of_timedelta,
    proto_module,
)

DurationTypes: TypeAlias = Union[int, float, "Duration", timedelta]


class Duration(Microseconds):
    """A span of time in seconds and microseconds, which may be negative and is unbounded.

    Raises `TypeError` for other values than numbers, `ValueError` for NaN and infinity.

    >>> from penstock.windowing import Duration
    >>> Duration(90) + 0.5, Duration(micros=1), Duration(90) % 60
    (Duration(90.500000), Duration(0.000001), Duration(30))
    """

    __slots__ = ()

    def __init__(self, seconds: float = 0, micros: int = 0) -> None:
        self.micros = micros_of_seconds(seconds, "a duration in seconds") + int(micros)

    @staticmethod
    def of(seconds: DurationTypes) -> Duration:
        """Return a Duration for seconds, a Duration or a timedelta.  Raises `TypeError` for an instant.

        >>> from penstock.windowing import Duration
        >>> Duration.of(5), Duration.of(Duration(5)), Duration.of(timedelta(minutes=1))
        (Duration(5), Duration(5), Duration(60))
        """
        if isinstance(seconds, timedelta):
            return Duration.of_micros(micros_of_timedelta(seconds))
        return seconds if isinstance(seconds, Duration) else Duration(seconds)

    @staticmethod
    def of_micros(micros: int) -> Duration:
        """Return the duration of a number of microseconds, unchecked.

        >>> from penstock.windowing import Duration
        >>> Duration.of_micros(1_500_000)
        Duration(1.500000)
        """
        duration = object.__new__(Duration)
        duration.micros = micros
        return duration

    @staticmethod
    def from_proto(duration_proto: Any) -> Duration:
        """Convert a `google.protobuf.duration_pb2.Duration`.  Raises `ValueError` for fractions of microseconds."""
        micros, rest = divmod(duration_proto.nanos, 1000)
        if rest:
            raise ValueError(f"{duration_proto.nanos} nanoseconds are not a whole number of microseconds; round first")
        return Duration.of_micros(duration_proto.seconds * MICROS_PER_SECOND + micros)

    def to_proto(self) -> Any:
        """Return a `google.protobuf.duration_pb2.Duration`.  Needs the package protobuf.

        >>> Duration.from_proto(Duration(-1.5).to_proto())
        Duration(-1.500000)
        """
        # Both parts of a proto have the same sign.
        seconds, micros = divmod(abs(self.micros), MICROS_PER_SECOND)
        sign = -1 if self.micros < 0 else 1
        return proto_module("duration_pb2").Duration(seconds=sign * seconds, nanos=sign * 1000 * micros)

    def __neg__(self) -> Duration:
        return Duration.of_micros(-self.micros)

    # Operations with a Timestamp are Timestamp's, or an error.
    def __add__(self, other: DurationTypes) -> Duration:
        return NotImplemented if not is_span(other) else Duration.of_micros(self.micros + Duration.of(other).micros)

    __radd__ = __add__

    def __sub__(self, other: DurationTypes) -> Duration:
        return NotImplemented if not is_span(other) else Duration.of_micros(self.micros - Duration.of(other).micros)

    def __rsub__(self, other: DurationTypes) -> Duration:
        return NotImplemented if not is_span(other) else Duration.of_micros(Duration.of(other).micros - self.micros)

    def __mul__(self, other: DurationTypes) -> Duration:
        if not is_span(other):
            return NotImplemented
        return Duration.of_micros(self.micros * Duration.of(other).micros // MICROS_PER_SECOND)

    __rmul__ = __mul__

    def __mod__(self, other: DurationTypes) -> Duration:
        return NotImplemented if not is_span(other) else Duration.of_micros(self.micros % Duration.of(other).micros)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_duration, (self.micros,))


@restores("duration", 1, Duration)
def _duration(micros: int) -> Duration:
    return Duration.of_micros(micros)


def is_span(other: object) -> bool:
    """Return whether `Duration.of` accepts a value: a number, a Duration or a timedelta.

    >>> is_span(5), is_span("5")
    (True, False)
    """
    return isinstance(other, (int, float, Duration, timedelta, Real))


def micros_of_span(span: DurationTypes, wanted: str = "a span of time") -> int:
    """Return the microseconds of seconds, a Duration or a timedelta.  Raises `TypeError` for other values.

    >>> micros_of_span(2), micros_of_span(timedelta(milliseconds=1)), micros_of_span(Duration(3))
    (2000000, 1000, 3000000)
    """
    if not is_span(span):
        raise TypeError(f"expected {wanted}: a number of seconds, a Duration or a timedelta, got {span!r}")
    return Duration.of(span).micros


def seconds_of_span(span: DurationTypes, wanted: str = "a span of time") -> float:
    """Return the seconds of a Duration or a timedelta, and numbers unchanged.

    >>> seconds_of_span(2), seconds_of_span(timedelta(milliseconds=1))
    (2, 0.001)
    """
    if isinstance(span, (Duration, timedelta)):
        return micros_of_span(span) / MICROS_PER_SECOND
    micros_of_span(span, wanted)
    return span
