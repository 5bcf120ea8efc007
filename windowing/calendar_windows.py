"""Calendar windows: days, months and years in a time zone.

A day may have 23 or 25 hours: a window ends when the local date changes, not after 24 hours.  There are no dates
outside of the years 1 to 9999: the first window begins at MIN_TIMESTAMP, and the last one ends at MAX_TIMESTAMP.

Source: Beam's CalendarWindows (Java), and the time zones of Python's zoneinfo.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from .timestamp import MAX_MICROS, MIN_MICROS
from .timestamp_window_fn import TimestampWindowFn
from .window_fn import NonMergingWindowFn
from .windows import IntervalWindow

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DATE = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000

# Dates that are within the calendar in every time zone.
_FIRST = (datetime(1, 1, 3, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime(9999, 12, 29, tzinfo=UTC) - _EPOCH) // _MICROSECOND

# Windows are cached by quarter of an hour: in present zones none begins within one.  If one does, as in former zones,
# the two windows share a cache entry, which is replaced alternately.
_QUARTER = 900_000_000
_REMEMBERED = 10_000


class CalendarWindows(TimestampWindowFn, NonMergingWindowFn):
    """Windows that begin at local midnight of certain dates, which a subclass defines.

    >>> from penstock.window import CalendarMonths, CalendarWindows
    >>> issubclass(CalendarMonths, CalendarWindows), CalendarMonths(3, time_zone="Europe/Berlin")
    (True, CalendarMonths(n=3, time_zone='Europe/Berlin', day_of_month=1, start=datetime.date(1970, 1, 1)))
    """

    def __init__(self, n: int, time_zone: str | ZoneInfo) -> None:
        self.n = whole_number("n", n, 1)
        self._zone = _zone(time_zone)
        self.time_zone = time_zone if isinstance(time_zone, str) else str(time_zone)
        self._recent: dict[int, tuple[IntervalWindow]] = {}

    def _number_of(self, day: date) -> int:
        """Return the number of the window of a local date."""
        raise NotImplementedError

    def _first_day(self, number: int) -> date:
        """Return the first local date of a window.  Raises `ValueError` or `OverflowError` if there is none."""
        raise NotImplementedError

    def assign_micros(self, micros: int) -> tuple[IntervalWindow, ...]:
        """Return the window of a timestamp."""
        found = self._recent.get(micros // _QUARTER)
        if found is not None and found[0][0] <= micros < found[0][1]:
            return found
        if len(self._recent) >= _REMEMBERED:
            self._recent.clear()
        found = self._recent[micros // _QUARTER] = (self._window(micros),)
        return found

    # By the local date first.  If the clocks change around midnight, the date may change twice or not at all, so the
    # instants at which windows begin decide.
    def _window(self, micros: int) -> IntervalWindow:
        micros = min(max(micros, _FIRST), _LAST)
        local = (_EPOCH + timedelta(microseconds=micros)).astimezone(self._zone)
        number = self._number_of(local.date())
        while self._begins(number) > micros:
            number -= 1
        while self._begins(number + 1) <= micros:
            number += 1
        start, end = self._begins(number), self._begins(number + 1)
        return IntervalWindow.of_micros(
            MIN_MICROS if start <= _FIRST else start,
            MAX_MICROS + 1 if end > _LAST else end,
        )

    def _begins(self, number: int) -> int:
        try:
            return _midnight(self._first_day(number), self._zone)
        except (ValueError, OverflowError):
            return MIN_MICROS if number < self._number_of(_EPOCH_DATE) else MAX_MICROS + 1

    def bucket_of(self, micros: Any) -> Any:
        """Return the number of the day in UTC: there all windows begin at midnight."""
        return micros // _DAY

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_recent": {}}


class CalendarDays(CalendarWindows):
    """Windows of `n` days.

    Args:
      n: days in a window.
      time_zone: the time zone, such as "Europe/Berlin".
      start: the first date of a window, if n is more than 1.

    Raises `ValueError` if n isn't a positive integer, and for an unknown time zone.

    >>> from penstock.windowing import CalendarDays, Timestamp
    >>> spring = Timestamp.from_rfc3339("2024-03-31T12:00:00Z")
    >>> [window] = CalendarDays(time_zone="Europe/Berlin").assign_micros(spring.micros)
    >>> float(window.end - window.start) / 3600
    23.0
    """

    def __init__(self, n: int = 1, time_zone: str | ZoneInfo = "UTC", start: date = _EPOCH_DATE) -> None:
        super().__init__(n, time_zone)
        self.start = _date("start", start)

    def _number_of(self, day: date) -> int:
        return (day.toordinal() - self.start.toordinal()) // self.n

    def _first_day(self, number: int) -> date:
        return date.fromordinal(self.start.toordinal() + number * self.n)


class CalendarMonths(CalendarWindows):
    """Windows of `n` months.

    Args:
      n: months in a window.
      day_of_month: the day on which they begin, 1 to 28.
      time_zone: the time zone, such as "Europe/Berlin".
      start: a date in the first month of a window, if n is more than 1.

    Raises `ValueError` for an argument out of its range and for an unknown time zone.

    >>> from penstock.windowing import CalendarMonths, Timestamp
    >>> [window] = CalendarMonths().assign_micros(Timestamp.from_rfc3339("2024-02-10T00:00:00Z").micros)
    >>> window.start.to_rfc3339(), window.end.to_rfc3339()
    ('2024-02-01T00:00:00Z', '2024-03-01T00:00:00Z')
    """

    def __init__(
        self, n: int = 1, day_of_month: int = 1, time_zone: str | ZoneInfo = "UTC", start: date = _EPOCH_DATE
    ) -> None:
        super().__init__(n, time_zone)
        self.day_of_month = whole_number("day_of_month", day_of_month, 1, 28)
        self.start = _date("start", start)

    def _number_of(self, day: date) -> int:
        started = day.day >= self.day_of_month
        return (_months(day) - _months(self.start) - (not started)) // self.n

    def _first_day(self, number: int) -> date:
        year, month = divmod(_months(self.start) + number * self.n, 12)
        return date(year, month + 1, self.day_of_month)


class CalendarYears(CalendarWindows):
    """Windows of `n` years.

    Args:
      n: years in a window.
      month_of_year, day_of_month: the date on which they begin, any but February 29.
      time_zone: the time zone, such as "Europe/Berlin".
      start: a date in the first year of a window, if n is more than 1.

    Raises `ValueError` for an argument out of its range and for an unknown time zone.

    >>> from penstock.windowing import CalendarYears, Timestamp
    >>> [window] = CalendarYears(month_of_year=7).assign_micros(Timestamp.from_rfc3339("2024-02-10T00:00:00Z").micros)
    >>> window.start.to_rfc3339(), window.end.to_rfc3339()
    ('2023-07-01T00:00:00Z', '2024-07-01T00:00:00Z')
    """

    def __init__(
        self,
        n: int = 1,
        month_of_year: int = 1,
        day_of_month: int = 1,
        time_zone: str | ZoneInfo = "UTC",
        start: date = _EPOCH_DATE,
    ) -> None:
        super().__init__(n, time_zone)
        self.month_of_year = whole_number("month_of_year", month_of_year, 1, 12)
        # 2001 is no leap year.
        days = (date(2001 + month_of_year // 12, month_of_year % 12 + 1, 1) - date(2001, month_of_year, 1)).days
        self.day_of_month = whole_number("day_of_month", day_of_month, 1, days)
        self.start = _date("start", start)

    def _number_of(self, day: date) -> int:
        started = (day.month, day.day) >= (self.month_of_year, self.day_of_month)
        return (day.year - self.start.year - (not started)) // self.n

    def _first_day(self, number: int) -> date:
        return date(self.start.year + number * self.n, self.month_of_year, self.day_of_month)


def _midnight(day: date, zone: tzinfo) -> int:
    """Return the first instant, in microseconds, at which the local date is this day or a later one.

    If midnight occurs twice, the first one counts.

    >>> _midnight(date(1970, 1, 2), UTC)
    86400000000
    """
    midnight = datetime.combine(day, time(), zone)
    by_old_offset = (midnight - _EPOCH) // _MICROSECOND
    by_new_offset = (midnight.replace(fold=1) - _EPOCH) // _MICROSECOND
    if by_old_offset <= by_new_offset:
        return by_old_offset
    # The clocks were set forward over midnight, between the two.
    before, after = by_new_offset - 1, by_old_offset
    while after - before > 1:
        middle = (before + after) // 2
        if (_EPOCH + timedelta(microseconds=middle)).astimezone(zone).date() < day:
            before = middle
        else:
            after = middle
    return after


def _months(day: date) -> int:
    return day.year * 12 + day.month - 1


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return an argument.  Raises `ValueError` unless it is an integer within bounds.

    >>> whole_number("n", 3, 1)
    3
    """
    if isinstance(value, int) and not isinstance(value, bool) and least <= value and (most is None or value <= most):
        return value
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise ValueError(f"{name} must be an integer {bounds}, got {value!r}")


def _date(name: str, value: Any) -> date:
    if isinstance(value, date):
        return value.date() if isinstance(value, datetime) else value
    raise ValueError(f"{name} must be a datetime.date, got {value!r}")


def _zone(time_zone: Any) -> tzinfo:
    if time_zone == "UTC":
        return UTC
    # Takes longer to import than all windows together.
    from zoneinfo import ZoneInfo

    if isinstance(time_zone, ZoneInfo) and time_zone.key == "UTC":
        return UTC
    if isinstance(time_zone, ZoneInfo):
        return time_zone
    try:
        return ZoneInfo(time_zone)
    except (LookupError, ValueError, TypeError, OSError) as error:
        raise ValueError(f"time_zone must be a name such as 'Europe/Berlin', got {time_zone!r}: {error}") from error
