"""Random pipelines of a few shapes give what a plain Python computation gives."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.pipelines.checks import check
from support.runners.local_variants import SideBySide, Variant

import penstock as beam
from penstock.testing import TestPipeline
from penstock.windowing import FixedWindows, IntervalWindow, Sessions, SlidingWindows, TimestampedValue

# An event: (key, value, second).
Event = tuple[str, int, int]
events = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 9), st.integers(-50, 50)), max_size=30)

# An element under way: (key, value, second), in these windows as (start, end), or none but the global one.
Windows = Callable[[int], list[tuple[int, int]]]


def fixed(size: int, offset: int) -> tuple[Any, Windows]:
    def windows(t: int) -> list[tuple[int, int]]:
        start = t - (t - offset) % size
        return [(start, start + size)]

    return FixedWindows(size, offset), windows


def sliding(size: int, period: int) -> tuple[Any, Windows]:
    def windows(t: int) -> list[tuple[int, int]]:
        return [(s, s + size) for s in range(t - size + 1, t + 1) if s % period == 0]

    return SlidingWindows(size, period), windows


window_fns = st.one_of(
    st.builds(fixed, st.integers(1, 40), st.integers(0, 5)), st.builds(sliding, st.integers(1, 30), st.integers(1, 20))
)

# Steps between the input and the grouping: the transform, and the same for a list of events.
STEPS: dict[str, tuple[Callable[[], beam.PTransform], Callable[[list[Event]], list[Event]]]] = {
    "double": (
        lambda: beam.Map(lambda e: (e[0], 2 * e[1], e[2])),
        lambda es: [(k, 2 * v, t) for k, v, t in es],
    ),
    "positive": (lambda: beam.Filter(lambda e: e[1] > 0), lambda es: [e for e in es if e[1] > 0]),
    "repeat": (
        lambda: beam.FlatMap(lambda e: [e] * (e[1] % 3)),
        lambda es: [e for e in es for _ in range(e[1] % 3)],
    ),
    "later": (
        lambda: beam.Map(lambda e: TimestampedValue((e[0], e[1], e[2] + 7), e[2] + 7)),
        lambda es: [(k, v, t + 7) for k, v, t in es],
    ),
    "some later": (
        lambda: beam.Map(lambda e: TimestampedValue((e[0], e[1], e[2] + 3), e[2] + 3) if e[1] > 0 else e),
        lambda es: [(k, v, t + 3 if v > 0 else t) for k, v, t in es],
    ),
    "next key": (
        lambda: beam.ParDo(lambda e: [(chr(ord(e[0]) + 1), e[1], e[2])]),
        lambda es: [(chr(ord(k) + 1), v, t) for k, v, t in es],
    ),
    "reshuffle": (beam.Reshuffle, lambda es: es),
}
steps = st.lists(st.sampled_from(sorted(STEPS)), max_size=4)

COMBINERS: dict[str, tuple[Any, Callable[[list[int]], Any]]] = {
    "sum": (sum, sum),
    "max": (max, max),
    "count": (beam.combiners.CountCombineFn(), len),
    "mean": (beam.combiners.MeanCombineFn(), lambda vs: sum(vs) / len(vs)),
    "set": (beam.combiners.ToSetCombineFn(), set),
    "distinct": (beam.combiners.CountDistinctCombineFn(), lambda vs: len(set(vs))),
    "top": (beam.combiners.TopCombineFn(2), lambda vs: sorted(vs, reverse=True)[:2]),
    "own": (lambda vs: sum(vs), sum),
}


def stepped(p: Any, values: list[Event], names: list[str], label: str = "") -> tuple[Any, list[Event]]:
    """The events after these steps, in the pipeline and in a list."""
    pcoll = p | f"{label}events" >> beam.Create([TimestampedValue(e, e[2]) for e in values])
    for i, name in enumerate(names):
        transform, same = STEPS[name]
        pcoll, values = pcoll | f"{label}{i} {name}" >> transform(), same(values)
    return pcoll, values


def combined(p: Any, values: list[Event], names: list[str], windowing: tuple[Any, Windows], combiner: str) -> None:
    """Steps, windows, and a combiner for each key."""
    pcoll, expected = stepped(p, values, names)
    window_fn, windows_of = windowing
    combine, same = COMBINERS[combiner]
    cells: dict[Any, list[int]] = defaultdict(list)
    for key, value, t in expected:
        for window in windows_of(t):
            cells[key, window].append(value)
    pairs = pcoll | beam.WindowInto(window_fn) | beam.Map(lambda e: (e[0], e[1]))
    results = pairs | beam.CombinePerKey(combine) | beam.Map(lambda kv, w=beam.DoFn.WindowParam: (*kv, w))
    check([(k, same(vs), IntervalWindow(*window)) for (k, window), vs in cells.items()], results)


def in_sessions(p: Any, values: list[Event], names: list[str], gap: int) -> None:
    """Steps, then sessions of each key, as they are found in the sorted list."""
    pcoll, expected = stepped(p, values, names)
    by_key: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for key, value, t in expected:
        by_key[key].append((t, value))
    found = []
    for key, entries in by_key.items():
        session: list[tuple[int, int]] = []
        for t, value in [*sorted(entries), (10_000, 0)]:
            if session and t >= session[-1][0] + gap:
                window = IntervalWindow(session[0][0], session[-1][0] + gap)
                found.append((key, sorted(v for _, v in session), window))
                session = []
            session.append((t, value))
    groups = pcoll | beam.Map(lambda e: (e[0], e[1])) | beam.WindowInto(Sessions(gap)) | beam.GroupByKey()
    check(found, groups | beam.MapTuple(lambda k, vs, w=beam.DoFn.WindowParam: (k, sorted(vs), w)))


def joined(p: Any, left: list[Event], right: list[Event], names: list[str]) -> None:
    """Two inputs, one of them through steps, by their keys; and the second as a side input of the first."""
    a, lefts = stepped(p, left, names, "left ")
    b, rights = stepped(p, right, [], "right ")
    keyed = [pcoll | f"key {i}" >> beam.Map(lambda e: (e[0], e[1])) for i, pcoll in enumerate((a, b))]
    groups = keyed | beam.CoGroupByKey() | beam.MapTuple(lambda k, vs: (k, sorted(vs[0]), sorted(vs[1])))
    keys = {e[0] for e in (*lefts, *rights)}
    expected = [(k, sorted(e[1] for e in lefts if e[0] == k), sorted(e[1] for e in rights if e[0] == k)) for k in keys]
    check(expected, groups)
    counts = Counter(e[0] for e in rights)
    sizes = keyed[0] | beam.MapTuple(
        lambda k, v, others: (k, v, len(others.get(k, ()))), beam.pvalue.AsMultiMap(keyed[1])
    )
    check([(k, v, counts[k]) for k, v, _ in lefts], sizes)


def twice(p: Any, values: list[Event], names: list[str], windowing: tuple[Any, Windows]) -> None:
    """A grouping of the results of a grouping, in the same windows."""
    pcoll, expected = stepped(p, values, names)
    window_fn, windows_of = windowing
    sums: dict[Any, int] = defaultdict(int)
    for key, value, t in expected:
        for window in windows_of(t):
            sums[key, window] += value
    again = Counter((window, total) for (_, window), total in sums.items())
    pairs = pcoll | beam.WindowInto(window_fn) | beam.Map(lambda e: (e[0], e[1]))
    totals = pairs | beam.CombinePerKey(sum) | beam.Values() | beam.combiners.Count.PerElement()
    in_windows = totals | beam.Map(lambda kv, w=beam.DoFn.WindowParam: (w, *kv))
    check([(IntervalWindow(*window), total, n) for (window, total), n in again.items()], in_windows)


@given(events, steps, window_fns, st.sampled_from(sorted(COMBINERS)))
def test_combining_by_key_and_window(values: Any, names: Any, windowing: Any, combiner: str) -> None:
    """Any steps, any windows, any combiner."""
    with TestPipeline() as p:
        combined(p, values, names, windowing, combiner)


@given(events, steps, st.integers(1, 30))
def test_sessions_by_key(values: Any, names: Any, gap: int) -> None:
    """Any steps, any gap."""
    with TestPipeline() as p:
        in_sessions(p, values, names, gap)


@given(events, events, steps)
def test_joins_and_side_inputs(left: Any, right: Any, names: Any) -> None:
    """Any two inputs."""
    with TestPipeline() as p:
        joined(p, left, right, names)


@given(events, steps, window_fns)
def test_groupings_of_groupings(values: Any, names: Any, windowing: Any) -> None:
    """Any steps, any windows."""
    with TestPipeline() as p:
        twice(p, values, names, windowing)


def one_of_each(data: Any, pipeline: Callable[[], Any]) -> None:
    """A pipeline of each shape."""
    values, names, windowing = data.draw(events), data.draw(steps), data.draw(window_fns)
    with pipeline() as p:
        combined(p, values, names, windowing, data.draw(st.sampled_from(sorted(COMBINERS))))
    with pipeline() as p:
        in_sessions(p, values, names, data.draw(st.integers(1, 30)))
    with pipeline() as p:
        joined(p, values, data.draw(events), names)
    with pipeline() as p:
        twice(p, values, names, windowing)


@pytest.mark.parametrize("partitions", [2, 4])
@settings(max_examples=30)
@given(data=st.data())
def test_the_same_in_several_partitions(partitions: int, data: Any) -> None:
    """The tasks run in this process, one after the other."""
    one_of_each(data, lambda: TestPipeline(runner=SideBySide(Variant(partitions))))


@settings(max_examples=4)
@given(data=st.data())
def test_the_same_in_several_workers(data: Any) -> None:
    """A few of each."""
    one_of_each(data, lambda: TestPipeline(runner=SideBySide(Variant(3, 3))))


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_same_on_spark(data: Any, spark_pipeline: Callable[[], Any]) -> None:
    """A few of each."""
    one_of_each(data, spark_pipeline)


@pytest.fixture
def spark_pipeline(spark: Any) -> Callable[[], Any]:
    """A function that makes a pipeline on Spark."""
    from penstock.runners.spark import SparkBatchRunner

    return lambda: TestPipeline(runner=SparkBatchRunner(spark_session=spark))
