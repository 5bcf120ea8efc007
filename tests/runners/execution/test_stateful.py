"""A stateful ParDo at work, its clocks in the test's hand."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as beam
from penstock.runners.execution.side_input_views import SideInputViews
from penstock.runners.execution.stateful import StatefulExecutor
from penstock.sdk import graph
from penstock.sdk.bundle import Bundle
from penstock.sdk.errors import InvalidKeyError, NotAPairError, PenstockError, PipelineError, SerializationError
from penstock.sdk.side_inputs import AsDict, AsList
from penstock.sdk.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
    on_window_expiration,
)
from penstock.testing import TestPipeline
from penstock.triggers import PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming
from penstock.windowing import GLOBAL_WINDOW, FixedWindows, IntervalWindow, Timestamp, TimestampedValue
from penstock.windowing.timestamp import MIN_MICROS

WATERMARK, REAL_TIME = beam.TimeDomain.WATERMARK, beam.TimeDomain.REAL_TIME
S = 1_000_000


class Work:
    """An executor, and what has come out of it."""

    def __init__(
        self,
        dofn: beam.DoFn,
        window_fn: Any = None,
        lateness: int = 0,
        tags: tuple[str, ...] = (),
        tracking: bool = False,
    ) -> None:
        pcoll = TestPipeline() | beam.Create([("a", 1)])
        if window_fn is not None:
            pcoll = pcoll | beam.WindowInto(window_fn, allowed_lateness=lateness)
        self.window_fn = window_fn
        applied = beam.ParDo(dofn)
        # The tag "" stands for any.
        pcoll | "Apply" >> (applied.with_outputs(*filter(None, tags)) if tags else applied)
        self.transform = pcoll.pipeline.graph().transforms[-1]
        self.rows: list[Any] = []
        self.bundles: list[tuple[graph.Tag, Bundle]] = []
        self.executor = StatefulExecutor(self.transform, self.emit, tracking=tracking)

    def emit(self, tag: graph.Tag, bundle: Bundle) -> None:
        self.bundles.append((tag, bundle))
        self.rows.extend(bundle.rows())

    def process(self, *elements: Any, sign: int = 1, pane: PaneInfo = PANE_INFO_UNKNOWN) -> Work:
        """Elements in one bundle; `TimestampedValue`s, or plain ones at time 0."""
        stamped = [e if isinstance(e, TimestampedValue) else TimestampedValue(e, 0) for e in elements]
        micros = [e.micros for e in stamped]
        windows = [(GLOBAL_WINDOW,) if self.window_fn is None else self.window_fn.assign_micros(m) for m in micros]
        self.executor.process(Bundle([e.value for e in stamped], micros, windows, pane, sign))
        return self

    def watermark(self, seconds: float) -> Work:
        self.executor.advance_watermark(round(seconds * S))
        return self

    def clock(self, seconds: float) -> Work:
        self.executor.advance_processing_time(round(seconds * S))
        return self

    def taken(self) -> list[Any]:
        """The values that have come out since the last time."""
        rows, self.rows = self.rows, []
        return [row[0] for row in rows]

    def taken_at(self) -> list[Any]:
        """The values with their timestamps in seconds."""
        rows, self.rows = self.rows, []
        return [(value, micros / S) for value, micros, *_ in rows]


def at(value: Any, seconds: float) -> TimestampedValue:
    return TimestampedValue(value, seconds)


# --- State


class Index(beam.DoFn):
    """Numbers the elements of a key."""

    INDEX = CombiningValueStateSpec("index", sum)

    def process(self, element: Any, index: Any = beam.DoFn.StateParam(INDEX), key: Any = beam.DoFn.KeyParam) -> Any:
        yield key, element[1], index.read()
        index.add(1)


def test_each_key_and_window_has_a_state_of_its_own() -> None:
    """Whatever the bundles."""
    work = Work(Index(), FixedWindows(10))
    work.process(at(("a", "x"), 1), at(("b", "y"), 1), at(("a", "z"), 12)).process(at(("a", "v"), 2))
    assert [("a", "x", 0), ("b", "y", 0), ("a", "z", 0), ("a", "v", 1)] == work.taken()


def test_an_element_in_several_windows_is_processed_in_each() -> None:
    """Its outputs are in that window alone."""
    work = Work(Index(), beam.window.SlidingWindows(10, 5))
    work.process(at(("a", "x"), 7), at(("a", "y"), 12))
    found = [(value, windows) for value, _, windows, _, _ in work.rows]
    assert [
        (("a", "x", 0), (IntervalWindow(0, 10),)),
        (("a", "x", 0), (IntervalWindow(5, 15),)),
        (("a", "y", 1), (IntervalWindow(5, 15),)),
        (("a", "y", 0), (IntervalWindow(10, 20),)),
    ] == sorted(found, key=lambda row: (row[0][1], row[1]))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30))), st.integers(1, 5))
def test_keys_and_windows_are_isolated_however_the_input_is_cut(pairs: list[Any], size: int) -> None:
    """Each element's number is how many there were before it of its key and window."""
    work = Work(Index(), FixedWindows(10))
    elements = [at((key, second), second) for key, second in pairs]
    for start in range(0, len(elements), size):
        work.process(*elements[start : start + size])
    seen: dict[Any, int] = {}
    expected = []
    for key, second in pairs:
        group = key, second // 10
        expected.append((key, second, seen.setdefault(group, 0)))
        seen[group] += 1
    assert expected == work.taken()


