"""The triggered window operator: windows with triggers, panes, lateness and retractions.

It keeps a state for each key and window: accumulator, trigger state, pane index, current pane.  This module
processes elements and moves clocks.  `window_table.py` holds the windows, `merging_table.py` those that merge, and
`firing.py` fires and closes those that are due.  Four rules make the panes independent of how a runner cuts its
input into bundles, and lose no data silently:

- A trigger that counts elements is asked after each of them; one that looks only at clocks once for each bundle and
  window.
- A pane is EARLY while the watermark is before the end of the window, then ON_TIME once, then LATE; a first pane is
  LATE if the output watermark has passed the end.
- A window expires when the watermark is past its end plus the allowed lateness.  Elements that no pane has had by then
  are emitted in the closing pane, the last one.
- An element of an expired window is dropped and counted, and emitted as late data if the grouping has such an output.
"""

from __future__ import annotations

import sys
from typing import Any

from ....sdk.coders.coded_key import VALID_TYPES, check_keys
from ....sdk.elements.bundle import Bundle, Windows, expanded
from ....sdk.elements.defensive_copy import IMMUTABLE, defensive_copy
from ....triggers import PaneInfo
from ....windowing import BoundedWindow
from ....windowing.timestamp import MIN_MICROS
from ....windowing.timestamp_combiner import TimestampCombiner, combined, for_element
from ....windowing.windows import lifetime_of
from ..kernels.folds import MISSING
from ..spilling.rocksdb import EVENT_TIME, PROCESSING_TIME
from ..user_errors import not_a_pair, pair_type, unhashable
from .combining import Fold, FoldedBundle
from .firing import DISCARDING, LATE, RETRACTING, DueWindows, PaneBuffer, Panes
from .merging_table import MergingWindowTable
from .trigger_state import Clocks, Decision, TriggerDecisions, fires_early
from .window_state import UniformWindow, WindowState
from .window_table import WindowTable, WindowTimes

_LATE_ELEMENT = PaneInfo(timing=LATE)

# Of a uniform window the accumulators by key, and the keys that have changed; of another the states by key, and None.
# The watermarks at which it is complete and expires, and the tuple of it that states have.
WindowCells = tuple[dict[Any, Any], dict[Any, None] | None, int, int, Windows]

# The states of a window that has expired.
_NONE: dict[Any, WindowState] = {}


