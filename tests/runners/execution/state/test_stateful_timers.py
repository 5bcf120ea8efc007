"""Timers of a stateful ParDo: when they fire, in both domains, and how they hold the watermark."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.execution.stateful_pardo import REAL_TIME, WATERMARK, Alarm, Delayed, S, Work, at

import penstock as beam
from penstock.sdk.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from penstock.triggers import PaneInfo, PaneInfoTiming
from penstock.windowing import FixedWindows, IntervalWindow
from penstock.windowing.timestamp import MIN_MICROS

# --- Event-time timers


def test_a_timer_fires_when_the_watermark_has_reached_it() -> None:
    """Once, with the time that it was set to as its output's timestamp."""
    work = Work(Alarm()).process(("a", 10), ("b", 20))
    assert [] == work.watermark(9.999999).taken()
    assert [(("a", 10.0), 10.0)] == work.watermark(10).taken_at()
    assert [(("b", 20.0), 20.0)] == work.watermark(1_000).taken_at()
    assert [] == work.watermark(2_000).taken()


@given(st.permutations(list(range(12))), st.integers(1, 12))
def test_timers_of_all_keys_fire_in_the_order_of_time(order: list[int], size: int) -> None:
    """For any order of setting, and any bundles."""
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


def test_an_output_has_the_timers_window_and_the_pane_of_the_element_that_set_it() -> None:
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


# --- Clocks


@given(st.lists(st.tuples(st.sampled_from(["element", "watermark", "clock"]), st.integers(0, 40)), max_size=20))
def test_nothing_is_put_out_behind_the_output_watermark(script: list[Any]) -> None:
    """It is the minimum of the input watermark and the hold if no element is late; and no timer stays due."""
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
