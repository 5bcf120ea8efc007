"""GlobalWindows: everything in one window (Dataflow Model, section 2.2)."""

from __future__ import annotations

from .timestamp_window_fn import TimestampWindowFn
from .window_fn import NonMergingWindowFn
from .windows import GLOBAL_WINDOW, BoundedWindow

_WINDOWS: tuple[BoundedWindow, ...] = (GLOBAL_WINDOW,)


class GlobalWindows(TimestampWindowFn, NonMergingWindowFn):
    """Puts every element into the one GlobalWindow; what a PCollection has that was never windowed.

    >>> from penstock.windowing import GlobalWindows
    >>> GlobalWindows().assign_micros(0)
    (GlobalWindow,)
    """

    def assign_micros(self, micros: int) -> tuple[BoundedWindow, ...]:
        """The global window."""
        return _WINDOWS

    def bucket_expression(self, t: str) -> str:
        """One bucket."""
        return "0"

    def side_input_window(self, main_window: BoundedWindow) -> BoundedWindow:
        """The global window."""
        return GLOBAL_WINDOW
