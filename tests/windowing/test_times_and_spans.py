"""Times and spans of time, however they are written: what takes one takes all."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import attrs
import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions, StreamingOptions
from penstock.sdk.dofn.splittable_dofn import RestrictionTrackerView
from penstock.sdk.options.views import MicroBatchOptions
from penstock.sdk.runner import seconds_to_wait
from penstock.sdk.userstate.timer import RuntimeTimer
from penstock.sdk.watermark_estimators import BoundedOutOfOrdernessWatermarkEstimator
from penstock.sdk.windowing_strategy import lateness_of
from penstock.testing import TestStream, assert_that, equal_to
from penstock.transforms.times.poll_result import after_total_of
from penstock.triggers import AfterProcessingTime
from penstock.windowing import (
    Duration,
    FixedWindows,
    IntervalWindow,
    Sessions,
    SlidingWindows,
    Timestamp,
    TimestampedValue,
    micros_of,
)

IN_PARIS = timezone(timedelta(hours=1))
DATETIMES = [datetime(1970, 1, 1, 0, 1, 30, tzinfo=UTC), datetime(1970, 1, 1, 1, 1, 30, tzinfo=IN_PARIS)]
TIMES = [90, 90.0, Timestamp(90), *DATETIMES]
SPANS = [90, 90.0, Duration(90), timedelta(minutes=1.5)]


class Setter:
    """The setter of a timer."""

    def set_timer(self, family: str, tag: str, micros: int, output: Any) -> None:
        self.found = micros, output

    set_timer_relative = set_timer


def timer(act: Any) -> Any:
    setter = Setter()
    act(RuntimeTimer("family", setter))
    return setter.found


def windowing(transform: Any) -> Any:
    return (beam.Pipeline() | beam.Create([1]) | transform).windowing


def socket(**options: Any) -> Any:
    return beam.io.ReadFromSocket("x", 1, at_most_once=True, **options).source


class Tracker:
    """One whose work can be split."""

    def try_split(self, fraction: float) -> Any:
        return None, "rest"


def deferred(time: Any) -> Any:
    view = RestrictionTrackerView(Tracker())
    view.defer_remainder(time)
    return view.deferred[1]


TAKES_TIMES = {
    "Timestamp.of": Timestamp.of,
    "micros_of": micros_of,
    "TimestampedValue": lambda time: TimestampedValue("a", time),
    "IntervalWindow": lambda time: IntervalWindow(0, time),
    "offset": lambda time: FixedWindows(100, time),
    "timer": lambda time: timer(lambda t: t.set(time)),
    "output_timestamp": lambda time: timer(lambda t: t.set(5, output_timestamp=time)),
    "watermark": lambda time: TestStream().advance_watermark_to(time).events,
    "event_timestamp": lambda time: TestStream().add_elements(["a"], event_timestamp=time).events,
    "percentile": lambda time: TestStream().advance_percentile_watermark_to(0.5, time).events,
    "start_timestamp": lambda time: beam.PeriodicImpulse(time).source.begin,
    "stop_timestamp": lambda time: beam.PeriodicImpulse(0, time, 10).source.stop,
    "start_time": lambda time: beam.io.GenerateSequence(0, None, 1, 1, start_time=time).source.begin,
    "look": lambda time: vars(beam.io.fileio.MatchContinuously("x", start_timestamp=time, stop_timestamp=time).source),
    "with_watermark": lambda time: beam.PollResult([]).with_watermark(time),
}

TAKES_SPANS = {
    "Duration.of": Duration.of,
    "micros_of": micros_of,
    "size": FixedWindows,
    "sliding": lambda span: SlidingWindows(span, span, span),
    "gap": Sessions,
    "lateness": lateness_of,
    "allowed_lateness": lambda span: windowing(beam.WindowInto(FixedWindows(5), allowed_lateness=span)),
    "delay": lambda span: AfterProcessingTime(span, align_to=span),
    "timer": lambda span: timer(lambda t: t.set_relative(span)),
    "processing time": lambda span: TestStream().advance_processing_time(span).events,
    "fire_interval": lambda span: beam.PeriodicImpulse(fire_interval=span).source.period,
    "period": lambda span: beam.io.GenerateSequence(0, None, 1, span).source.period,
    "idle_after": lambda span: beam.io.GenerateSequence(0, idle_after=span).source.times.idle_micros,
    "interval": lambda span: beam.io.fileio.MatchContinuously("x", span).source.interval,
    "poll_interval": lambda span: beam.io.ReadContinuouslyFromText("x", span).source.discovery_interval,
    "sql": lambda span: beam.io.ReadFromSQL("x", "t", increasing_column="id", poll_interval=span).source.poll_interval,
    "connect": lambda span: socket(connect_timeout=span).connect_timeout,
    "watch": lambda span: beam.Watch(list, span, after_total_of(span), stop_after_quiet=span).termination,
    "bound": lambda span: vars(BoundedOutOfOrdernessWatermarkEstimator(span)),
    "batches": lambda span: beam.GroupIntoBatches(5, max_buffering_duration_secs=span).max_buffering_duration_secs,
    "timestamp + span": lambda span: Timestamp(5) + span - span,
    "span + timestamp": lambda span: span + Timestamp(5),
}

OPTIONS = ["checkpoint_interval", "checkpoint_timeout", "checkpoint_min_pause", "worker_timeout", "restart_delay"]


def as_found(value: Any) -> str:
    """Text that is equal for equal results."""
    shown = vars(value) if hasattr(value, "__dict__") and not attrs.has(type(value)) else value
    return re.sub(r" object at 0x\w+", "", str(shown)).replace("90.0,", "90,").removesuffix(".0")


@pytest.mark.parametrize("place", TAKES_TIMES)
def test_a_time_may_be_a_number_a_timestamp_or_an_aware_datetime(place: str) -> None:
    """In any time zone; a naive one could be any of two dozen times."""
    take = TAKES_TIMES[place]
    assert {as_found(take(90))} == {as_found(take(time)) for time in TIMES}
    with pytest.raises(ValueError, match=r"expected a datetime with a time zone, got .*naive; if it is in UTC"):
        take(datetime(1970, 1, 1, 0, 1, 30))


@pytest.mark.parametrize("place", TAKES_SPANS)
def test_a_span_may_be_a_number_a_duration_or_a_timedelta(place: str) -> None:
    """Sizes, delays, intervals, lateness, patience."""
    take = TAKES_SPANS[place]
    assert {as_found(take(90))} == {as_found(take(span)) for span in SPANS}


@pytest.mark.parametrize("place", sorted(TAKES_SPANS.keys() - {"micros_of", "timestamp + span", "span + timestamp"}))
def test_a_time_is_no_span(place: str) -> None:
    """A datetime is none either: it has no length."""
    for time in TIMES[2:]:
        with pytest.raises(TypeError):
            TAKES_SPANS[place](time)


def test_work_is_put_off_until_a_time_or_for_a_while() -> None:
    """A number is one of seconds to wait."""
    assert [Duration(90)] * len(SPANS) == [deferred(span) for span in SPANS]
    assert [Timestamp(90)] * 3 == [deferred(time) for time in TIMES[2:]]
    with pytest.raises(ValueError, match="expected a time or a span of time, got 'soon'"):
        deferred("soon")


def test_options_may_be_spans() -> None:
    """Given by name, set later, or out of a dictionary."""
    for span in SPANS:
        by_name = PipelineOptions([], batch_interval=span, **dict.fromkeys(OPTIONS, span))
        assert [90] * len(OPTIONS) == [getattr(by_name.view_as(StreamingOptions), name) for name in OPTIONS]
        assert 90 == by_name.view_as(MicroBatchOptions).batch_interval
        later = PipelineOptions([]).view_as(StreamingOptions)
        later.checkpoint_interval = span
        assert 90 == later.checkpoint_interval
        read = PipelineOptions.from_dictionary({"checkpoint_interval": span}).view_as(StreamingOptions)
        assert 90 == read.checkpoint_interval


def test_a_number_to_wait_is_one_of_milliseconds() -> None:
    """As in Beam; a span says what it is."""
    assert [0.09, 90, 90] == [seconds_to_wait(span) for span in (90, Duration(90), timedelta(seconds=90))]


def test_event_times_may_be_datetimes() -> None:
    """As outputs of user functions, in a pipeline and in a source."""
    values = ["1970-01-01T00:01:30+00:00", "1970-01-01T01:01:30+01:00"]
    with beam.Pipeline() as p:
        stamped = p | beam.Create(values) | beam.Map(lambda v: TimestampedValue(v, datetime.fromisoformat(v)))
        times = stamped | beam.Map(lambda v, t=beam.DoFn.TimestampParam: t)
        assert_that(times, equal_to([Timestamp(90), Timestamp(90)]))
    estimator = BoundedOutOfOrdernessWatermarkEstimator(0)
    sequence = beam.io.GenerateSequence(
        0, None, timestamp_fn=lambda n: datetime.fromisoformat(values[n]), watermark_estimator=estimator
    )
    bundle = sequence.source.open(0, None).poll(2, Timestamp(0))

    assert bundle is not None
    assert [90_000_000, 90_000_000] == bundle.timestamps
