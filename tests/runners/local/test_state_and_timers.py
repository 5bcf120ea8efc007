"""State and timers while watermarks and the clock move, as `TestStream` moves them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import penstock as beam
from penstock.sdk.runs.run_on_values import CollectingSink, _Collect
from penstock.sdk.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
    on_window_expiration,
)
from penstock.testing import TestPipeline, TestStream
from penstock.windowing import FixedWindows, IntervalWindow, SlidingWindows, Timestamp, TimestampedValue

WATERMARK, REAL_TIME = beam.TimeDomain.WATERMARK, beam.TimeDomain.REAL_TIME


def at(value: Any, seconds: float) -> TimestampedValue:
    return TimestampedValue(value, seconds)


def outputs_of(stream: TestStream, *transforms: beam.PTransform) -> list[Any]:
    """Return the outputs in order."""
    sink = CollectingSink()
    with TestPipeline() as p:
        pcoll = p | stream
        for i, transform in enumerate(transforms):
            pcoll = pcoll | f"step {i}" >> transform
        pcoll.pipeline.apply(_Collect(sink), pcoll)
    return sink.values


class Whole(beam.DoFn):
    """An element with its timestamp and window."""

    def process(
        self, element: Any, time: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[Any]:
        yield element, time, window


keyed = beam.Map(lambda x: ("key", x))


# --- Watermarks


class Buffer(beam.DoFn):
    """Gives all that has come, when the watermark reaches 20."""

    BUFFER = BagStateSpec("buffer")
    EXPIRY = TimerSpec("expiry", WATERMARK)

    def process(
        self, element: Any, buffer: Any = beam.DoFn.StateParam(BUFFER), expiry: Any = beam.DoFn.TimerParam(EXPIRY)
    ) -> None:
        buffer.add(element[1])
        expiry.set(20)

    @on_timer(EXPIRY)
    def on_expiry(self, buffer: Any = beam.DoFn.StateParam(BUFFER)) -> Any:
        yield sorted(buffer.read())


def test_a_timer_fires_when_the_watermark_has_passed_it_and_again_at_once_when_it_is_set_later() -> None:
    """The second time for the element that came after."""
    stream = TestStream().advance_watermark_to(10).add_elements([1, 2]).add_elements([3])
    stream = stream.advance_watermark_to(25).add_elements([4]).advance_watermark_to_infinity()
    assert [[1, 2, 3], [1, 2, 3, 4]] == outputs_of(stream, keyed, beam.ParDo(Buffer()))


def test_timers_that_follow_each_other_see_each_others_state() -> None:
    """The one that clears fires before the one that puts out."""

    class Clearing(beam.DoFn):
        SEEN = SetStateSpec("seen")
        EMIT = TimerSpec("emit", WATERMARK)
        CLEAR = TimerSpec("clear", WATERMARK)

        def process(
            self,
            element: Any,
            seen: Any = beam.DoFn.StateParam(SEEN),
            emit: Any = beam.DoFn.TimerParam(EMIT),
            clear: Any = beam.DoFn.TimerParam(CLEAR),
        ) -> None:
            seen.add(element[1])
            clear.set(100)
            emit.set(1000)

        @on_timer(EMIT)
        def on_emit(self, seen: Any = beam.DoFn.StateParam(SEEN)) -> Any:
            yield from seen.read()
            yield "extra"

        @on_timer(CLEAR)
        def on_clear(self, seen: Any = beam.DoFn.StateParam(SEEN)) -> None:
            seen.clear()
            seen.add("other")

    stream = TestStream().advance_watermark_to(0).add_elements([("key", "value")]).advance_watermark_to(100)
    assert ["other", "extra"] == outputs_of(stream.advance_watermark_to_infinity(), beam.ParDo(Clearing()))


class HashJoin(beam.DoFn):
    """Joins two elements of a key; one that stays alone for 100 seconds is unmatched."""

    WAITING = BagStateSpec("waiting")
    UNMATCHED = TimerSpec("unmatched", WATERMARK)

    def process(
        self, element: Any, waiting: Any = beam.DoFn.StateParam(WAITING), alone: Any = beam.DoFn.TimerParam(UNMATCHED)
    ) -> Any:
        key, value = element
        others = waiting.read()
        if not others:
            waiting.add(value)
            alone.set(100)
        else:
            yield "joined", key, others[0], value
            waiting.clear()
            alone.clear()

    @on_timer(UNMATCHED)
    def on_unmatched(self, key: Any = beam.DoFn.KeyParam, waiting: Any = beam.DoFn.StateParam(WAITING)) -> Any:
        (other,) = waiting.read()
        waiting.clear()
        yield "unmatched", key, other


def test_a_join_with_a_time_limit() -> None:
    """Late ones are unmatched at once."""
    stream = TestStream().advance_watermark_to(10).add_elements([("A", 1), ("B", 1)]).add_elements([("A", 2), ("C", 1)])
    stream = stream.advance_watermark_to(25).add_elements([("A", 3), ("B", 2)])
    stream = stream.add_elements([("D", 1), ("D", 2), ("D", 3), ("D", 4)])
    stream = stream.advance_watermark_to(125).add_elements([("C", 2)]).advance_watermark_to_infinity()
    expected = [
        ("joined", "A", 1, 2),
        ("joined", "B", 1, 2),
        ("joined", "D", 1, 2),
        ("joined", "D", 3, 4),
        ("unmatched", "C", 1),
        ("unmatched", "A", 3),
        ("unmatched", "C", 2),
    ]
    assert expected == outputs_of(stream, beam.ParDo(HashJoin()))


def test_a_timers_output_has_its_time_and_window() -> None:
    """Asserted as it is seen further down."""

    class Alarm(beam.DoFn):
        TIMER = TimerSpec("timer", WATERMARK)

        def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(TIMER)) -> None:
            timer.set(13)

        @on_timer(TIMER)
        def fired(
            self,
            window: Any = beam.DoFn.WindowParam,
            time: Any = beam.DoFn.TimestampParam,
            key: Any = beam.DoFn.KeyParam,
        ) -> Any:
            yield key, int(time), window

    stream = TestStream().advance_watermark_to(10).add_elements([1]).advance_watermark_to_infinity()
    window = IntervalWindow(10, 15)
    found = outputs_of(stream, keyed, beam.WindowInto(FixedWindows(5)), beam.ParDo(Alarm()), beam.ParDo(Whole()))
    assert [(("key", 13, window), Timestamp(13), window)] == found


class Delay(beam.DoFn):
    """Gives an element when a clock has gone on by 10 seconds; it holds the watermark until then."""

    KEPT = BagStateSpec("kept")
    CLOCK = TimerSpec("clock", REAL_TIME)

    def process(
        self, element: Any, kept: Any = beam.DoFn.StateParam(KEPT), clock: Any = beam.DoFn.TimerParam(CLOCK)
    ) -> None:
        kept.add(element)
        clock.set_relative(10)

    @on_timer(CLOCK)
    def on_clock(self, kept: Any = beam.DoFn.StateParam(KEPT)) -> Any:
        yield from kept.read()
        kept.clear()


def test_what_a_timer_will_put_out_is_not_late_further_down() -> None:
    """It holds the watermark of all that follow, though the input's has gone on."""
    stream = TestStream().add_elements([at(("a", 1), 5)]).advance_watermark_to(30).advance_processing_time(9)
    stream = stream.add_elements([at(("b", 1), 35)]).advance_processing_time(1).advance_watermark_to_infinity()
    assert [("a", 1)] == outputs_of(
        stream, beam.ParDo(Delay()), beam.WindowInto(FixedWindows(10)), beam.CombinePerKey(sum)
    )


