"""Metrics: what user code reports is the same on every runner, and is had by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import penstock as beam
from penstock.sdk.metrics import DistributionData, DistributionResult, Metrics, MetricsFilter
from penstock.sdk.userstate import CombiningValueStateSpec, TimeDomain, TimerSpec, on_timer
from penstock.testing import assert_that, equal_to
from penstock.windowing import FixedWindows


class Reporting(beam.DoFn):
    """Reports in every method of its life."""

    elements = Metrics.counter("app", "elements")
    sizes = Metrics.distribution("app", "sizes")
    latest = Metrics.gauge("app", "latest")

    def setup(self) -> None:
        Metrics.counter("app", "set up").inc(0)

    def start_bundle(self) -> None:
        self.bundle = 0

    def process(self, element: int) -> Iterator[int]:
        self.elements.inc()
        self.sizes.update(element)
        self.latest.set(7)
        self.bundle += 1
        yield element

    def finish_bundle(self) -> None:
        Metrics.counter("app", "in bundles").inc(self.bundle)


def distribution(sum: int, count: int, min: int, max: int) -> DistributionResult:
    return DistributionResult(DistributionData(sum, count, min, max))


def committed(result: Any, kind: str, filter: MetricsFilter | None = None) -> dict[tuple[str, str], Any]:
    """The metrics of a kind, by step and name."""
    found = result.metrics().query(filter)[kind]
    return {(one.key.step, one.key.metric.name): one.committed for one in found}


def test_counters_distributions_and_gauges_are_of_their_step(pipeline: Any) -> None:
    """Also where two steps are fused, and report under one name."""
    numbers = pipeline | beam.Create([1, 2, 3, 4])
    few = numbers | "first" >> beam.ParDo(Reporting()) | beam.Filter(lambda x: x > 2)
    _ = few | "second" >> beam.ParDo(Reporting())
    result = pipeline.run()
    expected = {("first", "elements"): 4, ("second", "elements"): 2}
    assert expected == committed(result, "counters", MetricsFilter().with_name("elements"))
    in_bundles = {("first", "in bundles"): 4, ("second", "in bundles"): 2}
    assert in_bundles == committed(result, "counters", MetricsFilter().with_name("in bundles"))
    sizes = {
        ("first", "sizes"): distribution(10, 4, 1, 4),
        ("second", "sizes"): distribution(7, 2, 3, 4),
    }
    assert sizes == committed(result, "distributions")
    gauges = committed(result, "gauges")
    assert {("first", "latest"): 7, ("second", "latest"): 7} == {key: gauge.value for key, gauge in gauges.items()}


def test_a_step_is_known_by_its_full_label(pipeline: Any) -> None:
    """And asked for by a part of it."""

    class Outer(beam.PTransform):
        def expand(self, pcoll: Any) -> Any:
            return pcoll | "Inner" >> beam.ParDo(Reporting())

    _ = pipeline | beam.Create([1]) | "Outer" >> Outer() | "Other" >> beam.ParDo(Reporting())
    result = pipeline.run()
    of_outer = MetricsFilter().with_step("Outer").with_name("elements")
    assert {("Outer/Inner", "elements"): 1} == committed(result, "counters", of_outer)


class Noting(beam.CombineFn):
    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        Metrics.counter("app", "added").inc()
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


def test_plain_functions_and_combiners_report_as_well(pipeline: Any) -> None:
    """Of several PCollections, before and after a shuffle, each element once."""

    def seen(element: Any, where: str) -> Any:
        Metrics.counter("app", where).inc()
        return element

    pairs = pipeline | beam.Create([("a", 1), ("b", 2), ("a", 3)]) | "before" >> beam.Map(seen, "in map")
    sums = pairs | "sum" >> beam.CombinePerKey(Noting()) | "after" >> beam.Filter(seen, "in filter")
    _ = sums | "one" >> beam.Map(len), pairs | "other" >> beam.FlatMap(seen, "in flat map")
    counters = committed(pipeline.run(), "counters", MetricsFilter().with_namespace("app"))
    expected = {
        ("before", "in map"): 3,
        ("sum", "added"): 3,
        ("after", "in filter"): 2,
        ("other", "in flat map"): 3,
    }
    assert expected == counters


def test_of_what_failed_nothing_is_reported_to_the_next_run(pipeline: Any, make_pipeline: Any) -> None:
    """Each run has metrics of its own."""
    counting = beam.ParDo(Reporting())
    first, second = pipeline, make_pipeline()
    for p in (first, second):
        _ = p | beam.Create([1, 2]) | "count" >> counting
    for p in (first, second):
        assert {("count", "elements"): 2} == committed(p.run(), "counters", MetricsFilter().with_name("elements"))


class CountsInState(beam.DoFn):
    """Reports in all methods that a stateful DoFn has, in functions and in generators."""

    SEEN = CombiningValueStateSpec("seen", beam.coders.VarIntCoder(), sum)
    TIMER = TimerSpec("timer", TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        window: Any = beam.DoFn.WindowParam,
        seen: Any = beam.DoFn.StateParam(SEEN),
        timer: Any = beam.DoFn.TimerParam(TIMER),
    ) -> Iterator[Any]:
        Metrics.counter("app", "processed").inc()
        seen.add(element[1])
        timer.set(window.end)
        yield element

    @on_timer(TIMER)
    def fire(self, seen: Any = beam.DoFn.StateParam(SEEN)) -> list[Any]:
        Metrics.counter("app", "fired").inc()
        return [("sum", seen.read())]


def test_stateful_functions_report_as_their_step_and_so_do_those_behind_them(pipeline: Any) -> None:
    """Another step may process an output while the step that emits it still runs."""

    def seen(element: Any) -> Any:
        Metrics.counter("app", "seen").inc()
        return element

    pairs = pipeline | beam.Create([("a", 1), ("b", 2), ("a", 3)]) | beam.WindowInto(FixedWindows(10))
    _ = pairs | "count" >> beam.ParDo(CountsInState()) | "behind" >> beam.Map(seen)
    counters = committed(pipeline.run(), "counters", MetricsFilter().with_namespace("app"))

    assert {("count", "processed"): 3, ("count", "fired"): 2, ("behind", "seen"): 5} == counters


def in_threads(element: int) -> list[int]:
    def work(n: int) -> int:
        Metrics.counter("app", "worked").inc()
        return n

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, range(element)))


def test_threads_that_a_function_starts_report_for_it(pipeline: Any) -> None:
    """As its step."""
    _ = pipeline | beam.Create([3]) | "in threads" >> beam.FlatMap(in_threads)
    counters = committed(pipeline.run(), "counters", MetricsFilter().with_namespace("app"))

    assert {("in threads", "worked"): 3} == counters


def with_a_pipeline_of_its_own(element: int) -> Any:
    """Runs one that has several tasks, and reports as this function does."""

    def inner(n: int) -> int:
        Metrics.counter("app", "reports").inc()
        return n

    Metrics.counter("app", "reports").inc()
    p = beam.Pipeline()
    _ = p | beam.Create(range(element)) | beam.Reshuffle() | "inner" >> beam.Map(inner)
    result = p.run()
    result.wait_until_finish()
    return committed(result, "counters", MetricsFilter().with_namespace("app"))


def test_a_pipeline_that_a_function_runs_has_metrics_of_its_own(pipeline: Any) -> None:
    """And neither counts for the other."""
    found = pipeline | beam.Create([5]) | "outer" >> beam.Map(with_a_pipeline_of_its_own)
    assert_that(found, equal_to([{("inner", "reports"): 5}]))
    result = pipeline.run()

    assert {("outer", "reports"): 1} == committed(result, "counters", MetricsFilter().with_name("reports"))
