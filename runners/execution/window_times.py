"""When windows are to be looked at again, and how they hold the watermark back meanwhile."""

from __future__ import annotations

from ...triggers import AccumulationMode
from ...windowing.timestamp import MIN_MICROS
from .due_times import DueTimes, Holds
from .parked_entries import EVENT_TIME, HELD, PROCESSING_TIME, ParkedEntries
from .trigger_decisions import Clocks
from .window_state import Standing, WindowState

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
