"""Windows whose time has come: each fires if its trigger says so, and is closed if it has expired.

A window expires when the watermark is past its end plus the allowed lateness.  What has
not been emitted by then is: the closing pane, which is the last.

Most windows have no lateness and nothing more to emit once they have fired at their end.  They are kept while the
watermark stays there, and of those that share a window one alone is looked at again: all expire with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from ....sdk.bundle import Windows
from ....windowing import BoundedWindow
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from ....windowing.timestamp_combiner import TimestampCombiner
from ..parked_entries import EVENT_TIME, PROCESSING_TIME
from .combining import Fold
from .panes import DISCARDING, LATE, ON_TIME, RETRACTING, Panes, pane_of
from .trigger_state import Clocks, Decision, TriggerDecisions
from .window_state import WindowState
from .window_table import WindowTable
from .window_timers import DueTimes


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
        self._retracts = windowing.accumulation_mode is RETRACTING and table.is_merging
        self._closes_at_once = is_plain and not table.is_merging
        self._expire_together = windowing.allowed_lateness == 0 and not table.is_merging
        self._discards = windowing.accumulation_mode is DISCARDING
        # Windows with states that have fired at their end and aren't looked at again: they expire with one that is.
        self._fired: dict[BoundedWindow, None] = {}
        self._fired_end = MIN_MICROS

    def catch_up(self) -> None:
        """Look at the next of the windows that are due."""
        self.is_behind = False
        self.pass_event_times()
        self.pass_processing_times()

    def pass_event_times(self) -> None:
        """Look at the windows whose time the watermark has reached."""
        watermark, due = self._clocks.watermark, self._times.event_times
        until = watermark if self._table.parked is None else self._back_until(EVENT_TIME, watermark)
        over, fired, closes_at_once = self._over, self._fired, self._closes_at_once
        while not over and (time := due.next()) is not None and time <= until:
            here = due.pop()
            if closes_at_once:
                here = self._fired_at(here, time) if self._is_end(time) else self._closed(here, time)
            states = iter(here)
            for state in states:
                if state.event_time == time:
                    state.event_time = None
                    self._look(state)
                    if self._retracts and watermark < state.expiry:
                        self._panes.take_back_replaced(state)
                if over:
                    self._put_back(due, time, states)
            if fired:
                self._let_go_fired()
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
        if watermark >= state.end:
            if state.has_new:
                # A pane that is due by the end of the window, but not yet: what follows is to wait for it.
                self._times.hold_what_waits(state)
            elif state.held is not None:
                self._times.hold(state, None)
            if state.was_on_time and state.event_time is None and self._is_end(state.end) and self._may_wait(state):
                return
        self._times.schedule(state)

    # Windows that have fired at their end

    def _is_end(self, time: int) -> bool:
        """Whether windows that end at this time are complete and have yet to expire, with nothing else to wait for."""
        is_there = self._expire_together and time == self._clocks.watermark < MAX_MICROS
        # A parked window comes back at a time of its own.
        return is_there and self._table.parked is None

    def _may_wait(self, state: WindowState) -> bool:
        """Leave a window that has fired at its end to another one of its kind, if it can be."""
        decision = state.decision
        if state.has_new or state.held is not None or decision.processing_time is not None:
            return False
        if decision.event_time != state.expiry:
            return False
        window = state.windows[0]
        if window not in self._fired:
            self._fired[window] = None
            self._fired_end = state.end
            return False
        state.processing_time = None
        return True

    def _fired_at(self, due: list[WindowState], time: int) -> list[WindowState]:
        """Have the windows fire that end now and give their first pane, which is what most do; the others are left.

        The same as `_look` does.
        """
        left: list[WindowState] = []
        out, fired, decisions, discards = self._panes.out, self._fired, self._decisions, self._discards
        # A value that is emitted from an accumulator that is kept is a copy.
        extract, nothing = self._extract if discards else self._panes.value, self._panes.nothing
        pane = pane_of(0, 0, LATE if self._times.watermark >= time else ON_TIME, False)
        changed = self._table.changed
        windows: Windows | None = None
        before: Decision | None = None
        decision = decisions.start
        fires = is_first = False
        last, expiry = time - 1, time + 1
        over, waiting = self._over, iter(due)
        for state in waiting:
            if over:
                self._put_back(self._times.event_times, time, chain([state], waiting))
                break
            if state.panes or not state.has_new or state.was_on_time or state.held is not None:
                left.append(state)
                continue
            if state.event_time != time or state.end != time:
                left.append(state)
                continue
            if state.decision is not before:
                before = state.decision
                decision = decisions.now(before, time)
                fires = decision.fires and decision.processing_time is None and decision.event_time == expiry
            if not fires:
                left.append(state)
                continue
            if state.windows is not windows:
                windows = state.windows
                is_first = windows[0] not in fired
            accumulator = state.accumulator
            out.add((state.key, accumulator if extract is None else extract(accumulator)), last, windows, pane, 1)
            if changed is not None:
                changed[state] = None
            if discards:
                state.accumulator = nothing()
            state.has_new = False
            state.was_on_time = True
            state.panes = state.on_time_panes = 1
            state.decision = decision
            state.event_time = state.processing_time = None
            if is_first:
                is_first = False
                fired[windows[0]] = None
                self._fired_end = time
                self._times.schedule(state)
        return left

    def _let_go_fired(self) -> None:
        """Forget the windows that nothing has come to since they fired at their end, when the others are gone."""
        expiry, due = self._fired_end + 1, self._times.event_times.next()
        if self._clocks.watermark < expiry or (due is not None and due <= expiry):
            return
        changed, by_window = self._table.changed, self._table.by_window
        for window in self._fired:
            states = by_window.pop(window, None)
            if changed is not None and states is not None:
                changed.update(dict.fromkeys(states.values()))
        self._fired.clear()
