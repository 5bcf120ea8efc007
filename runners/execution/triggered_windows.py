"""Windows with triggers: every key's window, when it fires, and how its panes relate.

The part of the window operator that keeps a state for each key and window: trigger state,
pane number, what has been emitted.  Four rules make the panes independent of how a runner
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

from typing import Any

from ...sdk.bundle import Bundle, Windows
from ...triggers import AccumulationMode, PaneInfo, PaneInfoTiming, Trigger
from ...windowing import BoundedWindow, IntervalWindow
from ...windowing.timestamp import MAX_MICROS, MIN_MICROS
from ...windowing.timestamp_combiner import TimestampCombiner, at_fire, combined, for_element
from .column_codec import encode_column
from .due_times import DueTimes, Holds
from .fold import Fold
from .key_check import not_a_pair, pair_type, unhashable
from .merging import merge_by_fn
from .signed_inputs import SignedInputs

DISCARDING, RETRACTING = AccumulationMode.DISCARDING, AccumulationMode.RETRACTING
EARLY, ON_TIME, LATE = PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE

# An emitted pane: (value, timestamp, window, pane info).
Emitted = tuple[Any, int, BoundedWindow, PaneInfo]


class WindowState:
    """One key's window.

    Attributes:
      accumulator: what has been folded: since the last pane when discarding, else from the start.
      has_new: whether anything has come since the last pane.
      stamp: what the timestamp combiner keeps; None at the end of the window.
      held: the hold that this window has on the watermark.
      trigger_state: what the trigger remembers; is_finished: it will not fire again.
      panes, on_time_panes: how many there have been; those that weren't early.
      was_on_time: whether it has fired since the watermark passed its end.
      standing: what has been emitted and not retracted, in RETRACTING mode.
      event_time, processing_time: when it is to be looked at again.
    """

    __slots__ = (
        "accumulator",
        "event_time",
        "expiry",
        "has_new",
        "held",
        "is_finished",
        "key",
        "on_time_panes",
        "panes",
        "processing_time",
        "stamp",
        "standing",
        "trigger_state",
        "was_on_time",
        "window",
    )

    def __init__(self, key: Any, window: BoundedWindow, expiry: int, accumulator: Any) -> None:
        self.key = key
        self.window = window
        self.expiry = expiry
        self.trigger_state: Any = None
        self.accumulator = accumulator
        self.is_finished = False
        self.has_new = False
        self.stamp: int | None = None
        self.held: int | None = None
        self.panes = 0
        self.on_time_panes = 0
        self.was_on_time = False
        self.standing: list[Emitted] = []
        self.event_time: int | None = None
        self.processing_time: int | None = None


class TriggeredWindows:
    """The windows of all keys of one grouping.

    Args:
      fold: the grouping's fold.
      retracted: whether inputs may be retractions.

    Attributes:
      watermark, processing_time: the two clocks, in microseconds.
      dropped: how many elements came too late.
      late: those elements, if they are kept; taken by `taken_late`.
    """

    def __init__(self, fold: Fold, retracted: bool = False, keep_late: bool = False) -> None:
        windowing = fold.windowing
        self.watermark = MIN_MICROS
        self.processing_time = 0
        self.percentiles: dict[float, int] = {}
        self.signals: dict[str, int] = {}
        self.dropped = 0
        self._fold = fold
        self._fn = fold.combine_fn
        self._retracted = retracted
        self._keep_late = keep_late
        self._late = _Rows()
        self._trigger: Trigger = windowing.trigger
        self._mode = windowing.accumulation_mode
        self._window_fn = windowing.window_fn
        self._lateness = windowing.allowed_lateness
        self._combiner: TimestampCombiner = windowing.timestamp_combiner
        self._stamps = self._combiner is not TimestampCombiner.OUTPUT_AT_EOW
        self._emit_unchanged = windowing.emit_unchanged
        self._states: dict[tuple[Any, BoundedWindow], WindowState] = {}
        # By key, its windows; for window functions that merge.
        self._windows: dict[Any, list[BoundedWindow]] = {}
        self._event_times: DueTimes[WindowState] = DueTimes()
        self._processing_times: DueTimes[WindowState] = DueTimes()
        self._holds = Holds()
        self._out = _Rows()
        self._context = _Context(self)
        self._pair: type | None = None
        # The windows that a bundle has come to, whose trigger is still to be asked.
        self._touched: dict[WindowState, None] = {}

    # Elements

    def process(self, bundle: Bundle) -> None:
        """Take in a bundle; what fires is in `taken` afterwards."""
        merging = self._window_fn.is_merging
        element_wise = self._trigger.element_wise
        states = self._states
        touched = self._touched
        for element, micros, windows, _, sign in bundle.rows():
            if type(element) is not self._pair:
                self._pair = pair_type(element)
            try:
                key, value = element
            except ValueError:
                raise not_a_pair(element) from None
            for window in windows:
                try:
                    state = states.get((key, window))
                except TypeError:
                    raise unhashable(key) from None
                if state is None:
                    state = self._merged_state(key, window) if merging else self._new_state(key, window)
                    if state is None:
                        self._drop(element, micros, window, sign)
                        continue
                self._add(state, value, micros, sign)
                if element_wise:
                    self._ask(state, value)
                else:
                    touched[state] = None
        self._touched = {}
        for state in touched:
            self._ask(state, None)

    def _add(self, state: WindowState, value: Any, micros: int, sign: int) -> None:
        fold = self._fold
        if self._retracted:
            state.accumulator.add(self._fn, value, sign)
        elif self._fn is None:
            state.accumulator.append(value)
        else:
            state.accumulator = self._fn.add_input(state.accumulator, value)
        state.has_new = True
        if self._stamps:
            own = for_element(self._combiner, state.window, micros, fold.windowing.window_fn)
            assert own is not None
            state.stamp = own if state.stamp is None else combined(self._combiner, state.stamp, own)
            self._hold(state)

    def _ask(self, state: WindowState, element: Any) -> None:
        """Tell the trigger of an element, or of several, and fire if it says so."""
        if not state.is_finished:
            context = self._context.of(state)
            trigger = self._trigger
            state.trigger_state = trigger.on_element(state.trigger_state, element, context)
            if trigger.should_fire(state.trigger_state, context):
                self._fire(state, False)
        self._schedule(state)

    def _new_state(self, key: Any, window: BoundedWindow) -> WindowState | None:
        """A state for a window; None if it has expired."""
        expiry = min(window.max_micros + self._lateness, MAX_MICROS)
        if expiry <= self.watermark:
            return None
        state = WindowState(key, window, expiry, self._nothing())
        self._states[key, window] = state
        return state

    def _nothing(self) -> Any:
        if self._retracted:
            return SignedInputs()
        return [] if self._fn is None else self._fn.create_accumulator()

    def _drop(self, element: Any, micros: int, window: BoundedWindow, sign: int) -> None:
        self.dropped += 1
        if self._keep_late:
            self._late.add(element, micros, (window,), _LATE_ELEMENT, sign)

    # Merging

    def _merged_state(self, key: Any, window: BoundedWindow) -> WindowState | None:
        """The state of the window that a new window becomes a part of; None if that has expired."""
        current = self._windows.get(key, ())
        sources, result = self._merge(current, window)
        expiry = min(result.max_micros + self._lateness, MAX_MICROS)
        if expiry <= self.watermark:
            return None
        if len(sources) == 1 and sources[0] == result:
            return self._states[key, result]
        parts = [self._states.pop((key, source)) for source in sources]
        kept = [w for w in current if w not in sources]
        self._windows[key] = [*kept, result]
        state = WindowState(key, result, expiry, self._nothing())
        self._states[key, result] = state
        if parts:
            self._join(state, parts)
        return state

    def _merge(self, current: Any, window: BoundedWindow) -> tuple[list[BoundedWindow], BoundedWindow]:
        """Which of a key's windows a new one merges with, and into what."""
        if self._window_fn.merges_by_overlap:
            new: Any = window
            sources = [w for w in current if w[0] < new[1] and new[0] < w[1]]
            if not sources:
                return [], window
            start, end = min(w[0] for w in [*sources, new]), max(w[1] for w in [*sources, new])
            return sources, IntervalWindow.of_micros(start, end)
        for merged, result in merge_by_fn(self._window_fn, [*current, window]):
            if window in merged or result == window:
                return [w for w in merged if w in current], result
        return [], window

    def _join(self, state: WindowState, parts: list[WindowState]) -> None:
        """Make the state of a merged window of those of its parts."""
        if self._retracted:
            state.accumulator = SignedInputs.merged(self._fn, [p.accumulator for p in parts])
        else:
            state.accumulator = self._fold.merged([p.accumulator for p in parts])
        state.has_new = any(p.has_new for p in parts)
        state.panes = max(p.panes for p in parts)
        state.on_time_panes = max(p.on_time_panes for p in parts)
        state.standing = [emitted for p in parts for emitted in p.standing]
        for part in parts:
            self._touched.pop(part, None)
            if part.stamp is not None:
                both = part.stamp if state.stamp is None else combined(self._combiner, state.stamp, part.stamp)
                state.stamp = both
            self._release(part)
            part.event_time = part.processing_time = None
        is_past = self.watermark >= state.window.max_micros
        state.is_finished = is_past and all(p.is_finished for p in parts)
        state.was_on_time = is_past and any(p.was_on_time for p in parts)
        states = [p.trigger_state for p in parts]
        state.trigger_state = self._trigger.on_merge(states, self._context.of(state))
        self._hold(state)

    # Clocks

    def advance_watermark(self, watermark: int) -> None:
        """Move the watermark on; it never goes back."""
        if watermark <= self.watermark:
            return
        self.watermark = watermark
        due = self._event_times
        while (time := due.next()) is not None and time <= watermark:
            for state in due.pop():
                if state.event_time == time:
                    state.event_time = None
                    self._look(state)

    def advance_processing_time(self, processing_time: int) -> None:
        """Move the clock on; it never goes back."""
        if processing_time <= self.processing_time:
            return
        self.processing_time = processing_time
        due = self._processing_times
        while (time := due.next()) is not None and time <= processing_time:
            for state in due.pop():
                if state.processing_time == time:
                    state.processing_time = None
                    self._look(state)

    def advance_percentile(self, percentile: float, watermark: int) -> None:
        """Move a percentile watermark on."""
        if watermark > self.percentiles.get(percentile, MIN_MICROS):
            self.percentiles[percentile] = watermark
            self._look_at_all()

    def signal(self, name: str) -> None:
        """A signal has reached the pipeline."""
        self.signals[name] = self.signals.get(name, 0) + 1
        if name in self._trigger.signals():
            self._look_at_all()

    def _look_at_all(self) -> None:
        for state in list(self._states.values()):
            self._look(state)

    def _look(self, state: WindowState) -> None:
        """Fire if the trigger says so; close the window if it has expired."""
        expired = self.watermark >= state.expiry
        context = self._context.of(state)
        if not state.is_finished and self._trigger.should_fire(state.trigger_state, context):
            self._fire(state, expired)
        elif expired and state.has_new:
            self._emit(state, True)
        if expired:
            self._free(state)
        else:
            self._schedule(state)

    def _schedule(self, state: WindowState) -> None:
        event_time = state.expiry
        if not state.is_finished:
            context, trigger = self._context.of(state), self._trigger
            own = trigger.next_event_time(state.trigger_state, context)
            if own is not None and self.watermark < own < event_time:
                event_time = own
            processing_time = trigger.next_processing_time(state.trigger_state, context)
            if processing_time is not None and processing_time != state.processing_time:
                self._processing_times.add(processing_time, state)
            state.processing_time = processing_time
        if event_time != state.event_time:
            state.event_time = event_time
            self._event_times.add(event_time, state)

    def _free(self, state: WindowState) -> None:
        del self._states[state.key, state.window]
        state.event_time = state.processing_time = None
        windows = self._windows.get(state.key)
        if windows is not None:
            windows.remove(state.window)
            if not windows:
                del self._windows[state.key]
        self._release(state)

    # Holds

    def hold(self) -> int | None:
        """The earliest timestamp that something not yet emitted will have; None if there is none."""
        return self._holds.least()

    def _hold(self, state: WindowState) -> None:
        if state.stamp != state.held and state.stamp is not None:
            self._release(state)
            state.held = state.stamp
            self._holds.add(state.stamp)

    def _release(self, state: WindowState) -> None:
        if state.held is not None:
            self._holds.remove(state.held)
            state.held = None

    # Panes

    def _fire(self, state: WindowState, expired: bool) -> None:
        self._emit(state, expired)
        state.trigger_state, state.is_finished = self._trigger.on_fire(state.trigger_state, self._context.of(state))

    def _emit(self, state: WindowState, is_last: bool) -> None:
        """Emit a pane, if there is anything to say."""
        window = state.window
        timing = EARLY if self.watermark < window.max_micros else LATE if state.was_on_time else ON_TIME
        if not state.has_new and timing is not ON_TIME:
            return
        pane = PaneInfo(
            is_first=state.panes == 0,
            is_last=is_last,
            timing=timing,
            index=state.panes,
            nonspeculative_index=-1 if timing is EARLY else state.on_time_panes,
        )
        timestamp = at_fire(self._combiner, window, state.stamp)
        if self._mode is RETRACTING:
            emitted = self._emit_retracting(state, timestamp, pane)
        else:
            emitted = self._emit_value(state, timestamp, pane)
        state.has_new = False
        self._release(state)
        state.was_on_time = timing is not EARLY
        if emitted:
            state.panes += 1
            state.on_time_panes += timing is not EARLY

    def _emit_value(self, state: WindowState, timestamp: int, pane: PaneInfo) -> bool:
        try:
            value = self._result(state.accumulator)
        except ValueError:
            # A combiner that makes nothing of nothing, such as min, has no empty pane.
            if state.has_new:
                raise
            return False
        self._out.add((state.key, value), timestamp, (state.window,), pane, 1)
        if self._mode is DISCARDING:
            state.accumulator = self._nothing()
            state.stamp = None
        return True

    def _emit_retracting(self, state: WindowState, timestamp: int, pane: PaneInfo) -> bool:
        key, window, standing = state.key, state.window, state.standing
        is_empty = self._retracted and state.accumulator.is_empty
        new: list[Emitted] = [] if is_empty else [(self._result(state.accumulator), timestamp, window, pane)]
        must_differ = pane.timing is ON_TIME or pane.is_last
        if must_differ and not self._emit_unchanged and [e[:3] for e in standing] == [e[:3] for e in new]:
            return False
        for value, micros, own, info in standing:
            self._out.add((key, value), micros, (own,), info, -1)
        for value, micros, own, info in new:
            self._out.add((key, value), micros, (own,), info, 1)
        emitted = bool(standing or new)
        state.standing = new
        return emitted

    def _result(self, accumulator: Any) -> Any:
        if self._retracted:
            return accumulator.result(self._fn)
        # A list that was emitted must not grow.
        return list(accumulator) if self._fn is None else self._fold.extracted(accumulator)

    def taken(self) -> Bundle | None:
        """What has been emitted since the last time, if anything."""
        return self._out.taken()

    def taken_late(self) -> Bundle | None:
        """The elements that came too late since the last time, if any were and they are kept."""
        return self._late.taken()

    def next_processing_time(self) -> int | None:
        """The processing time, in microseconds, at which something may be due."""
        return self._processing_times.next()


