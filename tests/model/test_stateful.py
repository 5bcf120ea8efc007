"""State and timers in pipelines with a bounded input, on each runner."""

from __future__ import annotations

from typing import Any

import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock.sdk.errors import InvalidKeyError, NotAPairError, PenstockError, SerializationError
from penstock.sdk.side_inputs import AsDict
from penstock.sdk.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    MapStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
    on_window_expiration,
)
from penstock.testing import TestWindowedValue
from penstock.windowing import FixedWindows, IntervalWindow, SlidingWindows, Timestamp, TimestampedValue

WATERMARK, REAL_TIME = beam.TimeDomain.WATERMARK, beam.TimeDomain.REAL_TIME


def at(value: Any, seconds: float) -> TimestampedValue:
    return TimestampedValue(value, seconds)


class EveryKind(beam.DoFn):
    """Keeps an element in each kind of state, and gives them all when the window is over."""

    LAST = ReadModifyWriteStateSpec("last")
    BAG = BagStateSpec("bag")
    SET = SetStateSpec("set")
    TOTAL = CombiningValueStateSpec("total", sum)
    MAP = MapStateSpec("map")
    LOG = OrderedListStateSpec("log")

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        last: Any = beam.DoFn.StateParam(LAST),
        bag: Any = beam.DoFn.StateParam(BAG),
        distinct: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(TOTAL),
        by_name: Any = beam.DoFn.StateParam(MAP),
        log: Any = beam.DoFn.StateParam(LOG),
    ) -> None:
        value = element[1]
        last.write(value)
        bag.add(value)
        distinct.add(value)
        total.add(value)
        by_name.put(value, time)
        log.add((time, value))

    @on_window_expiration
    def at_last(
        self,
        key: Any = beam.DoFn.KeyParam,
        last: Any = beam.DoFn.StateParam(LAST),
        bag: Any = beam.DoFn.StateParam(BAG),
        distinct: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(TOTAL),
        by_name: Any = beam.DoFn.StateParam(MAP),
        log: Any = beam.DoFn.StateParam(LOG),
    ) -> Any:
        yield key, last.read(), bag.read(), distinct.read(), total.read(), by_name.items(), log.read_range(2, 9)


def test_every_kind_of_state_is_kept_for_each_key_and_window(pipeline: Any) -> None:
    """Windows side by side, keys in any number of workers."""
    elements = [at((key, value), second) for key in range(20) for value, second in ((3, 1), (5, 4), (3, 8), (7, 11))]
    t = Timestamp
    with pipeline as p:
        pairs = p | beam.Create(elements) | beam.WindowInto(FixedWindows(10))
        first = [(3, [3, 5, 3], [3, 5], 11, [(3, t(8)), (5, t(4))], [(t(4), 5), (t(8), 3)]) for _ in range(20)]
        second = [(7, [7], [7], 7, [(7, t(11))], []) for _ in range(20)]
        expected = [(key, *rest) for part in (first, second) for key, rest in enumerate(part)]
        check(expected, pairs | beam.ParDo(EveryKind()))


class Buffer(beam.DoFn):
    """Gives what came of a key, when the watermark has passed the time of its first element by 5 seconds."""

    VALUES = BagStateSpec("values")
    TIMER = TimerSpec("timer", WATERMARK)

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        values: Any = beam.DoFn.StateParam(VALUES),
        timer: Any = beam.DoFn.TimerParam(TIMER),
    ) -> None:
        if values.is_empty():
            timer.set(time + 5)
        values.add(element[1])

    @on_timer(TIMER)
    def fired(
        self,
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
        values: Any = beam.DoFn.StateParam(VALUES),
    ) -> Any:
        yield key, sorted(values.read()), float(time)
        values.clear()


def in_order(p: Any, runner_name: str, elements: list[Any]) -> Any:
    """A PCollection whose elements come in this order.

    Subtasks read the parts of an input side by side; and a part is never less than an element.
    """
    if runner_name.startswith("local-"):
        return p | beam.Create([elements]) | beam.FlatMap(list)
    return p | beam.Create(elements)


