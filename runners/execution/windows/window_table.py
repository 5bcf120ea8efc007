"""The windows of a grouping with triggers that are in memory: states, due times, holds, and which have changed.

Windows end together, and aligned processing-time triggers fire together.  So a heap of distinct times, with a list of
windows for each, costs little more than a list.  An entry isn't removed when a window is scheduled for another time:
the window's own `event_time` and `processing_time` say whether an entry still counts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar, cast

from ....sdk.elements.bundle import Bundle
from ....triggers import AccumulationMode
from ....windowing import BoundedWindow
from ....windowing.timestamp import MIN_MICROS
from ..spilling.rocksdb import EVENT_TIME, HELD, PROCESSING_TIME, SpilledEntries
from .cell_table import CellTable
from .trigger_state import Clocks
from .window_state import CurrentPane, UniformWindow, WindowState

T = TypeVar("T")

_NONE: dict[Any, WindowState] = {}


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
        self._retracts = mode is AccumulationMode.RETRACTING
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

    def is_complete(self, state: WindowState) -> bool:
        """Return whether the watermark has passed the end of a window."""
        return state.end <= self._clocks.watermark

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

    def put_back(self, state: WindowState) -> None:
        """Add a window as it was let go: with its hold, and due when it was due, which may be in the past by now."""
        if state.held is not None:
            self._holds.add(state.held)
        if state.event_time is not None:
            self.event_times.add(state.event_time, state)
        if state.processing_time is not None:
            self.processing_times.add(state.processing_time, state)


class WindowsOnDisk(Protocol):
    """The windows of a table that aren't in memory (`spilled_windows.py`)."""

    def load_for(self, bundle: Bundle) -> None:
        """Load the windows that a bundle has elements of."""

    def load_states(self, keys: list[Any], window: BoundedWindow) -> None:
        """Load a window of these keys."""

    def __contains__(self, window: BoundedWindow) -> bool:
        """Return whether any key has this window there."""

    def forget(self, states: Iterable[WindowState]) -> None:
        """Forget windows in memory, which have become uniform."""

    def load_due(self, order: int, time: int, most: int) -> int | None:
        """Load the first windows that are due up to a time, at most so many, and return when the next ones are due."""

    def load_all(self) -> None:
        """Load all windows."""

    def spill_excess(self) -> None:
        """Spill windows if there are too many in memory."""


class CellsOnDisk(Protocol):
    """The cells of uniform windows of a table that aren't in memory (`spilled_cells.py`)."""

    def load_for(self, bundle: Bundle) -> None:
        """Separate what a bundle has elements of, in windows that are complete."""

    def load_group(self, window: UniformWindow) -> bool:
        """Load the cells of the next key group that hasn't had its pane; return False if there is none."""

    def end_group(self, window: UniformWindow) -> None:
        """Let go of the cells of a key group, all of which have had their pane."""

    def separate(self, window: UniformWindow) -> None:
        """Make a state for each key."""

    def remove(self, window: UniformWindow) -> None:
        """Remove the cells of a window."""

    def has_fired(self, window: BoundedWindow) -> bool:
        """Return whether any cell of a window has had its pane."""

    def restore_cells(self, records: Any) -> Any:
        """Restore cells from records, of which the last counts for a key and window; return the records of others."""

    def register(self) -> None:
        """Add the windows of restored cells to the table."""