# --- Event-time timers


class Alarm(beam.DoFn):
    """Sets a timer to the element's value, and says when it fired."""

    TIMER = TimerSpec("timer", WATERMARK)

    def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(TIMER)) -> None:
        timer.set(element[1])

    @on_timer(TIMER)
    def fired(self, key: Any = beam.DoFn.KeyParam, time: Any = beam.DoFn.TimestampParam) -> Any:
        yield key, float(time)


def test_a_timer_fires_when_the_watermark_has_reached_it() -> None:
    """Once, with the time that it was set to as its output's timestamp."""
    work = Work(Alarm()).process(("a", 10), ("b", 20))
    assert [] == work.watermark(9.999999).taken()
    assert [(("a", 10.0), 10.0)] == work.watermark(10).taken_at()
    assert [(("b", 20.0), 20.0)] == work.watermark(1_000).taken_at()
    assert [] == work.watermark(2_000).taken()


@given(st.permutations(list(range(12))), st.integers(1, 12))
def test_timers_of_all_keys_fire_in_the_order_of_time(order: list[int], size: int) -> None:
    """Whatever the order in which they were set, and the bundles."""
    work = Work(Alarm())
    for start in range(0, 12, size):
        work.process(*((second, second) for second in order[start : start + size]))
    assert [(s, float(s)) for s in range(12)] == work.watermark(20).taken()


def test_a_timer_set_in_the_past_fires_at_once() -> None:
    """Before the next element is looked at; its output isn't before the element that set it."""

    class Both(Alarm):
        def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(Alarm.TIMER)) -> Any:
            timer.set(element[1])
            yield element

    work = Work(Both()).watermark(15)
    work.process(at(("a", 10), 12), at(("b", 20), 12), at(("c", 15), 15))
    expected = [(("a", 10), 12.0), (("a", 10.0), 12.0), (("b", 20), 12.0), (("c", 15), 15.0), (("c", 15.0), 15.0)]
    assert expected == work.taken_at()


def test_an_output_has_the_timers_window_and_the_pane_of_who_set_it() -> None:
    """And sign +1."""
    pane = PaneInfo(False, False, PaneInfoTiming.EARLY, 3, -1)
    work = Work(Alarm(), FixedWindows(10)).process(at(("a", 14), 12), pane=pane).watermark(14)
    assert [(("a", 14.0), 14 * S, (IntervalWindow(10, 20),), pane, 1)] == work.rows


class Chain(beam.DoFn):
    """A timer that sets itself, three times."""

    TIMER = TimerSpec("timer", WATERMARK)
    LEFT = ReadModifyWriteStateSpec("left")

    def process(
        self, element: Any, timer: Any = beam.DoFn.TimerParam(TIMER), left: Any = beam.DoFn.StateParam(LEFT)
    ) -> None:
        left.write(3)
        timer.set(element[1])

    @on_timer(TIMER)
    def fired(
        self,
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
        timer: Any = beam.DoFn.TimerParam(TIMER),
        left: Any = beam.DoFn.StateParam(LEFT),
    ) -> Any:
        yield key, float(time)
        left.write(left.read() - 1)
        if left.read():
            timer.set(time + 10)