def test_event_time_timers_fire_when_the_input_is_over(pipeline: Any, runner_name: str) -> None:
    """Their outputs have the times that they were set to, and windows group them by these."""
    with pipeline as p:
        pairs = in_order(p, runner_name, [at(("a", 1), 1), at(("b", 2), 3), at(("a", 3), 30)])
        fired = pairs | beam.ParDo(Buffer())
        check([("a", [1, 3], 6.0), ("b", [2], 8.0)], fired)
        counts = fired | beam.WindowInto(FixedWindows(7)) | beam.Map(lambda row: (1, row[0])) | beam.GroupByKey()
        values = [
            TestWindowedValue((1, ["a"]), IntervalWindow(0, 7).max_timestamp(), [IntervalWindow(0, 7)]),
            TestWindowedValue((1, ["b"]), IntervalWindow(7, 14).max_timestamp(), [IntervalWindow(7, 14)]),
        ]
        check(values, counts | "lists" >> beam.MapTuple(lambda k, vs: (k, list(vs))), reify_windows=True)


class InOrder(beam.DoFn):
    """Timers of one key, in the order in which they fire."""

    SEEN = BagStateSpec("seen")
    EVENT = TimerSpec("event", WATERMARK)
    CLOCK = TimerSpec("clock", REAL_TIME)

    def process(
        self, element: Any, event: Any = beam.DoFn.TimerParam(EVENT), clock: Any = beam.DoFn.TimerParam(CLOCK)
    ) -> None:
        event.set(element[1], dynamic_timer_tag=str(element[1]))
        clock.set(element[1], dynamic_timer_tag=str(element[1]))

    @on_timer(EVENT)
    def on_event(self, tag: str = beam.DoFn.DynamicTimerTagParam, seen: Any = beam.DoFn.StateParam(SEEN)) -> None:
        seen.add(f"event {tag}")

    @on_timer(CLOCK)
    def on_clock(self, tag: str = beam.DoFn.DynamicTimerTagParam, seen: Any = beam.DoFn.StateParam(SEEN)) -> None:
        seen.add(f"clock {tag}")

    @on_window_expiration
    def at_last(self, key: Any = beam.DoFn.KeyParam, seen: Any = beam.DoFn.StateParam(SEEN)) -> Any:
        yield key, seen.read()


def test_timers_fire_in_order_by_event_time_and_in_the_end_by_processing_time(pipeline: Any) -> None:
    """In a bounded input no time comes after the last element, so that what waits for it needn't wait."""
    with pipeline as p:
        pairs = p | beam.Create([(key, 10**9 + second) for second in (3, 1, 2) for key in "abcdef"])
        order = [f"{kind} {10**9 + second}" for kind in ("event", "clock") for second in (1, 2, 3)]
        check([(key, order) for key in "abcdef"], pairs | beam.ParDo(InOrder()))


class Number(beam.DoFn):
    """Numbers the elements of a key and window."""

    NUMBER = CombiningValueStateSpec("number", sum)

    def process(self, element: Any, rates: Any = None, number: Any = beam.DoFn.StateParam(NUMBER)) -> Any:
        number.add(1)
        factor = 1 if rates is None else rates.get(element[0], 1)
        if number.read() % 2:
            yield element[0], number.read() * factor
        else:
            yield beam.pvalue.TaggedOutput("even", (element[0], number.read() * factor))


def test_side_inputs_and_tagged_outputs_are_as_those_of_any_pardo(pipeline: Any) -> None:
    """The side input complete, by window."""
    with pipeline as p:
        windows = beam.WindowInto(SlidingWindows(20, 10))
        rates = (
            p
            | "rates" >> beam.Create([at(("a", 10), 5), at(("a", 100), 15)])
            | "fixed" >> beam.WindowInto(FixedWindows(10))
        )
        pairs = p | beam.Create([at(("a", "x"), 7), at(("a", "y"), 8), at(("b", "z"), 7)]) | windows
        outputs = pairs | beam.ParDo(Number(), AsDict(rates)).with_outputs("even", main="odd")
        check([("a", 10), ("a", 100), ("b", 1), ("b", 1)], outputs.odd)
        check([("a", 20), ("a", 200)], outputs.even)


