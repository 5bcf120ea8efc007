"""When windows are to be looked at again, and how they hold the watermark back meanwhile.

DueTimes: what is due when, many things at one time.

Windows end together, and aligned processing-time triggers fire together; so a heap of
distinct times with a list for each costs little more than a list.  An entry isn't removed
when it is no longer wanted: whoever is told that it is due looks whether it still is.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Generic, TypeVar

from ....triggers import AccumulationMode
from ....windowing.timestamp import MIN_MICROS
from ..parked_entries import EVENT_TIME, HELD, PROCESSING_TIME, ParkedEntries
from .trigger_state import Clocks
from .window_state import Standing, WindowState

T = TypeVar("T")


class DueTimes(Generic[T]):
    """Things by the time, in microseconds, at which they are due.

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
        """Have a thing become due."""
        at = self._at.get(time)
        if at is None:
            self._at[time] = [thing]
            heappush(self._times, time)
        else:
            at.append(thing)

    def next(self) -> int | None:
        """The earliest time at which anything is due."""
        return self._times[0] if self._times else None

    def pop(self) -> list[T]:
        """Take out what is due at that time, in the order in which it was added."""
        return self._at.pop(heappop(self._times))

    def keep(self, is_wanted: Callable[[T, int], bool]) -> None:
        """Forget the entries that are no longer wanted at their time."""
        kept = ((time, [thing for thing in things if is_wanted(thing, time)]) for time, things in self._at.items())
        self._at = {time: things for time, things in kept if things}
        self._times = sorted(self._at)


class Holds:
    """Timestamps that hold the watermark back; the least of them counts.

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
        """Let go of one hold at this time."""
        self._counts[time] -= 1

    def least(self) -> int | None:
        """The earliest time that is held."""
        times, counts = self._times, self._counts
        while times and not counts[times[0]]:
            del counts[heappop(times)]
        return times[0] if times else None


RETRACTING = AccumulationMode.RETRACTING


class WindowTimes:
    """The times of one grouping's windows, of all keys.

    Args:
      clocks: what the grouping knows of time.
      mode: its accumulation mode.

    Attributes:
      event_times, processing_times: what is due in either domain.
      watermark: the output watermark, in microseconds, as it was last looked at.
      parked: windows that aren't in memory, and have times as well; None if all are.
    """

    def __init__(self, clocks: Clocks, mode: AccumulationMode, lateness: int = 0) -> None:
        self.event_times: DueTimes[WindowState] = DueTimes()
        self.processing_times: DueTimes[WindowState] = DueTimes()
        self.watermark = MIN_MICROS
        self.parked: ParkedEntries | None = None
        self._clocks = clocks
        self._retracts = mode is RETRACTING
        self._lateness = lateness
        self._holds = Holds()

    def schedule(self, state: WindowState) -> None:
        """Have a window looked at when its trigger wants to be asked."""
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

    def is_replaced(self, state: WindowState, standing: Standing, time: int) -> bool:
        """Return whether a pane that stands is of a former window, which expires downstream behind this watermark.

        That is when the window's end and the allowed lateness are reached, unless the pane holds the output watermark.
        """
        _, timestamp, windows, _ = standing
        if windows == state.windows or (state.held is not None and timestamp >= state.held):
            return False
        return windows[0].max_micros + 1 + self._lateness <= time

    def _last_chance(self, state: WindowState) -> int | None:
        """Return the watermark up to which a pane of a former window has to be taken back, if there is one to come."""
        watermark, lateness = self._clocks.watermark, self._lateness
        times = [
            windows[0].max_micros + 1 + lateness
            for _, timestamp, windows, _ in state.standing
            if windows != state.windows and (state.held is None or timestamp < state.held)
        ]
        return min((time for time in times if time >= watermark), default=None)

    def next_processing_time(self) -> int | None:
        """The processing time, in microseconds, at which something may be due."""
        return self._with_parked(self.processing_times.next(), PROCESSING_TIME)

    def next_event_time(self) -> int | None:
        """The watermark, in microseconds, at which something may be due."""
        return self._with_parked(self.event_times.next(), EVENT_TIME)

    def _with_parked(self, time: int | None, order: int) -> int | None:
        if self.parked is None:
            return time
        parked = self.parked.least(order)
        return parked if time is None or (parked is not None and parked < time) else time

    def forget_stale(self) -> None:
        """Let go of windows that are not to be looked at any more, or at another time."""
        self.event_times.keep(lambda state, time: state.event_time == time)
        self.processing_times.keep(lambda state, time: state.processing_time == time)

    # The output watermark

    def output_watermark(self) -> int:
        """Look at how far the watermark is downstream: what is not yet emitted holds it.  It never goes back."""
        held = self._with_parked(self._holds.least(), HELD)
        watermark = self._clocks.watermark if held is None else min(self._clocks.watermark, held)
        self.watermark = max(watermark, self.watermark)
        return self.watermark

    def hold(self, state: WindowState, time: int | None) -> None:
        """Hold the output watermark at this time, or let go of it.  What is behind it already is late downstream.

        An early pane that stands may be taken back until the end of the window; that must not be
        late downstream either.
        """
        watermark = self.watermark
        if time is not None and time < watermark:
            time = None
        if self._retracts and self._clocks.watermark < state.end and (state.pane or state.replaced):
            last = state.windows[0].max_micros
            for _, standing, _, _ in state.standing:
                if watermark <= standing < last and (time is None or standing < time):
                    time = standing
        if time == state.held:
            return
        if state.held is not None:
            self._holds.remove(state.held)
        state.held = time
        if time is not None:
            self._holds.add(time)

    def hold_what_waits(self, state: WindowState) -> None:
        """Hold the output watermark where the next pane of a window will be whose end the watermark has passed."""
        self.hold(state, state.windows[0].max_micros if state.stamp is None else state.stamp)

    def release(self, state: WindowState) -> None:
        """Let go of the hold that a window has, if it has one."""
        if state.held is not None:
            self._holds.remove(state.held)
            state.held = None

    def put(self, state: WindowState) -> None:
        """Take over a window of a snapshot, with the hold that it has."""
        if state.held is not None:
            self._holds.add(state.held)
        self.schedule(state)