class WindowTable(CellTable):
    """The windows of a grouping with triggers, for windows that don't merge.

    Args:
      times: their due times and holds.
      begin: begins a uniform window.

    Attributes:
      is_merging: whether windows merge.
      by_window: uniform windows.  There are none where windows merge.
      keyed: the windows whose keys have a state each, by window and key.
      times: their due times and holds.
      changed: the states that have changed since the last snapshot, removed ones among them; None without snapshots.
      gone: the keys of removed uniform windows that are in the last snapshot.
      spilled: the windows on disk that have a state for each key; None if all are in memory.
      cells: the cells of uniform windows on disk; None if all are in memory.
    """

    is_merging = False

    def __init__(self, times: WindowTimes, begin: Callable[[BoundedWindow], UniformWindow]) -> None:
        super().__init__(begin)
        self.keyed: dict[BoundedWindow, dict[Any, WindowState]] = {}
        self.times = times
        self.changed: dict[WindowState, None] | None = None
        self.gone: list[tuple[BoundedWindow, list[Any]]] = []
        self.spilled: WindowsOnDisk | None = None
        self.cells: CellsOnDisk | None = None

    def __len__(self) -> int:
        """Return the number of windows of all keys."""
        return self.number_uniform + self.number_of_states

    @property
    def number_uniform(self) -> int:
        """Return the number of keys of all uniform windows."""
        return sum(len(window.accumulators) for window in self.by_window.values())

    @property
    def number_of_states(self) -> int:
        """Return the number of windows of keys that have a state each."""
        return sum(map(len, self.keyed.values()))

    def all(self) -> list[WindowState]:
        """Return the windows of every key, each with a state."""
        self.separate_all()
        return self.states()

    def states(self) -> list[WindowState]:
        """Return the windows of every key that have a state each."""
        return [state for states in self.keyed.values() for state in states.values()]

    def has(self, state: WindowState) -> bool:
        """Return whether a window is still there."""
        return self.keyed.get(state.windows[0], _NONE).get(state.key) is state

    def has_any(self, key: Any, window: BoundedWindow | None) -> bool:
        """Return whether a key has a window."""
        return window is not None and key in self.keyed.get(window, _NONE)

    def has_states(self, window: BoundedWindow) -> bool:
        """Return whether any key has a state for this window, in memory or on disk."""
        return window in self.keyed or self.is_spilled(window)

    def is_spilled(self, window: BoundedWindow) -> bool:
        """Return whether any key has a state for this window on disk."""
        return self.spilled is not None and window in self.spilled

    def states_of(self, key: Any, window: BoundedWindow | None) -> list[WindowState]:
        """Return a key's window, if it is there."""
        state = None if window is None else self.keyed.get(window, _NONE).get(key)
        return [] if state is None else [state]

    def of_key(self, key: Any) -> list[WindowState]:
        """Return every window of a key."""
        return [states[key] for states in self.keyed.values() if key in states]

    def put(self, state: WindowState) -> None:
        """Add a window of a snapshot, with its times and its hold."""
        self.add(state)
        self.times.put(state)

    def put_back(self, state: WindowState) -> None:
        """Add a window as it was let go, with its times and its hold."""
        self.add(state)
        self.times.put_back(state)

    def let_go(self, state: WindowState) -> None:
        """Remove a window, its times and its hold."""
        self.remove(state)
        state.event_time = state.processing_time = None
        if state.held is not None:
            self.times.release(state)

    def close(self, state: WindowState) -> None:
        """Remove a window that has expired, or has merged into another."""
        if self.changed is not None and type(state) is not UniformWindow:
            self.changed[state] = None
        self.let_go(state)

    def touch(self, state: WindowState) -> None:
        """Note that a window has changed since the last snapshot, if there was one."""
        if self.changed is None:
            return
        if type(state) is UniformWindow:
            state.changed.update(dict.fromkeys(state.accumulators))
        else:
            self.changed[state] = None

    def add(self, state: WindowState) -> None:
        """Add a window."""
        self.keyed.setdefault(state.windows[0], {})[state.key] = state

    def remove(self, state: WindowState) -> None:
        """Remove a window."""
        window = state.windows[0]
        if type(state) is UniformWindow:
            del self.by_window[window]
            if state.is_on_disk:
                assert self.cells is not None
                self.cells.remove(state)
            if state.recorded:
                self.gone.append((window, list(islice(state.accumulators, state.recorded))))
            return
        states = self.keyed[window]
        del states[state.key]
        if not states:
            del self.keyed[window]

    # Uniform windows

    def separate(self, window: UniformWindow) -> None:
        """Make a state for each key of a uniform window."""
        if window.is_on_disk:
            assert self.cells is not None
            self.cells.separate(window)
        del self.by_window[window.windows[0]]
        self.times.cancel(window)
        gone = window.fired if window.closes else 0
        if recorded := min(gone, window.recorded):
            self.gone.append((window.windows[0], list(islice(window.accumulators, recorded))))
        for index, state in enumerate(window.states()):
            if index < gone:
                continue
            self.put(state)
            if self.changed is not None and (index < window.fired or state.key in window.changed):
                self.changed[state] = None
        self.times.release(window)

    def separate_all(self, only_firing: bool = False) -> None:
        """Make a state for each key of every uniform window, or of those in memory whose firing is under way only."""
        for window in list(self.by_window.values()):
            if not only_firing or (window.is_firing and not window.is_on_disk):
                self.separate(window)

    def unify(self, window: BoundedWindow) -> None:
        """Make a window uniform whose states are in the last snapshot, and differ in their accumulators only."""
        states = self.keyed.pop(window)
        uniform = self.of(window)
        for key, state in states.items():
            uniform.accumulators[key] = state.accumulator
            if self.changed is not None and state in self.changed:
                del self.changed[state]
                uniform.changed[key] = None
            state.event_time = state.processing_time = None
        uniform.recorded = len(states)
        if self.spilled is not None:
            self.spilled.forget(states.values())

    # Changes since the last snapshot

    @property
    def number_changed(self) -> int:
        """Return the number of keys and windows that have changed, removed ones among them."""
        gone = sum(len(keys) for _, keys in self.gone)
        return len(self.changed or ()) + gone + sum(len(window.changed) for window in self.by_window.values())

    def forget_changes(self) -> list[dict[Any, None]]:
        """Count all windows as recorded by a snapshot; return the former logs of changes."""
        forgotten: list[dict[Any, None]] = [] if self.changed is None else [cast(dict[Any, None], self.changed)]
        self.changed = {}
        self.gone = []
        for window in self.by_window.values():
            forgotten.append(window.changed)
            window.changed = {}
            window.recorded = len(window.accumulators)
        return forgotten
