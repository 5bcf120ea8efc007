"""Metrics: what user code reports, and what can be asked afterwards."""

import pickle
import time
from contextlib import suppress

import pytest

from penstock.sdk.metrics import (
    DistributionData,
    DistributionResult,
    GaugeData,
    GaugeResult,
    Lineage,
    MetricKey,
    MetricName,
    MetricResult,
    MetricResults,
    Metrics,
    MetricsContainer,
    MetricsFilter,
    reporting,
    scoped,
)
from penstock.sdk.metrics.histogram import LinearBucket


class Parse:
    lines = Metrics.counter("app", "lines")


def distribution(*values):
    return DistributionResult(DistributionData(*values))


def clock_at(*times):
    return iter(times).__next__


def values(results, kind):
    return {(r.key.step, r.key.metric.name): r.committed for r in results.query()[kind]}


def test_a_counter_adds_up():
    container = MetricsContainer()
    with scoped(container, "Parse"):
        Parse.lines.inc()
        Parse.lines.inc(5)
        Parse.lines.dec()
        Parse.lines.dec(2)
    assert {("Parse", "lines"): 3} == values(MetricResults(container), "counters")


def test_a_distribution_keeps_sum_count_least_and_greatest():
    container = MetricsContainer()
    with scoped(container):
        for value in (3, 1, 8):
            Metrics.distribution("app", "sizes").update(value)
    assert {("", "sizes"): distribution(12, 3, 1, 8)} == values(MetricResults(container), "distributions")
    assert 4.0 == distribution(12, 3, 1, 8).mean


def test_a_distribution_of_nothing_has_no_mean():
    assert None is distribution(0, 0, None, None).mean


def test_a_gauge_keeps_the_latest_value_and_its_time():
    container = MetricsContainer(clock=clock_at(10.0, 20.0))
    with scoped(container):
        Metrics.gauge("app", "depth").set(7)
        Metrics.gauge("app", "depth").set(5)
    assert {("", "depth"): GaugeResult(GaugeData(5, 20.0))} == values(MetricResults(container), "gauges")


def test_the_latest_gauge_counts_though_the_wall_clock_was_set_back(monkeypatch):
    """Where the reports of two subtasks are added up."""
    earlier, later = MetricsContainer(), MetricsContainer()
    with scoped(earlier):
        Metrics.gauge("app", "depth").set(7)
    monkeypatch.setattr(time, "time", lambda: 1.0)
    with scoped(later):
        Metrics.gauge("app", "depth").set(5)
    earlier.merge(later)
    assert 5 == values(MetricResults(earlier), "gauges")["", "depth"].value


def test_outside_of_a_pipeline_a_report_goes_nowhere():
    Parse.lines.inc()
    Metrics.distribution("app", "sizes").update(1)
    Metrics.gauge("app", "depth").set(1)
    with scoped(None):
        Parse.lines.inc()
    assert not reporting._active.get()


def test_scopes_nest_and_end_when_user_code_raises():
    outer, inner = MetricsContainer(), MetricsContainer()
    with scoped(outer, "A"):
        with suppress(ZeroDivisionError), scoped(inner, "B"):
            Parse.lines.inc(2)
            1 / 0
        Parse.lines.inc(1)
    assert {("A", "lines"): 1} == values(MetricResults(outer), "counters")
    assert {("B", "lines"): 2} == values(MetricResults(inner), "counters")


def reported(n, time):
    container = MetricsContainer(clock=lambda: time)
    with scoped(container, "S"):
        Parse.lines.inc(n)
        Metrics.distribution("app", "sizes").update(n)
        Metrics.gauge("app", "depth").set(n)
    return container


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_merging_adds_counters_and_keeps_the_latest_gauge(order):
    total = MetricsContainer()
    for n in order:
        total.merge(reported(n, time=n))
    results = MetricResults(total)
    assert {("S", "lines"): 3} == values(results, "counters")
    assert {("S", "sizes"): distribution(3, 2, 1, 2)} == values(results, "distributions")
    assert {("S", "depth"): GaugeResult(GaugeData(2, 2))} == values(results, "gauges")


def test_merging_leaves_the_other_as_it_was():
    total, other = MetricsContainer(), reported(1, time=1)
    total.merge(other)
    total.merge(other)
    assert {("S", "sizes"): distribution(1, 1, 1, 1)} == values(MetricResults(other), "distributions")


def test_containers_and_counters_travel():
    container = MetricsContainer()
    with scoped(container, "S"):
        pickle.loads(pickle.dumps(Parse.lines)).inc(3)
    assert {("S", "lines"): 3} == values(MetricResults(pickle.loads(pickle.dumps(container))), "counters")


