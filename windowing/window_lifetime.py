"""When a window is complete and when it expires, as watermarks.

A watermark of t promises that no element before t is to come (MillWheel, section 3.3).  The window [0, 10) is complete
at watermark 10: at 9.999999 an element of its last microsecond may still be on time.  The window expires when the
watermark is past its end plus the allowed lateness: with a lateness of 5 an element is kept at 15, and dropped after.

>>> from penstock.windowing import IntervalWindow
>>> end = end_of_window(IntervalWindow(0, 10))
>>> end, expiry_of(end, lateness=5_000_000)
(10000000, 15000001)
"""

from __future__ import annotations

from . import BoundedWindow
from .timestamp import MAX_MICROS


def lifetime_of(window: BoundedWindow, lateness: int) -> tuple[int, int]:
    """Return the least watermarks, in microseconds, at which a window is complete and at which it has expired."""
    end = window.max_micros + 1
    if end > MAX_MICROS:
        return MAX_MICROS, MAX_MICROS
    expiry = end + lateness + 1
    return end, expiry if expiry < MAX_MICROS else MAX_MICROS


def end_of_window(window: BoundedWindow) -> int:
    """Return the least watermark, in microseconds, at which a window is complete."""
    last = window.max_micros
    return last + 1 if last < MAX_MICROS else MAX_MICROS


def expiry_of(end: int, lateness: int) -> int:
    """Return the least watermark, in microseconds, at which a window that ends there has expired.

    At the end of time every window has expired.
    """
    expiry = end + lateness + 1
    return expiry if expiry < MAX_MICROS else MAX_MICROS
