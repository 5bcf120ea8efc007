"""Right at the edges of windows: when they are complete, when they expire, what waits for it, and what is late then.

A watermark of t promises that no element before t is to come.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.pipelines.recording import record

import penstock as beam
from penstock.sdk.userstate import BagStateSpec, CombiningValueStateSpec, TimerSpec, on_timer, on_window_expiration
from penstock.testing import TestPipeline, TestStream, assert_that, equal_to
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark
from penstock.windowing import FixedWindows, Sessions, Timestamp, TimestampCombiner, TimestampedValue

TENS = FixedWindows(10)


def at(value: Any, seconds: float) -> TimestampedValue:
    return TimestampedValue(value, seconds)


def the_edges() -> TestStream:
    """One element in time to the microsecond, one at the end of the window, one when it expires, and one after that."""
    return (
        TestStream()
        .advance_watermark_to(9.999999)
        .add_elements([at(("k", 1), 9.999999)])
        .advance_watermark_to(10)
        .add_elements([at(("k", 2), 9)])
        .advance_watermark_to(15)
        .add_elements([at(("k", 4), 9)])
        .advance_watermark_to(15.000001)
        .add_elements([at(("k", 8), 9)])
        .advance_watermark_to_infinity()
    )


def test_a_window_is_complete_at_its_end_and_kept_until_the_lateness_is_over(streaming_runner: Any) -> None:
    """An element at 9.999999 is on time at watermark 9.999999; one at 9 is late at 10 and 15, and dropped after 15."""
    with TestPipeline(streaming_runner) as p:
        outputs = p | the_edges() | beam.WindowInto(TENS, allowed_lateness=5) | beam.CombinePerKey(sum).with_late_data()
        sums, dropped = record(outputs[None]), record(outputs["late"], "late")
    assert [
        "+('k', 1) [0, 10) ON_TIME 0/0 first",
        "+('k', 2) [0, 10) LATE 1/1",
        "+('k', 4) [0, 10) LATE 2/2",
    ] == sums.shown()
    assert [("k", 8)] == [change.value for change in dropped.changes]


class CountUntilTheEnd(beam.DoFn):
    """A key's number of elements, when its window expires."""

    COUNT = CombiningValueStateSpec("count", sum)

    def process(self, element: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> None:
        count.add(1)

    @on_window_expiration
    def at_last(self, key: Any = beam.DoFn.KeyParam, count: Any = beam.DoFn.StateParam(COUNT)) -> Any:
        yield key, count.read()


def test_state_is_kept_until_the_watermark_is_past_the_end_and_the_lateness(streaming_runner: Any) -> None:
    """The last call of the window counts what a grouping would have kept."""
    with TestPipeline(streaming_runner) as p:
        windowed = p | the_edges() | beam.WindowInto(TENS, allowed_lateness=5)
        changes = record(windowed | beam.ParDo(CountUntilTheEnd()))
    assert [("k", 3)] == [change.value for change in changes.changes]


class Collect(beam.DoFn):
    """The values of a key, put out by a timer at the end of the window."""

    VALUES = BagStateSpec("values")
    END = TimerSpec("end", beam.TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        window: Any = beam.DoFn.WindowParam,
        values: Any = beam.DoFn.StateParam(VALUES),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> None:
        values.add(element[1])
        end.set(window.end)

    @on_timer(END)
    def at_end(self, key: Any = beam.DoFn.KeyParam, values: Any = beam.DoFn.StateParam(VALUES)) -> Any:
        yield key, sum(values.read())


def up_to_the_end() -> TestStream:
    """The window gets its last element when the watermark is at its last instant."""
    return (
        TestStream()
        .add_elements([at(("k", 1), 2)])
        .advance_watermark_to(9.999999)
        .add_elements([at(("k", 2), 9.999999)])
        .advance_watermark_to(10)
        .advance_watermark_to(100)
    )


def test_what_a_timer_at_the_end_of_a_window_puts_out_is_on_time_downstream(streaming_runner: Any) -> None:
    """It has the window's last instant, and holds the watermark there."""
    with TestPipeline(streaming_runner) as p:
        collected = p | up_to_the_end() | beam.WindowInto(TENS) | beam.ParDo(Collect())
        changes = record(collected | beam.CombinePerKey(sum))
    assert ["+('k', 3) [0, 10) ON_TIME 0/0 first"] == changes.shown()


def test_a_batch_is_put_out_at_the_end_of_its_window(streaming_runner: Any) -> None:
    """Not a microsecond before, where one more value may come."""
    with TestPipeline(streaming_runner) as p:
        batches = p | up_to_the_end() | beam.WindowInto(TENS) | beam.GroupIntoBatches(9)
        changes = record(batches | beam.MapTuple(lambda key, values: (key, sorted(values))))
    assert [(("k", [1, 2]), 9_999_999)] == [(change.value, change.micros) for change in changes.changes]


def test_a_side_input_is_complete_at_the_end_of_its_window(streaming_runner: Any) -> None:
    """The consumer waits until then, and holds the watermark no longer."""
    stream = (
        TestStream(output_tags=["main", "side"])
        .add_elements([at(1, 2)], tag="side")
        .advance_watermark_to(9.999999, tag="side")
        .add_elements([at(0, 5)], tag="main")
        .advance_watermark_to(100, tag="main")
        .add_elements([at(2, 9.999999)], tag="side")
        .advance_watermark_to(10, tag="side")
        .advance_watermark_to(100, tag="side")
    )
    with TestPipeline(streaming_runner) as p:
        outputs = p | stream
        main, side = (outputs[tag] | f"tens of {tag}" >> beam.WindowInto(TENS) for tag in ("main", "side"))
        seen = main | beam.Map(lambda x, others: sorted(others), beam.pvalue.AsList(side))
        changes = record(seen | beam.WithKeys("k") | beam.GroupByKey())
    assert ["+('k', [[1, 2]]) [0, 10) ON_TIME 0/0 first last"] == changes.shown()


def test_a_user_trigger_sees_the_end_of_the_window_as_a_watermark() -> None:
    """`end_of_window` is what the watermark has to reach."""
    seen = []

    class Looking(beam.trigger.AfterCount):
        def should_fire(self, state: Any, context: Any) -> bool:
            seen.append((context.watermark >= context.end_of_window, Timestamp(micros=context.end_of_window)))
            return super().should_fire(state, context)

    trigger = beam.trigger.Repeatedly(Looking(1))
    windows = beam.WindowInto(TENS, trigger=trigger, accumulation_mode=AccumulationMode.DISCARDING)
    with TestPipeline() as p:
        stream = TestStream().advance_watermark_to(9.999999).add_elements([at(("k", 1), 5)]).advance_watermark_to(10)
        p | stream | windows | beam.CombinePerKey(sum)
    assert {(False, Timestamp(10)), (True, Timestamp(10))} == set(seen)


def test_a_late_element_at_the_end_of_a_window_may_retract_its_result() -> None:
    """A sink that only appends is refused; a bounded input has only one result."""
    windows = beam.WindowInto(TENS, accumulation_mode=AccumulationMode.RETRACTING)
    p = TestPipeline()
    stream = p | up_to_the_end() | "tens" >> windows | "sums" >> beam.CombinePerKey(sum)
    batch = p | beam.Create([("k", 1)]) | "tens of a batch" >> windows | "sums of a batch" >> beam.CombinePerKey(sum)
    assert ("sums", "") == (stream.retracted_by.split("/")[0], batch.retracted_by)


# What is behind the watermark


EARLIEST, LATEST = TimestampCombiner.OUTPUT_AT_EARLIEST, TimestampCombiner.OUTPUT_AT_LATEST


@pytest.mark.parametrize(
    ("combiner", "first", "second"),
    [
        (EARLIEST, "@ 7", "[6, 9)"),
        (LATEST, "@ 8", "[6, 9)"),
        (TimestampCombiner.OUTPUT_AT_EOW, "", "[9, 12)"),
    ],
)
def test_elements_behind_the_watermark_do_not_make_a_pane_late_for_the_next_grouping(
    streaming_runner: Any, combiner: Any, first: str, second: str
) -> None:
    """Neither are they lost: the pane has the timestamp of those that are not behind it."""
    stream = TestStream().advance_watermark_to(5).add_elements([at(("k", 1), t) for t in (2, 3, 7, 8)])
    with TestPipeline(streaming_runner) as p:
        tens = p | stream.advance_watermark_to(100) | "tens" >> beam.WindowInto(TENS, timestamp_combiner=combiner)
        sums = tens | "sum" >> beam.CombinePerKey(sum)
        threes = sums | "threes" >> beam.WindowInto(FixedWindows(3)) | "again" >> beam.CombinePerKey(sum)
        seen, again = record(sums), record(threes, "regrouped")
    assert [f"+('k', 4) [0, 10){first and ' '}{first} ON_TIME 0/0 first last"] == seen.shown()
    assert [f"+('k', 4) {second} ON_TIME 0/0 first last"] == again.shown()


def test_the_first_pane_of_a_window_is_late_if_the_output_watermark_has_passed_its_end(streaming_runner: Any) -> None:
    """It can't be on time for anything downstream."""
    stream = TestStream().advance_watermark_to(12).add_elements([at(("k", 1), 5)]).advance_watermark_to(100)
    with TestPipeline(streaming_runner) as p:
        windowed = p | stream | beam.WindowInto(TENS, allowed_lateness=5)
        changes = record(windowed | beam.CombinePerKey(sum))
    assert ["+('k', 1) [0, 10) LATE 0/0 first"] == changes.shown()


def test_a_merged_window_is_a_new_window_and_what_it_retracts_stays_what_it_was(streaming_runner: Any) -> None:
    """Its panes begin at index 0, early until the watermark has passed its end."""
    windows = beam.WindowInto(
        Sessions(10),
        trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
        accumulation_mode=AccumulationMode.RETRACTING,
        allowed_lateness=100,
    )
    stream = (
        TestStream()
        .add_elements([at(("k", 1), 0)])
        .advance_watermark_to(11)
        .add_elements([at(("k", 2), 1)])
        .add_elements([at(("k", 4), 9)])
        .advance_watermark_to(20)
        .add_elements([at(("k", 8), 9)])
    )
    with TestPipeline(streaming_runner) as p:
        changes = record(p | stream | windows | beam.CombinePerKey(sum))
    assert [
        "+('k', 1) [0, 10) EARLY 0/-1 first",
        "-('k', 1) [0, 10) EARLY 0/-1 first",
        "+('k', 3) [0, 11) LATE 0/0 first",
        "-('k', 3) [0, 11) LATE 0/0 first",
        "+('k', 7) [0, 19) EARLY 0/-1 first",
        "-('k', 7) [0, 19) EARLY 0/-1 first",
        "+('k', 15) [0, 19) LATE 1/0",
    ] == changes.shown()


@pytest.mark.parametrize(("lateness", "totals"), [(0, [("a", 1), ("a", 10)]), (2, [("a", 11)]), (100, [("a", 11)])])
def test_a_session_that_has_merged_is_taken_back_before_it_is_late_downstream(
    streaming_runner: Any, lateness: int, totals: list[Any]
) -> None:
    """The next pane of the merged one is due when the windows downstream that hold the former one have expired."""
    stream = (
        TestStream()
        .advance_watermark_to(0)
        .add_elements([at(("a", 1), 0)])
        .advance_watermark_to(11)
        .add_elements([at(("a", 2), 8)])
        .advance_watermark_to(13)
        .add_elements([at(("a", 4), 12)])
        .advance_watermark_to(21)
        .add_elements([at(("a", 4), 20)])
        .advance_watermark_to_infinity()
    )

    def into(fn: Any) -> Any:
        mode, late = AccumulationMode.RETRACTING, AfterWatermark(late=AfterCount(1))
        return beam.WindowInto(fn, trigger=late, accumulation_mode=mode, allowed_lateness=lateness)

    with TestPipeline(streaming_runner) as p:
        sums = p | stream | "Sessions" >> into(Sessions(10)) | "Sums" >> beam.CombinePerKey(sum)
        ones = sums | beam.MapTuple(lambda key, total: ("n", 1))
        sessions = ones | "In sessions" >> beam.CombinePerKey(sum)
        fives = ones | "Fives" >> into(FixedWindows(5)) | "In fives" >> beam.CombinePerKey(sum)
        assert_that(sums, equal_to(totals), "totals")
        assert_that(sessions, equal_to([("n", 1) for _ in totals]), "sessions")
        assert_that(fives, equal_to([("n", 1) for _ in totals]), "fives")
