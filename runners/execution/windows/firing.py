"""Firing of windows that are due: a window fires if its trigger says so, and is closed when it has expired.

A window expires when the watermark is past its end plus the allowed lateness.  Its closing pane, the last one, has the
elements that no pane has had before.

A uniform window emits its only pane when it has expired, of all keys together.  If the watermark stops at its end, or
the window has a lateness, its keys are separated first.

Most windows have no lateness and nothing more to emit once they have fired at their end.  They are kept while the
watermark stays there.  Of the keys that share such a window only one is scheduled again: all expire with it.
"""

from __future__ import annotations

import sys
from itertools import islice
from typing import Any, cast

from ....sdk.elements.bundle import Windows
from ....windowing import BoundedWindow
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from ....windowing.timestamp_combiner import TimestampCombiner
from ..spilling.rocksdb import EVENT_TIME, PROCESSING_TIME
from .combining import Fold
from .panes import DISCARDING, LATE, ON_TIME, RETRACTING, Panes, pane_of
from .trigger_state import Clocks, Decision, TriggerDecisions
from .window_state import UniformWindow, WindowState
from .window_table import WindowTable
from .window_timers import DueTimes


class DueWindows:
    """Fires and closes a grouping's windows after a clock has moved, or a signal that triggers ask for has come.

    Args:
      table: the windows.
      retracted: whether inputs may be retractions.
      panes: emits panes.

    Attributes:
      is_due: whether `fire` has to be called: windows are due, or are still on disk.
    """

    def __init__(
        self,
        table: WindowTable,
        fold: Fold,
        retracted: bool,
        clocks: Clocks,
        decisions: TriggerDecisions,
        panes: Panes,
    ) -> None:
        windowing = fold.windowing
        self.is_due = False
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
        # Windows with states that have fired at their end and aren't scheduled: they expire with one that is.
        self._fired: dict[BoundedWindow, None] = {}
        self._fired_end = MIN_MICROS

    def fire(self, most: int = sys.maxsize) -> int:
        """Process the next of the windows that are due, at most so many; return their number."""
        self.is_due = False
        done = self.pass_event_times(most)
        return done + self.pass_processing_times(most - done)

    def pass_event_times(self, most: int = sys.maxsize) -> int:
        """Process windows whose time the watermark has reached, at most so many; return their number."""
        watermark, due = self._clocks.watermark, self._times.event_times
        until = watermark if self._table.spilled is None else self._loaded_until(EVENT_TIME, watermark)
        fired, closes_at_once, uniform = self._fired, self._closes_at_once, self._table.uniform
        room = most
        while room > 0 and (time := due.next()) is not None and time <= until:
            due_here = due.pop(room)
            room -= len(due_here)
            if uniform:
                here, room = self._uniform_closed(due_here, time, room)
            else:
                here = cast(list[WindowState], due_here)
            if closes_at_once:
                here = self._fired_at(here, time) if self._is_end(time) else self._closed(here, time)
            for state in here:
                if state.event_time == time:
                    state.event_time = None
                    self._look(state)
                    if self._retracts and watermark < state.expiry:
                        self._panes.take_back_replaced(state)
            if fired:
                self._let_go_fired()
        self._note(due, until)
        return most - room

    def look_at_restored(self) -> None:
        """Note whether windows of a snapshot are due: they were when it was taken."""
        self._note(self._times.event_times, self._clocks.watermark)
        self._note(self._times.processing_times, self._clocks.processing_time)

    def _note(self, due: DueTimes[Any], until: int) -> None:
        """Note whether there are windows that are due up to a time."""
        if (time := due.next()) is not None and time <= until:
            self.is_due = True

    def pass_processing_times(self, most: int = sys.maxsize) -> int:
        """Process windows whose time the clock has reached, at most so many; return their number."""
        now, due = self._clocks.processing_time, self._times.processing_times
        until = now if self._table.spilled is None else self._loaded_until(PROCESSING_TIME, now)
        room = most
        while room > 0 and (time := due.next()) is not None and time <= until:
            states = due.pop(room)
            room -= len(states)
            for state in states:
                if state.processing_time == time:
                    state.processing_time = None
                    self._look(state)
        self._note(due, until)
        return most - room

    def _loaded_until(self, order: int, time: int) -> int:
        """Load the first of the windows on disk that are due, and return the time up to which all are in memory."""
        assert self._table.spilled is not None
        left = self._table.spilled.load_due(order, time)
        if left is None or left > time:
            return time
        self.is_due = True
        return left

    def look_at_all(self) -> None:
        """Process every window, for triggers that depend on more than the two clocks."""
        self._decisions.forget()
        if self._table.spilled is not None:
            self._table.spilled.load_all()
        for state in self._table.all():
            self._look(state)

    def _uniform_closed(
        self, due: list[WindowState | UniformWindow], time: int, room: int
    ) -> tuple[list[WindowState], int]:
        """Emit and remove the uniform windows among those that are due, and return the others, and the room.

        Those that have not expired are separated, and so due again.

        Args:
          room: the number of panes that may be emitted, but for the first of each window.
        """
        others: list[WindowState] = []
        for window in due:
            if isinstance(window, WindowState):
                others.append(window)
            elif self._clocks.watermark < window.expiry:
                self._table.separate(window)
            else:
                room -= self._close(window, room + 1) - 1
        return others, room

    def _close(self, window: UniformWindow, most: int) -> int:
        """Emit the only pane of keys of a uniform window, at most so many, and remove them; return their number."""
        extract, accumulators = self._extract, window.accumulators.items()
        cells = accumulators if most >= len(accumulators) else islice(accumulators, max(1, most))
        pairs = list(cells) if extract is None else [(key, extract(accumulator)) for key, accumulator in cells]
        timing = LATE if self._times.watermark >= window.end else ON_TIME
        self._panes.out.add_all(pairs, window.windows[0].max_micros, window.windows, pane_of(0, 0, timing, True))
        self._table.close(window, len(pairs))
        return len(pairs)

    def _closed(self, due: list[WindowState], time: int) -> list[WindowState]:
        """Close windows that emit their first pane as they expire, as most windows do, and return the others.

        The effect is that of `_look`, in a quarter of the time.
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
        for state in due:
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
        """Fire a window if its trigger says so, and close it if it has expired."""
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
                # A pane is yet to come, though the window is complete: it holds the output watermark.
                self._times.hold_next_pane(state)
            elif state.held is not None:
                self._times.hold(state, None)
            if state.was_on_time and state.event_time is None and self._is_end(state.end) and self._may_wait(state):
                return
        self._times.schedule(state)

    # Windows that have fired at their end

    def _is_end(self, time: int) -> bool:
        """Return whether windows that end at this time are complete, and have nothing left but to expire."""
        is_there = self._expire_together and time == self._clocks.watermark < MAX_MICROS
        # A window on disk is loaded at a time of its own.
        return is_there and self._table.spilled is None

    def _may_wait(self, state: WindowState) -> bool:
        """Return whether a window that has fired at its end can expire with another key's, unscheduled."""
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
        """Fire windows that end now and emit their first pane, as most windows do, and return the others.

        The effect is that of `_look`.
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
        for state in due:
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
        """Remove the windows that have fired at their end and received nothing since, once the others are removed."""
        expiry, due = self._fired_end + 1, self._times.event_times.next()
        if self._clocks.watermark < expiry or (due is not None and due <= expiry):
            return
        changed, by_window = self._table.changed, self._table.by_window
        for window in self._fired:
            states = by_window.pop(window, None)
            if changed is not None and states is not None:
                changed.update(dict.fromkeys(states.values()))
        self._fired.clear()
