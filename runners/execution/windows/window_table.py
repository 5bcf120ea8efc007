"""Tables of window states: all windows of a grouping that are in memory, and those that have changed."""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import Any, Protocol, cast

from ....sdk.elements.bundle import Bundle
from ....windowing import BoundedWindow
from .trigger_state import Decision
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


class WindowTable:
    """The windows of a grouping, for windows that don't merge.

    Args:
      times: their due times and holds.

    Attributes:
      is_merging: whether windows merge.
      by_window: the windows whose keys have a state each, by window and key.
      uniform: the other windows.  There are none where windows may be spilled, or merge.
      times: their due times and holds.
      changed: the states that have changed since the last snapshot, removed ones among them; None without snapshots.
      gone: the keys of removed uniform windows that are in the last snapshot.
      spilled: the windows on disk; None if all are in memory.
    """

    is_merging = False

    def __init__(self, times: WindowTimes) -> None:
        self.by_window: dict[BoundedWindow, dict[Any, WindowState]] = {}
        self.uniform: dict[BoundedWindow, UniformWindow] = {}
        self.times = times
        self.changed: dict[WindowState, None] | None = None
        self.gone: list[tuple[BoundedWindow, list[Any]]] = []
        self.spilled: WindowsOnDisk | None = None

    def __len__(self) -> int:
        """Return the number of windows of all keys."""
        uniform = sum(len(window.accumulators) for window in self.uniform.values())
        return uniform + sum(map(len, self.by_window.values()))

    def all(self) -> list[WindowState]:
        """Return the windows of every key, each with a state."""
        for window in list(self.uniform.values()):
            self.separate(window)
        return self.states()

    def states(self) -> list[WindowState]:
        """Return the windows of every key that have a state each."""
        return [state for states in self.by_window.values() for state in states.values()]

    def has(self, state: WindowState) -> bool:
        """Return whether a window is still there."""
        return self.by_window.get(state.windows[0], _NONE).get(state.key) is state

    def has_any(self, key: Any, window: BoundedWindow | None) -> bool:
        """Return whether a key has a window."""
        return window is not None and key in self.by_window.get(window, _NONE)

    def of(self, key: Any, window: BoundedWindow | None) -> list[WindowState]:
        """Return a key's window, if it is there."""
        state = None if window is None else self.by_window.get(window, _NONE).get(key)
        return [] if state is None else [state]

    def of_key(self, key: Any) -> list[WindowState]:
        """Return every window of a key."""
        return [states[key] for states in self.by_window.values() if key in states]

    def put(self, state: WindowState) -> None:
        """Add a window of a snapshot, with its times and its hold."""
        self.add(state)
        self.times.put(state)

    def let_go(self, state: WindowState) -> None:
        """Remove a window, its times and its hold."""
        self.remove(state)
        state.cancel()
        self.times.release(state)

    def add(self, state: WindowState) -> None:
        """Add a window."""
        self.by_window.setdefault(state.windows[0], {})[state.key] = state

    def remove(self, state: WindowState) -> None:
        """Remove a window."""
        window = state.windows[0]
        states = self.by_window[window]
        del states[state.key]
        if not states:
            del self.by_window[window]

    # Uniform windows

    def begin(self, window: UniformWindow) -> None:
        """Add a uniform window, without keys yet."""
        self.uniform[window.windows[0]] = window
        self.times.event_times.add(window.end, window)

    def close(self, window: UniformWindow, count: int) -> None:
        """Remove a uniform window, whose first keys have been emitted; separate the others."""
        if recorded := min(count, window.recorded):
            self.gone.append((window.windows[0], list(islice(window.accumulators, recorded))))
        self.separate(window, count)

    def separate(self, window: UniformWindow, start: int = 0) -> None:
        """Make a state for each key of a uniform window, without the first ones."""
        del self.uniform[window.windows[0]]
        self.times.event_times.discard(window.end, window)
        if start == len(window.accumulators):
            return
        states = self.by_window[window.windows[0]] = {}
        for state in window.states(islice(window.accumulators, start, None)):
            states[state.key] = state
            self.times.schedule(state)
            if self.changed is not None and state.key in window.changed:
                self.changed[state] = None

    def unify(self, window: BoundedWindow, decision: Decision) -> None:
        """Make a window uniform whose states are in the last snapshot, and differ in their accumulators only."""
        states = self.by_window.pop(window)
        first = next(iter(states.values()))
        uniform = UniformWindow(first.windows, first.end, first.expiry, decision)
        self.begin(uniform)
        for key, state in states.items():
            uniform.accumulators[key] = state.accumulator
            state.cancel()
        uniform.recorded = len(states)

    # Changes since the last snapshot

    @property
    def number_changed(self) -> int:
        """Return the number of keys and windows that have changed, removed ones among them."""
        gone = sum(len(keys) for _, keys in self.gone)
        return len(self.changed or ()) + gone + sum(len(window.changed) for window in self.uniform.values())

    def forget_changes(self) -> list[dict[Any, None]]:
        """Count all windows as recorded by a snapshot; return the former logs of changes."""
        forgotten: list[dict[Any, None]] = [] if self.changed is None else [cast(dict[Any, None], self.changed)]
        self.changed = {}
        self.gone = []
        for window in self.uniform.values():
            forgotten.append(window.changed)
            window.changed = {}
            window.recorded = len(window.accumulators)
        return forgotten


class MergingWindowTable(WindowTable):
    """The same for windows that merge.

    Args:
      is_sorted: whether a key's windows are intervals that merge by overlap: they are kept in order.

    Attributes:
      by_key: the windows and their states, side by side, by key.
    """

    is_merging = True

    def __init__(self, times: WindowTimes, is_sorted: bool) -> None:
        super().__init__(times)
        self.by_key: dict[Any, tuple[list[Any], list[WindowState]]] = {}
        self._is_sorted = is_sorted

    def __len__(self) -> int:
        """Return the number of keys that have windows."""
        return len(self.by_key)

    def states(self) -> list[WindowState]:
        """Return the windows of every key."""
        return [state for _, own in self.by_key.values() for state in own]

    def has(self, state: WindowState) -> bool:
        """Return whether a window is still there."""
        return state in self.of_key(state.key)

    def has_any(self, key: Any, window: BoundedWindow | None) -> bool:
        """Return whether a key has any window."""
        return key in self.by_key

    def of(self, key: Any, window: BoundedWindow | None) -> list[WindowState]:
        """Return every window of a key."""
        return self.of_key(key)

    def of_key(self, key: Any) -> list[WindowState]:
        """Return every window of a key."""
        found = self.by_key.get(key)
        return [] if found is None else list(found[1])

    def add(self, state: WindowState) -> None:
        """Add a window that merges with no other one."""
        windows, states = self.by_key.setdefault(state.key, ([], []))
        place = bisect_left(windows, state.windows[0]) if self._is_sorted else len(windows)
        windows.insert(place, state.windows[0])
        states.insert(place, state)

    def remove(self, state: WindowState) -> None:
        """Remove a window."""
        windows, states = self.by_key[state.key]
        window = state.windows[0]
        place = bisect_left(windows, window) if self._is_sorted else windows.index(window)
        del windows[place], states[place]
        if not windows:
            del self.by_key[state.key]

    def move(self, state: WindowState, window: BoundedWindow) -> None:
        """Replace the window of a state, before the state's own `place`."""
        windows, _ = self.by_key[state.key]
        own = state.windows[0]
        windows[bisect_left(windows, own) if self._is_sorted else windows.index(own)] = window
