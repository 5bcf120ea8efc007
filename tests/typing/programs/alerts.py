"""Readings of sensors, and alerts: state, timers, composites, joins, windows and tests, with all types named."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import penstock as beam
from penstock import DoFn, PCollection, Pipeline, PTransform, Row
from penstock.coders import PickleCoder, StrUtf8Coder, VarIntCoder
from penstock.pvalue import AsDict, AsSingleton, PBegin, TaggedOutput
from penstock.testing import TestPipeline, TestStream
from penstock.testing.util import assert_that, equal_to, is_not_empty
from penstock.transforms.trigger import AccumulationMode, AfterCount, AfterProcessingTime, AfterWatermark
from penstock.transforms.userstate import (
    CombiningValueRuntimeState,
    CombiningValueStateSpec,
    MapRuntimeState,
    MapStateSpec,
    OrderedListRuntimeState,
    OrderedListStateSpec,
    ReadModifyWriteRuntimeState,
    ReadModifyWriteStateSpec,
    RuntimeTimer,
    SetRuntimeState,
    SetStateSpec,
    TimerSpec,
    on_timer,
)
from penstock.transforms.window import (
    FixedWindows,
    IntervalWindow,
    TimestampedValue,
)
from penstock.utils.timestamp import Duration, Timestamp

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class Reading(NamedTuple):
    sensor: str
    value: float
    at: float


class Alert(NamedTuple):
    sensor: str
    reason: str


def parse(line: str) -> Reading:
    sensor, value, at = line.split(",")
    return Reading(sensor, float(value), float(at))


class Smooth(DoFn[tuple[str, Reading], Alert]):
    LAST = ReadModifyWriteStateSpec[float]("last")
    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)
    SEEN = SetStateSpec("seen", StrUtf8Coder())
    LOG = OrderedListStateSpec("log", PickleCoder())
    BY_DAY = MapStateSpec("by day", StrUtf8Coder(), VarIntCoder())
    GC = TimerSpec("gc", beam.TimeDomain.WATERMARK)

    def __init__(self, threshold: float, *, name: str = "smooth") -> None:
        self.threshold = threshold
        self.name = name
        self.late = beam.metrics.Metrics.counter(self.__class__, "late")

    def process(
        self,
        element: tuple[str, Reading],
        at: Timestamp = DoFn.TimestampParam,
        window: IntervalWindow = DoFn.WindowParam,
        last: ReadModifyWriteRuntimeState[float] = DoFn.StateParam(LAST),
        count: CombiningValueRuntimeState[int, int] = DoFn.StateParam(COUNT),
        seen: SetRuntimeState[str] = DoFn.StateParam(SEEN),
        log: OrderedListRuntimeState[Any] = DoFn.StateParam(LOG),
        by_day: MapRuntimeState[str, int] = DoFn.StateParam(BY_DAY),
        gc: RuntimeTimer = DoFn.TimerParam(GC),
    ) -> Iterator[Alert]:
        key, reading = element
        before = last.read()
        if before is not None and abs(before - reading.value) > self.threshold:
            yield Alert(key, f"jump at {at} in {window}")
        last.write(reading.value)
        count.add(1)
        seen.add(reading.sensor)
        log.add((at, reading))
        by_day.put("d", (by_day.get("d") or 0) + count.read())
        gc.set(window.end)

    @on_timer(GC)
    def expire(
        self, key: str = DoFn.KeyParam, last: ReadModifyWriteRuntimeState[float] = DoFn.StateParam(LAST)
    ) -> Iterator[Alert]:
        last.clear()
        yield Alert(key, "expired")


class Route(DoFn):
    def process(self, element: Reading) -> Iterable[Reading | TaggedOutput]:
        if element.value < 0:
            return [TaggedOutput("negative", element)]
        return [element]


class ReadReadings(PTransform[PBegin, PCollection[Reading]]):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def expand(self, pbegin: PBegin) -> PCollection[Reading]:
        return pbegin | "read" >> beam.io.ReadFromText(self._path) | "parse" >> beam.Map(parse)


class WriteAlerts(PTransform[PCollection[Alert], Any]):
    def expand(self, pcoll: PCollection[Alert]) -> Any:
        return pcoll | beam.io.WriteToParquet("alerts")


class Split(PTransform[PCollection[Reading], dict[str, PCollection[Reading]]]):
    def expand(self, pcoll: PCollection[Reading]) -> dict[str, PCollection[Reading]]:
        high, low = pcoll | beam.Partition(lambda r, n: int(r.value > 3), 2)
        return {"high": high, "low": low}


def average(pcoll: PCollection[tuple[str, float]]) -> PCollection[tuple[str, float]]:
    return pcoll | beam.combiners.Mean.PerKey()


def newest(pcoll: PCollection[tuple[K, V]]) -> PCollection[tuple[K, V]]:
    return pcoll | beam.combiners.Latest.PerKey()


def apply_all(pcoll: PCollection[T], steps: Sequence[PTransform[PCollection[T], PCollection[T]]]) -> PCollection[T]:
    for step in steps:
        pcoll = pcoll | step
    return pcoll


def build(p: Pipeline, path: str) -> PCollection[Alert]:
    readings = p | ReadReadings(path)
    good, bad = readings | beam.ParDo(Route()).with_outputs("negative", main="good")
    negative: PCollection[Reading] = bad
    keyed: PCollection[tuple[str, Reading]] = good | "key" >> beam.WithKeys(lambda r: r.sensor)
    timed = keyed | beam.Map(lambda kv: TimestampedValue(kv, kv[1].at))
    windowed = timed | beam.WindowInto(
        FixedWindows(60),
        trigger=AfterWatermark(early=AfterProcessingTime(5), late=AfterCount(1)),
        accumulation_mode=AccumulationMode.RETRACTING,
        allowed_lateness=Duration(seconds=3600),
    )
    alerts = windowed | "smooth" >> beam.ParDo(Smooth(3, name="x"))
    grouped: PCollection[tuple[str, Iterable[Alert]]] = alerts | beam.WithKeys(lambda a: a.sensor) | beam.GroupByKey()
    lists: PCollection[tuple[str, list[Alert]]] = grouped | beam.MapTuple(lambda k, vs: (k, list(vs)))
    _ = lists | "lists" >> beam.Map(print)
    limits: PCollection[tuple[str, float]] = p | "limits" >> beam.Create({"a": 1.0})
    means = average(good | beam.Map(lambda r: (r.sensor, r.value)))
    joined = {"mean": means, "limit": limits} | beam.CoGroupByKey()
    above = joined | beam.FlatMapTuple(lambda k, found: [k] if max(found["mean"]) > min(found["limit"]) else [])
    names: PCollection[str] = above
    _ = names | beam.Distinct()
    filtered = good | beam.Filter(lambda r, bounds: r.value < bounds[r.sensor], AsDict(limits))
    n: PCollection[int] = filtered | beam.combiners.Count.Globally()
    worst = good | beam.combiners.Top.Of(10, key=lambda r: r.value) | beam.FlatMap(lambda rs: rs)
    halves = worst | Split()
    high = halves["high"] | "hi" >> beam.Map(lambda r: r.value)
    total: PCollection[float] = high | beam.CombineGlobally(sum)
    ratio = total | beam.Map(lambda x, k: x / k, AsSingleton(n))
    _ = ratio | beam.LogElements(level=logging.INFO)
    steps: list[PTransform[PCollection[Reading], PCollection[Reading]]] = [
        beam.Reshuffle(),
        beam.Filter(lambda r: r.value > 0),
    ]
    _ = apply_all(good, steps)
    rows = good | beam.Map(lambda r: Row(sensor=r.sensor, value=r.value))
    stats = rows | beam.GroupBy("sensor").aggregate_field(
        "value", beam.combiners.MeanCombineFn(), "mean"
    ).aggregate_field("value", max, "max")
    _ = stats | "fmt" >> beam.Map(lambda s: f"{s.sensor} {s.mean}") | beam.io.WriteToText("stats")
    _ = alerts | WriteAlerts()
    _ = negative | beam.Map(print)
    _ = newest(keyed)
    joined3 = (keyed, limits, means) | beam.CoGroupByKey()
    _ = joined3 | beam.MapTuple(lambda k, v: (k, len(v[0]), v[1]))
    return alerts


def test() -> None:
    build(Pipeline(argv=["--auto_unique_labels"]), __file__)
    with TestPipeline() as p:
        stream = (
            TestStream()
            .advance_watermark_to(0)
            .add_elements([TimestampedValue(("a", Reading("a", 1, 1)), 1)])
            .advance_processing_time(5)
            .advance_watermark_to_infinity()
        )
        alerts = p | stream | beam.WindowInto(FixedWindows(10)) | beam.ParDo(Smooth(1))
        assert_that(alerts, equal_to([Alert("a", "expired")]))
        assert_that(alerts | "k" >> beam.Map(lambda a: a.sensor), is_not_empty(), label="k")

        def has_one(found: list[Any]) -> None:
            assert len(found) == 1

        assert_that(alerts, has_one, label="one")
