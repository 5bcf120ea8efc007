"""A stateful ParDo at the expiry of a window and at the end of its input."""

from __future__ import annotations

from typing import Any

from support.execution.stateful_pardo import REAL_TIME, WATERMARK, Alarm, Collect, Index, S, Work, at

import penstock as beam
from penstock.sdk.userstate import TimerSpec, on_timer, on_window_expiration
from penstock.windowing import FixedWindows, IntervalWindow, Timestamp


def test_a_window_expires_when_the_watermark_is_past_its_end_plus_the_allowed_lateness() -> None:
    """Then each of its keys is given a last call, and state and timers are gone."""
    work = Work(Collect(), FixedWindows(10), lateness=5)
    work.process(at(("b", 1), 1), at(("a", 2), 2), at(("b", 3), 12)).watermark(12)
    work.process(at(("b", 4), 3), at(("c", None), 4))
    window, end = IntervalWindow(0, 10), Timestamp(micros=10 * S - 1)
    assert 15 * S + 1 == work.executor.next_event_time()
    assert [] == work.watermark(15).taken()
    expected = [("b", [1, 4], window, end), ("a", [2], window, end), ("c", [], window, end)]
    work.watermark(15.000001)
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
    work = Work(Index(), FixedWindows(10), lateness=5).watermark(15)
    work.process(at(("a", "late"), 5))
    assert [("a", "late", 0)] == work.taken()
    work.watermark(15.000001).process(at(("a", "too late"), 5), at(("a", "in time"), 12), at(("b", "too late"), 0))
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

    assert [("a", 10.0)] == Work(Alarm(), FixedWindows(10)).process(at(("a", 70), 5)).watermark(100).taken()
    work = Work(Repeating(), FixedWindows(10)).process(at(("a", 4), 1)).watermark(100)
    assert [4.0, 8.0, 10.0] == work.taken()
    assert 0 == len(work.executor.timers)


def test_when_the_watermark_passes_a_window_its_processing_time_timers_are_gone() -> None:
    """In a stream, where time goes on."""
    work = Work(Collect(), FixedWindows(10)).process(at(("a", 1), 1)).watermark(10.000001).clock(1_000)
    assert [("a", [1])] == [value[:2] for value in work.taken()]


def test_at_the_end_of_a_bounded_input_processing_time_timers_fire_before_the_last_call() -> None:
    """For no time will come any more; then everything is as it was."""
    work = Work(Collect(), FixedWindows(10))
    for _ in range(2):
        work.process(at(("a", 1), 1), at(("b", 2), 11)).executor.finish()
        work.executor.fire_due()
        expected = [("clock", "a"), ("a", [1]), ("clock", "b"), ("b", [2])]
        assert expected == [value[:2] for value in work.taken()]
        work.executor.begin_anew()
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
    work.executor.fire_due()
    assert ["first", "third", "event"] == work.taken()
    assert (0, None) == (len(work.executor.timers), work.executor.next_processing_time())
