"""Timestamp: an instant of event time, in microseconds since 1970 (Dataflow Model, section 1.3).

The range is Beam's: the milliseconds that fit into a microsecond count of 64 bits.  Its ends stand for minus and plus
infinity.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, Union, overload

from ..stored import restores
from .duration import Duration, DurationTypes, is_span
from .microseconds import (
    MICROS_PER_SECOND,
    Microseconds,
    micros_of_datetime,
    micros_of_seconds,
    micros_of_subseconds,
    micros_of_timedelta,
    proto_module,
)

MIN_MICROS = -9_223_372_036_854_775_000
MAX_MICROS = 9_223_372_036_854_775_000

TimestampTypes: TypeAlias = Union[int, float, "Timestamp", datetime]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Timestamp(Microseconds):
    """An instant of event time.

    Args:
      seconds: since 1970 in UTC; a float is rounded to the nearest microsecond.
      subseconds: added, in units of ten to the minus `precision` seconds.
      micros: added, in microseconds.

    Raises `TypeError` for other values than numbers; `ValueError` for NaN, infinity, fractions of microseconds, and
    instants outside of [MIN_TIMESTAMP, MAX_TIMESTAMP].

    >>> from penstock.windowing import Timestamp
    >>> Timestamp(1.5), Timestamp(micros=7), Timestamp(10) + 5, Timestamp(10) - Timestamp(4)
    (Timestamp(1.500000), Timestamp(0.000007), Timestamp(15), Duration(6))
    """

    __slots__ = ()

    MICROS_PRECISION = 6
    NANOS_PRECISION = 9

    def __init__(self, seconds: float = 0, subseconds: int = 0, precision: int = 6, micros: int | None = None) -> None:
        total = micros_of_seconds(seconds, "a timestamp in seconds") + micros_of_subseconds(subseconds, precision)
        self.micros = in_range(total if micros is None else total + int(micros))

    @staticmethod
    def of(seconds: TimestampTypes) -> Timestamp:
        """Return a Timestamp for seconds, a Timestamp or a datetime with a time zone.

        Raises `TypeError` for a span of time, and `ValueError` for a datetime without a time zone.

        >>> from penstock.windowing import Timestamp
        >>> Timestamp.of(5), Timestamp.of(Timestamp(5)), Timestamp.of(datetime(1970, 1, 2, tzinfo=UTC))
        (Timestamp(5), Timestamp(5), Timestamp(86400))
        """
        if isinstance(seconds, datetime):
            return Timestamp.of_micros(in_range(micros_of_datetime(seconds)))
        return seconds if isinstance(seconds, Timestamp) else Timestamp(seconds)

    @staticmethod
    def of_micros(micros: int) -> Timestamp:
        """Return the timestamp of a number of microseconds in the range, unchecked.

        >>> from penstock.windowing import Timestamp
        >>> Timestamp.of_micros(1_500_000)
        Timestamp(1.500000)
        """
        timestamp = object.__new__(Timestamp)
        timestamp.micros = micros
        return timestamp

    @staticmethod
    def now() -> Timestamp:
        """Return the time of the machine's clock.  Runners use their own clocks instead."""
        return Timestamp.of_micros(time.time_ns() // 1000)

    @staticmethod
    def from_utc_datetime(dt: datetime) -> Timestamp:
        """Convert a datetime in UTC.  Raises `ValueError` for one without a zone or in another zone.

        >>> from penstock.windowing import Timestamp
        >>> Timestamp.from_utc_datetime(datetime(1970, 1, 2, tzinfo=UTC))
        Timestamp(86400)
        """
        if dt.tzinfo is None:
            raise ValueError(f"dt has no timezone info: expected a datetime in UTC, got {dt!r}")
        if dt.utcoffset() != timedelta(0):
            raise ValueError(f"expected a datetime in UTC, got {dt!r}; did you forget .astimezone(timezone.utc)?")
        return Timestamp.of_micros(micros_of_datetime(dt))

    @staticmethod
    def from_rfc3339(rfc3339: str) -> Timestamp:
        """Parse a date and time with a zone.  Digits beyond microseconds are cut off.

        Raises `ValueError` for other text.

        >>> from penstock.windowing import Timestamp
        >>> Timestamp.from_rfc3339("1970-01-01T01:00:00.5+01:00")
        Timestamp(0.500000)
        """
        try:
            dt = datetime.fromisoformat(rfc3339)
        except ValueError as error:
            raise ValueError(
                f"can't parse {rfc3339!r}, expected a time such as '2015-08-31T12:00:00Z': {error}"
            ) from error
        if dt.tzinfo is None:
            raise ValueError(f"expected a time with a zone, such as '2015-08-31T12:00:00Z', got {rfc3339!r}")
        return Timestamp.of_micros(micros_of_datetime(dt))

    @staticmethod
    def from_proto(timestamp_proto: Any) -> Timestamp:
        """Convert a `google.protobuf.timestamp_pb2.Timestamp`.  Raises `ValueError` for fractions of microseconds."""
        return Timestamp(timestamp_proto.seconds, timestamp_proto.nanos, Timestamp.NANOS_PRECISION)

    def to_proto(self) -> Any:
        """Return a `google.protobuf.timestamp_pb2.Timestamp`.  Needs the package protobuf.

        >>> from penstock.windowing import Timestamp
        >>> Timestamp.from_proto(Timestamp(-1.5).to_proto())
        Timestamp(-1.500000)
        """
        return proto_module("timestamp_pb2").Timestamp(seconds=self.seconds(), nanos=1000 * self.subseconds())

    def to_utc_datetime(self, has_tz: bool = False) -> datetime:
        """Return a datetime in UTC.  Raises `OverflowError` outside of the years 1 to 9999.

        >>> from penstock.windowing import Timestamp
        >>> Timestamp(86400).to_utc_datetime()
        datetime.datetime(1970, 1, 2, 0, 0)
        """
        try:
            dt = _EPOCH + timedelta(microseconds=self.micros)
        except OverflowError as error:
            raise OverflowError(f"{self!r} is outside of the years 1 to 9999, the range of datetime") from error
        return dt if has_tz else dt.replace(tzinfo=None)

    def to_rfc3339(self) -> str:
        """Return the text of the instant, in UTC.

        >>> from penstock.windowing import Timestamp
        >>> Timestamp(1.5).to_rfc3339()
        '1970-01-01T00:00:01.500000Z'
        """
        return self.to_utc_datetime().isoformat() + "Z"

    def seconds(self) -> int:
        """Return whole seconds, rounded down."""
        return self.micros // MICROS_PER_SECOND

    def subseconds(self) -> int:
        """Return the microseconds after the last whole second.

        >>> from penstock.windowing import Timestamp
        >>> Timestamp(-1.25).seconds(), Timestamp(-1.25).subseconds()
        (-2, 750000)
        """
        return self.micros % MICROS_PER_SECOND

    def precision(self) -> int:
        """Return 6: timestamps count ten to the minus 6 seconds, even if they are made of nanoseconds."""
        return self.MICROS_PRECISION

    @property
    def nanos(self) -> int:
        """Nanoseconds since 1970."""
        return 1000 * self.micros

    def __int__(self) -> int:
        return self.micros // MICROS_PER_SECOND

    def successor(self) -> Timestamp:
        """Return the next microsecond; for MAX_TIMESTAMP, itself."""
        return _shifted(self.micros, 1)

    def predecessor(self) -> Timestamp:
        """Return the microsecond before; for MIN_TIMESTAMP, itself."""
        return _shifted(self.micros, -1)

    # Results out of range raise ValueError, except that MAX_TIMESTAMP and MIN_TIMESTAMP, which stand for infinity, are
    # unchanged by additions.
    def __add__(self, other: DurationTypes) -> Timestamp:
        if not is_span(other):
            return NotImplemented
        return _shifted(self.micros, Duration.of(other).micros)

    __radd__ = __add__

    @overload
    def __sub__(self, other: Timestamp) -> Duration: ...
    @overload
    def __sub__(self, other: DurationTypes) -> Timestamp: ...
    def __sub__(self, other: Timestamp | DurationTypes) -> Duration | Timestamp:
        if isinstance(other, Timestamp):
            return Duration.of_micros(self.micros - other.micros)
        if not is_span(other):
            return NotImplemented
        return _shifted(self.micros, -Duration.of(other).micros)

    def __mod__(self, other: DurationTypes) -> Duration:
        if not is_span(other):
            return NotImplemented
        return Duration.of_micros(self.micros % Duration.of(other).micros)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_timestamp, (self.micros,))