class TriggeredWindows:
    """The windows of all keys of one grouping.

    Args:
      fold: the grouping's fold.
      keep_late: whether elements of expired windows are kept for `taken_late`.

    Attributes:
      dropped: the number of elements of expired windows.
      table: the windows.
      times: their due times and holds.
      due: fires those that are due.
    """

    def __init__(self, fold: Fold, keep_late: bool = False) -> None:
        windowing = fold.windowing
        self.dropped = 0
        self._fold = fold
        self._fn = fold.combine_fn
        self._retracted = fold.retracted
        self._keep_late = keep_late
        self._trigger = windowing.trigger
        self._element_wise = windowing.trigger.element_wise
        self._percentiles = windowing.trigger.percentiles()
        self._retracts = windowing.accumulation_mode is RETRACTING
        self._discarding = windowing.accumulation_mode is DISCARDING
        self._forgets = fold.only_shuffles
        self._lateness = windowing.allowed_lateness.micros
        self._combiner: TimestampCombiner = windowing.timestamp_combiner
        self._stamps = self._combiner is not TimestampCombiner.OUTPUT_AT_EOW
        self._clocks = clocks = Clocks()
        self.times = WindowTimes(clocks, windowing.accumulation_mode, windowing.allowed_lateness.micros)
        self._panes = Panes(fold, clocks, self.times)
        # A new state has no accumulator before its first element.
        self._nothing = fold.nothing if fold.retracted else _missing
        self._decisions = TriggerDecisions(windowing.trigger, clocks, self._lateness)
        # Windows with new elements, whose trigger is still to be asked.
        self._touched: dict[WindowState, None] = {}
        self.table = WindowTable(self.times, self._begin)
        self._merging: MergingWindowTable | None = None
        if windowing.window_fn.is_merging:
            decisions, touched = self._decisions, self._touched
            self.table = self._merging = MergingWindowTable(self.times, self._begin, fold, clocks, decisions, touched)
        self._may_be_uniform = may_be_uniform(fold)
        takes_back = self._retracts and self._merging is not None
        self.due = DueWindows(self.table, clocks, self._decisions, self._panes, takes_back)
        self._new_keys: list[Any] = []
        self._late = PaneBuffer()
        self._pair: type | None = None

    @property
    def watermark(self) -> int:
        """Return the input watermark, in microseconds."""
        return self._clocks.watermark

    @property
    def processing_time(self) -> int:
        """Return the processing time, in microseconds."""
        return self._clocks.processing_time

    # Elements

    def process(self, bundle: Bundle) -> None:  # noqa: C901 - one loop, which is the hot one
        """Process a bundle of elements, or of accumulators; `taken` has the panes afterwards."""
        touched, merging, element_wise = self._touched, self._merging, self._element_wise
        retracted, stamps, discarding = self._retracted, self._stamps, self._discarding
        keeps_earliest = self._combiner is TimestampCombiner.OUTPUT_AT_EARLIEST and not (retracted or self._retracts)
        watermark, new_keys = self._clocks.watermark, self._new_keys
        functions, is_folded = self._fold.functions, type(bundle) is FoldedBundle
        first, add = (_same, functions.merge) if is_folded else (functions.first, functions.add)
        pair, start = self._pair, self._decisions.start
        self.output_watermark()
        self.table.start_bundle()
        # Most elements have one window, that of the element before.
        same: Windows | None = None
        opened: dict[BoundedWindow, WindowCells] = {}
        cells: dict[Any, Any] = {}
        changed: dict[Any, None] | None = None
        end = expiry = MIN_MICROS
        own: Windows = ()
        count, n = 1, len(bundle)
        columns = expanded(bundle.timestamps, n), expanded(bundle.windows, n), expanded(bundle.signs, n)
        for element, micros, windows, sign in zip(bundle.values, *columns, strict=True):
            if type(element) is not pair:
                pair = self._pair = pair_type(element)
            try:
                key, value = element
            except ValueError:
                raise not_a_pair(element) from None
            if is_folded:
                value, count = value
            for window in windows:
                if windows is not same and merging is None:
                    same = windows if len(windows) == 1 else None
                    cells, changed, end, expiry, own = opened.get(window) or self._open(window, opened)
                if same is None and type(value) not in IMMUTABLE and len(windows) > 1:
                    # Each window has a value of its own, since a consumer of one of them may change it.
                    value = defensive_copy(value)
                try:
                    cell = cells.get(key, MISSING)
                except TypeError:
                    raise unhashable(key) from None
                if changed is not None:
                    cells[key] = first(value) if cell is MISSING else add(cell, value)
                    changed[key] = None
                    continue
                state: WindowState | None = cell
                if cell is MISSING:
                    state = None
                    if merging is not None:
                        state = self._merged(key, window)
                    elif cells is not _NONE:
                        state = cells[key] = WindowState(key, own, end, expiry, self._nothing(), start)
                        new_keys.append(key)
                if state is None:
                    self._drop(element, micros, window, sign, count)
                    continue
                if retracted:
                    self._add_signed(state, window, value, micros, sign)
                elif state.accumulator is MISSING or (discarding and not state.has_new):
                    state.accumulator = first(value)
                else:
                    state.accumulator = add(state.accumulator, value)
                state.has_new = True
                if stamps or micros < watermark:
                    stamp = state.stamp
                    # The earliest timestamp that holds the watermark isn't behind it; a later one makes no difference.
                    if not keeps_earliest or stamp is None or stamp != state.held or micros < stamp:
                        self._stamp(state, micros)
                touched[state] = None
            if element_wise:
                # A window that fires lets the output watermark advance, so all windows have the element first.
                self._ask(value)
        if not set(map(type, new_keys)) <= VALID_TYPES:
            check_keys(new_keys)
        new_keys.clear()
        self.table.finish_bundle()
        if self.table.changed is None:
            for _, changed, *_ in opened.values():
                if changed is not None:
                    changed.clear()
        self._ask(None)

    def _open(self, window: BoundedWindow, opened: dict[BoundedWindow, WindowCells]) -> WindowCells:
        """Return the cells and the lifetime of a window that doesn't merge; called once for each bundle."""
        end, expiry = lifetime_of(window, self._lateness)
        found: WindowCells = _NONE, None, end, expiry, ()
        if expiry > self._clocks.watermark:
            if self._is_uniform(window, end):
                uniform = self.table.open(window)
                found = uniform.accumulators, uniform.changed, end, expiry, ()
            else:
                states = self.table.keyed.setdefault(window, {})
                found = states, None, end, expiry, _own_windows(states, (window,))
        opened[window] = found
        return found

    def _is_uniform(self, window: BoundedWindow, end: int) -> bool:
        """Return whether a window is uniform, or may begin as such; one that is complete is separated."""
        table = self.table
        found = table.by_window.get(window)
        if end <= self._clocks.watermark:
            if found is not None and not found.is_on_disk:
                table.separate(found)
            return False
        return found is not None or (self._may_be_uniform and not table.has_states(window))

    def _begin(self, window: BoundedWindow) -> UniformWindow:
        end, expiry = lifetime_of(window, self._lateness)
        uniform = UniformWindow((window,), end, expiry, self._decisions.after_bundle(self._decisions.start, end))
        self.times.put(uniform)
        return uniform

    def _merged(self, key: Any, window: BoundedWindow) -> WindowState | None:
        """Merge an element's window, and return the state of the merged one; None if that has expired."""
        assert self._merging is not None
        sources, window = self._merging.find(key, window)
        end, expiry = lifetime_of(window, self._lateness)
        if expiry <= self._clocks.watermark:
            return None
        if sources:
            if len(sources) > 1 or sources[0].windows[0] != window:
                self._merging.join(sources, window, end, expiry)
            return sources[0]
        state = WindowState(key, (window,), end, expiry, self._nothing(), self._decisions.start)
        self._new_keys.append(key)
        self.table.add(state)
        return state

    def _add_signed(self, state: WindowState, window: BoundedWindow, value: Any, micros: int, sign: int) -> None:
        stamp = for_element(self._combiner, window, micros, self._fold.windowing.window_fn)
        is_gone = state.accumulator.add(self._fn, window, value, stamp, sign)
        if is_gone and self._merging is not None:
            for part in self._merging.part(state):
                if self._stamps:
                    self._stamp(part, 0)

    def _stamp(self, state: WindowState, micros: int) -> None:
        if not self._stamps:
            self._hold(state)
        elif self._retracted:
            # The output watermark may have advanced after inputs were retracted.
            watermark = self.output_watermark()
            times = [time for time in state.accumulator.times() if time >= watermark]
            choose = max if self._combiner is TimestampCombiner.OUTPUT_AT_LATEST else min
            state.stamp = choose(times) if times else None
            self._hold(state)
        else:
            own = for_element(self._combiner, state.windows[0], micros, self._fold.windowing.window_fn)
            assert own is not None
            self._keep(state, own)

    def _keep(self, state: WindowState, stamp: int) -> None:
        """Combine an element's timestamp with the one that is kept.

        A timestamp behind the output watermark can't hold it and doesn't count.  Neither does that of an earlier pane
        which the output watermark has passed since.
        """
        before, watermark = state.stamp, self.times.watermark
        if before is not None and before < watermark:
            before = state.stamp = None
        if stamp >= watermark:
            state.stamp = stamp if before is None else combined(self._combiner, before, stamp)
            if state.stamp == state.held and not self._retracts:
                return
        self._hold(state)

    def _hold(self, state: WindowState) -> None:
        if state.end <= self._clocks.watermark:
            self.times.hold_next_pane(state)
        else:
            self.times.hold(state, state.stamp)

    def _ask(self, element: Any) -> None:
        """Ask the triggers of windows with new elements, and fire the windows that they say."""
        decisions, touched = self._decisions, self._touched
        changed = self.table.changed
        if changed is not None:
            changed.update(touched)
        # Most windows of a bundle are equal to a trigger that doesn't look at elements.
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
                is_complete = state.end <= self._clocks.watermark
                if is_complete:
                    # The timing of the pane depends on the output watermark.
                    self.output_watermark()
                self._panes.emit(state, False)
                if is_complete or self._stamps:
                    # The emitted pane lets it advance, and the next element may be behind it.
                    self.output_watermark()
                if self._forgets:
                    self._forget(state)
                    continue
            if decision is not state.decision:
                state.decision = decision
                self.times.schedule(state)
        touched.clear()

    def _forget(self, state: WindowState) -> None:
        """Remove a window that has no elements left."""
        # The loop over elements has the dictionary, which stays where it is.
        del self.table.keyed[state.windows[0]][state.key]
        if state.event_time is None and self.table.changed is not None:
            # It was made for this element, and is in no snapshot.
            del self.table.changed[state]
        state.event_time = state.processing_time = None
        self.times.release(state)

    def _drop(self, element: Any, micros: int, window: BoundedWindow, sign: int, count: int) -> None:
        self.dropped += count
        if self._keep_late:
            self._late.add(element, micros, (window,), _LATE_ELEMENT, sign)

    # Clocks

    def advance_watermark(self, watermark: int, most: int = sys.maxsize) -> int:
        """Advance the input watermark, and fire due windows, at most so many; return their number.

        An earlier watermark changes nothing.
        """
        if watermark > self._clocks.watermark:
            # Panes that are due now are ahead of the new watermark.
            self.output_watermark()
            self._clocks.watermark = watermark
            self._decisions.forget()
            return self.due.reach(EVENT_TIME, most)
        return 0

    def advance_processing_time(self, processing_time: int, most: int = sys.maxsize) -> int:
        """Advance processing time, as `advance_watermark` does with the watermark."""
        if processing_time > self._clocks.processing_time:
            self.output_watermark()
            self._clocks.processing_time = processing_time
            self._decisions.forget()
            return self.due.reach(PROCESSING_TIME, most)
        return 0

    def advance_percentile(self, percentile: float, watermark: int) -> None:
        """Advance a percentile watermark."""
        percentiles = self._clocks.percentiles
        if watermark > percentiles.get(percentile, MIN_MICROS):
            percentiles[percentile] = watermark
            if percentile in self._percentiles:
                self.output_watermark()
                self.due.look_at_all()

    def signal(self, name: str) -> None:
        """Process a signal."""
        self._clocks.signals[name] = self._clocks.signals.get(name, 0) + 1
        if name in self._trigger.signals():
            self.output_watermark()
            self.due.look_at_all()

    def clocks(self) -> tuple[Any, ...]:
        """Return the state of all clocks, as plain data."""
        clocks = self._clocks
        return (
            clocks.watermark,
            clocks.processing_time,
            dict(clocks.percentiles),
            dict(clocks.signals),
            self.times.watermark,
        )

    def set_clocks(self, clocks: tuple[Any, ...]) -> None:
        """Restore the clocks of a snapshot, before anything else."""
        own = self._clocks
        own.watermark, own.processing_time, own.percentiles, own.signals, self.times.watermark = clocks
        self._decisions.forget()

    def unify_restored(self) -> None:
        """Make windows of a snapshot uniform, which has a state for each key, where they may be."""
        table, decisions = self.table, self._decisions
        if table.cells is not None:
            table.cells.register()
        if self._may_be_uniform:
            for window, states in list(table.keyed.items()):
                end, _ = lifetime_of(window, self._lateness)
                decision = decisions.after_bundle(decisions.start, end)
                is_first = all(_is_first(state, decision) for state in states.values())
                if is_first and end > self._clocks.watermark and not table.is_spilled(window):
                    table.unify(window)
        for uniform in list(table.by_window.values()):
            if not self._stays_uniform(uniform):
                table.separate(uniform)
        self.times.forget_stale()

    def _stays_uniform(self, restored: UniformWindow) -> bool:
        """Return whether a restored window is uniform, of which parts may come from several subtasks."""
        table, window = self.table, restored.windows[0]
        if table.cells is None or (restored.is_on_disk and self.times.is_complete(restored)):
            return self._may_be_uniform
        return self._may_be_uniform and not (table.has_states(window) or table.cells.has_fired(window))

    def output_watermark(self) -> int:
        """Return the output watermark: the input watermark, unless windows hold it.  It never goes back."""
        # Windows that are due don't hold it, since they fire at once as a rule.  While some still are it stays, or
        # their panes would be late.
        return self.times.watermark if self.due.is_due else self.times.output_watermark()

    # Output

    def taken(self) -> Bundle | None:
        """Remove and return the emitted panes; None if there are none."""
        return self._panes.out.taken()

    def taken_late(self) -> Bundle | None:
        """Remove and return the kept elements of expired windows; None if there are none."""
        return self._late.taken()


def _own_windows(states: dict[Any, WindowState], windows: Windows) -> Windows:
    """Return the tuple of a window that its states share, which snapshots write once; this one if there are none."""
    for state in states.values():
        return state.windows
    return windows


def may_be_uniform(fold: Fold) -> bool:
    """Return whether the keys of a window of this grouping differ in their accumulators only until its end."""
    windowing = fold.windowing
    return not (
        fold.retracted
        or windowing.window_fn.is_merging
        or windowing.accumulation_mode is RETRACTING
        or windowing.timestamp_combiner is not TimestampCombiner.OUTPUT_AT_EOW
        or fires_early(windowing.trigger)
    )


def _is_first(state: WindowState, decision: Decision) -> bool:
    """Return whether a state is that of a window before its first pane, and after this decision of the trigger."""
    if state.panes or not state.has_new or state.was_on_time or state.held is not None:
        return False
    own = state.decision
    return (own.state, own.is_finished, own.event_time, own.processing_time) == (
        decision.state,
        decision.is_finished,
        decision.event_time,
        decision.processing_time,
    )


def _same(accumulator: Any) -> Any:
    return accumulator


def _missing() -> Any:
    return MISSING