def test_a_stateful_pardo_may_follow_another_and_a_grouping(pipeline: Any) -> None:
    """A chain of shuffles; merged windows may have state."""
    with pipeline as p:
        pairs = p | beam.Create([at(("a", i), i * 3) for i in range(8)] + [at(("b", 1), 100)])
        sessions = pairs | beam.WindowInto(beam.window.Sessions(4)) | beam.CombinePerKey(sum)
        numbered = sessions | "first" >> beam.ParDo(Number()).with_outputs(main="odd", allow_unknown_tags=True)
        check([("a", 1), ("b", 1)], numbered.odd)
        check([("a", 1), ("b", 1)], numbered.odd | "second" >> beam.ParDo(Number()) | beam.Map(lambda pair: pair))


def test_elements_of_a_key_come_in_the_order_of_their_times_or_of_their_coming(pipeline: Any, runner_name: str) -> None:
    """For an input in order these are the same."""

    class Listing(beam.DoFn):
        SEEN = BagStateSpec("seen")

        def process(self, element: Any, seen: Any = beam.DoFn.StateParam(SEEN)) -> None:
            seen.add(element[1])

        @on_window_expiration
        def at_last(self, key: Any = beam.DoFn.KeyParam, seen: Any = beam.DoFn.StateParam(SEEN)) -> Any:
            yield key, seen.read()

    with pipeline as p:
        pairs = in_order(p, runner_name, [at((i % 3, i), i) for i in range(300)])
        check([(k, list(range(k, 300, 3))) for k in range(3)], pairs | beam.ParDo(Listing()))


# --- The transforms


def test_each_element_is_kept_once(pipeline: Any) -> None:
    """In each window, and for each key."""
    with pipeline as p:
        elements = p | beam.Create([at(x, t) for x, t in (("a", 1), ("b", 2), ("a", 3), ("a", 11))])
        windowed = elements | beam.WindowInto(FixedWindows(10))
        check(["a", "a", "b"], windowed | beam.Deduplicate(processing_time_duration=100))
        once = windowed | beam.Map(lambda x: (x, 0)) | beam.DeduplicatePerKey(event_time_duration=100)
        check([("a", 0), ("a", 0), ("b", 0)], once)


def test_batches_that_wait_a_while_hold_every_value_once(pipeline: Any) -> None:
    """Full ones, and at the end of the input what is left."""
    with pipeline as p:
        pairs = p | beam.Create([("a", i) for i in range(5)] + [("b", 9)])
        batches = pairs | beam.GroupIntoBatches(2, max_buffering_duration_secs=60)
        check([("a", 2), ("a", 2), ("a", 1), ("b", 1)], batches | beam.MapTuple(lambda key, batch: (key, len(batch))))
        check(
            [("a", i) for i in range(5)] + [("b", 9)],
            batches | "apart" >> beam.FlatMapTuple(lambda key, batch: [(key, value) for value in batch]),
        )


# --- Bad input


@pytest.mark.parametrize(
    ("element", "error", "message"),
    [
        (7, NotAPairError, r"Number\).*: expected a \(key, value\) pair, got 7 \(int\)"),
        (("a", 1, 2), NotAPairError, "of 3 items"),
        ((["a"], 1), InvalidKeyError, "Number"),
    ],
)
def test_an_element_without_a_key_is_an_error_that_names_the_transform(
    pipeline: Any, element: Any, error: Any, message: str
) -> None:
    """When it comes, where its type wasn't known before."""
    pipeline | beam.Create([0]) | beam.Map(lambda _: element).with_output_types(Any) | beam.ParDo(Number())
    with pytest.raises(error, match=message):
        pipeline.run().wait_until_finish()


