"""The state that a grouping keeps of a window: of one key, or of all keys while they differ in accumulators only.

Most windows emit one pane, when the watermark passes their end.  All keys of such a window have the same trigger state,
due times and pane index.  A `UniformWindow` keeps these once, and a dictionary of accumulators.  So a key costs an
entry of a dictionary instead of a `WindowState`, and the window is scheduled, fires and expires as one.

Before keys differ otherwise, the table *separates* the window into a `WindowState` for each key
(`WindowTable.separate`).  That happens when an element comes for a window that is complete, when a signal or a
percentile watermark concerns all windows, and when a snapshot is taken while a firing is under way.

>>> from penstock.windowing import IntervalWindow
>>> decision = Decision(False, True, False, 60_000_000, None)
>>> window = UniformWindow((IntervalWindow(0, 60),), 60_000_000, 60_000_001, decision)
>>> window.accumulators["tea"] = 5
>>> [(state.key, state.accumulator, state.has_new) for state in window.states()]
[('tea', 5, True)]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ....sdk.elements.bundle import Windows
from ....triggers import PaneInfo
from ....windowing import BoundedWindow
from .trigger_state import Decision

# The current pane of a window, which was emitted and not retracted: (pair of key and value, timestamp, windows, pane
# info).
CurrentPane = tuple[Any, int, Windows, PaneInfo]


class WindowState:
    """One key's window.

    Attributes:
      windows: the window, as the windows of an element.
      end, expiry: the watermarks at which the window is complete, and at which it expires.
      accumulator: the elements folded since the last pane in DISCARDING mode, else since the start.
      has_new: whether there are elements since the last pane.
      stamp: the timestamp that the timestamp combiner keeps; None for the end of the window, and if no element counts.
      held: where the window holds the output watermark; None if it doesn't.
      decision: the trigger's last decision, with the trigger's state.
      panes, on_time_panes: the number of panes, and of those that weren't early.
      was_on_time: whether the window has fired since the watermark passed its end.
      pair, timestamp, pane_windows, pane: the current pane, in RETRACTING mode; `pane` is None if there is none.
        They are four slots instead of a tuple, which the garbage collector would traverse again and again.
      replaced: the current panes of windows that have merged into this one.
      event_time, processing_time: the times at which the window is due.
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
        self.replaced: tuple[CurrentPane, ...] = ()
        self.event_time: int | None = None
        self.processing_time: int | None = None

    @property
    def window(self) -> BoundedWindow:
        """Return the window."""
        return self.windows[0]

    @property
    def current_panes(self) -> tuple[CurrentPane, ...]:
        """Return all current panes."""
        if self.pane is None:
            return self.replaced
        return ((self.pair, self.timestamp, self.pane_windows, self.pane), *self.replaced)

    def move_to(self, window: BoundedWindow, end: int, expiry: int) -> None:
        """Make it the state of another window, as when windows merge."""
        self.windows = (window,)
        self.end = end
        self.expiry = expiry


class UniformWindow(WindowState):
    """The state that all keys of a window share: they differ in their accumulators only.

    `key` and `accumulator` are those of no key.

    Attributes:
      accumulators: the accumulators, by key.  Keys keep the order in which they were added.
      changed: the keys that have changed since the last snapshot.
      recorded: the number of keys in the last snapshot, which are the first ones.
      fired: the number of keys, the first ones, that have had their pane in a firing that is under way.
      unfired: the other cells; None if there are none, or no firing is under way.
      fired_decision: the decision about keys that have had their pane.
      closes: whether the pane is the last one.
      is_firing: whether a firing is under way.
      is_on_disk: whether cells have been spilled.  Then `accumulators` are those since, which may be of the same keys,
        and of one key group during a firing.
    """

    __slots__ = (
        "accumulators",
        "changed",
        "closes",
        "fired",
        "fired_decision",
        "is_firing",
        "is_on_disk",
        "recorded",
        "unfired",
    )

    def __init__(self, windows: Windows, end: int, expiry: int, decision: Decision) -> None:
        super().__init__(None, windows, end, expiry, None, decision)
        self.has_new = True
        self.accumulators: dict[Any, Any] = {}
        self.changed: dict[Any, None] = {}
        self.recorded = self.fired = 0
        self.unfired: Iterator[tuple[Any, Any]] | None = None
        self.fired_decision = decision
        self.closes = self.is_firing = self.is_on_disk = False

    def states(self, keys: Iterable[Any] | None = None) -> Iterator[WindowState]:
        """Yield a state for each key, of all keys or of some, which is not scheduled yet."""
        for index, key in enumerate(self.accumulators if keys is None else keys):
            yield self.state(key, self.accumulators[key], index < self.fired)

    def state(self, key: Any, accumulator: Any, has_fired: bool) -> WindowState:
        """Return a state for a key.

        Args:
          has_fired: whether the key has had its pane in a firing that is under way.
        """
        decision = self.fired_decision if has_fired else self.decision
        state = WindowState(key, self.windows, self.end, self.expiry, accumulator, decision)
        if has_fired:
            state.was_on_time = True
            state.panes = state.on_time_panes = 1
        else:
            state.has_new, state.was_on_time, state.held = self.has_new, self.was_on_time, self.held
            state.panes, state.on_time_panes = self.panes, self.on_time_panes
        return state
