"""Tables of window states: all windows of a grouping that are in memory, and those that have changed."""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import Any, Protocol, cast

from ....sdk.coders.coded_key import check_keys
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
        # The uniform windows that a bundle has elements of, and their numbers of keys before.
        self._open: list[tuple[UniformWindow, int]] = []

    def __len__(self) -> int:
        """Return the number of windows of all keys."""
        uniform = sum(len(window.accumulators) for window in self.uniform.values())
        return uniform + sum(map(len, self.by_window.values()))

    def all(self) -> list[WindowState]:
        """Return the windows of every key, each with a state."""
        self.separate_all()
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

    def close(self, state: WindowState) -> None:
        """Remove a window that has expired, or has merged into another."""
        if not isinstance(state, UniformWindow):
            self.touch(state)
        self.let_go(state)

    def touch(self, state: WindowState) -> None:
        """Note that a window has changed since the last snapshot, if there was one."""
        if self.changed is None:
            return
        if isinstance(state, UniformWindow):
            state.changed.update(dict.fromkeys(state.accumulators))
        else:
            self.changed[state] = None

    def add(self, state: WindowState) -> None:
        """Add a window."""
        self.by_window.setdefault(state.windows[0], {})[state.key] = state

    def remove(self, state: WindowState) -> None:
        """Remove a window."""
        window = state.windows[0]
        if isinstance(state, UniformWindow):
            del self.uniform[window]
            if state.recorded:
                self.gone.append((window, list(islice(state.accumulators, state.recorded))))
            return
        states = self.by_window[window]
        del states[state.key]
        if not states:
            del self.by_window[window]

    # Uniform windows

    def begin(self, window: UniformWindow) -> None:
        """Add a uniform window, without keys yet."""
        self.uniform[window.windows[0]] = window
        self.times.put(window)

    def open(self, window: UniformWindow) -> dict[Any, Any]:
        """Return the accumulators of a uniform window, for a bundle's first element in it."""
        self._open.append((window, len(window.accumulators)))
        return window.accumulators

    def check_new_keys(self) -> None:
        """Check the new keys of uniform windows that a bundle had elements of.

        Raises `InvalidKeyError` for a key without a deterministic encoding.
        """
        opened, self._open = self._open, []
        for window, before in opened:
            if new := len(window.accumulators) - before:
                # Dictionaries keep the order of insertion.
                check_keys(islice(reversed(window.accumulators), new))
            if self.changed is None:
                window.changed.clear()

    def separate(self, window: UniformWindow) -> None:
        """Make a state for each key of a uniform window."""
        del self.uniform[window.windows[0]]
        if window.event_time is not None:
            self.times.event_times.discard(window.event_time, window)
        gone = window.fired if window.closes else 0
        if recorded := min(gone, window.recorded):
            self.gone.append((window.windows[0], list(islice(window.accumulators, recorded))))
        for place, state in enumerate(window.states()):
            if place < gone:
                continue
            self.put(state)
            if self.changed is not None and (place < window.fired or state.key in window.changed):
                self.changed[state] = None
        self.times.release(window)

    def separate_all(self, only_firing: bool = False) -> None:
        """Make a state for each key of every uniform window, or of those whose firing is under way only."""
        for window in list(self.uniform.values()):
            if not only_firing or window.unfired is not None:
                self.separate(window)

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
