"""The windows of a grouping with triggers that merge, and MergeWindows for one element at a time.

Which windows merge, and what the merged one keeps, is as for a bounded input (`merging.py`).  Their triggers, panes and
holds merge, too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from ....triggers import AccumulationMode
from ....windowing import BoundedWindow, IntervalWindow
from ....windowing.overlap import overlapping
from ....windowing.timestamp_combiner import TimestampCombiner
from ....windowing.windows import end_of_window, expiry_of
from .combining import Fold
from .merging import merged, merged_timestamp
from .trigger_state import Clocks, TriggerDecisions
from .window_state import UniformWindow, WindowState
from .window_table import WindowTable, WindowTimes


class MergingWindowTable(WindowTable):
    """The windows of a grouping with triggers, where windows merge.

    A window may be *empty*: all of its inputs were retracted, but it has a current pane.  The next
    window that merges with it takes over its state, without becoming larger.

    Args:
      times: their due times and holds.
      touched: windows with new elements, whose triggers are still to be asked.

    Attributes:
      by_key: the windows and their states, side by side, by key; in order if they are intervals that merge by overlap.
    """

    is_merging = True

    def __init__(
        self,
        times: WindowTimes,
        begin: Callable[[BoundedWindow], UniformWindow],
        fold: Fold,
        clocks: Clocks,
        decisions: TriggerDecisions,
        touched: dict[WindowState, None],
    ) -> None:
        super().__init__(times, begin)
        windowing = fold.windowing
        self.by_key: dict[Any, tuple[list[Any], list[WindowState]]] = {}
        self._fold = fold
        self._window_fn = windowing.window_fn
        self._is_sorted = windowing.window_fn.merges_by_overlap
        self._clocks = clocks
        self._decisions = decisions
        self._touched = touched
        self._retracts = windowing.accumulation_mode is AccumulationMode.RETRACTING
        self._lateness = windowing.allowed_lateness.micros
        self._combiner: TimestampCombiner = windowing.timestamp_combiner
        self._stamps = self._combiner is not TimestampCombiner.OUTPUT_AT_EOW
        self._percentiles = windowing.trigger.percentiles()
        self.find = self._overlapping if self._is_sorted else self._by_fn

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

    def states_of(self, key: Any, window: BoundedWindow | None) -> list[WindowState]:
        """Return every window of a key."""
        return self.of_key(key)

    def of_key(self, key: Any) -> list[WindowState]:
        """Return every window of a key."""
        found = self.by_key.get(key)
        return [] if found is None else list(found[1])

    def add(self, state: WindowState) -> None:
        """Add a window that merges with no other one."""
        windows, states = self.by_key.setdefault(state.key, ([], []))
        index = bisect_left(windows, state.windows[0]) if self._is_sorted else len(windows)
        windows.insert(index, state.windows[0])
        states.insert(index, state)

    def remove(self, state: WindowState) -> None:
        """Remove a window."""
        windows, states = self.by_key[state.key]
        window = state.windows[0]
        index = bisect_left(windows, window) if self._is_sorted else windows.index(window)
        del windows[index], states[index]
        if not windows:
            del self.by_key[state.key]

    def move(self, state: WindowState, window: BoundedWindow) -> None:
        """Replace the window of a state, before the state's own `move_to`."""
        windows, _ = self.by_key[state.key]
        own = state.windows[0]
        windows[bisect_left(windows, own) if self._is_sorted else windows.index(own)] = window

    # MergeWindows

    def _overlapping(self, key: Any, window: BoundedWindow) -> tuple[list[WindowState], BoundedWindow]:
        """Return the states that an element's window merges with, and the window that they become.

        The result is that of `_by_fn`.
        """
        found = self.by_key.get(key)
        if found is None:
            return [], window
        windows, states = found
        new: Any = window
        first, last = overlapping(windows, new)
        if first == last:
            return [], window
        start, end = new
        if first + 1 == last and windows[first][0] <= start and windows[first][1] >= end:
            # The element's window lies within this one, which stays as it is.
            own, state = windows[first], states[first]
            return [state], window if self._fold.is_empty(state.accumulator) else own
        sources = states[first:last]
        for own, state in zip(windows[first:last], sources):
            if not self._fold.is_empty(state.accumulator):
                start = start if start < own[0] else own[0]
                end = end if end > own[1] else own[1]
        return sources, window if (start, end) == new else IntervalWindow.of_micros(start, end)

    def _by_fn(self, key: Any, window: BoundedWindow) -> tuple[list[WindowState], BoundedWindow]:
        """Return the states that an element's window merges with, and the window that they become."""
        current = self.of_key(key)
        present = [state.window for state in current if not self._fold.is_empty(state.accumulator)]
        groups = merged(self._window_fn, [(own, own) for own in [*present, window]])
        sources, result = next((group, result) for result, group in groups if window in group)
        return [state for state in current if state.window in sources or state.window == result], result

    def join(self, sources: list[WindowState], window: BoundedWindow, end: int, expiry: int) -> None:
        """Merge states into the first of them, and make it the state of the merged window.

        A single state grows into the window.
        """
        state, *others = sources
        # The panes of a merged window begin anew, unless it equals one of the windows that merge.
        panes = on_time_panes = 0
        if others:
            for part in sources:
                if part.windows[0] == window:
                    panes, on_time_panes = part.panes, part.on_time_panes
            self._take_over(state, others)
        state.panes, state.on_time_panes = panes, on_time_panes
        self.move(state, window)
        if others or self._clocks.watermark >= state.end or self._percentiles:
            self._move(state, sources, window, end, expiry)
        else:
            # For the trigger it is the same window, which is not complete yet.
            state.move_to(window, end, expiry)
        if self._retracts or self._stamps:
            self.times.hold(state, state.stamp if self._stamps else None)

    def _take_over(self, state: WindowState, others: list[WindowState]) -> None:
        """Merge the contents of other states into a state, and remove the others."""
        output_watermark = self.times.watermark
        parts = [state, *others]
        state.accumulator = self._fold.merged([part.accumulator for part in parts])
        if self._stamps:
            # A timestamp behind the output watermark is that of an earlier pane, which no longer holds it.
            stamps = [part.stamp for part in parts if part.stamp is not None and part.stamp >= output_watermark]
            state.stamp = merged_timestamp(self._combiner, stamps)
        for part in others:
            state.has_new |= part.has_new
            state.replaced += part.current_panes
            self._touched.pop(part, None)
            self.close(part)

    def part(self, state: WindowState) -> list[WindowState]:
        """Split a window after the input that joined its parts was retracted.

        The state goes on as that of the same window, if that is one of the parts, else of the first part.

        Returns the new states of the other parts.
        """
        groups = merged(self._window_fn, [(own, own) for own in state.accumulator.by_window])
        if not groups:
            return []
        groups.sort(key=lambda group: group[0] != state.windows[0])
        parts = []
        (first, _), *rest = groups
        # The parts lie within the whole, which is to be out of a sorted table before they are added.
        self.remove(state)
        for window, own in rest:
            end = end_of_window(window)
            part = WindowState(state.key, (window,), end, end, state.accumulator.taken(own), state.decision)
            part.has_new = True
            self._move(part, [state], window, end, expiry_of(end, self._lateness))
            self.add(part)
            self._touched[part] = None
            parts.append(part)
        if first != state.windows[0]:
            end = end_of_window(first)
            self._move(state, [state], first, end, expiry_of(end, self._lateness))
            state.panes = state.on_time_panes = 0
        self.add(state)
        return parts

    def _move(
        self, state: WindowState, sources: list[WindowState], window: BoundedWindow, end: int, expiry: int
    ) -> None:
        """Make a state that of another window, with the merged trigger state of the windows that it came from."""
        is_past = self._clocks.watermark >= end
        state.was_on_time = is_past and any(part.was_on_time for part in sources)
        state.decision = self._decisions.merged([part.decision for part in sources], end)
        state.move_to(window, end, expiry)
