"""Bad input: each has a clear error, or a behaviour that is defined and told here."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from support.pipelines.checks import check
from support.pipelines.recording import Recording, record

import penstock as beam
from penstock.sdk.elements.element_wrappers import WindowedValue
from penstock.sdk.errors import (
    InvalidKeyError,
    NotAPairError,
    PenstockError,
    SerializationError,
    SideInputError,
    StatefulDoFnError,
)
from penstock.sdk.metrics import MetricsFilter
from penstock.sdk.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    MapStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
)
from penstock.testing import TestPipeline, TestStream, TestWindowedValue
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark, Repeatedly
from penstock.windowing import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    Duration,
    FixedWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    Timestamp,
    TimestampedValue,
)

WATERMARK, REAL_TIME = beam.TimeDomain.WATERMARK, beam.TimeDomain.REAL_TIME


def at(seconds: Any, value: Any = ("k", 1)) -> TimestampedValue:
    return TimestampedValue(value, seconds)


def fails(pipeline: Any, error: Any, message: str) -> None:
    """The run does, with an error that is also one of ours."""
    with pytest.raises(error, match=message) as caught:
        pipeline.run().wait_until_finish()
    assert isinstance(caught.value, PenstockError)


# --- A timestamp outside the range

# Microseconds taken for seconds, beyond what 64 bits hold; and what is no time at all.
NO_TIMESTAMPS: list[tuple[Any, Any, str]] = [
    (1.7e15, ValueError, "within .* seconds, got 1700000000000000.0; is it in milliseconds or microseconds, perhaps"),
    (float("nan"), ValueError, "expected a timestamp in seconds, got nan"),
    (float("-inf"), ValueError, "got -inf; for 'forever' use MIN_TIMESTAMP or MAX_TIMESTAMP"),
    ("2024-01-01", TypeError, "got '2024-01-01' of type str; did you mean Timestamp.from_rfc3339"),
    (None, TypeError, "got None of type NoneType"),
]


@pytest.mark.parametrize(("time", "error", "message"), NO_TIMESTAMPS)
def test_what_is_no_timestamp_is_refused_where_it_is_written_down(time: Any, error: Any, message: str) -> None:
    """In a TimestampedValue, a WindowedValue and a TestStream, before anything runs."""
    with pytest.raises(error, match=message):
        TimestampedValue("a", time)
    with pytest.raises(error, match=message):
        WindowedValue("a", time, [IntervalWindow(0, 1)])
    with pytest.raises(error, match=message):
        TestStream().advance_watermark_to(time)


def test_a_timestamp_outside_the_range_names_the_transform_and_the_element(pipeline: Any) -> None:
    """Of a function that is to say when an element happened."""
    pipeline | beam.Create([("a", 1_700_000_000_000_000)]) | "when" >> beam.WithTimestamps(lambda pair: pair[1])
    fails(pipeline, ValueError, "is it in milliseconds or microseconds, perhaps.*'when' on element .'a', 17")


def test_an_output_with_no_timestamp_names_the_transform_and_the_element(pipeline: Any) -> None:
    """Of a function that returns TimestampedValues."""
    pipeline | beam.Create(["a"]) | "stamp" >> beam.Map(lambda element: TimestampedValue(element, "noon"))
    fails(pipeline, TypeError, "got 'noon' of type str.*'stamp' on element 'a'")


# The first bundle's `TimestampedValue`s leave the loop of the stage, those of the others don't.
@pytest.mark.parametrize(("size", "offset"), [(60, 0), (60, 7), (0.5, 0), (60, 0.25)])
def test_each_form_of_a_timestamp_has_its_window(pipeline: Any, size: float, offset: float) -> None:
    """Integers, floats and Timestamps, before 1970 too; whether windows begin with whole seconds or not."""
    times: list[Any] = list(range(-20_000, 20_000))
    times[1::4] = [float(n) + 0.25 for n in times[1::4]]
    times[2::4] = [Timestamp(n) for n in times[2::4]]
    width, shift = int(size * 4), int(offset * 4)
    expected = Counter((int(4 * float(t)) - shift) // width for t in times)
    with pipeline as p:
        stamped = p | beam.Create(range(len(times))) | beam.Map(lambda i: TimestampedValue(("k", 1), times[i]))
        sums = stamped | beam.WindowInto(FixedWindows(size, offset)) | beam.CombinePerKey(sum)
        numbers = sums | beam.Map(
            lambda pair, window=beam.DoFn.WindowParam: ((window.start.micros // 250_000 - shift) // width, pair[1])
        )
        check(sorted(expected.items()), numbers)


def test_a_timer_at_no_timestamp_names_the_transform_and_the_element(pipeline: Any) -> None:
    """In either time domain."""

    class Setting(beam.DoFn):
        TIMER = TimerSpec("timer", WATERMARK)

        def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(TIMER)) -> None:
            timer.set(element[1])

        @on_timer(TIMER)
        def due(self) -> None:
            raise AssertionError("it was never set")

    pipeline | beam.Create([("a", 1e15)]) | "remind" >> beam.ParDo(Setting())
    fails(pipeline, ValueError, "microseconds, perhaps.*'remind' on element .'a', 1000000000000000")


def test_the_ends_of_time_are_within_the_range(pipeline: Any) -> None:
    """Their windows contain them."""
    ends = [at(MIN_TIMESTAMP), at(MAX_TIMESTAMP, ("k", 2))]
    with pipeline as p:
        sums = p | beam.Create(ends) | beam.WindowInto(FixedWindows(10)) | beam.CombinePerKey(sum)
        check([("k", 1), ("k", 2)], sums)


# --- An element behind the watermark


def late(window_fn: Any, *, lateness: Any = 0) -> tuple[Recording, Recording, int]:
    """Return the sums, the late output and the drop count of an element at 5, at the watermark 100."""
    stream = TestStream().advance_watermark_to(100).add_elements([at(5)]).advance_watermark_to_infinity()
    p = TestPipeline()
    windows = p | stream
    if window_fn is not None:
        windows = windows | beam.WindowInto(window_fn, allowed_lateness=lateness)
    outputs = windows | "sum" >> beam.CombinePerKey(sum).with_late_data()
    sums, dropped = record(outputs[None]), record(outputs["late"], "late")
    counters = p.run().metrics().query(MetricsFilter().with_name("dropped_late"))["counters"]
    return sums, dropped, sum(counter.committed for counter in counters)


def test_an_element_behind_the_watermark_is_not_late_in_the_global_window() -> None:
    """For that ends with the stream, and not before."""
    sums, dropped, count = late(None)
    assert (["+('k', 1) global ON_TIME 0/0 first last"], [], 0) == (sums.shown(), dropped.shown(), count)


@pytest.mark.parametrize("window_fn", [FixedWindows(10), Sessions(5)], ids=["fixed", "sessions"])
def test_an_element_whose_window_has_expired_is_dropped_counted_and_put_out(window_fn: Any) -> None:
    """With its own time, and the window that it would have been in."""
    sums, dropped, count = late(window_fn)
    (window,) = window_fn.assign_micros(5_000_000)
    assert ([], 1) == (sums.shown(), count)
    (change,) = dropped.changes
    assert (("k", 1), 5_000_000, (window,), "LATE", 1) == (
        change.value,
        change.micros,
        change.windows,
        change.pane.timing.name,
        change.sign,
    )


def test_an_element_is_kept_as_long_as_lateness_allows() -> None:
    """The watermark being at 100, that of [0, 10) has to be 90 seconds; its first pane is late."""
    assert [] == late(FixedWindows(10), lateness=Duration(micros=89_999_999))[0].shown()
    assert ["+('k', 1) [0, 10) LATE 0/0 first"] == late(FixedWindows(10), lateness=90)[0].shown()


def test_each_window_of_an_element_expires_for_itself() -> None:
    """Of five sliding windows two are still open."""
    stream = TestStream().advance_watermark_to(131).add_elements([at(100)]).advance_watermark_to_infinity()
    p = TestPipeline()
    outputs = p | stream | beam.WindowInto(SlidingWindows(50, 10)) | "sum" >> beam.CombinePerKey(sum).with_late_data()
    sums, dropped = record(outputs[None]), record(outputs["late"], "late")
    p.run()
    assert [
        "+('k', 1) [90, 140) ON_TIME 0/0 first last",
        "+('k', 1) [100, 150) ON_TIME 0/0 first last",
    ] == sums.shown()
    assert [(60, 110), (70, 120), (80, 130)] == sorted(
        (float(c.windows[0].start), float(c.windows[0].end)) for c in dropped.changes
    )


def test_what_comes_after_the_end_of_the_stream_is_late_in_every_window() -> None:
    """In the global one too; the script says that nothing more would come."""
    stream = TestStream().advance_watermark_to_infinity().add_elements([at(5)])
    p = TestPipeline()
    outputs = p | stream | "sum" >> beam.CombinePerKey(sum).with_late_data()
    sums, dropped = record(outputs[None]), record(outputs["late"], "late")
    p.run()
    assert ([], ["+('k', 1) global @ 5 LATE 0/0 first last"]) == (sums.shown(), dropped.shown())


def test_an_element_behind_the_watermark_passes_where_nothing_is_grouped() -> None:
    """Lateness is a matter of groupings."""
    with TestPipeline() as p:
        pairs = p | TestStream().advance_watermark_to(100).add_elements([at(5)])
        changes = record(pairs | beam.WindowInto(FixedWindows(10)) | beam.Map(lambda pair: pair))
    assert ["+('k', 1) [0, 10) @ 5 UNKNOWN 0/0 first last"] == changes.shown()


class NowAndThen(NonMergingWindowFn):
    """A window of the first half of each minute, and none of the second."""

    def assign(self, context: Any) -> list[IntervalWindow]:
        start = context.timestamp.micros // 60_000_000 * 60
        return [IntervalWindow(start, start + 30)] if context.timestamp.micros < (start + 30) * 1_000_000 else []

    def get_window_coder(self) -> Any:
        return beam.coders.IntervalWindowCoder()


def test_an_element_without_a_window_is_nowhere(pipeline: Any) -> None:
    """Nothing that looks at windows sees it."""
    with pipeline as p:
        windows = p | beam.Create([at(5), at(35), at(65)]) | beam.WindowInto(NowAndThen())
        sums = windows | beam.CombinePerKey(sum)
        expected = [
            TestWindowedValue(("k", 1), window.max_timestamp(), [window])
            for window in (IntervalWindow(0, 30), IntervalWindow(60, 90))
        ]
        check(expected, sums, reify_windows=True)


def test_an_element_without_a_window_that_is_behind_the_watermark_is_not_late() -> None:
    """There is no window that could have expired: it is nowhere, and isn't counted."""
    stream = TestStream().advance_watermark_to(40).add_elements([at(35), at(65)]).advance_watermark_to_infinity()
    p = TestPipeline()
    outputs = p | stream | beam.WindowInto(NowAndThen()) | "sum" >> beam.CombinePerKey(sum).with_late_data()
    sums, dropped = record(outputs[None]), record(outputs["late"], "late")
    counters = p.run().metrics().query(MetricsFilter().with_name("dropped_late"))["counters"]
    assert (["+('k', 1) [60, 90) ON_TIME 0/0 first last"], []) == (sums.shown(), dropped.shown())
    assert 0 == sum(counter.committed for counter in counters)