@restores("timestamp", 1, Timestamp)
def _timestamp(micros: int) -> Timestamp:
    return Timestamp.of_micros(micros)


def in_range(micros: int) -> int:
    """Return a number of microseconds.  Raises `ValueError` if it is out of range.

    >>> in_range(5)
    5
    """
    if MIN_MICROS <= micros <= MAX_MICROS:
        return micros
    raise ValueError(
        f"expected a timestamp within [{MIN_MICROS // MICROS_PER_SECOND}, {MAX_MICROS // MICROS_PER_SECOND}] seconds, "
        f"got {micros / MICROS_PER_SECOND}; is it in milliseconds or microseconds, perhaps?"
    )


def _shifted(micros: int, by: int) -> Timestamp:
    if (micros == MAX_MICROS and by > 0) or (micros == MIN_MICROS and by < 0):
        return Timestamp.of_micros(micros)
    return Timestamp.of_micros(in_range(micros + by))


def micros_of(time_or_span: TimestampTypes | DurationTypes) -> int:
    """Return the microseconds of seconds, a Timestamp, an aware datetime, a Duration or a timedelta.

    >>> from penstock.windowing import Duration, micros_of
    >>> micros_of(2), micros_of(0.5), micros_of(Duration(3))
    (2000000, 500000, 3000000)
    """
    if type(time_or_span) is int:
        return time_or_span * MICROS_PER_SECOND
    if isinstance(time_or_span, (Timestamp, Duration)):
        return time_or_span.micros
    if isinstance(time_or_span, datetime):
        return Timestamp.of(time_or_span).micros
    if isinstance(time_or_span, timedelta):
        return micros_of_timedelta(time_or_span)
    return micros_of_seconds(time_or_span, "a number of seconds, a Timestamp or a Duration")


MIN_TIMESTAMP = Timestamp.of_micros(MIN_MICROS)
MAX_TIMESTAMP = Timestamp.of_micros(MAX_MICROS)
