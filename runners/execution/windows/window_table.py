"""Tables of window states: all windows of a grouping that are in memory, and those that have changed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Protocol, cast

from ....sdk.elements.bundle import Bundle
from ....windowing import BoundedWindow
from .cell_table import CellTable
from .window_state import UniformWindow, WindowState
from .window_timers import WindowTimes

_NONE: dict[Any, WindowState] = {}


class WindowsOnDisk(Protocol):
    """The windows of a table that aren't in memory (`spilled_windows.py`)."""

    def load_for(self, bundle: Bundle) -> None:
        """Load the windows that a bundle has elements of."""

    def load_due(self, order: int, time: int) -> int | None:
        """Load the first windows that are due up to a time, and return when the next ones are due."""

    def load_all(self) -> None:
        """Load all windows."""

    def spill_excess(self) -> None:
        """Spill windows if there are too many in memory."""


class WindowTable(CellTable):
    """The windows of a grouping with triggers, for windows that don't merge.

    Args:
      times: their due times and holds.
      begin: begins a uniform window.

    Attributes:
      is_merging: whether windows merge.
      by_window: uniform windows.  There are none where windows may be spilled, or merge.
      keyed: the windows whose keys have a state each, by window and key.
      times: their due times and holds.
      changed: the states that have changed since the last snapshot, removed ones among them; None without snapshots.
      gone: the keys of removed uniform windows that are in the last snapshot.
      spilled: the windows on disk; None if all are in memory.
    """

    is_merging = False

    def __init__(self, times: WindowTimes, begin: Callable[[BoundedWindow], UniformWindow]) -> None:
        super().__init__(begin)
        self.keyed: dict[BoundedWindow, dict[Any, WindowState]] = {}
        self.times = times
        self.changed: dict[WindowState, None] | None = None
        self.gone: list[tuple[BoundedWindow, list[Any]]] = []
        self.spilled: WindowsOnDisk | None = None

    def __len__(self) -> int:
        """Return the number of windows of all keys."""
        uniform = sum(len(window.accumulators) for window in self.by_window.values())
        return uniform + sum(map(len, self.keyed.values()))

    def all(self) -> list[WindowState]:
        """Return the windows of every key, each with a state."""
        self.separate_all()
        return self.states()

    def states(self) -> list[WindowState]:
        """Return the windows of every key that have a state each."""
        return [state for states in self.keyed.values() for state in states.values()]

    def has(self, state: WindowState) -> bool:
        """Return whether a window is still there."""
        return self.keyed.get(state.windows[0], _NONE).get(state.key) is state

    def has_any(self, key: Any, window: BoundedWindow | None) -> bool:
        """Return whether a key has a window."""
        return window is not None and key in self.keyed.get(window, _NONE)

    def states_of(self, key: Any, window: BoundedWindow | None) -> list[WindowState]:
        """Return a key's window, if it is there."""
        state = None if window is None else self.keyed.get(window, _NONE).get(key)
        return [] if state is None else [state]

    def of_key(self, key: Any) -> list[WindowState]:
        """Return every window of a key."""
        return [states[key] for states in self.keyed.values() if key in states]

    def put(self, state: WindowState) -> None:
        """Add a window of a snapshot, with its times and its hold."""
        self.add(state)
        self.times.put(state)

    def let_go(self, state: WindowState) -> None:
        """Remove a window, its times and its hold."""
        self.remove(state)
        state.event_time = state.processing_time = None
        if state.held is not None:
            self.times.release(state)

    def close(self, state: WindowState) -> None:
        """Remove a window that has expired, or has merged into another."""
        if self.changed is not None and type(state) is not UniformWindow:
            self.changed[state] = None
        self.let_go(state)

    def touch(self, state: WindowState) -> None:
        """Note that a window has changed since the last snapshot, if there was one."""
        if self.changed is None:
            return
        if type(state) is UniformWindow:
            state.changed.update(dict.fromkeys(state.accumulators))
        else:
            self.changed[state] = None

    def add(self, state: WindowState) -> None:
        """Add a window."""
        self.keyed.setdefault(state.windows[0], {})[state.key] = state

    def remove(self, state: WindowState) -> None:
        """Remove a window."""
        window = state.windows[0]
        if type(state) is UniformWindow:
            del self.by_window[window]
            if state.recorded:
                self.gone.append((window, list(islice(state.accumulators, state.recorded))))
            return
        states = self.keyed[window]
        del states[state.key]
        if not states:
            del self.keyed[window]

    # Uniform windows

    def separate(self, window: UniformWindow) -> None:
        """Make a state for each key of a uniform window."""
        del self.by_window[window.windows[0]]
        self.times.cancel(window)
        gone = window.fired if window.closes else 0
        if recorded := min(gone, window.recorded):
            self.gone.append((window.windows[0], list(islice(window.accumulators, recorded))))
        for index, state in enumerate(window.states()):
            if index < gone:
                continue
            self.put(state)
            if self.changed is not None and (index < window.fired or state.key in window.changed):
                self.changed[state] = None
        self.times.release(window)

    def separate_all(self, only_firing: bool = False) -> None:
        """Make a state for each key of every uniform window, or of those whose firing is under way only."""
        for window in list(self.by_window.values()):
            if not only_firing or window.unfired is not None:
                self.separate(window)

    def unify(self, window: BoundedWindow) -> None:
        """Make a window uniform whose states are in the last snapshot, and differ in their accumulators only."""
        states = self.keyed.pop(window)
        uniform = self.of(window)
        for key, state in states.items():
            uniform.accumulators[key] = state.accumulator
            state.event_time = state.processing_time = None
        uniform.recorded = len(states)

    # Changes since the last snapshot

    @property
    def number_changed(self) -> int:
        """Return the number of keys and windows that have changed, removed ones among them."""
        gone = sum(len(keys) for _, keys in self.gone)
        return len(self.changed or ()) + gone + sum(len(window.changed) for window in self.by_window.values())

    def forget_changes(self) -> list[dict[Any, None]]:
        """Count all windows as recorded by a snapshot; return the former logs of changes."""
        forgotten: list[dict[Any, None]] = [] if self.changed is None else [cast(dict[Any, None], self.changed)]
        self.changed = {}
        self.gone = []
        for window in self.by_window.values():
            forgotten.append(window.changed)
            window.changed = {}
            window.recorded = len(window.accumulators)
        return forgotten
