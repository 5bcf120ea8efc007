"""Micro-batches on Spark have the output of the local runner."""

from __future__ import annotations

from typing import Any

import pytest
from support.pipelines.recording import record, recorded

import penstock as beam
from penstock.runners.spark import SparkMicroBatchRunner, SparkRunner
from penstock.sdk.errors import UserCodeError
from penstock.testing import TestPipeline, TestStream
from penstock.triggers import AccumulationMode, AfterCount, AfterProcessingTime, AfterWatermark, Repeatedly
from penstock.windowing import Sessions, TimestampedValue

SEEN = beam.transforms.userstate.ReadModifyWriteStateSpec("seen")
LATER = beam.transforms.userstate.TimerSpec("later", beam.TimeDomain.REAL_TIME)
EACH = Repeatedly(AfterCount(1))
END = beam.transforms.userstate.TimerSpec("end", beam.TimeDomain.WATERMARK)


@pytest.fixture
def micro_batches(spark: Any) -> SparkMicroBatchRunner:
    """The runner, in the session of all tests."""
    return SparkMicroBatchRunner(spark_session=spark)


def stamped(*pairs: tuple[Any, float]) -> list[TimestampedValue]:
    return [TimestampedValue(value, time) for value, time in pairs]


def test_sessions_that_merge_late_are_retracted_and_a_grouping_after_them_follows(
    micro_batches: SparkMicroBatchRunner,
) -> None:
    """Two groupings in a chain, early, on-time and late panes, and both clocks."""

    def build(p: Any) -> Any:
        stream = (
            TestStream()
            .add_elements(stamped((("a", 1), 0), (("b", 2), 5), (("a", 3), 30)))
            .advance_processing_time(60)
            .advance_watermark_to(100)
            .add_elements(stamped((("a", 4), 15)))
            .advance_watermark_to_infinity()
        )
        sessions = (
            p
            | stream
            | beam.WindowInto(
                Sessions(20),
                trigger=AfterWatermark(early=AfterProcessingTime(30), late=AfterCount(1)),
                accumulation_mode=AccumulationMode.RETRACTING,
                allowed_lateness=1000,
            )
            | beam.CombinePerKey(sum)
        )
        return (
            sessions
            | "all"
            >> beam.WindowInto(
                beam.window.GlobalWindows(),
                trigger=EACH,
                accumulation_mode=AccumulationMode.RETRACTING,
            )
            | "total" >> beam.CombinePerKey(sum)
        )

    assert sorted(recorded(build, "local").shown()) == sorted(recorded(build, micro_batches).shown())


