"""GlobalWindows: everything in one window (Dataflow Model, section 2.2)."""

from __future__ import annotations

from .timestamp_window_fn import TimestampWindowFn
from .window_fn import NonMergingWindowFn
from .windows import GLOBAL_WINDOW, BoundedWindow

_WINDOWS: tuple[BoundedWindow, ...] = (GLOBAL_WINDOW,)


class GlobalWindows(TimestampWindowFn, NonMergingWindowFn):
    """Window function that assigns every element to the GlobalWindow: the default of a PCollection.

    >>> from penstock.windowing import GlobalWindows
    >>> GlobalWindows().assign_micros(0)
    (GlobalWindow,)
    """

    def assign_micros(self, micros: int) -> tuple[BoundedWindow, ...]:
        """Return the global window."""
        return _WINDOWS

    def bucket_expression(self, t: str) -> str:
        """Return the expression of a single bucket."""
        return "0"

    def side_input_window(self, main_window: BoundedWindow) -> BoundedWindow:
        """Return the global window."""
        return GLOBAL_WINDOW