def test_timers_that_callbacks_set_fire_in_their_turn() -> None:
    """Among those of other keys, within one move of the watermark."""
    work = Work(Chain()).process(("a", 10), ("b", 15))
    assert [("a", 10.0), ("b", 15.0), ("a", 20.0), ("b", 25.0), ("a", 30.0)] == work.watermark(30).taken()
    assert 35 * S == work.executor.next_event_time()


def test_a_timer_can_be_cleared_and_moved() -> None:
    """By an element that comes later, as well as by another timer."""

    class Matching(beam.DoFn):
        TIMER = TimerSpec("timer", WATERMARK)

        def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(TIMER)) -> None:
            if element[1] is None:
                timer.clear()
            else:
                timer.set(element[1])

        @on_timer(TIMER)
        def fired(self, key: Any = beam.DoFn.KeyParam, time: Any = beam.DoFn.TimestampParam) -> Any:
            yield key, float(time)

    work = Work(Matching()).process(("a", 10), ("b", 10), ("c", 10), ("a", None), ("b", 30))
    assert [("c", 10.0)] == work.watermark(20).taken()
    assert [("b", 30.0)] == work.watermark(40).taken()


class Tagged(beam.DoFn):
    """A family of timers."""

    FAMILY = TimerSpec("family", WATERMARK)

    def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(FAMILY)) -> None:
        tag, second = element[1]
        if second is None:
            timer.clear(dynamic_timer_tag=tag)
        else:
            timer.set(second, dynamic_timer_tag=tag)

    @on_timer(FAMILY)
    def fired(self, tag: str = beam.DoFn.DynamicTimerTagParam, time: Any = beam.DoFn.TimestampParam) -> Any:
        yield tag, int(time)


def test_timers_with_different_tags_are_independent() -> None:
    """Those with one are one timer."""
    work = Work(Tagged())
    work.process(("a", ("x", 10)), ("a", ("y", 20)), ("a", ("z", 30)), ("a", ("x", 25)), ("a", ("z", None)))
    assert [("y", 20), ("x", 25)] == work.watermark(100).taken()


# --- Holds


class Held(beam.DoFn):
    """Sets a timer with an output timestamp of its own."""

    EVENT = TimerSpec("event", WATERMARK)
    CLOCK = TimerSpec("clock", REAL_TIME)

    def process(
        self, element: Any, event: Any = beam.DoFn.TimerParam(EVENT), clock: Any = beam.DoFn.TimerParam(CLOCK)
    ) -> None:
        which, fire, output = element[1]
        (event if which == "event" else clock).set(fire, output_timestamp=output)

    @on_timer(EVENT)
    def on_event(self) -> Any:
        yield "event"

    @on_timer(CLOCK)
    def on_clock(self, time: Any = beam.DoFn.TimestampParam) -> Any:
        yield "clock", int(time)


def test_an_output_timestamp_holds_the_watermark_until_the_timer_has_fired() -> None:
    """The least one of all that are set."""
    work = Work(Held())
    assert None is work.executor.hold()
    work.process(at(("a", ("event", 20, 5)), 3), at(("b", ("event", 30, None)), 3), at(("c", ("event", 25, 7)), 3))
    assert 5 * S == work.executor.hold()
    assert [("event", 5.0)] == work.watermark(22).taken_at()
    assert 7 * S == work.executor.hold()
    assert [("event", 7.0), ("event", 30.0)] == work.watermark(30).taken_at()
    assert None is work.executor.hold()


def test_a_processing_time_timer_holds_the_watermark_at_the_element_that_set_it() -> None:
    """Its output has that timestamp, unless it was given another."""
    work = Work(Held()).process(at(("a", ("clock", 100, None)), 3), at(("b", ("clock", 100, 8)), 3))
    assert (3 * S, 100 * S) == (work.executor.hold(), work.executor.next_processing_time())
    assert [] == work.watermark(50).clock(99).taken()
    assert [(("clock", 100), 3.0), (("clock", 100), 8.0)] == work.clock(100).taken_at()
    assert (None, None) == (work.executor.hold(), work.executor.next_processing_time())


@pytest.mark.parametrize("output", [2, 10])
def test_an_output_timestamp_lies_between_the_element_and_the_end_of_the_window(output: int) -> None:
    """The error names both."""
    work = Work(Held(), FixedWindows(10))
    with pytest.raises(ValueError, match=r"must not be before Timestamp\(3\).* nor after Timestamp\(9.999999\)"):
        work.process(at(("a", ("event", 9, output)), 3))


# --- Processing-time timers


