"""The windows that there are, of all keys of a grouping, and which of them have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...windowing import BoundedWindow, WindowFn
from .merging import merging_windows
from .window_state import WindowState
from .window_times import WindowTimes

if TYPE_CHECKING:
    from .parked_windows import ParkedWindows

_NONE: dict[Any, WindowState] = {}


class WindowTable:
    """Windows in memory, with their times.

    Args:
      window_fn: the grouping's.
      retracted: whether inputs may be retractions.
      times: where windows have their times, and hold the watermark.

    Attributes:
      by_window: windows that don't merge, by window and key.
      merging: those that do, by key; None if they don't.
      times: as given.
      changed: the windows that have changed since the last snapshot, those that are gone among
        them; None if nobody takes snapshots.
      parked: the windows that aren't in memory; None if all are.
    """

    def __init__(self, window_fn: WindowFn, retracted: bool, times: WindowTimes) -> None:
        self.by_window: dict[BoundedWindow, dict[Any, WindowState]] = {}
        self.merging = merging_windows(window_fn, retracted)
        self.times = times
        self.changed: dict[WindowState, None] | None = None
        self.parked: ParkedWindows | None = None

    @property
    def is_merging(self) -> bool:
        """Whether windows merge."""
        return self.merging is not None

    def __len__(self) -> int:
        """How many windows there are of all keys; where they merge, of how many keys."""
        if self.merging is not None:
            return len(self.merging)
        return sum(map(len, self.by_window.values()))

    def all(self) -> list[WindowState]:
        """Every key's windows."""
        if self.merging is not None:
            return self.merging.all()
        return [state for states in self.by_window.values() for state in states.values()]

    def of_key(self, key: Any) -> list[WindowState]:
        """One key's windows, where windows merge."""
        assert self.merging is not None
        return self.merging.of_key(key)

    def has(self, state: WindowState) -> bool:
        """Whether a window is still there, where windows don't merge."""
        return self.by_window.get(state.windows[0], _NONE).get(state.key) is state

    def has_any(self, key: Any, window: BoundedWindow | None) -> bool:
        """Whether a key has a window; whether it has any, where windows merge."""
        if self.merging is not None:
            return key in self.merging
        return window is not None and key in self.by_window.get(window, _NONE)

    def of(self, key: Any, window: BoundedWindow | None) -> list[WindowState]:
        """One key's window; all of its windows, where windows merge."""
        if self.merging is not None:
            return self.merging.of_key(key)
        state = None if window is None else self.by_window.get(window, _NONE).get(key)
        return [] if state is None else [state]

    def put(self, state: WindowState) -> None:
        """Take over a window of a snapshot."""
        if self.merging is not None:
            self.merging.put(state)
        else:
            self.by_window.setdefault(state.windows[0], {})[state.key] = state
        self.times.put(state)

    def let_go(self, state: WindowState) -> None:
        """Forget a window, its times and its hold."""
        if self.merging is not None:
            self.merging.remove(state)
        else:
            window = state.windows[0]
            states = self.by_window[window]
            del states[state.key]
            if not states:
                del self.by_window[window]
        state.cancel()
        self.times.release(state)
