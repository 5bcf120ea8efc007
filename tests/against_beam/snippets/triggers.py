"""Triggers, on streams with scripted watermarks."""

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    DataLossReason,
    DefaultTrigger,
    OrFinally,
    Repeatedly,
)
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, TimestampedValue
from apache_beam.utils.windowed_value import PaneInfoTiming
from refusals import refused


def _panes(stream, windowing, *flags):
    """Print each pane's values, and its timing and number."""
    with beam.Pipeline(options=PipelineOptions(["--streaming", *flags])) as p:
        (
            p
            | stream
            | windowing
            | beam.WithKeys("k")
            | beam.GroupByKey()
            | beam.Map(
                lambda kv, window=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam: (
                    window,
                    sorted(kv[1]),
                    pane.index,
                    pane.is_first,
                    int(pane.timing),
                    pane.nonspeculative_index,
                )
            )
            | beam.Map(print)
        )


def _at(*values):
    return [TimestampedValue(value, at) for value, at in values]


def at_the_watermark() -> None:
    stream = TestStream().add_elements(_at(("a", 1), ("b", 5))).advance_watermark_to(20).advance_watermark_to_infinity()
    _panes(stream, beam.WindowInto(FixedWindows(10)))


def late_elements_are_dropped() -> None:
    stream = (
        TestStream()
        .add_elements(_at(("a", 1)))
        .advance_watermark_to(20)
        .add_elements(_at(("late", 2)))
        .advance_watermark_to_infinity()
    )
    _panes(stream, beam.WindowInto(FixedWindows(10)))


def late_elements_within_the_allowed_lateness() -> None:
    stream = (
        TestStream()
        .add_elements(_at(("a", 1)))
        .advance_watermark_to(12)
        .add_elements(_at(("late", 2)))
        .advance_watermark_to(40)
        .add_elements(_at(("too late", 3)))
        .advance_watermark_to_infinity()
    )
    _panes(stream, beam.WindowInto(FixedWindows(10), allowed_lateness=20))


