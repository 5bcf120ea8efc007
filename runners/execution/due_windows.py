"""Windows whose time has come: each fires if its trigger says so, and is closed if it has expired.

A window expires when the watermark is past its end plus the allowed lateness.  What has
not been emitted by then is: the closing pane, which is the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from ...sdk.bundle import Windows
from ...windowing.timestamp import MIN_MICROS
from ...windowing.timestamp_combiner import TimestampCombiner
from .due_times import DueTimes
from .fold import Fold
from .panes import LATE, ON_TIME, RETRACTING, Panes
from .parked_entries import EVENT_TIME, PROCESSING_TIME
from .trigger_decisions import Clocks, TriggerDecisions
from .window_state import WindowState, pane_of
from .window_table import WindowTable


class DueWindows:
    """Looks at a grouping's windows, when a clock has moved or something else that triggers ask for.

    Args:
      table: the windows.
      retracted: whether inputs may be retractions.
      panes: where what they emit goes.

    Attributes:
      is_behind: whether `catch_up` has to be called, for windows that are due and were left, or are yet to come back.
    """

    def __init__(
        self,
        table: WindowTable,
        fold: Fold,
        retracted: bool,
        clocks: Clocks,
        decisions: TriggerDecisions,
        panes: Panes,
        over: Any = None,
    ) -> None:
        windowing = fold.windowing
        self.is_behind = False
        self._over = over
        self._table = table
        self._times = table.times
        self._extract = fold.extracted if fold.extracts else None
        self._clocks = clocks
        self._decisions = decisions
        self._panes = panes
        stamps = windowing.timestamp_combiner is not TimestampCombiner.OUTPUT_AT_EOW
        is_plain = windowing.accumulation_mode is not RETRACTING and not retracted and not stamps
        self._closes_at_once = is_plain and not table.is_merging

    def catch_up(self) -> None:
        """Look at the next of the windows that are due."""
        self.is_behind = False
        self.pass_event_times()
        self.pass_processing_times()

    def pass_event_times(self) -> None:
        """Look at the windows whose time the watermark has reached."""
        watermark, due = self._clocks.watermark, self._times.event_times
        until = watermark if self._table.parked is None else self._back_until(EVENT_TIME, watermark)
        while not self._over and (time := due.next()) is not None and time <= until:
            here = due.pop()
            states = iter(self._closed(here, time) if self._closes_at_once else here)
            for state in states:
                if state.event_time == time:
                    state.event_time = None
                    self._look(state)
                if self._over:
                    self._put_back(due, time, states)
        self._note(due, until)

    def look_at_restored(self) -> None:
        """Find out whether windows of a snapshot are due: they were left when it was taken."""
        self._note(self._times.event_times, self._clocks.watermark)
        self._note(self._times.processing_times, self._clocks.processing_time)

    def _put_back(self, due: DueTimes[WindowState], time: int, states: Iterable[WindowState]) -> None:
        """Leave the rest of the windows that are due at a time."""
        for state in states:
            due.add(time, state)

    def _note(self, due: DueTimes[WindowState], until: int) -> None:
        """Note whether windows have been left that are due up to a time."""
        if (time := due.next()) is not None and time <= until:
            self.is_behind = True

    def pass_processing_times(self) -> None:
        """Look at the windows whose time the clock has reached."""
        now, due = self._clocks.processing_time, self._times.processing_times
        until = now if self._table.parked is None else self._back_until(PROCESSING_TIME, now)
        while not self._over and (time := due.next()) is not None and time <= until:
            states = iter(due.pop())
            for state in states:
                if state.processing_time == time:
                    state.processing_time = None
                    self._look(state)
                if self._over:
                    self._put_back(due, time, states)
        self._note(due, until)

    def _back_until(self, order: int, time: int) -> int:
        """Have the first of the windows come back that are due: up to when they can be looked at."""
        assert self._table.parked is not None
        left = self._table.parked.due_back(order, time)
        if left is None or left > time:
            return time
        self.is_behind = True
        return left

    def look_at_all(self) -> None:
        """Look at every window: a trigger may ask for what no clock tells."""
        self._decisions.forget()
        if self._table.parked is not None:
            self._table.parked.all_back()
        for state in self._table.all():
            self._look(state)

    def _closed(self, due: list[WindowState], time: int) -> list[WindowState]:
        """Close the windows that give their first pane as they expire, which is what most do; the others are left.

        The same as `_look` does, in a quarter of the time.
        """
        left: list[WindowState] = []
        out, extract, watermark, output_watermark = (
            self._panes.out,
            self._extract,
            self._clocks.watermark,
            self._times.watermark,
        )
        on_time, late = pane_of(0, 0, ON_TIME, True), pane_of(0, 0, LATE, True)
        changed, by_window = self._table.changed, self._table.by_window
        windows: Windows | None = None
        states: dict[Any, WindowState] = {}
        last, pane = MIN_MICROS, on_time
        over, waiting = self._over, iter(due)
        for state in waiting:
            if over:
                self._put_back(self._times.event_times, time, chain([state], waiting))
                break
            if state.panes or not state.has_new or state.was_on_time or state.held is not None:
                left.append(state)
                continue
            if state.event_time != time or watermark < state.expiry:
                left.append(state)
                continue
            if state.windows is not windows:
                windows = state.windows
                states, last = by_window[windows[0]], windows[0].max_micros
                pane = late if output_watermark >= state.end else on_time
            accumulator = state.accumulator
            value = accumulator if extract is None else extract(accumulator)
            out.add((state.key, value), last, windows, pane, 1)
            if changed is not None:
                changed[state] = None
            state.cancel()
            del states[state.key]
            if not states:
                del by_window[windows[0]]
        return left

    def _look(self, state: WindowState) -> None:
        """Fire if the trigger says so; close the window if it has expired."""
        changed = self._table.changed
        if changed is not None:
            changed[state] = None
        watermark = self._clocks.watermark
        expired = watermark >= state.expiry
        decision = self._decisions.now(state.decision, state.end)
        if decision.fires or (expired and state.has_new):
            self._panes.emit(state, expired)
        if expired:
            self._table.let_go(state)
            return
        state.decision = decision
        self._times.schedule(state)
        if watermark >= state.end:
            if state.has_new:
                # A pane that is due by the end of the window, but not yet: what follows is to wait for it.
                self._times.hold_what_waits(state)
            elif state.held is not None:
                self._times.hold(state, None)
