"""The times at which windows are due, and their holds of the output watermark.

Windows end together, and aligned processing-time triggers fire together.  So a heap of distinct times, with a list of
windows for each, costs little more than a list.  An entry isn't removed when a window is scheduled for another time:
the window's own `event_time` and `processing_time` say whether an entry still counts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Generic, TypeVar

from ....triggers import AccumulationMode
from ....windowing.timestamp import MIN_MICROS
from ..spilling.rocksdb import EVENT_TIME, HELD, PROCESSING_TIME, SpilledEntries
from .trigger_state import Clocks
from .window_state import CurrentPane, WindowState

T = TypeVar("T")


class DueTimes(Generic[T]):
    """Queue of things by the time, in microseconds, at which they are due.

    >>> due = DueTimes()
    >>> due.add(20, "b"), due.add(10, "a"), due.add(20, "c")
    (None, None, None)
    >>> due.next(), due.pop(), due.pop()
    (10, ['a'], ['b', 'c'])
    """

    __slots__ = ("_at", "_times")

    def __init__(self) -> None:
        self._times: list[int] = []
        self._at: dict[int, list[T]] = {}

    def add(self, time: int, thing: T) -> None:
        """Add a thing that is due at a time."""
        at = self._at.get(time)
        if at is None:
            self._at[time] = [thing]
            heappush(self._times, time)
        else:
            at.append(thing)

    def next(self) -> int | None:
        """Return the earliest time at which anything is due."""
        return self._times[0] if self._times else None

    def pop(self, most: int = sys.maxsize) -> list[T]:
        """Remove and return the first things that are due at the earliest time, in the order in which they were added.

        Args:
          most: the largest number of them.
        """
        at = self._at[self._times[0]]
        if len(at) <= most:
            return self._at.pop(heappop(self._times))
        first = at[:most]
        del at[:most]
        return first

    def put_back(self, time: int, things: list[T]) -> None:
        """Put things before all others that are due at a time, the earliest one."""
        if time not in self._at:
            heappush(self._times, time)
        self._at[time] = [*things, *self._at.get(time, ())]

    def discard(self, time: int, thing: T) -> None:
        """Remove a thing that is due at a time, if it is there."""
        at = self._at.get(time, [])
        if thing in at:
            at.remove(thing)

    def keep(self, is_wanted: Callable[[T, int], bool]) -> None:
        """Remove the entries that are no longer wanted at their time."""
        kept = ((time, [thing for thing in things if is_wanted(thing, time)]) for time, things in self._at.items())
        self._at = {time: things for time, things in kept if things}
        self._times = sorted(self._at)


class Holds:
    """Multiset of timestamps that hold the watermark; the least of them counts.

    >>> holds = Holds()
    >>> holds.add(7), holds.add(5), holds.remove(5), holds.least()
    (None, None, None, 7)
    """

    __slots__ = ("_counts", "_times")

    def __init__(self) -> None:
        self._times: list[int] = []
        self._counts: dict[int, int] = {}

    def add(self, time: int) -> None:
        """Hold the watermark at this time."""
        count = self._counts.get(time)
        if count is None:
            heappush(self._times, time)
            count = 0
        self._counts[time] = count + 1

    def remove(self, time: int) -> None:
        """Remove one hold at this time."""
        self._counts[time] -= 1

    def least(self) -> int | None:
        """Return the earliest time that is held."""
        times, counts = self._times, self._counts
        while times and not counts[times[0]]:
            del counts[heappop(times)]
        return times[0] if times else None


RETRACTING = AccumulationMode.RETRACTING


class WindowTimes:
    """The due times and holds of one grouping's windows.

    Args:
      clocks: the grouping's clocks.
      mode: its accumulation mode.
      lateness: its allowed lateness, in microseconds.

    Attributes:
      event_times, processing_times: the windows that are due, by time.
      watermark: the output watermark, in microseconds, as it was computed last.
      spilled: windows on disk, which have times, too; None if all are in memory.
    """

    def __init__(self, clocks: Clocks, mode: AccumulationMode, lateness: int = 0) -> None:
        self.event_times: DueTimes[WindowState] = DueTimes()
        self.processing_times: DueTimes[WindowState] = DueTimes()
        self.watermark = MIN_MICROS
        self.spilled: SpilledEntries | None = None
        self._clocks = clocks
        self._retracts = mode is RETRACTING
        self._lateness = lateness
        self._holds = Holds()

    def schedule(self, state: WindowState) -> None:
        """Schedule a window for the times of its trigger's decision."""
        decision = state.decision
        event_time, processing_time = decision.event_time, decision.processing_time
        if self._retracts and (state.replaced or state.pane_windows is not state.windows):
            last = self._last_chance(state)
            event_time = last if event_time is None or (last is not None and last < event_time) else event_time
        if event_time != state.event_time:
            state.event_time = event_time
            if event_time is not None:
                self.event_times.add(event_time, state)
        if processing_time != state.processing_time:
            state.processing_time = processing_time
            if processing_time is not None:
                self.processing_times.add(processing_time, state)

    def cancel(self, state: WindowState) -> None:
        """Remove a window from those that are due, in both time domains."""
        if state.event_time is not None:
            self.event_times.discard(state.event_time, state)
        if state.processing_time is not None:
            self.processing_times.discard(state.processing_time, state)
        state.event_time = state.processing_time = None

    def is_replaced(self, state: WindowState, current: CurrentPane, time: int) -> bool:
        """Return whether a current pane is of a former window that expires downstream after this watermark.

        That is so at the window's end plus the allowed lateness, unless the pane holds the output watermark.
        """
        _, timestamp, windows, _ = current
        if windows == state.windows or (state.held is not None and timestamp >= state.held):
            return False
        return windows[0].max_micros + 1 + self._lateness <= time

    def _last_chance(self, state: WindowState) -> int | None:
        """Return the next watermark up to which a pane of a former window has to be retracted, if there is one."""
        watermark, lateness = self._clocks.watermark, self._lateness
        times = [
            windows[0].max_micros + 1 + lateness
            for _, timestamp, windows, _ in state.current_panes
            if windows != state.windows and (state.held is None or timestamp < state.held)
        ]
        return min((time for time in times if time >= watermark), default=None)

    def next_processing_time(self) -> int | None:
        """Return the next processing time at which a window may be due, in microseconds."""
        return self._with_spilled(self.processing_times.next(), PROCESSING_TIME)

    def next_event_time(self) -> int | None:
        """Return the next watermark at which a window may be due, in microseconds."""
        return self._with_spilled(self.event_times.next(), EVENT_TIME)

    def _with_spilled(self, time: int | None, order: int) -> int | None:
        if self.spilled is None:
            return time
        spilled = self.spilled.least(order)
        return spilled if time is None or (spilled is not None and spilled < time) else time

    def forget_stale(self) -> None:
        """Remove entries of windows that are removed, or scheduled for another time."""
        self.event_times.keep(lambda state, time: state.event_time == time)
        self.processing_times.keep(lambda state, time: state.processing_time == time)

    # The output watermark

    def output_watermark(self) -> int:
        """Compute the output watermark: the input watermark, unless windows hold it.  It never goes back."""
        held = self._with_spilled(self._holds.least(), HELD)
        watermark = self._clocks.watermark if held is None else min(self._clocks.watermark, held)
        self.watermark = max(watermark, self.watermark)
        return self.watermark

    def hold(self, state: WindowState, time: int | None) -> None:
        """Hold the output watermark at a time, or release it for None and for a time that it has passed.

        A current pane that is early may be retracted until the end of its window.  It holds the output watermark, so
        that its retraction isn't late downstream.
        """
        watermark = self.watermark
        if time is not None and time < watermark:
            time = None
        if self._retracts and self._clocks.watermark < state.end and (state.pane or state.replaced):
            last = state.windows[0].max_micros
            for _, stamp, _, _ in state.current_panes:
                if watermark <= stamp < last and (time is None or stamp < time):
                    time = stamp
        if time == state.held:
            return
        if state.held is not None:
            self._holds.remove(state.held)
        state.held = time
        if time is not None:
            self._holds.add(time)

    def hold_next_pane(self, state: WindowState) -> None:
        """Hold the output watermark at the timestamp of the next pane of a window that is complete."""
        self.hold(state, state.windows[0].max_micros if state.stamp is None else state.stamp)

    def release(self, state: WindowState) -> None:
        """Release the hold of a window, if it has one."""
        if state.held is not None:
            self._holds.remove(state.held)
            state.held = None

    def put(self, state: WindowState) -> None:
        """Add a window of a snapshot, with its hold."""
        if state.held is not None:
            self._holds.add(state.held)
        self.schedule(state)