def accumulating_late_panes() -> None:
    stream = (
        TestStream()
        .add_elements(_at(("a", 1)))
        .advance_watermark_to(12)
        .add_elements(_at(("late", 2)))
        .advance_watermark_to_infinity()
    )
    _panes(
        stream,
        beam.WindowInto(
            FixedWindows(10),
            trigger=AfterWatermark(late=AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
            allowed_lateness=100,
        ),
    )


def early_panes_discarding() -> None:
    stream = (
        TestStream()
        .add_elements(_at(("a", 1), ("b", 2)))
        .advance_watermark_to(5)
        .add_elements(_at(("c", 6)))
        .advance_watermark_to(12)
        .advance_watermark_to_infinity()
    )
    _panes(
        stream,
        beam.WindowInto(
            FixedWindows(10),
            trigger=AfterWatermark(early=AfterCount(2)),
            accumulation_mode=AccumulationMode.DISCARDING,
        ),
    )


def early_panes_accumulating() -> None:
    stream = (
        TestStream()
        .add_elements(_at(("a", 1), ("b", 2)))
        .advance_watermark_to(5)
        .add_elements(_at(("c", 6)))
        .advance_watermark_to(12)
        .advance_watermark_to_infinity()
    )
    _panes(
        stream,
        beam.WindowInto(
            FixedWindows(10),
            trigger=AfterWatermark(early=AfterCount(2)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
        ),
    )


def early_and_late() -> None:
    stream = (
        TestStream()
        .add_elements(_at(("a", 1)))
        .add_elements(_at(("b", 2)))
        .advance_watermark_to(12)
        .add_elements(_at(("c", 3)))
        .add_elements(_at(("d", 4)))
        .advance_watermark_to_infinity()
    )
    _panes(
        stream,
        beam.WindowInto(
            FixedWindows(10),
            trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
            accumulation_mode=AccumulationMode.DISCARDING,
            allowed_lateness=100,
        ),
    )


def _two_and_one_and_one():
    return (
        TestStream()
        .add_elements(_at(("a", 1), ("b", 2)))
        .add_elements(_at(("c", 3)))
        .add_elements(_at(("d", 4)))
        .advance_watermark_to_infinity()
    )


def repeatedly_after_count() -> None:
    _panes(
        _two_and_one_and_one(),
        beam.WindowInto(
            GlobalWindows(), trigger=Repeatedly(AfterCount(2)), accumulation_mode=AccumulationMode.DISCARDING
        ),
    )


def repeatedly_after_count_accumulating() -> None:
    _panes(
        _two_and_one_and_one(),
        beam.WindowInto(
            GlobalWindows(), trigger=Repeatedly(AfterCount(2)), accumulation_mode=AccumulationMode.ACCUMULATING
        ),
    )


def after_any() -> None:
    _panes(
        _two_and_one_and_one(),
        beam.WindowInto(
            FixedWindows(10),
            trigger=Repeatedly(AfterAny(AfterCount(4), AfterWatermark())),
            accumulation_mode=AccumulationMode.DISCARDING,
        ),
    )


def after_all() -> None:
    _panes(
        _two_and_one_and_one(),
        beam.WindowInto(
            FixedWindows(10),
            trigger=Repeatedly(AfterAll(AfterCount(2), AfterCount(3))),
            accumulation_mode=AccumulationMode.DISCARDING,
        ),
    )


def after_each() -> None:
    _panes(
        _two_and_one_and_one(),
        beam.WindowInto(
            FixedWindows(10),
            trigger=AfterEach(AfterCount(2), Repeatedly(AfterCount(1))),
            accumulation_mode=AccumulationMode.DISCARDING,
        ),
    )


def or_finally() -> None:
    _panes(
        _two_and_one_and_one(),
        beam.WindowInto(
            FixedWindows(10),
            trigger=Repeatedly(OrFinally(AfterCount(2), AfterWatermark())),
            accumulation_mode=AccumulationMode.DISCARDING,
        ),
    )


def or_finally_with_late_firings() -> None:
    for until in (AfterWatermark(late=AfterCount(1)), DefaultTrigger()):
        stream = TestStream()
        for number in range(3):
            stream = stream.add_elements(_at((number, number)))
        stream = stream.advance_watermark_to(10)
        for number in range(3, 6):
            stream = stream.add_elements(_at((number, number)))
        _panes(
            stream.advance_watermark_to(500).advance_watermark_to_infinity(),
            beam.WindowInto(
                FixedWindows(10),
                trigger=OrFinally(Repeatedly(AfterCount(2)), until),
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=100,
            ),
        )


def after_processing_time() -> None:
    stream = (
        TestStream()
        .advance_processing_time(10)
        .add_elements(_at(("a", 1)))
        .advance_processing_time(2)
        .add_elements(_at(("b", 2)))
        .advance_processing_time(10)
        .add_elements(_at(("c", 3)))
        .advance_processing_time(10)
        .advance_watermark_to_infinity()
    )
    _panes(
        stream,
        beam.WindowInto(
            GlobalWindows(),
            trigger=Repeatedly(AfterProcessingTime(5)),
            accumulation_mode=AccumulationMode.DISCARDING,
        ),
    )


def sessions_that_grow() -> None:
    stream = (
        TestStream()
        .add_elements(_at(("a", 1)))
        .add_elements(_at(("b", 8)))
        .advance_watermark_to(30)
        .add_elements(_at(("c", 40)))
        .advance_watermark_to_infinity()
    )
    _panes(stream, beam.WindowInto(Sessions(10)))


def triggers_in_a_bounded_pipeline() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(_at(("a", 1), ("b", 2), ("c", 11)))
            | beam.Map(lambda x: x)
            | beam.WindowInto(
                FixedWindows(10),
                trigger=AfterWatermark(early=AfterCount(5)),
                accumulation_mode=AccumulationMode.DISCARDING,
            )
            | beam.combiners.Count.Globally().without_defaults()
            | beam.Map(print)
        )


def the_default_trigger() -> None:
    print(DefaultTrigger() == DefaultTrigger(), Repeatedly(AfterCount(2)) == Repeatedly(AfterCount(2)))
    print(AfterCount(2) == AfterCount(3), AfterAny(AfterCount(1)) == AfterAny(AfterCount(1)))


def data_loss_of_triggers() -> None:
    windowing = beam.Windowing(FixedWindows(10))
    for trigger in [
        DefaultTrigger(),
        AfterCount(1),
        AfterProcessingTime(10),
        Repeatedly(AfterCount(1)),
        AfterWatermark(),
        AfterWatermark(late=AfterCount(1)),
        Always(),
        AfterAny(Repeatedly(AfterCount(1)), AfterCount(1)),
        AfterEach(AfterCount(1), Repeatedly(AfterCount(2))),
    ]:
        loss = trigger.may_lose_data(windowing)
        print(type(trigger).__name__, loss, loss == DataLossReason.NO_POTENTIAL_LOSS)


def unsafe_triggers_are_refused() -> None:
    with refused(ValueError), beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", 1)])
            | beam.WindowInto(FixedWindows(10), trigger=AfterCount(1), accumulation_mode=AccumulationMode.DISCARDING)
            | beam.GroupByKey()
            | beam.Map(print)
        )


def unsafe_triggers_are_allowed_by_an_option() -> None:
    with beam.Pipeline(options=PipelineOptions(["--allow_unsafe_triggers"])) as p:
        (
            p
            | beam.Create([("a", 1)])
            | beam.WindowInto(FixedWindows(10), trigger=AfterCount(1), accumulation_mode=AccumulationMode.DISCARDING)
            | beam.GroupByKey()
            | beam.MapTuple(lambda k, vs: (k, list(vs)))
            | beam.Map(print)
        )