class Delayed(beam.DoFn):
    """Sets a timer so many seconds from now, in both domains."""

    CLOCK = TimerSpec("clock", REAL_TIME)
    EVENT = TimerSpec("event", WATERMARK)

    def process(
        self, element: Any, clock: Any = beam.DoFn.TimerParam(CLOCK), event: Any = beam.DoFn.TimerParam(EVENT)
    ) -> None:
        clock.set_relative(element[1])
        event.set_relative(element[1])

    @on_timer(CLOCK)
    def on_clock(self, key: Any = beam.DoFn.KeyParam, time: Any = beam.DoFn.TimestampParam) -> Any:
        yield "clock", key, int(time)

    @on_timer(EVENT)
    def on_event(self, key: Any = beam.DoFn.KeyParam, time: Any = beam.DoFn.TimestampParam) -> Any:
        yield "event", key, int(time)


def test_now_is_the_clock_that_the_executor_was_told_and_the_elements_time() -> None:
    """Each in its domain."""
    work = Work(Delayed()).clock(1_000).process(at(("a", 5), 7), at(("b", 3), 7))
    assert (1_003 * S, 10 * S) == (work.executor.next_processing_time(), work.executor.next_event_time())
    assert [("clock", "b", 1_003), ("clock", "a", 1_005)] == work.clock(2_000).taken()
    assert [("event", "b", 10), ("event", "a", 12)] == work.watermark(20).taken()


def test_what_is_due_by_event_time_comes_before_what_is_due_by_the_clock() -> None:
    """When both are."""
    work = Work(Delayed()).process(("a", 5))
    work.executor.watermark = 100 * S
    assert [("event", "a", 5), ("clock", "a", 5)] == work.clock(100).taken()


# --- Windows end


class Collect(beam.DoFn):
    """Keeps values until the window is over."""

    VALUES = BagStateSpec("values")
    CLOCK = TimerSpec("clock", REAL_TIME)

    def process(
        self,
        element: Any,
        values: Any = beam.DoFn.StateParam(VALUES),
        clock: Any = beam.DoFn.TimerParam(CLOCK),
    ) -> None:
        if element[1] is not None:
            values.add(element[1])
        clock.set(500)

    @on_timer(CLOCK)
    def on_clock(self, key: Any = beam.DoFn.KeyParam) -> Any:
        yield "clock", key

    @on_window_expiration
    def at_last(
        self,
        key: Any = beam.DoFn.KeyParam,
        values: Any = beam.DoFn.StateParam(VALUES),
        window: Any = beam.DoFn.WindowParam,
        time: Any = beam.DoFn.TimestampParam,
    ) -> Any:
        yield key, values.read(), window, time


def test_a_window_expires_at_its_end_plus_the_allowed_lateness() -> None:
    """Then each of its keys is given a last call, and state and timers are gone."""
    work = Work(Collect(), FixedWindows(10), lateness=5)
    work.process(at(("b", 1), 1), at(("a", 2), 2), at(("b", 3), 12)).watermark(12)
    work.process(at(("b", 4), 3), at(("c", None), 4))
    window, end = IntervalWindow(0, 10), Timestamp(micros=10 * S - 1)
    assert 15 * S - 1 == work.executor.next_event_time()
    assert [] == work.watermark(14.9).taken()
    expected = [("b", [1, 4], window, end), ("a", [2], window, end), ("c", [], window, end)]
    work.watermark(15)
    assert [(value, end.micros, (window,)) for value in expected] == [row[:3] for row in work.rows]
    assert [IntervalWindow(10, 20)] == work.executor.state.namespaces() == work.executor.timers.windows()
    work.watermark(100)
    assert (0, 0, None) == (len(work.executor.state), len(work.executor.timers), work.executor.hold())


def test_the_last_call_holds_the_watermark_at_the_end_of_the_window() -> None:
    """For that is where its outputs will be."""

    class AtLast(beam.DoFn):
        def process(self, element: Any) -> None:
            pass

        @on_window_expiration
        def at_last(self, key: Any = beam.DoFn.KeyParam) -> Any:
            yield key

    work = Work(AtLast(), FixedWindows(10), lateness=100)
    assert None is work.executor.hold()
    work.process(at(("a", 1), 15), at(("b", 1), 5)).watermark(50)
    assert 10 * S - 1 == work.executor.hold()
    assert [("b", 10 - 1e-6)] == work.watermark(115).taken_at()
    assert 20 * S - 1 == work.executor.hold()