_LATE_ELEMENT = PaneInfo(timing=LATE)


class _Context:
    """What a trigger sees of one window."""

    __slots__ = ("_windows", "end_of_window")

    def __init__(self, windows: TriggeredWindows) -> None:
        self._windows = windows
        self.end_of_window = 0

    def of(self, state: WindowState) -> _Context:
        self.end_of_window = state.window.max_micros
        return self

    @property
    def watermark(self) -> int:
        return self._windows.watermark

    @property
    def processing_time(self) -> int:
        return self._windows.processing_time

    def percentile_watermark(self, percentile: float) -> int:
        # Every percentile is at least as far as the watermark, which all elements are past.
        return max(self._windows.watermark, self._windows.percentiles.get(percentile, MIN_MICROS))

    def signalled(self, name: str) -> int:
        return self._windows.signals.get(name, 0)

    def size_of(self, element: Any) -> int:
        return len(encode_column([element]))


class _Rows:
    """Elements on their way out."""

    __slots__ = ("panes", "signs", "timestamps", "values", "windows")

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.values: list[Any] = []
        self.timestamps: list[int] = []
        self.windows: list[Windows] = []
        self.panes: list[PaneInfo] = []
        self.signs: list[int] = []

    def add(self, value: Any, timestamp: int, windows: Windows, pane: PaneInfo, sign: int) -> None:
        self.values.append(value)
        self.timestamps.append(timestamp)
        self.windows.append(windows)
        self.panes.append(pane)
        self.signs.append(sign)

    def taken(self) -> Bundle | None:
        if not self.values:
            return None
        signs: Any = self.signs if -1 in self.signs else 1
        bundle = Bundle(self.values, self.timestamps, self.windows, self.panes, signs)
        self._clear()
        return bundle