def an_unbounded_global_window_needs_a_trigger() -> None:
    with refused(ValueError), beam.Pipeline(options=PipelineOptions(streaming=True)) as p:
        p | TestStream().add_elements([("a", 1)]).advance_watermark_to_infinity() | beam.GroupByKey() | beam.Map(print)


def the_timestamp_of_an_early_pane() -> None:
    stream = TestStream().add_elements(_at(("a", 1), ("b", 2))).advance_watermark_to(12).advance_watermark_to_infinity()
    with beam.Pipeline(options=PipelineOptions(streaming=True)) as p:
        (
            p
            | stream
            | beam.WindowInto(
                FixedWindows(10),
                trigger=AfterWatermark(early=AfterCount(2)),
                accumulation_mode=AccumulationMode.ACCUMULATING,
            )
            | beam.WithKeys("k")
            | beam.GroupByKey()
            | beam.Map(lambda kv, at=beam.DoFn.TimestampParam: (sorted(kv[1]), at))
            | beam.Map(print)
        )


def combine_with_early_panes() -> None:
    with beam.Pipeline(options=PipelineOptions(streaming=True)) as p:
        (
            p
            | TestStream()
            .add_elements(_at((1, 1), (2, 2)))
            .add_elements(_at((4, 3), (8, 4)))
            .advance_watermark_to_infinity()
            | beam.WindowInto(
                FixedWindows(10),
                trigger=AfterWatermark(early=AfterCount(2)),
                accumulation_mode=AccumulationMode.ACCUMULATING,
            )
            | beam.CombineGlobally(sum).without_defaults()
            | beam.Map(print)
        )


def test_stream_of_several_outputs() -> None:
    stream = (
        TestStream()
        .add_elements(["a"], tag="letters", event_timestamp=1)
        .add_elements([1], tag="numbers", event_timestamp=2)
        .advance_watermark_to_infinity(tag="letters")
        .advance_watermark_to_infinity(tag="numbers")
    )
    with beam.Pipeline(options=PipelineOptions(streaming=True)) as p:
        outputs = p | stream
        outputs["letters"] | "1" >> beam.Map(lambda x, t=beam.DoFn.TimestampParam: print("letters", x, t))
        outputs["numbers"] | "2" >> beam.Map(lambda x, t=beam.DoFn.TimestampParam: print("numbers", x, t))


def timestamps_of_test_stream() -> None:
    with beam.Pipeline(options=PipelineOptions(streaming=True)) as p:
        (
            p
            | TestStream()
            .advance_watermark_to(10)
            .add_elements(["a", TimestampedValue("b", 5)])
            .add_elements(["c"], event_timestamp=7)
            .advance_watermark_to_infinity()
            | beam.Map(lambda x, t=beam.DoFn.TimestampParam: (x, t))
            | beam.Map(print)
        )


def test_stream_refuses_a_watermark_that_goes_back() -> None:
    with refused(Exception):
        TestStream().advance_watermark_to(10).advance_watermark_to(5)


def a_bundle_with_more_elements_than_the_count() -> None:
    stream = TestStream().add_elements(_at(("a", 1), ("b", 2), ("c", 3))).advance_watermark_to_infinity()
    _panes(
        stream,
        beam.WindowInto(
            FixedWindows(10),
            trigger=Repeatedly(AfterAny(AfterCount(2), AfterWatermark())),
            accumulation_mode=AccumulationMode.DISCARDING,
        ),
    )


def the_last_pane_of_a_window() -> None:
    with beam.Pipeline(options=PipelineOptions(streaming=True)) as p:
        (
            p
            | TestStream().add_elements(_at((("a", 1), 1))).advance_watermark_to_infinity()
            | beam.WindowInto(FixedWindows(10))
            | beam.GroupByKey()
            | beam.Map(lambda kv, pane=beam.DoFn.PaneInfoParam: pane.is_last)
            | beam.Map(print)
        )


def the_timing_of_a_pane() -> None:
    print([PaneInfoTiming.ON_TIME])


def panes_on_time_without_elements() -> None:
    for trigger in (DefaultTrigger(), AfterWatermark(), AfterCount(2), AfterProcessingTime(1)):
        print(trigger.has_ontime_pane(), Repeatedly(trigger).has_ontime_pane())
    print(AfterAny(AfterCount(1), AfterWatermark()).has_ontime_pane(), AfterAll(AfterCount(1)).has_ontime_pane())


def elements_after_the_trigger_has_finished() -> None:
    windowing = beam.WindowInto(FixedWindows(10), trigger=AfterCount(2), accumulation_mode=AccumulationMode.DISCARDING)
    _panes(_two_and_one_and_one(), windowing, "--allow_unsafe_triggers")


def elements_that_no_trigger_has_emitted_in_a_bounded_pipeline() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", 1), ("a", 2)])
            | beam.WindowInto(
                GlobalWindows(), trigger=Repeatedly(AfterCount(10)), accumulation_mode=AccumulationMode.ACCUMULATING
            )
            | beam.CombinePerKey(sum)
            | beam.Map(print)
        )
