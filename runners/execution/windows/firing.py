"""Firing of windows that are due, and the panes that they emit and retract (Dataflow Model, section 2.3).

A window fires if its trigger says so, and is closed when it has expired: when the watermark is past its end plus the
allowed lateness.  Its closing pane, the last one, has the elements that no pane has had before.

A pane is EARLY while the watermark is before the end of the window, then ON_TIME once, then LATE; a first pane is LATE
if the output watermark has passed the end.  The *current* pane of a window was emitted and not retracted.  In
RETRACTING mode it is retracted before the next one is emitted.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from itertools import islice
from typing import Any

from ....sdk.elements.bundle import Bundle, Windows
from ....sdk.elements.defensive_copy import defensive_copy
from ....triggers import AccumulationMode, PaneInfo, PaneInfoTiming
from ....windowing.timestamp import MAX_MICROS
from ....windowing.timestamp_combiner import TimestampCombiner
from ..spilling.rocksdb import EVENT_TIME, PROCESSING_TIME
from .combining import Fold
from .trigger_state import Clocks, Decision, TriggerDecisions
from .window_state import UniformWindow, WindowState
from .window_table import DueTimes, WindowTable, WindowTimes

DISCARDING, RETRACTING = AccumulationMode.DISCARDING, AccumulationMode.RETRACTING
EARLY, ON_TIME, LATE = PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE


# Most panes of a stream are like many others of it.
@lru_cache(maxsize=256)
def pane_of(index: int, on_time_panes: int, timing: PaneInfoTiming, is_last: bool) -> PaneInfo:
    """Return the info of a window's next pane.

    Args:
      index: the number of panes so far.
      on_time_panes: the number of those that weren't early.

    >>> pane_of(2, 0, PaneInfoTiming.EARLY, False).nonspeculative_index
    -1
    """
    number = -1 if timing is PaneInfoTiming.EARLY else on_time_panes
    return PaneInfo(is_first=index == 0, is_last=is_last, timing=timing, index=index, nonspeculative_index=number)


class PaneBuffer:
    """Buffer of emitted panes, as columns."""

    __slots__ = ("_panes", "_signs", "_timestamps", "_values", "_windows")

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._values: list[Any] = []
        self._timestamps: list[int] = []
        self._windows: list[Windows] = []
        self._panes: list[PaneInfo] = []
        self._signs: list[int] = []

    def add(self, value: Any, timestamp: int, windows: Windows, pane: PaneInfo, sign: int) -> None:
        """Append a pane, or its retraction."""
        self._values.append(value)
        self._timestamps.append(timestamp)
        self._windows.append(windows)
        self._panes.append(pane)
        self._signs.append(sign)

    def add_all(self, pairs: list[Any], timestamp: int, windows: Windows, pane: PaneInfo) -> None:
        """Append panes of many keys of a window."""
        count = len(pairs)
        self._values += pairs
        self._timestamps += [timestamp] * count
        self._windows += [windows] * count
        self._panes += [pane] * count
        self._signs += [1] * count

    def taken(self) -> Bundle | None:
        """Remove what was appended, and return it as a bundle; None if there is nothing."""
        if not self._values:
            return None
        signs: Any = self._signs if -1 in self._signs else 1
        bundle = Bundle(self._values, self._timestamps, self._windows, self._panes, signs)
        self._clear()
        return bundle


class Panes:
    """Emits the panes of one grouping's windows.

    Args:
      fold: the grouping's fold.
      clocks: the grouping's clocks.
      times: the windows' holds of the output watermark.

    Attributes:
      out: the emitted panes.
    """

    def __init__(self, fold: Fold, clocks: Clocks, times: WindowTimes) -> None:
        windowing = fold.windowing
        self.out = PaneBuffer()
        self._fold = fold
        self._extract = fold.extracted if fold.extracts else None
        self._mode = windowing.accumulation_mode
        self._stamps = windowing.timestamp_combiner is not TimestampCombiner.OUTPUT_AT_EOW
        self._emit_unchanged = windowing.emit_unchanged
        self._clocks = clocks
        self._times = times

    def emit_cells(self, window: UniformWindow, decision: Decision, is_last: bool, most: int) -> int:
        """Emit the pane of keys of a uniform window that has new elements, at most so many; return their number.

        Args:
          decision: the trigger's decision to fire.
        """
        if window.unfired is None:
            window.unfired = iter(window.accumulators.items())
        window.is_firing = True
        window.fired_decision, window.closes = decision, is_last
        cells = list(islice(window.unfired, most))
        timing = LATE if window.was_on_time or self._times.watermark >= window.end else ON_TIME
        pane = pane_of(window.panes, window.on_time_panes, timing, is_last)
        # A value that is emitted from an accumulator that is kept is a copy.
        result = self._extract if is_last or self._mode is DISCARDING else self.value
        pairs = cells if result is None else [(key, result(accumulator)) for key, accumulator in cells]
        self.out.add_all(pairs, window.windows[0].max_micros, window.windows, pane)
        if self._mode is DISCARDING and not is_last:
            for key, _ in cells:
                window.accumulators[key] = self._fold.nothing()
        window.fired += len(cells)
        if window.fired == len(window.accumulators):
            window.fired, window.unfired = 0, None
        return len(cells)

    def finish_cells(self, window: UniformWindow) -> None:
        """Note that all keys of a uniform window have had their pane."""
        window.is_firing = window.has_new = False
        window.was_on_time = True
        window.panes += 1
        window.on_time_panes += 1

    def emit(self, state: WindowState, is_last: bool) -> None:
        """Emit a pane, unless there is nothing new and the window has had its on-time pane."""
        end = state.end
        if self._clocks.watermark < end:
            timing = EARLY
        else:
            timing = LATE if state.was_on_time or self._times.watermark >= end else ON_TIME
        if not state.has_new:
            if timing is not ON_TIME:
                return
            if self._mode is RETRACTING and not self._emit_unchanged:
                # The pane would equal the current one.
                state.was_on_time = True
                self._times.release(state)
                return
        pane = pane_of(state.panes, state.on_time_panes, timing, is_last)
        timestamp = state.stamp
        if timestamp is None or timestamp < self._times.watermark:
            # No element counts, or the stamp is that of an earlier pane, which no longer holds the watermark.
            timestamp = end - 1 if end < MAX_MICROS else state.windows[0].max_micros
        if self._mode is RETRACTING:
            is_new = self._emit_retracting(state, timestamp, pane)
        else:
            is_new = self._emit_value(state, timestamp, pane)
        state.has_new = False
        state.was_on_time = timing is not EARLY
        if state.held is not None or (self._stamps and self._mode is RETRACTING):
            self._times.hold(state, None)
        if is_new:
            state.panes += 1
            state.on_time_panes += timing is not EARLY

    def _emit_value(self, state: WindowState, timestamp: int, pane: PaneInfo) -> bool:
        is_empty = not (state.has_new and self._fold.has_inputs(state.accumulator))
        try:
            value = self.value(state.accumulator, is_empty)
        except ValueError:
            # A combiner without a result for no elements, such as min, has no empty pane.
            if not is_empty:
                raise
            return False
        self.out.add((state.key, value), timestamp, state.windows, pane, 1)
        if self._mode is DISCARDING:
            state.accumulator = self._fold.nothing()
            state.stamp = None
        return True

    def _emit_retracting(self, state: WindowState, timestamp: int, pane: PaneInfo) -> bool:
        out, old, windows = self.out, state.pane, state.windows
        if self._stamps and old is not None and pane.timing is LATE and state.pane_windows == windows:
            # Both are late downstream: with one timestamp both are kept there, or both are dropped.
            timestamp = state.timestamp
        is_empty = not self._fold.has_inputs(state.accumulator)
        pair = None if is_empty else (state.key, self.value(state.accumulator))
        if old is not None:
            if (pane.timing is ON_TIME or pane.is_last) and self._equals_current(state, pair, timestamp):
                return False
            out.add(state.pair, state.timestamp, state.pane_windows, old, -1)
        if state.replaced:
            for current in state.replaced:
                out.add(*current, -1)
            state.replaced = ()
        if is_empty:
            state.pane = None
            return False
        out.add(pair, timestamp, windows, pane, 1)
        # What is retracted later is the pane as it was emitted.
        state.pair, state.timestamp, state.pane_windows, state.pane = defensive_copy(pair), timestamp, windows, pane
        return True

    def take_back_replaced(self, state: WindowState) -> None:
        """Retract the panes of former windows that would be late downstream if they waited for the next pane."""
        watermark = self._clocks.watermark
        if state.pane is not None and self._times.is_replaced(state, state.current_panes[0], watermark):
            self.out.add(*state.current_panes[0], -1)
            state.pane = None
        remaining = []
        for current in state.replaced:
            if self._times.is_replaced(state, current, watermark):
                self.out.add(*current, -1)
            else:
                remaining.append(current)
        state.replaced = tuple(remaining)

    def _equals_current(self, state: WindowState, pair: Any, timestamp: int) -> bool:
        """Return whether a pane equals the current one, and needn't be emitted."""
        if self._emit_unchanged or state.replaced:
            return False
        if (timestamp, state.windows) != (state.timestamp, state.pane_windows):
            return False
        try:
            return bool(pair == state.pair)
        except (TypeError, ValueError):
            # Values without a single truth, such as arrays.
            return False

    def value(self, accumulator: Any, is_empty: bool = False) -> Any:
        """Return a window's result; more elements in the window don't change it."""
        value = self._fold.result(accumulator, is_empty)
        return value if self._mode is DISCARDING else defensive_copy(value)


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
        done = self.reach(EVENT_TIME, most)
        return done + self.reach(PROCESSING_TIME, most - done)

    def reach(self, order: int, most: int) -> int:
        """Process windows whose time a clock has reached, at most so many; return their number.

        Each key of a uniform window counts as one.

        Args:
          order: EVENT_TIME for the watermark, PROCESSING_TIME for processing time.
        """
        due, now = self._of(order)
        until = now if self._table.spilled is None else self._loaded_until(order, now, most)
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
                if type(state) is UniformWindow and state.is_firing:
                    state.event_time = time
                    due.put_back(time, [state])
                elif self._takes_back and of_event_time and now < state.expiry:
                    self._panes.take_back_replaced(state)
        self._note(due.next(), until)
        return most - room

    def look_at_restored(self) -> None:
        """Note whether windows of a snapshot are due, in memory or on disk: they were when it was taken."""
        times, clocks = self._times, self._clocks
        self._note(times.next_event_time(), clocks.watermark)
        self._note(times.next_processing_time(), clocks.processing_time)

    def _of(self, order: int) -> tuple[DueTimes[WindowState], int]:
        """Return the windows that are due by a clock, and its time."""
        if order == EVENT_TIME:
            return self._times.event_times, self._clocks.watermark
        return self._times.processing_times, self._clocks.processing_time

    def _note(self, time: int | None, until: int) -> None:
        """Note whether the next windows, which are due at a time, are due up to another."""
        if time is not None and time <= until:
            self.is_due = True

    def _loaded_until(self, order: int, time: int, most: int) -> int:
        """Load the first windows on disk that are due, at most so many; return the time up to which all are in memory.

        What is loaded and doesn't fire now may be spilled again before it does.
        """
        assert self._table.spilled is not None
        remaining = self._table.spilled.load_due(order, time, most)
        if remaining is None or remaining > time:
            return time
        self.is_due = True
        return remaining

    def look_at_all(self) -> None:
        """Process every window, for triggers that depend on more than the two clocks."""
        self._decisions.forget()
        self._table.separate_all()
        if self._table.spilled is not None:
            self._table.spilled.load_all()
        for state in self._table.states():
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
        if expired and state.was_on_time and not state.has_new:
            self._table.close(state)
            return keys
        decision = self._decisions.now(state.decision, state.end)
        if decision.fires or (expired and state.has_new):
            if type(state) is not UniformWindow:
                self._panes.emit(state, expired)
            elif state.has_new:
                keys = self._emit_cells(state, decision, expired, most)
                if state.is_firing:
                    return keys
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

    def _emit_cells(self, window: UniformWindow, decision: Decision, is_last: bool, most: int) -> int:
        """Emit the pane of a uniform window, of at most so many keys; return their number."""
        panes, cells = self._panes, self._table.cells
        if not window.is_on_disk:
            keys = panes.emit_cells(window, decision, is_last, most)
            if window.unfired is None:
                panes.finish_cells(window)
            return keys
        assert cells is not None
        keys = 0
        while keys < most:
            if window.unfired is None and not cells.load_group(window):
                panes.finish_cells(window)
                break
            keys += panes.emit_cells(window, decision, is_last, most - keys)
            if window.unfired is None:
                cells.end_group(window)
        return keys
