"""Execution of a stateful ParDo: elements, timers and window expiration (MillWheel, section 4).

The DoFn's methods run in the context of one key and window at a time.  Timers that a call makes due fire before the
next element is processed, so that results don't depend on how the input is cut into bundles.  It has no clock of its
own.

Event-time timers fire in the order of their times, when the watermark has reached them; those that a window still has
when it expires fire before that.  A window expires when the watermark is past its end plus the allowed lateness: then
`on_window_expiration` is called for each of its keys, and its states and timers are removed.  Later elements of it are
dropped, and counted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from heapq import heappop, heappush
from typing import Any

from ....sdk import graph
from ....sdk.coders.coded_key import VALID_TYPES, check_keys
from ....sdk.dofn.signature import Argument, bind_callback
from ....sdk.dofn.stateful_dofn import signature_of
from ....sdk.elements.bundle import Bundle, Windows
from ....sdk.elements.element_wrappers import SPECIAL_TYPES, Retracted, TaggedOutput, unwrapped
from ....sdk.errors import InvalidKeyError, NotAPairError, PipelineError
from ....sdk.user_code.step_slot import here
from ....sdk.userstate.store import StateColumn
from ....sdk.userstate.timer_spec import TimeDomain
from ....triggers import PaneInfo
from ....triggers.pane import PANE_INFO_UNKNOWN
from ....windowing import BoundedWindow
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from ....windowing.windows import end_of_window, expiry_of
from ..kernels.descriptions import ParDoOperation
from ..kernels.runtime import iterable_type
from ..kernels.stateful import LoopDescription, MethodDescription, call_kernel
from ..plan import fusion
from ..spilling.rocksdb import EVENT_TIME as TIMES_OF_EVENTS
from ..spilling.rocksdb import PROCESSING_TIME as TIMES_OF_CLOCK
from ..stages.executor import Emit, StageExecutor
from ..stages.output_buffer import OutputRows
from ..stages.side_input_views import SideInputViews
from ..user_errors import (
    Attribution,
    attributed,
    guarded,
    has_hash,
    not_a_pair,
    pair_type,
    reraise,
    shortened,
    start_bundle,
    unhashable,
)
from .callbacks import KeyedTimers, asks_for_timers
from .element_loop import ElementLoop
from .expiring import ExpiringColumn
from .key_types import KeyTypes
from .keyed_state import Change, KeyedState
from .spilled_state import SpilledState
from .timers import EVENT_TIME, PROCESSING_TIME, Timer, TimerChange, Timers

Call = Callable[..., Any]

# How many values that have expired are removed at a time.
_DROPPED = 5_000

# The cell that marks a key as seen in a window, for `on_window_expiration`.
_SEEN = ""


class StatefulExecutor(StageExecutor):
    """One worker's copy of a stateful ParDo.

    Args:
      transform: the ParDo.
      emit: called with the tag and the elements of each output bundle.
      views: the side inputs' contents.
      tracking: True if snapshots will be taken.

    Attributes:
      watermark, processing_time: the two clocks, in microseconds.
      is_overdue: True if a timer was set to a time that has passed.
      rows: the outputs that have not been emitted.
      dropped: the number of late elements, which the caller takes.
      state, timers: the state and timers of all keys.
      spilled: the spilled state; None if all is in memory.
      domains: the time domains of timers, by name.
      expiries: windows that have been seen and have not expired, with the watermarks at which they do.
    """

    def __init__(
        self,
        transform: graph.Transform,
        emit: Emit,
        views: SideInputViews | None = None,
        tracking: bool = False,
    ) -> None:
        super().__init__(fusion.Stage((transform,), transform.inputs[0]), emit, views)
        (operation,) = self._operations
        primitive = transform.primitive
        assert isinstance(operation, ParDoOperation)
        assert isinstance(primitive, graph.ParDo)
        assert primitive.keyed is not None
        self.label = transform.label
        self.watermark = MIN_MICROS
        self.processing_time = 0
        self.dropped = 0
        ttls = {spec.name: spec.ttl for spec in signature_of(operation.fn).states if spec.ttl is not None}
        self.state = KeyedState(tracking, ttls)
        self._has_ttls = bool(ttls)
        # The event time of the callback that is being called.
        self._now = MIN_MICROS
        self.spilled: SpilledState | None = None
        self.timers = Timers()
        self._may_retract = primitive.keyed.may_retract
        self._lateness = primitive.keyed.windowing.allowed_lateness.micros
        self.rows = OutputRows(tuple(transform.outputs), emit, primitive.any_tag)
        self.expiries: dict[BoundedWindow, int] = {}
        self._expiry_heap: list[tuple[int, int, BoundedWindow]] = []
        self._windows_seen = 0
        self.is_overdue = False
        self._is_finishing = False
        self._iterable: type | None = None
        # Key types of a checkpoint, until the first elements after the restart have been compared with them.
        self.key_types: KeyTypes | None = None
        self._codes_keys = primitive.keyed.codes_keys
        self._bind(operation)

    def _bind(self, operation: ParDoOperation) -> None:
        fn = operation.fn
        signature = signature_of(fn)
        self._decides_signs = signature.takes_sign
        self.domains: dict[str, TimeDomain] = {spec.name: spec.time_domain for spec in signature.timers}
        self._by_bundle: dict[str, Any] = {}
        specs = {id(spec): spec.for_worker() for spec in signature.states}
        self._specs = tuple(specs.values())

        def described(
            name: str, arguments: tuple[Argument, ...], views: frozenset[int] = frozenset()
        ) -> MethodDescription:
            markers: list[Any] = [argument.marker for argument in arguments]
            indices = [j for j, marker in enumerate(markers) if marker is not None and marker.name == "StateParam"]
            own = {j: specs[id(markers[j].state_spec)] for j in indices}
            return MethodDescription(getattr(fn, name), arguments, views, own, self._codes_keys)

        def call(name: str, arguments: tuple[Argument, ...]) -> Call:
            return call_kernel(described(name, arguments), self._by_bundle, self._column)

        self._on_timer: dict[str, Call] = {}
        for family, name in signature.on_timer.items():
            self._on_timer[family] = call(name, bind_callback(fn, name, self.label))
        self._on_expiry: Call | None = None
        if signature.on_window_expiration is not None:
            name = signature.on_window_expiration
            self._on_expiry = call(name, bind_callback(fn, name, self.label, is_expiry=True))
        process = described("process", operation.arguments, operation.windowed_views)
        self._columns = [spec.name for spec in process.specs.values()]
        marks_seen = self._on_expiry is not None
        if marks_seen:
            self._columns.append(_SEEN)
        sets_timers = asks_for_timers(operation.arguments)
        loop = LoopDescription(process, sets_timers, marks_seen, self._decides_signs)
        self._loop = ElementLoop(self, loop, self._by_bundle)

    # Lifecycle

    def setup(self) -> None:
        """Set up the DoFn, and the combiners of its states."""
        super().setup()
        for spec in self._specs:
            guarded(self.label, spec.setup)

    def teardown(self) -> None:
        """Tear down the DoFn and the combiners."""
        if self._is_set_up:
            for spec in self._specs:
                guarded(self.label, spec.teardown)
        super().teardown()

    # Elements

    def process(self, bundle: Bundle, index: int = 0) -> None:
        """Process a bundle, with the timers that it makes due."""
        if len(bundle):
            if self.key_types is not None:
                guarded(self.label, partial(self.key_types.check_elements, bundle.values))
                self.key_types = self.key_types if self.key_types.unchecked > 0 else None
            if self.spilled is not None:
                self.check_keys(bundle.values)
                self.spilled.load_for(bundle)
                self.timers.load_for(bundle)
            self._in_bundle(partial(self._process_rows, bundle))
            self.drop_expired(2 * len(bundle))

    def _process_rows(self, bundle: Bundle) -> None:
        self.state.processing_time = self.processing_time
        if self.is_overdue:
            self.fire_all()
        try:
            self._loop.run(bundle)
        except (TypeError, ValueError):
            self.check_keys(bundle.values)
            raise

    def enter(self, window: BoundedWindow) -> tuple[StateColumn, ...] | None:
        """Return the columns of a window for the loop over elements; None if the window has expired."""
        if window not in self.expiries and not self._open(window):
            return None
        return tuple([self.state.column(window, name) for name in self._columns])

    def _column(self, window: BoundedWindow, name: str, key: Any) -> StateColumn:
        """Return the values of a state, for a callback with a key."""
        column = self.state.column(window, name)
        if isinstance(column, ExpiringColumn):
            column.begin_call(key, self._now)
        return column

    def drop_expired(self, least: int = 0) -> bool:
        """Remove some of the values that have expired, when no timer is due that could still read them.

        Args:
          least: how many values at least, if there are so many.

        Returns True if there may be more.
        """
        if not self._has_ttls or self.is_due:
            return False
        most, loaded = max(least, _DROPPED), 0
        self.state.processing_time = self.processing_time
        if self.spilled is not None:
            loaded += len(self.spilled.load_due(TIMES_OF_EVENTS, self.watermark, most))
            loaded += len(self.spilled.load_due(TIMES_OF_CLOCK, self.processing_time, most - loaded))
        return self.state.drop_expired(self.watermark, most) or loaded >= most

    def check_keys(self, elements: list[Any]) -> None:
        """Raise `NotAPairError` or `InvalidKeyError` at the first element that has no key."""
        try:
            for kind in set(map(type, elements)):
                if not issubclass(kind, (tuple, list)):
                    raise not_a_pair(next(e for e in elements if type(e) is kind))
            try:
                keys = [key for key, _ in elements]
                if not VALID_TYPES.issuperset(map(type, keys)):
                    check_keys(set(keys))
            except (TypeError, ValueError) as error:
                if isinstance(error, InvalidKeyError):
                    raise
                for element in elements:
                    pair_type(element)
                    if len(element) != 2:
                        raise not_a_pair(element) from None
                    if not has_hash(element[0]):
                        raise unhashable(element[0]) from None
                raise
        except (NotAPairError, InvalidKeyError) as error:
            reraise(attributed(error, Attribution(self.label, None)))

    def _open(self, window: BoundedWindow, may_be_over: bool = False) -> bool:
        """Track the expiry of a window; return False if it has expired.

        Args:
          may_be_over: track it also if it has expired: a restored one, whose expiration was due.
        """
        expiry = expiry_of(end_of_window(window), self._lateness)
        if expiry <= self.watermark and not may_be_over:
            return False
        self.expiries[window] = expiry
        self._windows_seen += 1
        heappush(self._expiry_heap, (expiry, self._windows_seen, window))
        return True

    # Clocks

    def advance_watermark(self, watermark: int) -> None:
        """Advance the input watermark, in microseconds, and fire all due timers; it never regresses."""
        if watermark > self.watermark:
            self.watermark = watermark
            self.fire_due()

    def advance_processing_time(self, processing_time: int) -> None:
        """Advance processing time, in microseconds, and fire all due timers; it never regresses."""
        if processing_time > self.processing_time:
            self.processing_time = processing_time
            self.fire_due()

    def finish(self) -> None:
        """Finish a bounded input, after which no time passes: the watermark advances to infinity.

        A processing-time timer that is set fires when its window expires.  When no timer is due any more, `begin_anew`
        is called.
        """
        self.watermark = MAX_MICROS
        self._is_finishing = True

    def begin_anew(self) -> None:
        """Reset the clocks after `finish`, for the next range of keys."""
        self._is_finishing = False
        self.watermark = MIN_MICROS

    def next_event_time(self) -> int | None:
        """Return the watermark at which the next timer fires or window expires."""
        timer = self.timers.next(EVENT_TIME)
        if not self._expiry_heap:
            return timer
        expiry = self._expiry_heap[0][0]
        return expiry if timer is None else min(timer, expiry)

    def next_processing_time(self) -> int | None:
        """Return the processing time at which the next timer fires."""
        return self.timers.next(PROCESSING_TIME)

    def hold(self) -> int | None:
        """Return the earliest timestamp of a possible output; None if there is none.

        A timer holds the watermark at its output timestamp; `on_window_expiration` holds it at the end of the earliest
        window.
        """
        held = self.timers.hold()
        if self._on_expiry is None or not self._expiry_heap:
            return held
        end = self._expiry_heap[0][2].max_micros
        return end if held is None else min(held, end)

    # Due timers

    @property
    def is_due(self) -> bool:
        event, processing = self.next_event_time(), self.next_processing_time()
        return (event is not None and event <= self.watermark) or (
            processing is not None and processing <= self.processing_time
        )

    def fire_due(self, most: int = sys.maxsize) -> int:
        """Fire timers and call keys of windows that expire, as far as they are due, at most so many.

        By event time, in order, then by processing time, in order.  Returns their number.
        """
        room = most
        if self.is_due:

            def fire() -> None:
                nonlocal room
                room = self._fire_due(most)

            self._in_bundle(fire)
        return most - room

    def fire_all(self) -> None:
        """Fire all due timers, between two elements."""
        self._fire_due(sys.maxsize)

    def _fire_due(self, room: int) -> int:
        timers, expiries = self.timers, self._expiry_heap
        while room > 0:
            self._load_due_timers(room)
            event, processing = timers.next(EVENT_TIME), timers.next(PROCESSING_TIME)
            if expiries and expiries[0][0] <= self.watermark and (event is None or expiries[0][0] < event):
                room = self._expire(room)
            elif event is not None and event <= self.watermark:
                self._fire(timers.pop(EVENT_TIME), EVENT_TIME)
                room -= 1
            elif processing is not None and processing <= self.processing_time:
                self._fire(timers.pop(PROCESSING_TIME), PROCESSING_TIME)
                room -= 1
            else:
                self.is_overdue = False
                break
        return room

    def _load_due_timers(self, room: int) -> None:
        """Load timers that are due and fire next, with the state of their keys, at most so many."""
        keys: dict[BoundedWindow, list[Any]] = {}
        for window, key in self.timers.load_due(self.watermark, self.processing_time, room):
            keys.setdefault(window, []).append(key)
        for window, own in keys.items():
            assert self.spilled is not None
            self.spilled.load_keys(window, own)

    def _fire(self, timer: Timer, domain: TimeDomain) -> None:
        fire, output, key, window, family, tag, pane = timer
        if self.spilled is not None:
            self.spilled.load_keys(window, [key])
        now = fire if domain is EVENT_TIME else output
        # At the end of a bounded input all timers fire, but each in its time.
        self._now = now if domain is EVENT_TIME or self._is_finishing else max(now, self.watermark)
        self.state.processing_time = self.processing_time
        setter = KeyedTimers(self, key, window, now, output, pane)
        outputs = self._on_timer[family](None, key, window, fire, pane, 1, tag, setter)
        if outputs is not None:
            self._emit_outputs(outputs, output, (window,), pane, 1)

    def _expire(self, room: int) -> int:
        """Do what is due when the next window expires, in at most so many calls; return how many more there may be."""
        expiry, _, window = self._expiry_heap[0]
        timers = self.timers
        if self._is_finishing:
            for timer in timers.each_of(window, PROCESSING_TIME):
                # An earlier timer may have cleared or moved it.
                current = timers.get(window, timer.key, timer.family, timer.tag)
                if current is not None:
                    if room <= 0:
                        return 0
                    room -= 1
                    timers.clear(window, timer.key, timer.family, timer.tag)
                    self._fire(current, PROCESSING_TIME)
            self._load_due_timers(room)
            while (event := timers.next(EVENT_TIME)) is not None and event <= expiry:
                if room <= 0:
                    return 0
                room -= 1
                self._fire(timers.pop(EVENT_TIME), EVENT_TIME)
                self._load_due_timers(room)
        timers.free(window)
        if self._on_expiry is not None:
            room = self._call_keys(window, self._on_expiry, room)
            while room > 0 and self.spilled is not None and self.spilled.load_some(window):
                room = self._call_keys(window, self._on_expiry, room)
            if room <= 0:
                return 0
        elif self.spilled is not None:
            self.spilled.remove_window(window)
        heappop(self._expiry_heap)
        del self.expiries[window]
        self.state.free_namespace(window)
        return room - 1

    def _call_keys(self, window: BoundedWindow, on_expiry: Call, room: int) -> int:
        """Call the keys of a window that are in memory, at most so many; return how many more there may be."""
        end, pane = window.max_micros, PANE_INFO_UNKNOWN
        self._now = end
        seen = self.state.column(window, _SEEN)
        for key in list(seen.values):
            if room <= 0:
                return 0
            room -= 1
            outputs = on_expiry(None, key, window, end, pane, 1, "", None)
            if outputs is not None:
                self._emit_outputs(outputs, end, (window,), pane, 1)
            # The next call goes on with the remaining keys.
            seen.remove(key)
            if self.spilled is not None:
                # Others need the memory.
                self.state.free_key(window, key)
        return room

    def set_timer(self, timer: Timer, domain: TimeDomain) -> None:
        """Set a timer, for one of the DoFn's methods."""
        self.timers.set(timer, domain)
        if timer.fire <= (self.watermark if domain is EVENT_TIME else self.processing_time):
            self.is_overdue = True

    # Bundles

    def _in_bundle(self, work: Callable[[], None]) -> None:
        if not self._is_set_up:
            self.setup()
        slot = here.slot
        before = slot.enter(self.label)
        try:
            self._process_bundle(work)
        finally:
            slot.enter(before)

    def _process_bundle(self, work: Callable[[], None]) -> None:
        self._enter("bundle")
        for _, operation in self._starts:
            start_bundle(operation.label, operation.fn)
        self._by_bundle.update(self.bundle_arguments())
        try:
            work()
        except BaseException as error:
            element = self._loop.element_of(error)
            reraise(attributed(error, Attribution(self.label, None if element is None else shortened(element))))
        guarded(self.label, self.state.check)
        self.rows.flush()
        for index, operation in self._finishes:
            self._finish(index, operation)
        self._leave("bundle")
        self._finalizer.finalize()

    def _emit_outputs(self, outputs: Any, micros: int, windows: Windows, pane: PaneInfo, sign: int) -> None:
        if type(outputs) is not self._iterable:
            self._iterable = iterable_type(outputs)
        for output in outputs:
            if type(output) in SPECIAL_TYPES:
                self.emit_special(output, micros, windows, pane, sign)
            else:
                self.rows.add(None, output, micros, windows, pane, sign)

    def emit_special(self, output: Any, micros: int, windows: Windows, pane: PaneInfo, sign: int) -> None:
        """Emit an output with a tag, a timestamp, windows or a sign of its own."""
        tag = None
        if type(output) is TaggedOutput:
            tag, output = output.tag, output.value
        if type(output) is Retracted:
            self._check_retracts(output)
            output, sign = output.value, -sign
        self.rows.add(tag, *unwrapped(output, micros, windows, pane), sign)

    def _check_retracts(self, output: Retracted) -> None:
        if self._may_retract:
            return
        fn = type(self._pardos()[0].fn).__name__
        why = "doesn't ask for signs"
        if self._decides_signs:
            why = "has no input that can be retracted"
        raise PipelineError(
            f"got the output {output!r}, but {fn} {why}; set {fn}.retracts = True if it retracts its own outputs"
        )

    # Snapshots

    @property
    def number_changed(self) -> int:
        """Return the approximate number of states and timers that have changed since the last snapshot."""
        return self.state.number_changed + self.timers.number_changed

    def forget_changes(self) -> list[dict[Any, None]]:
        """Start new logs of changes, because a forked child writes the snapshot; return the former logs."""
        return [*self.state.forget_changes(), *self.timers.forget_changes()]

    def restore(self, state: Iterable[Change], timers: Iterable[TimerChange]) -> None:
        """Restore the state and timers of a snapshot, with the changes after it."""
        self.state.restore(state)
        self.timers.restore(timers)
        self.state.find_times()
        spilled = [] if self.spilled is None else self.spilled.windows()
        for window in dict.fromkeys([*self.state.namespaces(), *spilled, *self.timers.windows()]):
            if window not in self.expiries:
                self._open(window, may_be_over=True)
