"""Metrics: what user code reports is the same on every runner, and is had by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import penstock as beam
from penstock.sdk.metrics import DistributionResult, Metrics, MetricsFilter


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
    sizes = {("first", "sizes"): DistributionResult(10, 4, 1, 4), ("second", "sizes"): DistributionResult(7, 2, 3, 4)}
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