def test_elements_of_a_window_that_has_expired_are_dropped_and_counted() -> None:
    """Those that are late, but not too late, aren't."""
    work = Work(Index(), FixedWindows(10), lateness=5).watermark(14)
    work.process(at(("a", "late"), 5))
    assert [("a", "late", 0)] == work.taken()
    work.watermark(15).process(at(("a", "too late"), 5), at(("a", "in time"), 12), at(("b", "too late"), 0))
    assert ([("a", "in time", 0)], 2) == (work.taken(), work.executor.dropped)


def test_a_timer_past_the_windows_expiry_fires_just_before_it() -> None:
    """Nothing that waits for it is lost; and one that goes on setting itself comes to an end."""

    class Repeating(beam.DoFn):
        TIMER = TimerSpec("timer", WATERMARK)

        def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(TIMER)) -> None:
            timer.set(element[1])

        @on_timer(TIMER)
        def fired(self, time: Any = beam.DoFn.TimestampParam, timer: Any = beam.DoFn.TimerParam(TIMER)) -> Any:
            yield float(time)
            timer.set(time + 4)

    assert [("a", 10 - 1e-6)] == Work(Alarm(), FixedWindows(10)).process(at(("a", 70), 5)).watermark(100).taken()
    work = Work(Repeating(), FixedWindows(10)).process(at(("a", 4), 1)).watermark(100)
    assert [4.0, 8.0, 10 - 1e-6] == work.taken()
    assert 0 == len(work.executor.timers)


def test_when_the_watermark_passes_a_window_its_processing_time_timers_are_gone() -> None:
    """In a stream, where time goes on."""
    work = Work(Collect(), FixedWindows(10)).process(at(("a", 1), 1)).watermark(10).clock(1_000)
    assert [("a", [1])] == [value[:2] for value in work.taken()]


def test_at_the_end_of_a_bounded_input_processing_time_timers_fire_before_the_last_call() -> None:
    """For no time will come any more; then everything is as it was."""
    work = Work(Collect(), FixedWindows(10))
    for _ in range(2):
        work.process(at(("a", 1), 1), at(("b", 2), 11)).executor.finish()
        expected = [("clock", "a"), ("a", [1]), ("clock", "b"), ("b", [2])]
        assert expected == [value[:2] for value in work.taken()]
        assert (0, 0, None) == (len(work.executor.state), len(work.executor.timers), work.executor.next_event_time())


def test_at_the_end_a_processing_time_timer_fires_once_and_may_be_cleared_or_set_event_timers() -> None:
    """One that goes on setting itself comes to an end."""

    class Several(beam.DoFn):
        CLOCK = TimerSpec("clock", REAL_TIME)
        EVENT = TimerSpec("event", WATERMARK)

        def process(self, element: Any, clock: Any = beam.DoFn.TimerParam(CLOCK)) -> None:
            for second, tag in ((30, "third"), (10, "first"), (20, "second")):
                clock.set(second, dynamic_timer_tag=tag)

        @on_timer(CLOCK)
        def on_clock(
            self,
            tag: str = beam.DoFn.DynamicTimerTagParam,
            clock: Any = beam.DoFn.TimerParam(CLOCK),
            event: Any = beam.DoFn.TimerParam(EVENT),
        ) -> Any:
            yield tag
            clock.set(99, dynamic_timer_tag=tag)
            clock.set(99, dynamic_timer_tag="new")
            if tag == "first":
                clock.clear(dynamic_timer_tag="second")
                event.set(5)

        @on_timer(EVENT)
        def on_event(self) -> Any:
            yield "event"

    work = Work(Several()).process(at(("a", 1), 1))
    work.executor.finish()
    assert ["first", "third", "event"] == work.taken()
    assert (0, None) == (len(work.executor.timers), work.executor.next_processing_time())


# --- Clocks


@given(st.lists(st.tuples(st.sampled_from(["element", "watermark", "clock"]), st.integers(0, 40)), max_size=20))
def test_nothing_is_put_out_behind_the_output_watermark(script: list[Any]) -> None:
    """Which is the least of the input's and the hold, as long as no element is late; and nothing stays due."""
    work = Work(Delayed(), FixedWindows(10), lateness=5)
    output_watermark = MIN_MICROS
    for kind, second in script:
        if kind == "element":
            if second * S >= work.executor.watermark:
                work.process(at(("k", second % 7), second))
        elif kind == "watermark":
            work.watermark(second)
        else:
            work.clock(second)
        assert all(output_watermark <= micros for _, micros, *_ in work.rows)
        work.rows = []
        held = work.executor.hold()
        moved = work.executor.watermark if held is None else min(held, work.executor.watermark)
        output_watermark = max(output_watermark, moved)
        for due, now in (
            (work.executor.next_event_time(), work.executor.watermark),
            (work.executor.next_processing_time(), work.executor.processing_time),
        ):
            assert due is None or due > now