class Counted(beam.DoFn):
    """The number of values of a key so far, and again when its timers fire."""

    def process(
        self,
        element: Any,
        seen: Any = beam.DoFn.StateParam(SEEN),
        later: Any = beam.DoFn.TimerParam(LATER),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> Any:
        count = (seen.read() or 0) + 1
        seen.write(count)
        later.set(25)
        end.set(50)
        yield element[0], count

    @beam.transforms.userstate.on_timer(LATER)
    def tell(self, key: Any = beam.DoFn.KeyParam, seen: Any = beam.DoFn.StateParam(SEEN)) -> Any:
        yield beam.pvalue.TaggedOutput("later", (key, seen.read()))

    @beam.transforms.userstate.on_timer(END)
    def finish(self, key: Any = beam.DoFn.KeyParam, seen: Any = beam.DoFn.StateParam(SEEN)) -> Any:
        yield beam.pvalue.TaggedOutput("end", (key, seen.read()))


def test_state_and_timers_are_kept_from_batch_to_batch(micro_batches: SparkMicroBatchRunner) -> None:
    """In both time domains, with tagged outputs that are flattened."""

    def build(p: Any) -> Any:
        stream = (
            TestStream()
            .add_elements(stamped((("a", 1), 0)))
            .advance_processing_time(20)
            .add_elements(stamped((("a", 2), 1), (("b", 1), 2)))
            .advance_processing_time(10)
            .advance_watermark_to(60)
            .advance_watermark_to_infinity()
        )
        outputs = p | stream | beam.ParDo(Counted()).with_outputs("later", "end", main="counts")
        named = [
            outputs[tag] | tag >> beam.Map(lambda pair, tag: (tag, pair), tag) for tag in ("counts", "later", "end")
        ]
        return named | beam.Flatten()

    assert recorded(build, "local").net() == recorded(build, micro_batches).net()


def test_later_elements_see_a_changed_side_input(micro_batches: SparkMicroBatchRunner) -> None:
    """Elements that arrive before the side input wait for it."""

    def build(p: Any) -> Any:
        stream = (
            TestStream(output_tags=["rates", "prices"])
            .add_elements(stamped((10, 0)), "prices")
            .add_elements(stamped((2, 0)), "rates")
            .add_elements(stamped((20, 0)), "prices")
            .add_elements(stamped((3, 0)), "rates")
            .add_elements(stamped((30, 0)), "prices")
            .advance_watermark_to_infinity("rates")
            .advance_watermark_to_infinity("prices")
        )
        outputs = p | stream
        rates = (
            outputs["rates"]
            | beam.Map(lambda rate: ("rate", rate))
            | beam.WindowInto(
                beam.window.GlobalWindows(),
                trigger=EACH,
                accumulation_mode=AccumulationMode.ACCUMULATING,
            )
            | beam.CombinePerKey(max)
            | beam.Values()
        )
        return outputs["prices"] | "paid" >> beam.Map(lambda price, rate: price * rate, beam.pvalue.AsSingleton(rates))

    assert [20, 40, 90] == [change.value for change in recorded(build, micro_batches).changes]


class Seen(beam.DoFn):
    """Counts elements."""

    def process(self, element: Any) -> Any:
        beam.metrics.Metrics.counter("test", "seen").inc()
        yield element


def test_a_pcollection_that_is_used_by_three_is_computed_once(micro_batches: SparkMicroBatchRunner) -> None:
    """It is read by a grouping, a sink, and as a side input; metrics and two sinks show it."""
    with TestPipeline(micro_batches) as p:
        numbers = p | beam.Create([1, 2, 3, 4]) | beam.ParDo(Seen())
        odd = record(numbers | beam.Map(lambda n: (n % 2, n)) | beam.CombinePerKey(sum), "sums")
        rest = record(numbers | "with" >> beam.Map(lambda n, m: (n, max(m)), beam.pvalue.AsList(numbers)), "pairs")
    (counter,) = p.result.metrics().query(beam.metrics.MetricsFilter().with_name("seen"))["counters"]

    assert [(0, 6), (1, 4)] == sorted(change.value for change in odd.changes)
    assert [(1, 4), (2, 4), (3, 4), (4, 4)] == sorted(change.value for change in rest.changes)
    assert counter.committed == 4


def test_the_error_of_a_function_names_its_transform(micro_batches: SparkMicroBatchRunner) -> None:
    """As a run in one process raises it."""
    with pytest.raises(UserCodeError, match="Halve"), TestPipeline(micro_batches) as p:
        p | TestStream().add_elements([1, 0]).advance_watermark_to_infinity() | "Halve" >> beam.Map(lambda n: 1 / n)


def test_the_spark_runner_logs_the_runner_that_it_chooses(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    """By whether the input is bounded."""
    with TestPipeline(SparkRunner(spark)) as p:
        p | beam.Create([1])
    with TestPipeline(SparkRunner(spark)) as p:
        p | TestStream().add_elements([1])

    expected = [
        "--runner=spark runs this as spark-batch: all of its input is bounded",
        "--runner=spark runs this as spark-microbatch: the output of TestStream is unbounded",
    ]
    assert expected == [record.getMessage() for record in caplog.records if record.name.startswith("penstock")]
