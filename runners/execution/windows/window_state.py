"""WindowState: what a grouping keeps of one key's window until it expires."""

from __future__ import annotations

from typing import Any

from ....sdk.bundle import Windows
from ....triggers import PaneInfo
from ....windowing import BoundedWindow
from .trigger_state import Decision

# A pane that stands: (pair of key and value, timestamp, windows, pane info).
Standing = tuple[Any, int, Windows, PaneInfo]


class WindowState:
    """One key's window.

    Attributes:
      windows: the window, as the windows of an element.
      end, expiry: the watermarks at which it is complete, and at which it is forgotten.
      accumulator: what has been folded: since the last pane when discarding, else from the start.
      has_new: whether anything has come since the last pane.
      stamp: what the timestamp combiner keeps; None at the end of the window, and where no element counts.
      held: the hold that this window has on the watermark.
      decision: the trigger's last one, with what it remembers.
      panes, on_time_panes: how many there have been; those that weren't early.
      was_on_time: whether it has fired since the watermark passed its end.
      pair, timestamp, pane_windows, pane: the pane that stands: that was emitted and not
        retracted, in RETRACTING mode.  No tuple of them, which the garbage collector
        would go through again and again.  There is none if `pane` is None.
      replaced: the panes that stand of windows that have merged into this one.
      event_time, processing_time: when it is to be looked at again.
    """

    __slots__ = (
        "accumulator",
        "decision",
        "end",
        "event_time",
        "expiry",
        "has_new",
        "held",
        "key",
        "on_time_panes",
        "pair",
        "pane",
        "pane_windows",
        "panes",
        "processing_time",
        "replaced",
        "stamp",
        "timestamp",
        "was_on_time",
        "windows",
    )

    def __init__(self, key: Any, windows: Windows, end: int, expiry: int, accumulator: Any, decision: Decision) -> None:
        self.key = key
        self.windows = windows
        self.end = end
        self.expiry = expiry
        self.accumulator = accumulator
        self.decision = decision
        self.has_new = self.was_on_time = False
        self.stamp: int | None = None
        self.held: int | None = None
        self.panes = self.on_time_panes = 0
        self.pair: Any = None
        self.timestamp = 0
        self.pane_windows = windows
        self.pane: PaneInfo | None = None
        self.replaced: tuple[Standing, ...] = ()
        self.event_time: int | None = None
        self.processing_time: int | None = None

    @property
    def window(self) -> BoundedWindow:
        """The window."""
        return self.windows[0]

    @property
    def standing(self) -> tuple[Standing, ...]:
        """All panes that stand."""
        if self.pane is None:
            return self.replaced
        return ((self.pair, self.timestamp, self.pane_windows, self.pane), *self.replaced)

    def place(self, window: BoundedWindow, end: int, expiry: int) -> None:
        """Have it stand for another window, as when windows merge."""
        self.windows = (window,)
        self.end = end
        self.expiry = expiry

    def cancel(self) -> None:
        """It is not to be looked at again."""
        self.event_time = self.processing_time = None
