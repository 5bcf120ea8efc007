"""What becomes of windows that merge, and of one whose inputs part again: their values, triggers, panes and holds.

Which windows these are is said in `merging.py`.
"""

from __future__ import annotations

from ...windowing import BoundedWindow
from ...windowing.timestamp_combiner import TimestampCombiner, combined
from .fold import Fold
from .panes import RETRACTING
from .signed_inputs import SignedWindows
from .trigger_decisions import Clocks, TriggerDecisions
from .window_lifetime import end_of_window, expiry_of
from .window_state import WindowState
from .window_table import WindowTable


class JoinedWindows:
    """Windows of a grouping that become one, and that part.

    Args:
      table: where they are; they merge.
      touched: the windows whose triggers are yet to be asked.
    """

    def __init__(
        self,
        table: WindowTable,
        fold: Fold,
        retracted: bool,
        clocks: Clocks,
        decisions: TriggerDecisions,
        touched: dict[WindowState, None],
    ) -> None:
        assert table.merging is not None
        windowing = fold.windowing
        self._table = table
        self._merging = table.merging
        self._times = table.times
        self._fold = fold
        self._retracted = retracted
        self._clocks = clocks
        self._decisions = decisions
        self._touched = touched
        self._retracts = windowing.accumulation_mode is RETRACTING
        self._lateness = windowing.allowed_lateness
        self._combiner: TimestampCombiner = windowing.timestamp_combiner
        self._stamps = self._combiner is not TimestampCombiner.OUTPUT_AT_EOW
        self._percentiles = windowing.trigger.percentiles()

    def join(self, sources: list[WindowState], window: BoundedWindow, end: int, expiry: int) -> None:
        """Make the first of the states that of the window which they have merged into, or one has grown into."""
        state, *others = sources
        # A merged window is a new window, whose panes begin anew, unless it is one of those that merge.
        panes = on_time_panes = 0
        if others:
            for part in sources:
                if part.windows[0] == window:
                    panes, on_time_panes = part.panes, part.on_time_panes
            self._take_over(state, others)
        state.panes, state.on_time_panes = panes, on_time_panes
        self._merging.move(state, window)
        if others or self._clocks.watermark >= state.end or self._percentiles:
            self._place(state, sources, window, end, expiry)
        else:
            # To a trigger it is the same window, whose end is yet to come.
            state.place(window, end, expiry)
        if self._retracts or self._stamps:
            self._times.hold(state, state.stamp if self._stamps else None)

    def _take_over(self, state: WindowState, others: list[WindowState]) -> None:
        """Have a state be all that others were, and let go of them."""
        changed = self._table.changed
        for part in (state, *others):
            if part.stamp is not None and part.stamp < self._times.watermark:
                # It is that of an earlier pane, which no longer holds the watermark.
                part.stamp = None
        accumulators = [part.accumulator for part in (state, *others)]
        state.accumulator = SignedWindows.merged(accumulators) if self._retracted else self._fold.merged(accumulators)
        for part in others:
            state.has_new |= part.has_new
            state.replaced += part.standing
            if part.stamp is not None:
                state.stamp = part.stamp if state.stamp is None else combined(self._combiner, state.stamp, part.stamp)
            self._merging.remove(part)
            self._touched.pop(part, None)
            self._times.release(part)
            part.cancel()
            if changed is not None:
                changed[part] = None

    def part(self, state: WindowState) -> list[WindowState]:
        """What joined a window's inputs was taken back: the states of the windows that they are now besides its own."""
        groups = self._merging.groups(state.accumulator.by_window)
        if not groups:
            return []
        parts = []
        (_, first), *rest = groups
        # What is kept in order by windows is out of it while a part lies within the whole.
        self._merging.remove(state)
        for own, window in rest:
            end = end_of_window(window)
            part = WindowState(state.key, (window,), end, end, state.accumulator.taken(own), state.decision)
            part.has_new = True
            self._place(part, [state], window, end, expiry_of(end, self._lateness))
            self._merging.put(part)
            self._touched[part] = None
            parts.append(part)
        if first != state.windows[0]:
            end = end_of_window(first)
            self._place(state, [state], first, end, expiry_of(end, self._lateness))
            state.panes = state.on_time_panes = 0
        self._merging.put(state)
        return parts

    def _place(
        self, state: WindowState, sources: list[WindowState], window: BoundedWindow, end: int, expiry: int
    ) -> None:
        """Have a state stand for another window, with the trigger state of those that it came of."""
        is_past = self._clocks.watermark >= end
        state.was_on_time = is_past and any(part.was_on_time for part in sources)
        state.decision = self._decisions.merged([part.decision for part in sources], end)
        state.place(window, end, expiry)
