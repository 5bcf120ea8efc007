"""Firing of windows that are due: a window fires if its trigger says so, and is closed when it has expired.

A window expires when the watermark is past its end plus the allowed lateness.  Its closing pane, the last one, has the
elements that no pane has had before.
"""

from __future__ import annotations

import sys

from ..spilling.rocksdb import EVENT_TIME, PROCESSING_TIME
from .panes import Panes
from .trigger_state import Clocks, TriggerDecisions
from .window_state import UniformWindow, WindowState
from .window_table import WindowTable
from .window_timers import DueTimes


class DueWindows:
    """Fires and closes a grouping's windows after a clock has moved, or a signal that triggers ask for has come.

    Args:
      table: the windows.
      panes: emits panes.
      takes_back: whether panes of windows that have merged are retracted before they would be late downstream.

    Attributes:
      is_due: whether `fire` has to be called: windows are due, or are still on disk.
    """

    def __init__(
        self, table: WindowTable, clocks: Clocks, decisions: TriggerDecisions, panes: Panes, takes_back: bool
    ) -> None:
        self.is_due = False
        self._table = table
        self._times = table.times
        self._clocks = clocks
        self._decisions = decisions
        self._panes = panes
        self._takes_back = takes_back

    def fire(self, most: int = sys.maxsize) -> int:
        """Process the next of the windows that are due, at most so many; return their number."""
        self.is_due = False
        done = self.pass_event_times(most)
        return done + self.pass_processing_times(most - done)

    def pass_event_times(self, most: int = sys.maxsize) -> int:
        """Process windows whose time the watermark has reached, at most so many; return their number."""
        return self._pass(self._times.event_times, EVENT_TIME, self._clocks.watermark, most)

    def pass_processing_times(self, most: int = sys.maxsize) -> int:
        """Process windows whose time the clock has reached, at most so many; return their number."""
        return self._pass(self._times.processing_times, PROCESSING_TIME, self._clocks.processing_time, most)

    def _pass(self, due: DueTimes[WindowState], order: int, now: int, most: int) -> int:
        """Process windows that are due up to a time; each key of a uniform window counts as one."""
        until = now if self._table.spilled is None else self._loaded_until(order, now)
        of_event_time = order == EVENT_TIME
        room = most
        while room > 0 and (time := due.next()) is not None and time <= until:
            states = due.pop(room)
            for i, state in enumerate(states):
                if room <= 0:
                    due.put_back(time, states[i:])
                    break
                room -= 1
                if of_event_time and state.event_time == time:
                    state.event_time = None
                elif not of_event_time and state.processing_time == time:
                    state.processing_time = None
                else:
                    continue
                room -= self._look(state, room + 1) - 1
                if isinstance(state, UniformWindow) and state.unfired is not None:
                    state.event_time = time
                    due.put_back(time, [state])
                elif self._takes_back and of_event_time and now < state.expiry:
                    self._panes.take_back_replaced(state)
        self._note(due, until)
        return most - room

    def look_at_restored(self) -> None:
        """Note whether windows of a snapshot are due: they were when it was taken."""
        self._note(self._times.event_times, self._clocks.watermark)
        self._note(self._times.processing_times, self._clocks.processing_time)

    def _note(self, due: DueTimes[WindowState], until: int) -> None:
        """Note whether there are windows that are due up to a time."""
        if (time := due.next()) is not None and time <= until:
            self.is_due = True

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

    def _look(self, state: WindowState, most: int = 1) -> int:
        """Fire a window if its trigger says so, and close it if it has expired.

        Args:
          most: the number of keys of a uniform window that may fire.  The others are still due.

        Returns the number of keys.
        """
        keys = 1
        watermark = self._clocks.watermark
        expired = watermark >= state.expiry
        decision = self._decisions.now(state.decision, state.end)
        if decision.fires or (expired and state.has_new):
            if isinstance(state, UniformWindow):
                keys = self._panes.emit_cells(state, decision, expired, most)
                if state.unfired is not None:
                    return keys
            else:
                self._panes.emit(state, expired)
        if expired:
            self._table.close(state)
            return keys
        self._table.touch(state)
        state.decision = decision
        if watermark >= state.end:
            if state.has_new:
                # A pane is yet to come, though the window is complete: it holds the output watermark.
                self._times.hold_next_pane(state)
            elif state.held is not None:
                self._times.hold(state, None)
        self._times.schedule(state)
        return keys
