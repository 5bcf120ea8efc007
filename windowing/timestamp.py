"""Timestamp: an instant of event time, in microseconds since 1970 (Dataflow Model, section 1.3).

The range is Beam's: the milliseconds that fit into a microsecond count of 64 bits.  Its ends stand for minus and plus
infinity.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from numbers import Real
from typing import Any, TypeAlias, Union, overload

from ..persistence import restores
from .duration import Duration, DurationTypes, is_span
from .microseconds import (
    MICROS_PER_SECOND,
    Microseconds,
    micros_of_datetime,
    micros_of_seconds,
    micros_of_timedelta,
    proto_module,
)

MIN_MICROS = -9_223_372_036_854_775_000
MAX_MICROS = 9_223_372_036_854_775_000

TimestampTypes: TypeAlias = Union[int, float, "Timestamp", datetime]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_POWERS: list[int] = [10**digits for digits in range(10)]


class Timestamp(Microseconds):
    """An instant of event time.

    Args:
      seconds: since 1970 in UTC; a float is rounded to the nearest microsecond.
      subseconds: added, in units of ten to the minus `precision` seconds.
      precision: the number of decimal digits, 0 to 9.  With others than 6 the instant is a `PreciseTimestamp`.
      micros: added, in microseconds; not beside `subseconds` or another precision.

    Raises `TypeError` for other values than numbers; `ValueError` for NaN, infinity, and instants outside of
    [MIN_TIMESTAMP, MAX_TIMESTAMP].

    >>> from penstock.windowing import Timestamp
    >>> Timestamp(1.5), Timestamp(micros=7), Timestamp(10) + 5, Timestamp(10) - Timestamp(4)
    (Timestamp(1.500000), Timestamp(0.000007), Timestamp(15), Duration(6))
    """

    __slots__ = ()

    MICROS_PRECISION = 6
    NANOS_PRECISION = 9

    def __new__(
        cls, seconds: float = 0, subseconds: int = 0, precision: int = 6, micros: int | None = None
    ) -> Timestamp:
        if precision == 6:
            return object.__new__(cls)
        if micros is not None:
            raise ValueError(f"micros are of precision 6, not {precision!r}; give subseconds instead")
        return PreciseTimestamp.of_total(_total_of(seconds, precision) + int(subseconds), precision)

    def __init__(self, seconds: float = 0, subseconds: int = 0, precision: int = 6, micros: int | None = None) -> None:
        if type(precision) is not int:
            raise TypeError(f"expected a precision of 0 to 9 digits, got {precision!r}")
        if micros is not None and subseconds:
            raise ValueError(f"micros and subseconds are mutually exclusive, got {micros!r} and {subseconds!r}")
        total = micros_of_seconds(seconds, "a timestamp in seconds") + int(subseconds)
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
        """Parse a date and time with a zone.  With 7 to 9 digits of seconds the result has that precision.

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
        micros = micros_of_datetime(dt)
        # A datetime drops the digits behind the sixth.
        finer = re.search(r":\d\d[.,]\d{6}(\d+)", rfc3339)
        if finer is None:
            return Timestamp.of_micros(micros)
        if len(finer[1]) > 3:
            raise ValueError(f"can't parse {rfc3339!r}: expected at most 9 digits of a second")
        return PreciseTimestamp.of_total(micros * _POWERS[len(finer[1])] + int(finer[1]), 6 + len(finer[1]))

    @staticmethod
    def from_proto(timestamp_proto: Any) -> Timestamp:
        """Convert a `google.protobuf.timestamp_pb2.Timestamp`, with fractions of microseconds, if it has any."""
        micros, rest = divmod(timestamp_proto.nanos, 1000)
        if rest:
            return Timestamp(timestamp_proto.seconds, timestamp_proto.nanos, Timestamp.NANOS_PRECISION)
        return Timestamp(timestamp_proto.seconds, micros=micros)

    def to_proto(self) -> Any:
        """Return a `google.protobuf.timestamp_pb2.Timestamp`.  Needs the package protobuf.

        >>> from penstock.windowing import Timestamp
        >>> Timestamp.from_proto(Timestamp(-1.5).to_proto())
        Timestamp(-1.500000)
        """
        return proto_module("timestamp_pb2").Timestamp(seconds=self.seconds(), nanos=1000 * self.subseconds())

    def to_utc_datetime(self, has_tz: bool = False, allow_lossy_conversion: bool = False) -> datetime:
        """Return a datetime in UTC.  Raises `OverflowError` outside of the years 1 to 9999.

        With `allow_lossy_conversion`, fractions of microseconds of a `PreciseTimestamp` are cut off.

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
        """Return the number of decimal digits of seconds."""
        return self.MICROS_PRECISION

    def to_precision(self, precision: int, allow_lossy_conversion: bool = False) -> Timestamp:
        """Return the instant with another number of digits.

        Raises `ValueError` if digits other than 0 are lost, unless it is allowed; they are cut off then.

        >>> from penstock.windowing import Timestamp
        >>> Timestamp(1.5).to_precision(3), Timestamp.from_rfc3339("1970-01-01T00:00:01.5Z").to_precision(9).nanos
        (Timestamp(1.500), 1500000000)
        """
        if precision == self.precision():
            return self
        total, rest = divmod(self.nanos, _POWERS[9 - _checked(precision)])
        if rest and not allow_lossy_conversion:
            raise ValueError(
                f"{self!r} cannot be represented exactly at precision {precision}; set allow_lossy_conversion=True to "
                "cut it off"
            )
        if precision == self.MICROS_PRECISION:
            return Timestamp.of_micros(total)
        return PreciseTimestamp.of_total(total, precision)

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


class PreciseTimestamp(Timestamp):
    """A `Timestamp` with another number of decimal digits of seconds than 6, such as one with nanoseconds.

    It is a value only: runners count the event times of elements in microseconds.  `micros` raises `ValueError` if
    there is a fraction; `to_precision(6, allow_lossy_conversion=True)` cuts them off.

    >>> from penstock.windowing import Timestamp
    >>> Timestamp(1, 123456789, Timestamp.NANOS_PRECISION) + 1
    Timestamp(2.123456789)
    """

    __slots__ = ("_precision", "_total")

    _precision: int
    _total: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: `Timestamp.__new__` has made this of the arguments."""

    @staticmethod
    def of_total(total: int, precision: int) -> PreciseTimestamp:
        """Return the timestamp of a number of units of ten to the minus `precision` seconds."""
        in_range(total * 10**6 // _POWERS[_checked(precision)])
        timestamp = object.__new__(PreciseTimestamp)
        timestamp._total, timestamp._precision = total, precision
        return timestamp

    @property
    def micros(self) -> int:  # type: ignore[override]
        """Microseconds since 1970.  Raises `ValueError` if there is a fraction of one."""
        micros, rest = divmod(self.nanos, 1000)
        if rest:
            raise ValueError(
                f"{self!r} has greater than microsecond precision; use to_precision(6, allow_lossy_conversion=True) "
                "to cut it off, or use nanos instead"
            )
        return micros

    @property
    def nanos(self) -> int:
        return self._total * _POWERS[self.NANOS_PRECISION - self._precision]

    def precision(self) -> int:
        return self._precision

    def seconds(self) -> int:
        return self._total // _POWERS[self._precision]

    def subseconds(self) -> int:
        return self._total % _POWERS[self._precision]

    def to_proto(self) -> Any:
        seconds, nanos = divmod(self.nanos, _POWERS[self.NANOS_PRECISION])
        return proto_module("timestamp_pb2").Timestamp(seconds=seconds, nanos=nanos)

    def to_utc_datetime(self, has_tz: bool = False, allow_lossy_conversion: bool = False) -> datetime:
        if self._precision > self.MICROS_PRECISION and not allow_lossy_conversion:
            raise ValueError(
                f"Converting {self!r} to datetime truncates it to microseconds. Set allow_lossy_conversion=True to "
                "allow this conversion."
            )
        return self.to_precision(self.MICROS_PRECISION, allow_lossy_conversion=True).to_utc_datetime(has_tz)

    def to_rfc3339(self) -> str:
        if self._precision <= self.MICROS_PRECISION:
            return super().to_rfc3339()
        whole = Timestamp(self.seconds()).to_utc_datetime().isoformat()
        digits = f".{self.subseconds():0{self._precision}d}" if self.subseconds() else ""
        return f"{whole}{digits}Z"

    def successor(self) -> Timestamp:
        """Return the next instant of this precision."""
        return PreciseTimestamp.of_total(self._total + 1, self._precision)

    def predecessor(self) -> Timestamp:
        """Return the instant of this precision before."""
        return PreciseTimestamp.of_total(self._total - 1, self._precision)

    def _beside(self, other: object) -> tuple[float, float] | None:
        if isinstance(other, Timestamp):
            return self.nanos, other.nanos
        if isinstance(other, Duration):
            return self.nanos, 1000 * other.micros
        if isinstance(other, int):
            return self.nanos, other * _POWERS[self.NANOS_PRECISION]
        return (float(self), float(other)) if isinstance(other, Real) else None

    def __hash__(self) -> int:
        return hash(float(self))

    def __float__(self) -> float:
        return self._total / _POWERS[self._precision]

    def __int__(self) -> int:
        return self.seconds()

    def __add__(self, other: DurationTypes) -> Timestamp:
        if not is_span(other):
            return NotImplemented
        return self._moved(Duration.of(other).micros)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Timestamp):
            return self._span(self.nanos - other.nanos)
        if not is_span(other):
            return NotImplemented
        return self._moved(-Duration.of(other).micros)

    def __rsub__(self, other: Any) -> Any:
        return self._span(other.nanos - self.nanos) if isinstance(other, Timestamp) else NotImplemented

    def __mod__(self, other: DurationTypes) -> Duration:
        if not is_span(other):
            return NotImplemented
        return self._span(self.nanos % (1000 * Duration.of(other).micros))

    def _moved(self, micros: int) -> Timestamp:
        nanos = self.nanos + 1000 * micros
        if self._precision <= self.MICROS_PRECISION:
            return Timestamp.of_micros(in_range(nanos // 1000))
        return PreciseTimestamp.of_total(nanos // _POWERS[self.NANOS_PRECISION - self._precision], self._precision)

    def _span(self, nanos: int) -> Duration:
        micros, rest = divmod(nanos, 1000)
        if rest:
            raise ValueError(
                f"the result for {self!r} has sub-microsecond precision, which a Duration cannot represent; cut the "
                "operands off by to_precision(6, allow_lossy_conversion=True) first"
            )
        return Duration.of_micros(micros)

    def __repr__(self) -> str:
        sign = "-" if self._total < 0 else ""
        whole, fraction = divmod(abs(self._total), _POWERS[self._precision])
        digits = f".{fraction:0{self._precision}d}" if fraction else ""
        return f"Timestamp({sign}{whole}{digits})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_precise_timestamp, (self._total, self._precision))


@restores("precise-timestamp", 1, PreciseTimestamp)
def _precise_timestamp(total: int, precision: int) -> PreciseTimestamp:
    return PreciseTimestamp.of_total(total, precision)


def _checked(precision: Any) -> int:
    """Return a number of digits.  Raises `TypeError` or `ValueError` for others than 0 to 9."""
    if type(precision) is not int:
        raise TypeError(f"expected a precision of 0 to 9 digits, got {precision!r}")
    if not 0 <= precision <= Timestamp.NANOS_PRECISION:
        raise ValueError(f"expected a precision of 0 to 9 digits, got {precision!r}")
    return precision


def _total_of(seconds: Any, precision: Any) -> int:
    """Return a number of seconds in units of ten to the minus `precision` seconds, cut off as in Beam."""
    unit = _POWERS[_checked(precision)]
    if isinstance(seconds, int):
        return seconds * unit
    # The check of other values.
    micros_of_seconds(seconds, "a timestamp in seconds")
    return int(float(seconds) * unit)


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
