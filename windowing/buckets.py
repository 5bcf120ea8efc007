"""Buckets of timestamps: all timestamps of one bucket have the same windows.

A runner assigns windows once for each bucket instead of once for each element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .calendar_windows import CalendarDays, CalendarMonths, CalendarYears
from .fixed_windows import FixedWindows
from .global_windows import GlobalWindows
from .sliding_windows import SlidingWindows
from .window_fn import WindowFn

_CALENDARS = CalendarDays, CalendarMonths, CalendarYears
_BUCKETED = FixedWindows, GlobalWindows, SlidingWindows, *_CALENDARS


def bucketing(window_fn: WindowFn) -> Callable[[Any], Any] | None:
    """Return a window function's `bucket_of`; None for one without buckets, such as a user's.

    `bucket_of` takes a timestamp in microseconds, or a NumPy array of timestamps.  A subclass of a built-in window
    function may override any of its methods, and so has no buckets.

    >>> from penstock.windowing import CalendarDays, FixedWindows
    >>> bucketing(FixedWindows(60))(90_000_000), bucketing(CalendarDays(1, time_zone="Europe/Berlin"))
    (1, None)
    """
    fn: Any = window_fn
    # Other time zones have changed their offsets too often for one formula.
    if type(fn) not in _BUCKETED or (type(fn) in _CALENDARS and fn.time_zone != "UTC"):
        return None
    return fn.bucket_of  # type: ignore[no-any-return]
