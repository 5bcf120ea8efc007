"""WindowState: what a grouping keeps of one key's window until it expires."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ...sdk.bundle import Bundle, Windows
from ...triggers import PaneInfo, PaneInfoTiming
from ...windowing import BoundedWindow

# A pane that was emitted: (pair of key and value, timestamp, windows, pane info).
Row = tuple[Any, int, Windows, PaneInfo]


class WindowState:
    """One key's window.

    Attributes:
      windows: the window, as the windows of an element; end: its last microsecond.
      expiry: when it is forgotten.
      accumulator: what has been folded: since the last pane when discarding, else from the start.
      has_new: whether anything has come since the last pane.
      stamp: what the timestamp combiner keeps; None at the end of the window.
      held: the hold that this window has on the watermark.
      trigger_state: what the trigger remembers; is_finished: it will not fire again.
      panes, on_time_panes: how many there have been; those that weren't early.
      was_on_time: whether it has fired since the watermark passed its end.
      standing: what has been emitted and not retracted, in RETRACTING mode.
      event_time, processing_time: when it is to be looked at again.
    """

    __slots__ = (
        "accumulator",
        "end",
        "event_time",
        "expiry",
        "has_new",
        "held",
        "is_finished",
        "key",
        "on_time_panes",
        "panes",
        "processing_time",
        "stamp",
        "standing",
        "trigger_state",
        "was_on_time",
        "windows",
    )

    def __init__(self, key: Any, window: BoundedWindow, end: int, expiry: int, accumulator: Any) -> None:
        self.key = key
        self.windows = (window,)
        self.end = end
        self.expiry = expiry
        self.accumulator = accumulator
        self.trigger_state: Any = None
        self.is_finished = self.has_new = self.was_on_time = False
        self.stamp: int | None = None
        self.held: int | None = None
        self.panes = self.on_time_panes = 0
        self.standing: tuple[Row, ...] = ()
        self.event_time: int | None = None
        self.processing_time: int | None = None

    @property
    def window(self) -> BoundedWindow:
        """The window."""
        return self.windows[0]

    def place(self, window: BoundedWindow, end: int, expiry: int) -> None:
        """Have it stand for another window, as when windows merge."""
        self.windows = (window,)
        self.end = end
        self.expiry = expiry

    def cancel(self) -> None:
        """It is not to be looked at again."""
        self.event_time = self.processing_time = None


# Most panes of a stream are like many others of it.
@lru_cache(maxsize=4096)
def pane_of(index: int, on_time_panes: int, timing: PaneInfoTiming, is_last: bool) -> PaneInfo:
    """The info of a window's next pane, after so many.

    >>> pane_of(2, 0, PaneInfoTiming.EARLY, False).nonspeculative_index
    -1
    """
    number = -1 if timing is PaneInfoTiming.EARLY else on_time_panes
    return PaneInfo(is_first=index == 0, is_last=is_last, timing=timing, index=index, nonspeculative_index=number)


class Rows:
    """Panes on their way out, and their signs."""

    __slots__ = ("rows", "signs")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.signs: list[int] = []

    def add(self, row: Row, sign: int) -> None:
        """Put out a pane, or take it back."""
        self.rows.append(row)
        self.signs.append(sign)

    def taken(self) -> Bundle | None:
        """What has been put out since the last time, if anything."""
        rows, signs = self.rows, self.signs
        if not rows:
            return None
        self.rows, self.signs = [], []
        values, timestamps, windows, panes = map(list, zip(*rows, strict=True))
        return Bundle(values, timestamps, windows, panes, signs if -1 in signs else 1)