# --- A non-merging use of a merging window


class Keeping(beam.DoFn):
    """Has a state."""

    LAST = ReadModifyWriteStateSpec("last")

    def process(self, element: Any, last: Any = beam.DoFn.StateParam(LAST)) -> Iterator[Any]:
        yield element[0], last.read(), element[1]
        last.write(element[1])


def test_state_in_windows_that_have_yet_to_merge_is_refused(pipeline: Any) -> None:
    """When the pipeline is built, naming the transform and the window function."""
    pairs = pipeline | beam.Create([("a", 1)]) | beam.WindowInto(Sessions(10))
    with pytest.raises(StatefulDoFnError, match=r"keep: .*Sessions\(.*10.*\) merges windows; group by key first"):
        pairs | "keep" >> beam.ParDo(Keeping())


def test_a_side_input_in_windows_that_merge_is_refused(pipeline: Any) -> None:
    """For which of them would an element see?"""
    side = pipeline | "side" >> beam.Create([1]) | beam.WindowInto(Sessions(10))
    with pytest.raises(SideInputError, match=r"look: its side input AsList.*Sessions\(.*\), which merges windows"):
        pipeline | beam.Create([1]) | "look" >> beam.Map(lambda x, seen: x, beam.pvalue.AsList(side))


def test_windows_that_merge_and_are_never_grouped_stay_as_they_were_assigned(pipeline: Any) -> None:
    """Each element in one of its own, as in the paper's figure 4 before GroupByKeyAndWindow."""
    with pipeline as p:
        visits = p | beam.Create([at(0), at(5)]) | beam.WindowInto(Sessions(10)) | beam.Map(lambda pair: pair)
        expected = [
            TestWindowedValue(("k", 1), Timestamp(0), [IntervalWindow(0, 10)]),
            TestWindowedValue(("k", 1), Timestamp(5), [IntervalWindow(5, 15)]),
        ]
        check(expected, visits, reify_windows=True)