# --- What a DoFn may ask for, and what it may yield


def test_other_arguments_side_inputs_and_contexts_are_passed_as_to_any_pardo() -> None:
    """Side inputs by the element's window."""

    class Context:
        def __enter__(self) -> str:
            return "inside"

        def __exit__(self, *error: Any) -> None:
            pass

    class Asking(beam.DoFn):
        STATE = ReadModifyWriteStateSpec("state")

        def process(
            self,
            element: Any,
            more: int,
            rates: Any,
            names: Any,
            state: Any = beam.DoFn.StateParam(STATE),
            context: Any = beam.DoFn.BundleContextParam(Context),
            window: Any = beam.DoFn.WindowParam,
            pane: Any = beam.DoFn.PaneInfoParam,
            whole: Any = beam.DoFn.WindowedValueParam,
            *,
            keyword: str = "",
        ) -> Any:
            yield element[0], more, rates, sorted(names), context, window, pane.index, whole.value, keyword

    p = TestPipeline()
    names = p | "names" >> beam.Create(["y", "x"])
    rates = p | "rates" >> beam.Create([at(("a", 5), 12), at(("a", 6), 22)]) | beam.WindowInto(FixedWindows(10))
    pcoll = p | beam.Create([("a", 1)]) | "W" >> beam.WindowInto(FixedWindows(10))
    pcoll | "Apply" >> beam.ParDo(Asking(), 7, AsDict(rates), AsList(names), keyword="k")
    transform = p.graph().transforms[-1]
    views = SideInputViews()
    views.add(names.id, Bundle(["y", "x"]))
    windows = [(IntervalWindow(10, 20),), (IntervalWindow(20, 30),)]
    views.add(rates.id, Bundle([("a", 5), ("a", 6)], [12 * S, 22 * S], windows))
    rows: list[Any] = []
    executor = StatefulExecutor(transform, lambda tag, bundle: rows.extend(bundle.values), views)
    executor.process(Bundle([("a", 1)], 15 * S, (IntervalWindow(10, 20),)))
    expected = ("a", 7, {"a": 5}, ["x", "y"], "inside", IntervalWindow(10, 20), 0, ("a", 1), "k")
    assert [expected] == rows


def test_outputs_may_have_times_windows_and_tags_of_their_own() -> None:
    """From process as well as from a timer."""

    class Wrapping(beam.DoFn):
        TIMER = TimerSpec("timer", WATERMARK)

        def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(TIMER)) -> Any:
            timer.set(10)
            return self.wrapped("process")

        @on_timer(TIMER)
        def fired(self) -> Any:
            return self.wrapped("timer")

        def wrapped(self, source: str) -> Iterator[Any]:
            yield at((source, "stamped"), 5)
            yield beam.pvalue.TaggedOutput("side", at((source, "tagged"), 6))
            yield source, "plain"

    work = Work(Wrapping(), tags=("side",)).process(at(("a", 1), 2))
    work.watermark(10)
    found = {(tag, row[0], row[1] / S) for tag, bundle in work.bundles for row in bundle.rows()}
    assert {
        (tag, (source, name), second)
        for source, own in (("process", 2.0), ("timer", 10.0))
        for tag, name, second in ((None, "stamped", 5.0), ("side", "tagged", 6.0), (None, "plain", own))
    } == found
    work = Work(Wrapping(), tags=("",)).process(("a", 1))
    assert [("process", "stamped"), ("process", "plain")] == work.taken()
    with pytest.raises(PipelineError, match="Apply: got an output tagged 'side', but .* are \\[\\]"):
        Work(Wrapping()).process(("a", 1))


def test_a_dofns_life_is_that_of_any_dofn() -> None:
    """Timers fire in a bundle of their own; nothing begins where nothing is due."""
    calls: list[str] = []

    class Living(Alarm):
        def setup(self) -> None: ...

        def start_bundle(self) -> None: ...

        def finish_bundle(self) -> None: ...

        def teardown(self) -> None: ...

    work = Work(Living())
    record_calls(work, calls)
    work.watermark(1).process().process(("a", 10)).watermark(5).watermark(10).clock(7)
    work.executor.teardown()
    assert ["setup", "start", "finish", "start", "finish", "teardown"] == calls