def test_what_was_attempted_may_be_more_than_what_was_committed():
    committed, attempted = MetricsContainer(), MetricsContainer()
    for container, n in ((committed, 2), (attempted, 5)):
        with scoped(container, "S"):
            Parse.lines.inc(n)
    with scoped(attempted, "T"):
        Parse.lines.inc(1)
    lines = MetricName("app", "lines")
    expected = [
        MetricResult(MetricKey("S", lines), committed=2, attempted=5),
        MetricResult(MetricKey("T", lines), committed=None, attempted=1),
    ]
    found = MetricResults(committed, attempted).query()["counters"]
    assert expected == found
    assert [2, 1] == [result.result for result in found]
    key = "MetricKey(step=S, metric=MetricName(namespace=app, name=lines), labels={})"
    assert f"MetricResult(key={key}, committed=2, attempted=5)" == str(found[0])


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (None, ["a", "b", "c"]),
        (MetricsFilter(), ["a", "b", "c"]),
        (MetricsFilter().with_name("a"), ["a"]),
        (MetricsFilter().with_names({"a", "b"}), ["a", "b"]),
        (MetricsFilter().with_namespace(Parse), ["c"]),
        (MetricsFilter().with_namespace("app").with_name("c"), []),
        (MetricsFilter().with_metric(Metrics.counter(Parse, "c")), ["c"]),
        (MetricsFilter().with_metric(Metrics.gauge("app", "c")), []),
        (MetricsFilter().with_step("Outer"), ["a"]),
        (MetricsFilter().with_step("Outer/Inner"), ["a"]),
        (MetricsFilter().with_step("Inner"), ["a"]),
        (MetricsFilter().with_step("Inn"), []),
        (MetricsFilter().with_steps(["Inner/Map", "Other"]), ["a", "b"]),
    ],
)
def test_a_filter_takes_names_namespaces_and_steps(filter, expected):
    container = MetricsContainer()
    for step, namespace, name in (("Outer/Inner/Map", "app", "a"), ("Other", "app", "b"), ("", Parse, "c")):
        with scoped(container, step):
            Metrics.counter(namespace, name).inc()
    assert expected == [result.key.metric.name for result in MetricResults(container).query(filter)["counters"]]


def test_a_namespace_is_a_class_or_a_string():
    assert f"{Parse.__module__}.Parse" == Metrics.get_namespace(Parse)
    with pytest.raises(ValueError) as error:
        Metrics.counter(5, "n")
    assert "a metric's namespace is a class or a string, not 5" == str(error.value)


def test_one_name_where_several_are_taken_is_refused():
    with pytest.raises(TypeError) as error:
        MetricsFilter().with_names("lines")
    assert "with_names takes several strings, not 'lines'; use with_name('lines')" == str(error.value)


@pytest.mark.parametrize(("namespace", "name"), [("", "n"), ("app", "")])
def test_a_metric_needs_a_namespace_and_a_name(namespace, name):
    with pytest.raises(ValueError, match="a metric has a namespace and a name"):
        Metrics.distribution(namespace, name)


def test_sets_tries_and_histograms_are_merged_by_step() -> None:
    total = MetricsContainer()
    for text, value in (("a", 1), ("b", 6)):
        part = MetricsContainer()
        with scoped(part, "S"):
            Metrics.string_set("app", "texts").add(text)
            Metrics.bounded_trie("app", "paths").add(["root", text])
            Metrics.histogram("app", "values", LinearBucket(0, 1, 10)).update(value)
        total.merge(part)
    results = MetricResults(total)
    assert {("S", "texts"): {"a", "b"}} == values(results, "string_sets")
    assert {("root", "a", False), ("root", "b", False)} == values(results, "bounded_tries")["S", "paths"].get_result()
    assert 2 == values(results, "histograms")["S", "values"].histogram.total_count()


def test_lineage_reports_names_by_their_parts() -> None:
    container = MetricsContainer()
    with scoped(container, "S"):
        Lineage.sources().add("kafka", "my.topic".upper())
        Lineage.sources().add("s3", "bucket", "a/b", last_segment_sep="/")
    results = MetricResults(container)
    assert {"kafka:MY.TOPIC", "s3:bucket.a/b"} == Lineage.query(results, Lineage.SOURCE)
    assert set() == Lineage.query(results, Lineage.SINK)
    with pytest.raises(ValueError, match="expected 'sources_v2' or 'sinks_v2', got 'x'"):
        Lineage("x")


def test_names_are_printed_as_in_beam() -> None:
    assert "MetricName(namespace=app, name=lines)" == str(MetricName("app", "lines"))