def test_inputs_that_merge_differently_can_not_be_flattened(pipeline: Any) -> None:
    """Both are named."""
    short = pipeline | "short" >> beam.Create([1]) | "ten" >> beam.WindowInto(Sessions(10))
    long = pipeline | "long" >> beam.Create([1]) | "sixty" >> beam.WindowInto(Sessions(60))
    with pytest.raises(PenstockError, match=r"windowed differently: ten by Sessions.*, sixty by Sessions"):
        (short, long) | beam.Flatten()


# --- A state value that can't be pickled

STATES: dict[str, tuple[Any, Any]] = {
    "value": (ReadModifyWriteStateSpec("kept"), lambda state, value: state.write(value)),
    "bag": (BagStateSpec("kept"), lambda state, value: state.add(value)),
    "set": (SetStateSpec("kept"), lambda state, value: state.add(value)),
    "map": (MapStateSpec("kept"), lambda state, value: state.put("it", value)),
    "ordered list": (OrderedListStateSpec("kept"), lambda state, value: state.add((Timestamp(1), value))),
    "combining": (CombiningValueStateSpec("kept", beam.combiners.ToListCombineFn()), lambda s, value: s.add(value)),
}


def stateful(spec: Any, keep: Any) -> beam.DoFn:
    """A DoFn that keeps a lock in a state."""

    class KeepingALock(beam.DoFn):
        def process(self, element: Any, state: Any = beam.DoFn.StateParam(spec)) -> Iterator[Any]:
            keep(state, threading.Lock())
            yield element

    return KeepingALock()