def record_calls(work: Work, calls: list[str]) -> None:
    """Have the worker's copy of a DoFn tell of the calls."""
    fn = work.executor._pardos()[0].fn
    for name in ("setup", "start_bundle", "finish_bundle", "teardown"):
        word = name.removesuffix("_bundle")
        setattr(fn, name, lambda word=word: calls.append(word))


# --- Signs


class Latest(beam.DoFn):
    """The latest value of a key; it takes back the one before."""

    LAST = ReadModifyWriteStateSpec("last")
    retracts = True

    def process(self, element: Any, last: Any = beam.DoFn.StateParam(LAST)) -> Any:
        if last.read() is not None:
            yield beam.Retracted(last.read())
        yield element
        last.write(element)


class Counting(beam.DoFn):
    """How many there are of a key, retractions counted."""

    COUNT = CombiningValueStateSpec("count", sum)

    def process(self, element: Any, sign: int = beam.DoFn.SignParam, count: Any = beam.DoFn.StateParam(COUNT)) -> Any:
        if count.read():
            yield beam.Retracted((element[0], count.read()))
        count.add(sign)
        if count.read():
            yield at((element[0], count.read()), 7)


def signed(work: Work) -> list[tuple[Any, int]]:
    rows, work.rows = work.rows, []
    return [(row[0], row[4]) for row in rows]


def test_outputs_have_the_sign_of_their_element() -> None:
    """Unless the DoFn takes them back of its own accord."""
    work = Work(Index()).process(("a", "x")).process(("a", "x"), sign=-1)
    assert [(("a", "x", 0), 1), (("a", "x", 1), -1)] == signed(work)
    work = Work(Latest()).process(("a", 1), ("a", 2), ("b", 3), ("a", 4))
    assert [(("a", 1), 1), (("a", 1), -1), (("a", 2), 1), (("b", 3), 1), (("a", 2), -1), (("a", 4), 1)] == signed(work)


def behind_a_grouping_that_retracts(dofn: beam.DoFn) -> Work:
    """The DoFn, with an input that may be taken back."""
    retracting = beam.WindowInto(
        FixedWindows(10),
        trigger=beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)),
        accumulation_mode=beam.trigger.AccumulationMode.RETRACTING,
    )
    work = Work(dofn)
    pcoll = TestPipeline() | beam.Create([("a", 1)]) | retracting | beam.CombinePerKey(sum)
    out = pcoll | "Apply" >> beam.ParDo(dofn)
    assert out.retracted_by
    work.executor = StatefulExecutor(pcoll.pipeline.graph().transforms[-1], work.emit)
    return work


def test_a_dofn_that_looks_at_signs_decides_on_those_of_its_outputs() -> None:
    """They are +1 unless it takes them back."""
    work = (
        behind_a_grouping_that_retracts(Counting())
        .process(("a", 1), ("a", 2))
        .process(("a", 1), sign=-1)
        .process(("a", 2), sign=-1)
    )
    assert [(("a", 1), 1), (("a", 1), -1), (("a", 2), 1), (("a", 2), -1), (("a", 1), 1), (("a", 1), -1)] == signed(work)


def test_who_takes_outputs_back_has_said_so() -> None:
    """By asking for signs where there are any, or by `retracts`."""

    class Silent(beam.DoFn):
        LAST = ReadModifyWriteStateSpec("last")

        def process(self, element: Any, last: Any = beam.DoFn.StateParam(LAST)) -> Any:
            yield beam.Retracted(element)

    with pytest.raises(PipelineError, match="Apply: got the output Retracted.*Silent doesn't look at signs"):
        Work(Silent()).process(("a", 1))
    with pytest.raises(PipelineError, match="Counting has no input that can be taken back"):
        Work(Counting()).process(("a", 1), ("a", 2))
    with pytest.raises(PipelineError, match="the outputs of a function have the sign of its input"):
        ["a"] | beam.Map(beam.Retracted)


