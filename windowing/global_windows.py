"""GlobalWindows: everything in one window (Dataflow Model, section 2.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .timestamp import MIN_TIMESTAMP, TimestampTypes
from .timestamp_window_fn import TimestampWindowFn
from .window_fn import NonMergingWindowFn
from .windows import GLOBAL_WINDOW, BoundedWindow

T = TypeVar("T")

_WINDOWS: tuple[BoundedWindow, ...] = (GLOBAL_WINDOW,)
_windowed_value: Callable[..., Any]


def makes_windowed_values(make: type[T]) -> type[T]:
    """Register the class `WindowedValue`, which has a pane, and so is above windows."""
    global _windowed_value
    _windowed_value = make
    return make


class GlobalWindows(TimestampWindowFn, NonMergingWindowFn):
    """Window function that assigns every element to the GlobalWindow: the default of a PCollection.

    >>> from penstock.windowing import GlobalWindows
    >>> GlobalWindows().assign_micros(0)
    (GlobalWindow,)
    """

    def assign_micros(self, micros: int) -> tuple[BoundedWindow, ...]:
        """Return the global window."""
        return _WINDOWS

    @staticmethod
    def windowed_value(value: Any, timestamp: TimestampTypes = MIN_TIMESTAMP, **pane: Any) -> Any:
        """Return a `WindowedValue` in the global window.

        Args:
          timestamp: by default the earliest one.
          pane: `pane_info`, by default unknown.
        """
        return _windowed_value(value, timestamp, _WINDOWS, **pane)

    def bucket_of(self, micros: Any) -> Any:
        """Return the same bucket for all timestamps."""
        return 0

    def side_input_window(self, main_window: BoundedWindow) -> BoundedWindow:
        """Return the global window."""
        return GLOBAL_WINDOW