def test_what_a_callback_raises_names_the_transform(pipeline: Any) -> None:
    """And is of the class that was raised."""

    class Failing(beam.DoFn):
        def process(self, element: Any) -> None:
            pass

        @on_window_expiration
        def at_last(self, key: Any = beam.DoFn.KeyParam) -> None:
            raise ZeroDivisionError(f"of {key}")

    pipeline | beam.Create([("a", 1)]) | "Divide" >> beam.ParDo(Failing())
    with pytest.raises(ZeroDivisionError, match="of a .while running 'Divide'") as caught:
        pipeline.run().wait_until_finish()
    assert isinstance(caught.value, PenstockError)


def test_a_state_that_can_not_be_pickled_names_the_transform_and_the_state(pipeline: Any) -> None:
    """On every runner, whether it would have to be pickled there or not."""

    class Opening(beam.DoFn):
        HANDLE = ReadModifyWriteStateSpec("handle")

        def process(self, element: Any, handle: Any = beam.DoFn.StateParam(HANDLE)) -> None:
            handle.write(value for value in element)

    pipeline | beam.Create([("a", 1)]) | "Open" >> beam.ParDo(Opening())
    with pytest.raises(SerializationError, match="Open: the state 'handle' of the key 'a' was given"):
        pipeline.run().wait_until_finish()


class TotalsUntilOver(beam.DoFn):
    """Adds up, fails for zero, and gives each total when its window is over, by a timer."""

    TOTAL = CombiningValueStateSpec("total", sum)
    OVER = TimerSpec("over", WATERMARK)

    def process(
        self,
        element: Any,
        window: Any = beam.DoFn.WindowParam,
        total: Any = beam.DoFn.StateParam(TOTAL),
        over: Any = beam.DoFn.TimerParam(OVER),
    ) -> None:
        total.add(element[1])
        over.set(window.end)
        if element[1] == 0:
            raise ValueError("zero")

    @on_timer(OVER)
    def give(self, key: Any = beam.DoFn.KeyParam, total: Any = beam.DoFn.StateParam(TOTAL)) -> Any:
        yield key, total.read()


def test_a_stateful_dofn_keeps_its_state_and_timers_beside_dead_letters(pipeline: Any) -> None:
    """`with_exception_handling` changes nothing else; state written before an exception stays."""
    elements = [at((key, value), 1) for key in "ab" for value in (1, 0, 2)]
    with pipeline as p:
        windowed = p | beam.Create(elements) | beam.WindowInto(FixedWindows(10))
        good, bad = windowed | beam.ParDo(TotalsUntilOver()).with_exception_handling()
        check([("a", 3), ("b", 3)], good)
        check([("a", 0), ("b", 0)], bad | beam.Map(lambda letter: letter[0]))


class Signed(beam.DoFn):
    """Takes back what it has put out for an element, and counts; fails for negative numbers."""

    def process(self, element: Any, sign: int = beam.DoFn.SignParam) -> Any:
        if element[1] < 0:
            raise ValueError("negative")
        yield element if sign > 0 else beam.Retracted(element)


class SignedAndCounting(Signed):
    COUNT = CombiningValueStateSpec("count", sum)

    def process(self, element: Any, sign: int = beam.DoFn.SignParam, n: Any = beam.DoFn.StateParam(COUNT)) -> Any:
        n.add(sign)
        yield from super().process(element, sign)


@pytest.mark.parametrize("dofn", [Signed, SignedAndCounting])
def test_a_dofn_that_reads_signs_may_have_dead_letters(pipeline: Any, dofn: type[beam.DoFn]) -> None:
    """A dead letter whose element is taken back is taken back, too: that of the last pane is left."""
    retracting = beam.WindowInto(
        beam.window.GlobalWindows(),
        trigger=beam.trigger.Repeatedly(beam.trigger.AfterCount(1)),
        accumulation_mode=beam.trigger.AccumulationMode.RETRACTING,
    )
    elements = [("a", n) for n in (3, -5, 1)] + [("b", n) for n in (-1, 7)]
    with pipeline as p:
        sums = p | beam.Create(elements) | retracting | beam.CombinePerKey(sum)
        good, bad = sums | beam.ParDo(dofn()).with_exception_handling()
        check([("b", 6)], good)
        check([("a", -1)], bad | beam.Map(lambda letter: letter[0]))