def test_a_window_that_is_over_takes_its_processing_time_timers_with_it() -> None:
    """The script's clock doesn't reach them."""
    stream = TestStream().add_elements([("a", 1)]).advance_watermark_to_infinity()
    assert [] == outputs_of(stream, beam.ParDo(Delay()))


# --- Clocks


def test_processing_time_is_the_scripts() -> None:
    """A timer that sets itself; times are absolute."""

    class Generate(beam.DoFn):
        EMIT = TimerSpec("emit", REAL_TIME)
        COUNT = CombiningValueStateSpec("count", sum)

        def process(self, element: Any, emit: Any = beam.DoFn.TimerParam(EMIT)) -> Any:
            emit.set(1)
            yield element[1]

        @on_timer(EMIT)
        def on_emit(self, emit: Any = beam.DoFn.TimerParam(EMIT), count: Any = beam.DoFn.StateParam(COUNT)) -> Any:
            if count.read() == 3:
                return
            count.add(1)
            emit.set(count.read() + 1)
            yield "value"

    stream = TestStream().advance_watermark_to(0)
    for i in range(4):
        stream = stream.add_elements([("key", i)]).advance_processing_time(1)
    expected = [0, "value", 1, "value", 2, "value", 3]
    assert expected == outputs_of(stream.advance_watermark_to_infinity(), beam.ParDo(Generate()))


# --- Windows end