@pytest.mark.parametrize("kind", STATES)
def test_a_state_value_that_can_not_be_pickled_is_an_error_in_every_kind_of_state(kind: str) -> None:
    """Naming the transform, the state, the key and what was to be kept, and saying what to do; nothing is written."""
    sink = Recording()
    p = TestPipeline()
    p | beam.Create([("a", 1)]) | "open" >> beam.ParDo(stateful(*STATES[kind])) | beam.io.Write(sink)
    fails(
        p,
        SerializationError,
        "open: the state 'kept' of the key 'a' was given .*lock.* which can't be pickled for a checkpoint: "
        "cannot pickle '_thread.lock' object. Keep the data that it is made of, and create it in DoFn.setup$",
    )
    assert [] == sink.changes


# --- A timer set to a time that has passed


class Overdue(beam.DoFn):
    """Sets a timer to a time that has passed, in one of the time domains."""

    BY_EVENT, BY_CLOCK = TimerSpec("by event", WATERMARK), TimerSpec("by clock", REAL_TIME)

    def __init__(self, by_event: Any = None, by_clock: Any = None) -> None:
        self.by_event = by_event
        self.by_clock = by_clock

    def process(
        self,
        element: Any,
        event: Any = beam.DoFn.TimerParam(BY_EVENT),
        clock: Any = beam.DoFn.TimerParam(BY_CLOCK),
    ) -> Iterator[str]:
        if self.by_event is not None:
            event.set(self.by_event)
        if self.by_clock is not None:
            clock.set(self.by_clock)
        yield f"element {element[1]}"

    @on_timer(BY_EVENT)
    def at_event(self, time: Any = beam.DoFn.TimestampParam) -> Iterator[str]:
        yield f"set to {float(time):g}"

    @on_timer(BY_CLOCK)
    def at_clock(self) -> Iterator[str]:
        yield "by the clock"


def two_late_ones() -> TestStream:
    """Two elements in one bundle, when the watermark is at 100 and it is 50."""
    both = [at(60, ("k", 1)), at(70, ("k", 2))]
    return TestStream().advance_processing_time(50).advance_watermark_to(100).add_elements(both)


def test_an_event_time_timer_that_has_passed_fires_at_once() -> None:
    """Before the next element is looked at; what it puts out isn't before the element that set it."""
    with TestPipeline() as p:
        changes = record(p | two_late_ones() | beam.ParDo(Overdue(by_event=30)))
    assert [("element 1", 60), ("set to 30", 60), ("element 2", 70), ("set to 30", 70)] == [
        (change.value, change.micros / 1_000_000) for change in changes.changes
    ]


def test_a_processing_time_timer_that_has_passed_fires_at_once() -> None:
    """By the script's clock."""
    with TestPipeline() as p:
        changes = record(p | two_late_ones() | beam.ParDo(Overdue(by_clock=49)))
    assert [("element 1", 60), ("by the clock", 60), ("element 2", 70), ("by the clock", 70)] == [
        (change.value, change.micros / 1_000_000) for change in changes.changes
    ]