def test_what_follows_a_dofn_that_takes_outputs_back_knows_it() -> None:
    """When the pipeline is built."""
    out = TestPipeline() | beam.Create([("a", 1)]) | "Latest" >> beam.ParDo(Latest())
    assert "Latest" == out.retracted_by
    out = TestPipeline() | beam.Create([("a", 1)]) | "Count" >> beam.ParDo(Counting())
    assert "" == out.retracted_by


# --- Errors


@pytest.mark.parametrize("element", [7, "ab", ("a",), ("a", 1, 2), None])
def test_an_element_that_is_no_pair_is_an_error_that_names_the_transform(element: Any) -> None:
    """And shows the element."""
    with pytest.raises(NotAPairError, match=r"Apply: expected a \(key, value\) pair, got "):
        Work(Index()).process(("a", 1), element)


@pytest.mark.parametrize("key", [["a"], object(), float("nan")])
def test_a_key_that_can_not_be_one_is_an_error_that_names_the_transform(key: Any) -> None:
    """Unhashable, or without a deterministic encoding."""
    with pytest.raises(InvalidKeyError, match="Apply: "):
        Work(Index()).process((key, 1))


def failing(where: str) -> beam.DoFn:
    """A DoFn that fails in one of its methods."""

    class Failing(beam.DoFn):
        TIMER = TimerSpec("timer", WATERMARK)

        def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(TIMER)) -> Any:
            timer.set(1)
            if where == "process":
                raise KeyError("process")
            yield element

        @on_timer(TIMER)
        def fired(self) -> Any:
            if where == "timer":
                raise KeyError("timer")

        @on_window_expiration
        def at_last(self) -> Any:
            if where == "expiry":
                raise KeyError("expiry")
            yield 1

    return Failing()


@pytest.mark.parametrize("where", ["process", "timer", "expiry"])
def test_what_user_code_raises_is_attributed_to_it(where: str) -> None:
    """To the transform, to the line, and in process to the element."""
    work = Work(failing(where))
    with pytest.raises(KeyError, match=f"KeyError: '{where}' \\[while running 'Apply'") as caught:
        work.process(("a", "element")).watermark(20).executor.finish()
    assert isinstance(caught.value, PenstockError)
    assert ("on element ('a', 'element')" in str(caught.value)) == (where == "process")
    assert "test_stateful.py:" in str(caught.value)


def test_a_state_value_that_can_not_be_pickled_is_an_error_that_names_transform_and_state() -> None:
    """Before anything of the bundle is sent on."""

    class Keeping(beam.DoFn):
        LOCK = ReadModifyWriteStateSpec("lock")

        def process(self, element: Any, lock: Any = beam.DoFn.StateParam(LOCK)) -> Any:
            lock.write(threading.Lock())
            yield element

    work = Work(Keeping())
    with pytest.raises(SerializationError, match="Apply: the state 'lock' of the key 'a' was given <unlocked"):
        work.process(("a", 1))
    assert [] == work.taken()


def test_process_returns_an_iterable_or_none() -> None:
    """As any DoFn's."""

    class Texting(beam.DoFn):
        STATE = ReadModifyWriteStateSpec("state")

        def process(self, element: Any, state: Any = beam.DoFn.StateParam(STATE)) -> Any:
            return "text"

    with pytest.raises(TypeError, match="must return an iterable of outputs, got the str 'text'"):
        Work(Texting()).process(("a", 1))


# --- Snapshots


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=15),
    st.integers(0, 15),
    st.integers(0, 25),
)
def test_a_restored_executor_goes_on_like_the_one_that_was_lost(pairs: list[Any], cut: int, second: int) -> None:
    """From a snapshot that went through pickle, and one with changes on top of it."""
    make: Callable[[], Work] = lambda: Work(Collect(), FixedWindows(10), lateness=5, tracking=True)
    elements = [at(pair, pair[1]) for pair in pairs]
    work = make().process(*elements[:cut])
    frozen = pickle.dumps(work.executor.snapshot())
    work.watermark(second)
    snapshots = [pickle.loads(data) for data in (frozen, pickle.dumps(work.executor.changes()))]
    state, timers = ([change for part in parts for change in part] for parts in zip(*snapshots, strict=True))
    work.taken()

    restored = make()
    restored.executor.restore(state, timers)
    restored.executor.watermark = work.executor.watermark
    outputs = []
    for each in (work, restored):
        each.process(*elements[cut:]).watermark(20).clock(500).watermark(100)
        outputs.append((each.taken(), each.executor.hold(), len(each.executor.state), len(each.executor.timers)))
    assert outputs[0] == outputs[1]
