"""Event time and windows: the lowest layer, which imports none of the others.

Read in this order:

microseconds.py         Microseconds: the base class of the next two
duration.py             Duration: a span of time
timestamp.py            Timestamp: an instant of event time
timestamped_value.py    TimestampedValue: a value and its event time
windows.py              BoundedWindow, IntervalWindow, GlobalWindow; watermarks of their completion and expiry
window_fn.py            WindowFn: assignment and merging of windows
timestamp_window_fn.py  TimestampWindowFn: assignment by the timestamp alone; the base class of the following
overlap.py              merging of overlapping windows
global_windows.py       GlobalWindows: everything in one window
fixed_windows.py        FixedWindows: windows of one size
sliding_windows.py      SlidingWindows: overlapping windows of one size
sessions.py             Sessions: activity up to a gap; the windows that merge
calendar_windows.py     CalendarDays, CalendarMonths, CalendarYears: in a time zone
buckets.py              buckets of timestamps that have the same windows
timestamp_combiner.py   TimestampCombiner: the timestamp of a window's result
"""

from .calendar_windows import CalendarDays, CalendarMonths, CalendarWindows, CalendarYears
from .duration import Duration, DurationTypes
from .fixed_windows import FixedWindows
from .global_windows import GlobalWindows
from .sessions import Sessions
from .sliding_windows import SlidingWindows
from .timestamp import (
    MAX_MICROS,
    MAX_TIMESTAMP,
    MIN_MICROS,
    MIN_TIMESTAMP,
    Timestamp,
    TimestampTypes,
    micros_of,
)
from .timestamp_combiner import TimestampCombiner, at_fire, combined, for_element
from .timestamp_window_fn import TimestampWindowFn
from .timestamped_value import TimestampedValue
from .window_fn import NonMergingWindowFn, WindowFn, checked_windows, default_window_mapping_fn
from .windows import GLOBAL_WINDOW, GLOBAL_WINDOW_MAX_MICROS, BoundedWindow, GlobalWindow, IntervalWindow

__all__ = [
    # Time.
    "Duration",
    "DurationTypes",
    "Timestamp",
    "TimestampTypes",
    "TimestampedValue",
    "micros_of",
    "MIN_MICROS",
    "MAX_MICROS",
    "MIN_TIMESTAMP",
    "MAX_TIMESTAMP",
    # Windows.
    "BoundedWindow",
    "IntervalWindow",
    "GlobalWindow",
    "GLOBAL_WINDOW",
    "GLOBAL_WINDOW_MAX_MICROS",
    # Window functions.
    "WindowFn",
    "NonMergingWindowFn",
    "TimestampWindowFn",
    "checked_windows",
    "default_window_mapping_fn",
    "GlobalWindows",
    "FixedWindows",
    "SlidingWindows",
    "Sessions",
    "CalendarWindows",
    "CalendarDays",
    "CalendarMonths",
    "CalendarYears",
    # Timestamps of results.
    "TimestampCombiner",
    "for_element",
    "combined",
    "at_fire",
]