class CountUntilTheEnd(beam.DoFn):
    """How many there were, when the window is over."""

    COUNT = CombiningValueStateSpec("count", sum)

    def process(self, element: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> None:
        count.add(1)

    @on_window_expiration
    def at_last(self, key: Any = beam.DoFn.KeyParam, count: Any = beam.DoFn.StateParam(COUNT)) -> Any:
        yield key, count.read()


def test_elements_that_are_late_count_and_those_that_are_too_late_are_counted_as_dropped() -> None:
    """The last call comes when the allowed lateness is over."""
    stream = TestStream().add_elements([at(("a", 1), 5)]).advance_watermark_to(15).add_elements([at(("a", 2), 6)])
    stream = stream.advance_watermark_to(Timestamp(micros=15_000_001)).add_elements(
        [at(("a", 3), 7), at(("b", 4), 8), at(("a", 5), 13)]
    )
    sink = CollectingSink()
    with TestPipeline() as p:
        windowed = p | stream.advance_watermark_to_infinity() | beam.WindowInto(FixedWindows(10), allowed_lateness=5)
        counts = windowed | "Count" >> beam.ParDo(CountUntilTheEnd())
        p.apply(_Collect(sink), counts | beam.ParDo(Whole()))
    first, second = IntervalWindow(0, 10), IntervalWindow(10, 20)
    assert [(("a", 2), first.max_timestamp(), first), (("a", 1), second.max_timestamp(), second)] == sink.values
    dropped = p.result.metrics().query(beam.metrics.MetricsFilter().with_name("dropped_late"))["counters"]
    assert [("Count", "penstock", 2)] == [(m.key.step, m.key.metric.namespace, m.committed) for m in dropped]


def test_the_last_call_is_in_time_for_what_follows() -> None:
    """A grouping further down, of the same windows and without lateness, isn't late for it."""
    stream = TestStream().add_elements([at(("a", 1), 5), at(("a", 2), 6)]).advance_watermark_to(11)
    windowed = beam.WindowInto(FixedWindows(10), allowed_lateness=5)
    again = beam.WindowInto(FixedWindows(10))
    counts = beam.ParDo(CountUntilTheEnd())
    stream = stream.advance_watermark_to_infinity()
    assert [("a", 2)] == outputs_of(stream, windowed, counts, again, beam.CombinePerKey(sum))


# --- Signs


class Current(beam.DoFn):
    """The current total of a class of sums, maintained under retractions."""

    TOTAL = ReadModifyWriteStateSpec("total")

    def process(
        self, element: Any, sign: int = beam.DoFn.SignParam, total: Any = beam.DoFn.StateParam(TOTAL)
    ) -> Iterator[Any]:
        key, value = element
        before = total.read()
        now = (before or 0) + sign * value
        if before is not None:
            yield beam.Retracted((key, before))
        yield key, now
        total.write(now)


def test_a_stateful_dofn_sees_retractions_and_takes_its_own_outputs_back() -> None:
    """The final result is that of a batch."""
    retracting = beam.WindowInto(
        beam.window.GlobalWindows(),
        trigger=beam.trigger.Repeatedly(beam.trigger.AfterCount(1)),
        accumulation_mode=beam.trigger.AccumulationMode.RETRACTING,
    )
    stream = TestStream()
    for pair in (("a", 1), ("b", 5), ("a", 2)):
        stream = stream.add_elements([pair])

    class Signs(beam.DoFn):
        def process(self, element: Any, sign: int = beam.DoFn.SignParam) -> Any:
            yield element[1], sign

    signed = outputs_of(
        stream.advance_watermark_to_infinity(),
        retracting,
        beam.CombinePerKey(sum),
        beam.MapTuple(lambda key, total: ("all", total)),
        beam.ParDo(Current()),
        beam.ParDo(Signs()),
    )
    standing: dict[int, int] = {}
    for value, sign in signed:
        standing[value] = standing.get(value, 0) + sign
    assert {8: 1} == {value: count for value, count in standing.items() if count}


# --- The transforms


def test_a_batch_comes_when_it_is_full_when_it_has_waited_and_when_the_window_is_over() -> None:
    """Whichever is first."""
    stream = TestStream().add_elements([at(("a", i), 1) for i in range(5)]).advance_processing_time(9)
    stream = stream.add_elements([at(("a", 5), 2)]).advance_processing_time(1).add_elements([at(("a", 6), 3)])
    stream = stream.advance_watermark_to(10).add_elements([at(("a", 7), 12)]).advance_watermark_to_infinity()
    found = outputs_of(stream, beam.WindowInto(FixedWindows(10)), beam.GroupIntoBatches(2, 10))
    assert [("a", [0, 1]), ("a", [2, 3]), ("a", [4, 5]), ("a", [6]), ("a", [7])] == found


def test_a_batch_waits_from_its_first_value_on() -> None:
    """By the script's clock, or by another one that is given."""
    stream = TestStream().add_elements([("a", 0)]).advance_processing_time(6).add_elements([("a", 1)])
    stream = stream.advance_processing_time(3).add_elements([("a", 2)]).advance_processing_time(2)
    stream = stream.add_elements([("a", 3)]).advance_watermark_to_infinity()
    assert [("a", [0, 1, 2]), ("a", [3])] == outputs_of(stream, beam.GroupIntoBatches(10, 10))
    assert [("a", [0, 1]), ("a", [2]), ("a", [3])] == outputs_of(stream, beam.GroupIntoBatches(10, 3, lambda: 5))


def test_a_stream_is_batched_as_it_comes_and_sharded_keys_too() -> None:
    """Without a limit to the time that a value waits."""
    stream = TestStream().add_elements([("a", i) for i in range(3)]).advance_watermark_to_infinity()
    assert [("a", [0, 1]), ("a", [2])] == outputs_of(stream, beam.GroupIntoBatches(2))
    sharded = outputs_of(stream, beam.GroupIntoBatches.WithShardedKey(2, 5))
    assert [("a", [0, 1]), ("a", [2])] == [(key.key, batch) for key, batch in sharded]


def test_duplicates_are_forgotten_after_a_time_by_the_clock() -> None:
    """Reckoned from the first one on."""
    stream = TestStream().add_elements(["x", "x"]).advance_processing_time(9).add_elements(["x", "y"])
    stream = stream.advance_processing_time(1).add_elements(["x", "y"]).advance_watermark_to_infinity()
    assert ["x", "y", "x"] == outputs_of(stream, beam.Deduplicate(processing_time_duration=10))


def test_duplicates_are_forgotten_after_a_time_by_the_watermark() -> None:
    """Reckoned from the first one's timestamp on; windows are apart."""
    stream = TestStream().add_elements([at("x", 1), at("x", 2)]).advance_watermark_to(10).add_elements([at("x", 10)])
    stream = stream.advance_watermark_to(11).add_elements([at("x", 12)]).advance_watermark_to_infinity()
    assert ["x", "x"] == outputs_of(stream, beam.Deduplicate(event_time_duration=10))
    both = outputs_of(stream, beam.WindowInto(SlidingWindows(20, 10)), beam.Deduplicate(event_time_duration=100))
    assert ["x"] * 3 == both


def test_what_is_taken_back_as_often_as_it_came_is_taken_back() -> None:
    """A duplicate that is taken back leaves the first one standing."""
    retracting = beam.WindowInto(
        beam.window.GlobalWindows(),
        trigger=beam.trigger.Repeatedly(beam.trigger.AfterCount(1)),
        accumulation_mode=beam.trigger.AccumulationMode.RETRACTING,
    )

    class Signs(beam.DoFn):
        def process(self, element: Any, sign: int = beam.DoFn.SignParam) -> Any:
            yield element, sign

    stream = TestStream()
    # Totals: a 1, b 1, a 3, b 3 and so the 1 comes twice, and goes twice.
    for pair in (("a", 1), ("b", 1), ("a", 2), ("b", 2)):
        stream = stream.add_elements([pair])
    found = outputs_of(
        stream.advance_watermark_to_infinity(),
        retracting,
        beam.CombinePerKey(sum),
        beam.Values(),
        beam.Deduplicate(processing_time_duration=100),
        beam.ParDo(Signs()),
    )
    assert [(1, 1), (3, 1), (1, -1)] == found


# --- Clocks


class AtOnce(beam.DoFn):
    """The processing time at which each element comes."""

    NOW = TimerSpec("now", REAL_TIME)

    def process(self, element: Any, now: Any = beam.DoFn.TimerParam(NOW)) -> None:
        now.set_relative(0)

    @on_timer(NOW)
    def at_once(self, time: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        yield float(time)


def test_what_a_move_of_the_clock_makes_fire_comes_at_the_new_time() -> None:
    """Timers of a ParDo after the grouping that fires are reckoned from then on, not from the move before."""
    delayed = beam.WindowInto(
        beam.window.GlobalWindows(),
        trigger=beam.trigger.Repeatedly(beam.trigger.AfterProcessingTime(10)),
        accumulation_mode=beam.trigger.AccumulationMode.DISCARDING,
    )
    stream = TestStream().advance_processing_time(5).add_elements([("a", 1)]).advance_processing_time(12)

    found = outputs_of(stream.advance_watermark_to_infinity(), delayed, beam.CombinePerKey(sum), beam.ParDo(AtOnce()))

    assert [17.0] == found
