"""MergeWindows: which windows become one (Dataflow Model, section 2.2.2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from ...sdk.errors import PenstockError
from ...windowing import BoundedWindow, IntervalWindow, WindowFn
from .window_state import WindowState

# Windows, and the one that they become.
Merge = tuple[list[BoundedWindow], BoundedWindow]


class MergingWindows:
    """Each key's windows, of which no two are to be merged.

    A window may be *empty*: all of its inputs were taken back, but what it has emitted stands
    yet.  It is taken up by whatever comes there next, without making that larger.
    """

    def __init__(self, window_fn: WindowFn, may_be_empty: bool) -> None:
        self._window_fn = window_fn
        self._may_be_empty = may_be_empty
        self._by_key: dict[Any, list[WindowState]] = {}

    def __len__(self) -> int:
        """How many keys have windows."""
        return len(self._by_key)

    def __contains__(self, key: Any) -> bool:
        """Whether a key has windows."""
        return key in self._by_key

    def put(self, state: WindowState) -> None:
        """Add a window that merges with no other one."""
        self._by_key.setdefault(state.key, []).append(state)

    def remove(self, state: WindowState) -> None:
        """Take a window out."""
        own = self._by_key[state.key]
        own.remove(state)
        if not own:
            del self._by_key[state.key]

    def move(self, state: WindowState, window: BoundedWindow) -> None:
        """Before a state is made to stand for another window, which has come of its own."""

    def all(self) -> list[WindowState]:
        """Every window of every key."""
        return [state for own in self._by_key.values() for state in own]

    def of_key(self, key: Any) -> list[WindowState]:
        """Every window of one key."""
        return list(self._by_key.get(key, ()))

    def merge(self, key: Any, window: BoundedWindow) -> tuple[list[WindowState], BoundedWindow]:
        """Which of a key's windows an element's window merges with, and into what."""
        current = self._by_key.get(key, ())
        present = [state.window for state in current if not self._is_empty(state)]
        merged, result = next(
            (merge for merge in merge_by_fn(self._window_fn, [*present, window]) if window in merge[0]),
            ([window], window),
        )
        return [state for state in current if state.window in merged or state.window == result], result

    def _is_empty(self, state: WindowState) -> bool:
        return self._may_be_empty and state.accumulator.is_empty

    def groups(self, windows: Iterable[BoundedWindow]) -> list[Merge]:
        """How these windows merge with each other, those that don't included."""
        left = dict.fromkeys(windows)
        merges = merge_by_fn(self._window_fn, left)
        for sources, _ in merges:
            for window in sources:
                del left[window]
        return [*merges, *(([window], window) for window in left)]


class OverlappingWindows(MergingWindows):
    """The same for windows that merge where they overlap: what is there doesn't, and is kept in order."""

    def __init__(self, window_fn: WindowFn, may_be_empty: bool) -> None:
        super().__init__(window_fn, may_be_empty)
        # By key, the windows and their states, side by side.
        self._sorted: dict[Any, tuple[list[Any], list[WindowState]]] = {}

    def __len__(self) -> int:
        return len(self._sorted)

    def __contains__(self, key: Any) -> bool:
        return key in self._sorted

    def put(self, state: WindowState) -> None:
        windows, states = self._sorted.setdefault(state.key, ([], []))
        place = bisect_left(windows, state.windows[0])
        windows.insert(place, state.windows[0])
        states.insert(place, state)

    def remove(self, state: WindowState) -> None:
        windows, states = self._sorted[state.key]
        place = bisect_left(windows, state.windows[0])
        del windows[place], states[place]
        if not windows:
            del self._sorted[state.key]

    def move(self, state: WindowState, window: BoundedWindow) -> None:
        windows, _ = self._sorted[state.key]
        windows[bisect_left(windows, state.windows[0])] = window

    def all(self) -> list[WindowState]:
        return [state for _, own in self._sorted.values() for state in own]

    def of_key(self, key: Any) -> list[WindowState]:
        found = self._sorted.get(key)
        return [] if found is None else list(found[1])

    def merge(self, key: Any, window: BoundedWindow) -> tuple[list[WindowState], BoundedWindow]:
        found = self._sorted.get(key)
        if found is None:
            return [], window
        windows, states = found
        new: Any = window
        start, end = new
        last = first = bisect_left(windows, new)
        if first and windows[first - 1][1] > start:
            first -= 1
        while last < len(windows) and windows[last][0] < end:
            last += 1
        if first == last:
            return [], window
        if first + 1 == last and windows[first][0] <= start and windows[first][1] >= end:
            # Within a window that is there: that stays as it is, and is not made again.
            own, state = windows[first], states[first]
            return [state], window if self._may_be_empty and state.accumulator.is_empty else own
        sources = states[first:last]
        for own, state in zip(windows[first:last], sources):
            if not (self._may_be_empty and state.accumulator.is_empty):
                start = start if start < own[0] else own[0]
                end = end if end > own[1] else own[1]
        return sources, window if (start, end) == new else IntervalWindow.of_micros(start, end)


def merging_windows(window_fn: WindowFn, may_be_empty: bool) -> MergingWindows | None:
    """What keeps the windows of a window function that merges; None for one that doesn't."""
    if not window_fn.is_merging:
        return None
    return (OverlappingWindows if window_fn.merges_by_overlap else MergingWindows)(window_fn, may_be_empty)


def merge_by_fn(window_fn: WindowFn, windows: Iterable[BoundedWindow]) -> list[Merge]:
    """The merges that `merge_windows` makes: which windows, and what they become.

    Raises `PenstockError` where it merges a window twice, or one that isn't there.

    >>> from penstock.windowing import IntervalWindow, Sessions
    >>> merge_by_fn(Sessions(10), [IntervalWindow(0, 10), IntervalWindow(5, 15), IntervalWindow(30, 40)])
    [([[0.0, 10.0), [5.0, 15.0)], [0.0, 15.0))]
    """
    present = list(dict.fromkeys(windows))
    unmerged = set(present)
    merges: list[Merge] = []

    class Context(WindowFn.MergeContext):
        def merge(self, to_be_merged: Any, merge_result: BoundedWindow) -> None:
            merges.append((list(dict.fromkeys(to_be_merged)), merge_result))

    window_fn.merge_windows(Context(present))
    for sources, _ in merges:
        for window in sources:
            if window not in unmerged:
                raise PenstockError(
                    f"{window_fn!r}.merge_windows merged {window!r}, which is not among the windows that it was "
                    "given, or was merged before"
                )
            unmerged.discard(window)
    return merges