def test_of_two_timers_that_have_passed_the_one_by_event_time_fires_first() -> None:
    """Both at once."""
    with TestPipeline() as p:
        stream = TestStream().advance_processing_time(50).advance_watermark_to(100).add_elements([at(60)])
        changes = record(p | stream | beam.ParDo(Overdue(by_event=30, by_clock=10)))
    assert ["element 1", "set to 30", "by the clock"] == [change.value for change in changes.changes]


def test_in_a_batch_no_event_time_has_passed_before_the_end(pipeline: Any) -> None:
    """The watermark is before all time until then; so the timer fires once, at the end, for all that set it."""
    with pipeline as p:
        pairs = p | beam.Create([at(60, ("k", 1)), at(70, ("k", 2))])
        check(["element 1", "element 2", "set to 30"], pairs | beam.ParDo(Overdue(by_event=30)))


# --- What has state, and isn't given a pair


@pytest.mark.parametrize(
    ("element", "found"),
    [
        (7, "7 .int."),
        (None, "None .NoneType."),
        ("ab", "'ab' .str."),
        (("a",), r"\('a',\) .tuple. of 1 items"),
        (("a", 1, 2), r"\('a', 1, 2\) .tuple. of 3 items"),
        ({"a": 1, "b": 2}, ".*dict."),
    ],
)
def test_a_stateful_dofn_on_what_is_no_pair_says_what_it_was_given(element: Any, found: str) -> None:
    """It names the transform and guesses at the cause.  What can be unpacked to two is no pair for that."""
    p = TestPipeline()
    p | beam.Create([0]) | beam.Map(lambda _: element).with_output_types(Any) | "keep" >> beam.ParDo(Keeping())
    fails(p, NotAPairError, rf"keep: expected a \(key, value\) pair, got {found}; did you forget WithKeys")


def test_a_stateful_dofn_on_what_is_no_pair_fails_on_every_runner(pipeline: Any) -> None:
    """Before the element is shuffled, or afterwards."""
    pipeline | beam.Create([0]) | beam.Map(lambda _: "ab").with_output_types(Any) | "keep" >> beam.ParDo(Keeping())
    fails(pipeline, NotAPairError, r"keep: expected a \(key, value\) pair, got 'ab' .str.")


def test_a_stateful_dofn_on_what_is_known_to_be_no_pair_is_refused(pipeline: Any) -> None:
    """When the pipeline is built, by what the one before it produces."""
    numbers = pipeline | "numbers" >> beam.Create([1, 2])
    with pytest.raises(StatefulDoFnError, match=r"keep.*pair.*numbers.* int"):
        numbers | "keep" >> beam.ParDo(Keeping())


def test_a_stateful_dofn_on_an_unhashable_key_says_so() -> None:
    """As a grouping does, with advice for the part that has no hash."""
    p = TestPipeline()
    keyed = p | beam.Create([0]) | beam.Map(lambda _: ((1, ["a"]), 1)).with_output_types(Any)
    keyed | "keep" >> beam.ParDo(Keeping())
    fails(p, InvalidKeyError, r"keep: .*for \['a'\] \(a list\) inside it is unhashable: use a tuple$")


# --- Scripts that can't be


@pytest.mark.parametrize("share", [0, -0.5, 2, 95, float("nan")])
def test_a_percentile_is_a_share_between_0_and_1(share: float) -> None:
    """A percentage would be the watermark of no trigger."""
    hint = {2: r"; did you mean 0\.02\?", 95: r"; did you mean 0\.95\?"}.get(share, "")
    with pytest.raises(ValueError, match=rf"a share of the elements between 0 and 1, got {share!r}{hint}$"):
        TestStream().advance_percentile_watermark_to(share, 5)


def test_a_clock_does_not_go_back() -> None:
    """Neither of them."""
    with pytest.raises(ValueError, match="is at Timestamp.10. and can't go back to Timestamp.9."):
        TestStream().advance_watermark_to(10).advance_watermark_to(9)
    with pytest.raises(ValueError, match="the clock can't go back, got -1"):
        TestStream().advance_processing_time(-1)


def test_a_trigger_needs_a_mode() -> None:
    """There is no default relation between the panes of a window: the pipeline has to choose one."""
    with pytest.raises(ValueError, match="needs an accumulation_mode"):
        beam.WindowInto(FixedWindows(10), trigger=Repeatedly(AfterCount(1)))
    beam.WindowInto(FixedWindows(10), trigger=AfterWatermark(), accumulation_mode=AccumulationMode.RETRACTING)
