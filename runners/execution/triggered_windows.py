"""Windows with triggers: every key's window, when it fires, and how its panes relate.

The part of the window operator that keeps a state for each key and window: trigger state,
pane number, what has been emitted.  What a pane says is in `panes.py`, and when a window is to be
looked at again in `window_times.py`.  Four rules make the panes independent of how a runner
cuts its input into bundles, and let no data be lost silently:

- A trigger that counts elements is asked after each of them; one that looks only at clocks
  once for each bundle and window.
- A pane is EARLY while the watermark is before the end of the window, then ON_TIME once,
  then LATE.
- A window expires when the watermark has passed its end by the allowed lateness.  What has
  not been emitted by then is: the closing pane, which is the last.
- An element of a window that has expired is late beyond rescue: dropped, counted, and given
  to whoever asked for late data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...sdk.bundle import Bundle, Windows, expanded
from ...sdk.coders.key_encoding import check_keys
from ...triggers import PaneInfo
from ...windowing import BoundedWindow
from ...windowing.timestamp import MAX_MICROS, MIN_MICROS
from ...windowing.timestamp_combiner import TimestampCombiner, combined, for_element
from .fold import Fold
from .key_check import not_a_pair, pair_type, unhashable
from .merged_accumulators import merging_two
from .merging import merging_windows
from .panes import DISCARDING, LATE, ON_TIME, RETRACTING, Panes
from .parked_entries import EVENT_TIME, PROCESSING_TIME
from .signed_inputs import SignedWindows
from .trigger_decisions import Clocks, Decision, TriggerDecisions
from .window_state import Rows, WindowState, pane_of
from .window_times import WindowTimes

if TYPE_CHECKING:
    from .parked_windows import ParkedWindows

_LATE_ELEMENT = PaneInfo(timing=LATE)

# The states of a window that has expired.
_NONE: dict[Any, WindowState] = {}


class TriggeredWindows:
    """The windows of all keys of one grouping.

    Args:
      fold: the grouping's fold.
      retracted: whether inputs may be retractions.
      keep_late: whether `taken_late` is to give the elements that came too late.

    Attributes:
      dropped: how many elements came too late.
      changed: the windows that have changed since the last snapshot, those that are gone among
        them; None if nobody takes snapshots.
      parked: the windows that aren't in memory; None if all are.
      is_behind: whether `catch_up` has to be called, for windows that are due and are yet to come back.
    """

    def __init__(self, fold: Fold, retracted: bool = False, keep_late: bool = False) -> None:
        windowing = fold.windowing
        self.dropped = 0
        self.changed: dict[WindowState, None] | None = None
        self.parked: ParkedWindows | None = None
        self.is_behind = False
        self._fold = fold
        self._fn = fold.combine_fn
        self._extract = fold.extracted if fold.extracts else None
        self._merge_two = merging_two(fold)
        self._retracted = retracted
        self._keep_late = keep_late
        self._element_wise = windowing.trigger.element_wise
        self._mode = windowing.accumulation_mode
        self._lateness = windowing.allowed_lateness
        self._combiner: TimestampCombiner = windowing.timestamp_combiner
        self._stamps = self._combiner is not TimestampCombiner.OUTPUT_AT_EOW
        is_plain = self._mode is not RETRACTING and not retracted and not self._stamps
        self._closes_at_once = is_plain and not windowing.window_fn.is_merging
        self._trigger = windowing.trigger
        self._percentiles = windowing.trigger.percentiles()
        self._clocks = Clocks()
        self._times = WindowTimes(self._clocks, self._mode)
        self._panes = Panes(fold, retracted, self._clocks, self._times)
        self._nothing = self._panes.nothing
        self._decisions = TriggerDecisions(windowing.trigger, self._clocks, self._lateness)
        # Windows that don't merge, by window and key; those that do, by key.
        self._by_window: dict[BoundedWindow, dict[Any, WindowState]] = {}
        self._merging = merging_windows(windowing.window_fn, retracted)
        # The windows that a bundle has come to, whose trigger is still to be asked.
        self._touched: dict[WindowState, None] = {}
        self._new_keys: list[Any] = []
        self._late = Rows()
        self._pair: type | None = None

    @property
    def watermark(self) -> int:
        """The input watermark, in microseconds."""
        return self._clocks.watermark

    @property
    def processing_time(self) -> int:
        """The clock, in microseconds."""
        return self._clocks.processing_time

    # Elements

    def process(self, bundle: Bundle) -> None:
        """Take in a bundle; what fires is in `taken` afterwards."""
        fn, touched, merging, by_window = self._fn, self._touched, self._merging, self._by_window
        retracted, stamps, element_wise = self._retracted, self._stamps, self._element_wise
        add_input = None if fn is None else fn.add_input
        watermark, lateness, nothing, new_keys = self._clocks.watermark, self._lateness, self._nothing, self._new_keys
        pair, start = self._pair, self._decisions.start
        # Most elements have the windows of the one before, and one of them.
        near: Windows | None = None
        states: dict[Any, WindowState] = {}
        end = expiry = MIN_MICROS
        n = len(bundle)
        columns = expanded(bundle.timestamps, n), expanded(bundle.windows, n), expanded(bundle.signs, n)
        for element, micros, windows, sign in zip(bundle.values, *columns, strict=True):
            if type(element) is not pair:
                pair = self._pair = pair_type(element)
            try:
                key, value = element
            except ValueError:
                raise not_a_pair(element) from None
            for window in windows:
                if merging is None and windows is not near:
                    near = windows if len(windows) == 1 else None
                    end = window.max_micros
                    expiry = min(end + lateness, MAX_MICROS)
                    states = by_window.setdefault(window, {}) if expiry > watermark else _NONE
                try:
                    state = states.get(key)
                except TypeError:
                    raise unhashable(key) from None
                if state is None:
                    if merging is not None:
                        state = self._merged(key, window)
                    elif states is not _NONE:
                        own = windows if near is not None else (window,)
                        state = states[key] = WindowState(key, own, end, expiry, nothing(), start)
                        new_keys.append(key)
                    if state is None:
                        self._drop(element, micros, window, sign)
                        continue
                if retracted:
                    self._add_signed(state, window, value, micros, sign)
                elif add_input is None:
                    state.accumulator.append(value)
                else:
                    state.accumulator = add_input(state.accumulator, value)
                state.has_new = True
                if stamps:
                    self._stamp(state, micros)
                touched[state] = None
                if element_wise:
                    self._ask(value)
        check_keys(new_keys)
        new_keys.clear()
        self._ask(None)

    def merge(self, bundle: Bundle) -> None:
        """Take in accumulators of elements that were folded before a shuffle: `(key, (accumulator, count))`.

        Only where it makes no difference (see `pre_aggregation.py`): so windows don't merge here.
        """
        touched, by_window, new_keys, merge_two = self._touched, self._by_window, self._new_keys, self._merge_two
        watermark, lateness, combiner, start = (
            self._clocks.watermark,
            self._lateness,
            self._combiner,
            self._decisions.start,
        )
        stamps, discarding = self._stamps, self._mode is DISCARDING
        near: Windows | None = None
        states: dict[Any, WindowState] = {}
        end = expiry = MIN_MICROS
        n = len(bundle)
        columns = expanded(bundle.timestamps, n), expanded(bundle.windows, n)
        for (key, (accumulator, count)), stamp, windows in zip(bundle.values, *columns, strict=True):
            if windows is not near:
                near = windows
                end = windows[0].max_micros
                expiry = min(end + lateness, MAX_MICROS)
                states = by_window.setdefault(windows[0], {}) if expiry > watermark else _NONE
            state = states.get(key)
            if state is None:
                if states is _NONE:
                    self.dropped += count
                    continue
                state = states[key] = WindowState(key, windows, end, expiry, accumulator, start)
                new_keys.append(key)
            elif discarding and not state.has_new:
                state.accumulator = accumulator
            else:
                state.accumulator = merge_two(state.accumulator, accumulator)
            state.has_new = True
            if stamps:
                state.stamp = stamp if state.stamp is None else combined(combiner, state.stamp, stamp)
                self._times.hold(state, state.stamp)
            touched[state] = None
        check_keys(new_keys)
        new_keys.clear()
        self._ask(None)

    def _merged(self, key: Any, window: BoundedWindow) -> WindowState | None:
        """The state of the window that an element's becomes a part of; None if that has expired."""
        assert self._merging is not None
        sources, window = self._merging.merge(key, window)
        end = window.max_micros
        expiry = min(end + self._lateness, MAX_MICROS)
        if expiry <= self._clocks.watermark:
            return None
        if sources:
            if len(sources) > 1 or sources[0].windows[0] != window:
                self._join(sources, window, end, expiry)
            return sources[0]
        state = WindowState(key, (window,), end, expiry, self._nothing(), self._decisions.start)
        self._new_keys.append(key)
        self._merging.put(state)
        return state

    def _add_signed(self, state: WindowState, window: BoundedWindow, value: Any, micros: int, sign: int) -> None:
        stamp = for_element(self._combiner, window, micros, self._fold.windowing.window_fn)
        is_gone = state.accumulator.add(self._fn, window, value, stamp, sign)
        if is_gone and self._merging is not None:
            self._part(state)

    def _stamp(self, state: WindowState, micros: int) -> None:
        if self._retracted:
            times = state.accumulator.times()
            choose = max if self._combiner is TimestampCombiner.OUTPUT_AT_LATEST else min
            state.stamp = choose(times) if times else None
        else:
            own = for_element(self._combiner, state.windows[0], micros, self._fold.windowing.window_fn)
            assert own is not None
            state.stamp = own if state.stamp is None else combined(self._combiner, state.stamp, own)
        self._times.hold(state, state.stamp)

    def _ask(self, element: Any) -> None:
        """Tell the triggers of the windows that were touched, and fire where they say so."""
        decisions, touched = self._decisions, self._touched
        if self.changed is not None:
            self.changed.update(touched)
        # Most windows of a bundle are alike, to a trigger that doesn't look at elements.
        last: Decision | None = None
        decision = decisions.start
        end = MIN_MICROS
        for state in touched:
            if self._element_wise:
                decision = decisions.after_element(state.decision, element, state.end)
            elif state.decision is not last or state.end != end:
                last, end = state.decision, state.end
                decision = decisions.after_bundle(last, end)
            if decision.fires:
                self._panes.emit(state, False)
            if decision is not state.decision:
                state.decision = decision
                self._times.schedule(state)
        touched.clear()

    def _drop(self, element: Any, micros: int, window: BoundedWindow, sign: int) -> None:
        self.dropped += 1
        if self._keep_late:
            self._late.add(element, micros, (window,), _LATE_ELEMENT, sign)

    # Merging

    def _join(self, sources: list[WindowState], window: BoundedWindow, end: int, expiry: int) -> None:
        """Make the first of the states that of the window which they have merged into."""
        assert self._merging is not None
        state, *others = sources
        if others:
            accumulators = [part.accumulator for part in sources]
            state.accumulator = (
                SignedWindows.merged(accumulators) if self._retracted else self._fold.merged(accumulators)
            )
        for part in others:
            state.has_new |= part.has_new
            state.panes = max(state.panes, part.panes)
            state.on_time_panes = max(state.on_time_panes, part.on_time_panes)
            state.replaced += part.standing
            if part.stamp is not None:
                state.stamp = part.stamp if state.stamp is None else combined(self._combiner, state.stamp, part.stamp)
            self._merging.remove(part)
            self._touched.pop(part, None)
            self._times.release(part)
            part.cancel()
            if self.changed is not None:
                self.changed[part] = None
        self._merging.move(state, window)
        if others or self._clocks.watermark >= state.end or self._percentiles:
            self._place(state, sources, window, end, expiry)
        else:
            # To a trigger it is the same window, whose end is yet to come.
            state.place(window, end, expiry)
        if self._mode is RETRACTING:
            self._times.hold(state, state.stamp if self._stamps else None)

    def _part(self, state: WindowState) -> None:
        """What joined a window's inputs was taken back: make states of the windows that they are now."""
        assert self._merging is not None
        groups = self._merging.groups(state.accumulator.by_window)
        if not groups:
            return
        (_, first), *rest = groups
        # What is kept in order by windows is out of it while a part lies within the whole.
        self._merging.remove(state)
        for own, window in rest:
            end = window.max_micros
            part = WindowState(state.key, (window,), end, end, state.accumulator.taken(own), state.decision)
            part.panes, part.on_time_panes, part.has_new = state.panes, state.on_time_panes, True
            self._place(part, [state], window, end, min(end + self._lateness, MAX_MICROS))
            self._merging.put(part)
            self._touched[part] = None
            if self._stamps:
                self._stamp(part, 0)
        if first != state.windows[0]:
            end = first.max_micros
            self._place(state, [state], first, end, min(end + self._lateness, MAX_MICROS))
        self._merging.put(state)

    def _place(
        self, state: WindowState, sources: list[WindowState], window: BoundedWindow, end: int, expiry: int
    ) -> None:
        """Have a state stand for another window, with the trigger state of those that it came of."""
        is_past = self._clocks.watermark >= end
        state.was_on_time = is_past and any(part.was_on_time for part in sources)
        state.decision = self._decisions.merged([part.decision for part in sources], end)
        state.place(window, end, expiry)

    # Clocks

    def advance_watermark(self, watermark: int) -> None:
        """Move the watermark on; it never goes back."""
        if watermark > self._clocks.watermark:
            self._clocks.watermark = watermark
            self._decisions.forget()
            self._pass_event_times()

    def advance_processing_time(self, processing_time: int) -> None:
        """Move the clock on; it never goes back."""
        if processing_time > self._clocks.processing_time:
            self._clocks.processing_time = processing_time
            self._decisions.forget()
            self._pass_processing_times()

    def catch_up(self) -> None:
        """Look at the next of the windows that are due, where there are more than memory has room for."""
        self.is_behind = False
        self._pass_event_times()
        self._pass_processing_times()

    def _pass_event_times(self) -> None:
        watermark, due = self._clocks.watermark, self._times.event_times
        until = watermark if self.parked is None else self._back_until(EVENT_TIME, watermark)
        while (time := due.next()) is not None and time <= until:
            here = due.pop()
            for state in self._closed(here, time) if self._closes_at_once else here:
                if state.event_time == time:
                    state.event_time = None
                    self._look(state)

    def _pass_processing_times(self) -> None:
        now, due = self._clocks.processing_time, self._times.processing_times
        until = now if self.parked is None else self._back_until(PROCESSING_TIME, now)
        while (time := due.next()) is not None and time <= until:
            for state in due.pop():
                if state.processing_time == time:
                    state.processing_time = None
                    self._look(state)

    def _back_until(self, order: int, time: int) -> int:
        """Have the first of the windows come back that are due: up to when they can be looked at."""
        assert self.parked is not None
        left = self.parked.due_back(order, time)
        if left is None or left > time:
            return time
        self.is_behind = True
        return left

    def advance_percentile(self, percentile: float, watermark: int) -> None:
        """Move a percentile watermark on."""
        percentiles = self._clocks.percentiles
        if watermark > percentiles.get(percentile, MIN_MICROS):
            percentiles[percentile] = watermark
            if percentile in self._percentiles:
                self._look_at_all()

    def signal(self, name: str) -> None:
        """A signal has reached the pipeline."""
        self._clocks.signals[name] = self._clocks.signals.get(name, 0) + 1
        if name in self._trigger.signals():
            self._look_at_all()

    def _look_at_all(self) -> None:
        self._decisions.forget()
        if self.parked is not None:
            self.parked.all_back()
        for state in self.all():
            self._look(state)

    # Snapshots

    @property
    def is_merging(self) -> bool:
        """Whether windows merge."""
        return self._merging is not None

    def __len__(self) -> int:
        """How many windows there are of all keys; where they merge, of how many keys."""
        if self._merging is not None:
            return len(self._merging)
        return sum(map(len, self._by_window.values()))

    def all(self) -> list[WindowState]:
        """Every key's windows."""
        if self._merging is not None:
            return self._merging.all()
        return [state for states in self._by_window.values() for state in states.values()]

    def of_key(self, key: Any) -> list[WindowState]:
        """One key's windows, where windows merge."""
        assert self._merging is not None
        return self._merging.of_key(key)

    def has(self, state: WindowState) -> bool:
        """Whether a window is still there, where windows don't merge."""
        return self._by_window.get(state.windows[0], _NONE).get(state.key) is state

    def has_any(self, key: Any, window: BoundedWindow | None) -> bool:
        """Whether a key has a window; whether it has any, where windows merge."""
        if self._merging is not None:
            return key in self._merging
        return window is not None and key in self._by_window.get(window, _NONE)

    def of(self, key: Any, window: BoundedWindow | None) -> list[WindowState]:
        """One key's window; all of its windows, where windows merge."""
        if self._merging is not None:
            return self._merging.of_key(key)
        state = None if window is None else self._by_window.get(window, _NONE).get(key)
        return [] if state is None else [state]

    def put(self, state: WindowState) -> None:
        """Take over a window of a snapshot."""
        if self._merging is not None:
            self._merging.put(state)
        else:
            self._by_window.setdefault(state.windows[0], {})[state.key] = state
        self._times.put(state)

    def clocks(self) -> tuple[Any, ...]:
        """What it knows of time, as plain data."""
        clocks = self._clocks
        return (
            clocks.watermark,
            clocks.processing_time,
            dict(clocks.percentiles),
            dict(clocks.signals),
            self._times.watermark,
        )

    @property
    def times(self) -> WindowTimes:
        """When windows are to be looked at again, and what they hold."""
        return self._times

    def set_clocks(self, clocks: tuple[Any, ...]) -> None:
        """Take over what another one knew of time, before anything else."""
        own = self._clocks
        own.watermark, own.processing_time, own.percentiles, own.signals, self._times.watermark = clocks
        self._decisions.forget()

    def _closed(self, due: list[WindowState], time: int) -> list[WindowState]:
        """Close the windows that give their first pane as they expire, which is what most do; the others are left.

        The same as `_look` does, in a quarter of the time.
        """
        left: list[WindowState] = []
        out, extract, watermark, pane = (
            self._panes.out,
            self._extract,
            self._clocks.watermark,
            pane_of(0, 0, ON_TIME, True),
        )
        windows: Windows | None = None
        states: dict[Any, WindowState] = {}
        for state in due:
            if state.panes or not state.has_new or state.was_on_time or state.held is not None:
                left.append(state)
                continue
            if state.event_time != time or watermark < state.expiry:
                left.append(state)
                continue
            if state.windows is not windows:
                windows = state.windows
                states = self._by_window[windows[0]]
            accumulator = state.accumulator
            value = accumulator if extract is None else extract(accumulator)
            out.add((state.key, value), state.end, windows, pane, 1)
            if self.changed is not None:
                self.changed[state] = None
            state.cancel()
            del states[state.key]
            if not states:
                del self._by_window[windows[0]]
        return left

    def _look(self, state: WindowState) -> None:
        """Fire if the trigger says so; close the window if it has expired."""
        if self.changed is not None:
            self.changed[state] = None
        watermark = self._clocks.watermark
        expired = watermark >= state.expiry
        decision = self._decisions.now(state.decision, state.end)
        if decision.fires or (expired and state.has_new):
            self._panes.emit(state, expired)
        if expired:
            self.let_go(state)
            return
        state.decision = decision
        self._times.schedule(state)
        if state.has_new and watermark >= state.end and not self._stamps:
            # A pane that is due by the end of the window, but not yet: what follows is to wait for it.
            self._times.hold(state, state.end)
        elif state.held is not None and watermark >= state.end:
            self._times.hold(state, state.stamp if state.has_new and self._stamps else None)

    def let_go(self, state: WindowState) -> None:
        """Forget a window, its times and its hold."""
        if self._merging is not None:
            self._merging.remove(state)
        else:
            window = state.windows[0]
            states = self._by_window[window]
            del states[state.key]
            if not states:
                del self._by_window[window]
        state.cancel()
        self._times.release(state)

    def next_processing_time(self) -> int | None:
        """The processing time, in microseconds, at which something may be due."""
        return self._times.next_processing_time()

    def next_event_time(self) -> int | None:
        """The watermark, in microseconds, at which something may be due."""
        return self._times.next_event_time()

    def output_watermark(self) -> int:
        """How far the watermark is downstream: what is not yet emitted holds it.  It never goes back."""
        return self._times.output_watermark()

    # What comes out

    def taken(self) -> Bundle | None:
        """What has been emitted since the last time, if anything."""
        return self._panes.out.taken()

    def taken_late(self) -> Bundle | None:
        """The elements that came too late since the last time, if any were and they are kept."""
        return self._late.taken()
