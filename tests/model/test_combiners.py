"""The library of combiners: each of a whole collection, of each key's values, and of nothing."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock import combiners
from penstock.testing import TestWindowedValue, assert_that
from penstock.transforms import stats
from penstock.windowing import FixedWindows, IntervalWindow, TimestampedValue

VALUES = [3, 9, 2, 3, 5, 6]
PAIRS = [("a", value) for value in VALUES] + [("b", 4)]

GLOBALLY: dict[str, tuple[beam.CombineGlobally, Any, Any]] = {
    # By label: the transform, what it makes of VALUES, and what of nothing.
    "Count": (combiners.Count.Globally(), 6, 0),
    "Sum": (combiners.Sum.Globally(), 28, 0),
    "CountDistinct": (combiners.CountDistinct.Globally(), 5, 0),
    "Mean": (combiners.Mean.Globally(), 28 / 6, math.nan),
    "Min": (combiners.Min.Globally(), 2, ...),
    "Max": (combiners.Max.Globally(), 9, ...),
    "Top.Of": (combiners.Top.Of(2, key=lambda x: -x), [2, 3], []),
    "Top.Largest": (combiners.Top.Largest(2), [9, 6], []),
    "Top.Smallest": (combiners.Top.Smallest(4), [2, 3, 3, 5], []),
    "ToSet": (combiners.ToSet(), {2, 3, 5, 6, 9}, set()),
    "ApproximateUnique": (beam.ApproximateUnique.Globally(size=16), 5, 0),
    "ApproximateQuantiles": (beam.ApproximateQuantiles.Globally(3), [2, 3, 9], []),
    "all": (beam.CombineGlobally(all), True, True),
    "any": (beam.CombineGlobally(any), True, False),
    "count": (beam.CombineGlobally(combiners.CountCombineFn()), 6, 0),
    "mean": (beam.CombineGlobally(combiners.MeanCombineFn()), 28 / 6, math.nan),
    "top": (beam.CombineGlobally(combiners.TopCombineFn(1)), [9], []),
    "largest": (beam.CombineGlobally(combiners.Largest(1)), [9], []),
    "smallest": (beam.CombineGlobally(combiners.Smallest(1)), [2], []),
    "quantiles": (beam.CombineGlobally(stats.ApproximateQuantilesCombineFn.create(2)), [2, 9], []),
    "several": (
        beam.CombineGlobally(combiners.SingleInputTupleCombineFn(sum, max, combiners.CountCombineFn())),
        (28, 9, 6),
        ...,
    ),
}

PER_KEY: dict[str, tuple[beam.PTransform, Any, Any]] = {
    # By label: the transform, and what it makes of the values of "a" and of "b".
    "Count": (combiners.Count.PerKey(), 6, 1),
    "Sum": (combiners.Sum.PerKey(), 28, 4),
    "CountDistinct": (combiners.CountDistinct.PerKey(), 5, 1),
    "Mean": (combiners.Mean.PerKey(), 28 / 6, 4.0),
    "Min": (combiners.Min.PerKey(), 2, 4),
    "Max": (combiners.Max.PerKey(), 9, 4),
    "Top.PerKey": (combiners.Top.PerKey(2, reverse=True), [2, 3], [4]),
    "Top.LargestPerKey": (combiners.Top.LargestPerKey(2), [9, 6], [4]),
    "Top.SmallestPerKey": (combiners.Top.SmallestPerKey(2), [2, 3], [4]),
    "ToSet": (beam.CombinePerKey(combiners.ToSetCombineFn()), {2, 3, 5, 6, 9}, {4}),
    "ApproximateUnique": (beam.ApproximateUnique.PerKey(size=16), 5, 1),
    "ApproximateQuantiles": (beam.ApproximateQuantiles.PerKey(3), [2, 3, 9], [4, 4, 4]),
}


def near(expected: Any, actual: Any) -> bool:
    """Equal, where not-a-number is equal to itself."""
    if isinstance(expected, float) and isinstance(actual, float):
        return math.isclose(expected, actual) or (math.isnan(expected) and math.isnan(actual))
    return bool(expected == actual)


def test_combiners_of_a_whole_collection(pipeline: Any, runner_name: str) -> None:
    """Each by itself.  On Spark, where each takes a stage of its own, those that are transforms."""
    names = [name for name in GLOBALLY if not runner_name.startswith("spark") or name[0].isupper()]
    with pipeline as p:
        values = p | beam.Create(VALUES) | beam.Reshuffle()
        results = [
            values | name >> GLOBALLY[name][0].without_defaults() | f"{name} by name" >> beam.WithKeys(name)
            for name in names
        ]
        assert_that(together(results), same_as({name: GLOBALLY[name][1] for name in names}))


def test_combiners_of_nothing(pipeline: Any, runner_name: str) -> None:
    """Of the least of nothing there is none.  On Spark, where each takes a job of its own, some of them."""
    expected = {name: none for name, (_, _, none) in GLOBALLY.items() if none is not ...}
    if runner_name.startswith("spark"):
        expected = {name: expected[name] for name in ("Count", "Mean", "Top.Largest", "ToSet", "ApproximateUnique")}
    with pipeline as p:
        empty = p | beam.Create([])
        results = [empty | name >> GLOBALLY[name][0] | f"{name} by name" >> beam.WithKeys(name) for name in expected]
        assert_that(together(results), same_as(expected))


def together(pcolls: list[Any]) -> Any:
    """All of them as one; on Spark, thanks to the shuffle, in one job."""
    return pcolls | beam.Flatten() | "in one job" >> beam.Reshuffle()


def same_as(expected: dict[str, Any]) -> Any:
    def matches(actual: list[tuple[str, Any]]) -> None:
        assert sorted(expected) == sorted(name for name, _ in actual)
        for name, value in actual:
            assert near(expected[name], value), f"{name}: expected {expected[name]}, got {value}"

    return matches


def test_combiners_of_each_keys_values(pipeline: Any) -> None:
    """The same results, for each key."""
    with pipeline as p:
        pairs = p | beam.Create(PAIRS) | beam.Reshuffle()
        results = [
            pairs | name >> transform | f"{name} 1" >> beam.MapTuple(lambda key, value, name=name: ((name, key), value))
            for name, (transform, _, _) in PER_KEY.items()
        ]
        expected = {(name, "a"): a for name, (_, a, _) in PER_KEY.items()}
        expected |= {(name, "b"): b for name, (_, _, b) in PER_KEY.items()}
        assert_that(together(results), same_as(expected))


def test_lists_dictionaries_and_samples(pipeline: Any) -> None:
    """Their results have no order, or are random."""
    with pipeline as p:
        values, pairs = p | "values" >> beam.Create(VALUES), p | "pairs" >> beam.Create([("a", 1), ("b", 2)])
        check([sorted(VALUES)], values | combiners.ToList() | "sort" >> beam.Map(sorted))
        check([{"a": 1, "b": 2}], pairs | combiners.ToDict())
        check(list(Counter(VALUES).items()), values | combiners.Count.PerElement())
        few = values | combiners.Sample.FixedSizeGlobally(4)
        check([(4, True)], few | "few" >> beam.Map(lambda s: (len(s), not Counter(s) - Counter(VALUES))))
        every = values | "all" >> combiners.Sample.FixedSizeGlobally(100) | "sort all" >> beam.Map(sorted)
        check([sorted(VALUES)], every)
        by_key = p | "more pairs" >> beam.Create(PAIRS) | combiners.Sample.FixedSizePerKey(2)
        check([("a", 2), ("b", 1)], by_key | "lengths" >> beam.MapTuple(lambda key, sample: (key, len(sample))))
        any_three = values | combiners.Sample.Any(3)
        check([3], any_three | combiners.Count.Globally())


def test_the_latest_is_that_of_the_latest_timestamp(pipeline: Any) -> None:
    """Globally, for each key, and of nothing."""
    with pipeline as p:
        pairs = p | beam.Create([TimestampedValue((k, t), t) for k, t in [("a", 5), ("a", 9), ("b", 3), ("a", 7)]])
        check([("a", 9)], pairs | combiners.Latest.Globally())
        check([("a", 9), ("b", 3)], pairs | combiners.Latest.PerKey())
        check([None], p | "empty" >> beam.Create([]) | "latest of none" >> combiners.Latest.Globally())


def test_tuples_of_combiners_combine_each_place(pipeline: Any) -> None:
    """Or give each element to all."""
    rows = [("a", 1, 2.0), ("b", 3, 4.0)]
    with pipeline as p:
        places = p | beam.Create(rows)
        combined = places | beam.CombineGlobally(combiners.TupleCombineFn(max, sum, combiners.MeanCombineFn()))
        check([("b", 4, 3.0)], combined)
        common = combiners.TupleCombineFn(min, max, sum).with_common_input()
        check([(1, 3, 4)], places | beam.Map(lambda row: row[1]) | "common" >> beam.CombineGlobally(common))


def test_approximations_are_near_for_many(pipeline: Any) -> None:
    """A hundred thousand values in parts, each of them sketched."""
    with pipeline as p:
        many = p | beam.Create(range(30_000)) | beam.Reshuffle() | beam.FlatMap(lambda x: [x, x])
        unique = many | beam.ApproximateUnique.Globally(error=0.05)
        check([True], unique | "near enough" >> beam.Map(lambda n: abs(n - 30_000) < 30_000 * 0.1))
        quartiles = many | beam.ApproximateQuantiles.Globally(5)
        expected = [0, 7500, 15000, 22500, 29999]
        deviations = beam.Map(lambda found: max(abs(a - b) for a, b in zip(expected, found)) < 1000)
        check([True], quartiles | "near" >> deviations)


@pytest.mark.parametrize("fanout", [None, 3])
def test_combiners_are_window_by_window(pipeline: Any, fanout: int | None) -> None:
    """With and without fanout."""
    with pipeline as p:
        windowed = p | beam.Create([TimestampedValue(t, t) for t in (1, 2, 12)]) | beam.WindowInto(FixedWindows(10))
        count = combiners.Count.Globally().without_defaults()
        mean = combiners.Mean.PerKey()
        keyed = windowed | beam.WithKeys("k")
        counts = windowed | (count if fanout is None else count.with_fanout(fanout))
        means = keyed | (mean if fanout is None else mean.with_hot_key_fanout(fanout))
        first, second = IntervalWindow(0, 10), IntervalWindow(10, 20)

        def at_the_end(value: Any, window: IntervalWindow) -> TestWindowedValue:
            return TestWindowedValue(value, window.max_timestamp(), [window])

        check([at_the_end(2, first), at_the_end(1, second)], counts, reify_windows=True)
        check([at_the_end(("k", 1.5), first), at_the_end(("k", 12.0), second)], means, reify_windows=True)
