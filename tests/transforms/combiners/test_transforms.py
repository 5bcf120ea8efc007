"""The combiners as transforms, in pipelines.  What they compute is tested where the CombineFns are."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

import penstock as beam
from penstock import combiners, window
from penstock.sdk.errors import TypeHintError

VALUES = [6, 3, 1, 1, 9, 1, 5, 2, 0, 6]
PAIRS = [*(("a", value) for value in VALUES), ("b", 4)]


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (combiners.Count.Globally(), 10),
        (combiners.Sum.Globally(), 34),
        (combiners.CountDistinct.Globally(), 7),
        (combiners.Min.Globally(), 0),
        (combiners.Max.Globally(), 9),
        (combiners.Mean.Globally(), 3.4),
        (combiners.Top.Of(2), [9, 6]),
        (combiners.Top.Of(2, key=lambda x: -x), [0, 1]),
        (combiners.Top.Of(2, reverse=True), [0, 1]),
        (combiners.Top.Largest(2), [9, 6]),
        (combiners.Top.Largest(2, key=lambda x: -x), [0, 1]),
        (combiners.Top.Smallest(2), [0, 1]),
        (combiners.Sample.FixedSizeGlobally(99), Counter(VALUES)),
        (combiners.ToList(), Counter(VALUES)),
        (combiners.ToSet(), set(VALUES)),
        (beam.ApproximateQuantiles.Globally(2), [0, 9]),
        (beam.ApproximateUnique.Globally(size=16), 7),
    ],
    ids=lambda parameter: getattr(parameter, "label", None),
)
def test_globally_there_is_one_result(transform: beam.PTransform, expected: Any) -> None:
    """Of the whole collection."""
    (result,) = VALUES | transform
    assert expected == (Counter(result) if isinstance(expected, Counter) else result)


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (combiners.Count.PerKey(), {"a": 10, "b": 1}),
        (combiners.Sum.PerKey(), {"a": 34, "b": 4}),
        (combiners.CountDistinct.PerKey(), {"a": 7, "b": 1}),
        (combiners.Min.PerKey(), {"a": 0, "b": 4}),
        (combiners.Max.PerKey(), {"a": 9, "b": 4}),
        (combiners.Mean.PerKey(), {"a": 3.4, "b": 4.0}),
        (combiners.Top.PerKey(2), {"a": [9, 6], "b": [4]}),
        (combiners.Top.PerKey(2, reverse=True), {"a": [0, 1], "b": [4]}),
        (combiners.Top.LargestPerKey(1), {"a": [9], "b": [4]}),
        (combiners.Top.SmallestPerKey(1), {"a": [0], "b": [4]}),
        (beam.ApproximateQuantiles.PerKey(2), {"a": [0, 9], "b": [4, 4]}),
        (beam.ApproximateUnique.PerKey(error=0.5), {"a": 7, "b": 1}),
    ],
    ids=lambda parameter: getattr(parameter, "label", None),
)
def test_per_key_there_is_one_result_for_each_key(transform: beam.PTransform, expected: dict[str, Any]) -> None:
    """(key, result) pairs."""
    assert expected == dict(PAIRS | transform)


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (combiners.Count.Globally(), [0]),
        (combiners.Sum.Globally(), [0]),
        (combiners.CountDistinct.Globally(), [0]),
        (combiners.Min.Globally(), []),
        (combiners.Max.Globally(), []),
        (combiners.Top.Largest(3), [[]]),
        (combiners.Sample.FixedSizeGlobally(3), [[]]),
        (combiners.Sample.Any(3), []),
        (combiners.ToList(), [[]]),
        (combiners.ToSet(), [set()]),
        (combiners.ToDict(), [{}]),
        (combiners.Latest.Globally(), [None]),
        (beam.ApproximateQuantiles.Globally(5), [[]]),
        (beam.ApproximateUnique.Globally(size=16), [0]),
        (combiners.Count.Globally(has_defaults=False), []),
        (combiners.Count.Globally().without_defaults(), []),
        (combiners.Top.Smallest(3, has_defaults=False), []),
        (combiners.Latest.Globally().without_defaults(), []),
        (combiners.ToList().without_defaults(), []),
        (combiners.ToList(has_defaults=False).with_defaults(), [[]]),
    ],
    ids=lambda parameter: getattr(parameter, "label", None),
)
def test_an_empty_collection_has_a_default_unless_it_is_left_out(transform: beam.PTransform, expected: Any) -> None:
    """The default is the combiner's result for no elements; minimum and maximum have none."""
    assert expected == [] | transform


def test_counting_per_element_counts_equal_ones_together() -> None:
    """(element, how often)."""
    assert Counter(VALUES) == dict(VALUES | combiners.Count.PerElement())


def test_a_dict_of_pairs() -> None:
    """The only one of these transforms that takes pairs as pairs."""
    assert [{"a": 1, "b": 2}] == [("a", 1), ("b", 2)] | combiners.ToDict()


def test_the_latest_is_by_event_time_not_by_order() -> None:
    """Globally and for each key."""
    stamped = beam.Map(lambda pair: window.TimestampedValue(pair, pair[1]))
    pairs = [("a", 3), ("a", 9), ("b", 5), ("a", 7)]
    assert [("a", 9)] == pairs | (stamped | combiners.Latest.Globally())
    assert {"a": 9, "b": 5} == dict(pairs | (stamped | combiners.Latest.PerKey()))


def test_a_sample_is_of_what_there_is() -> None:
    """Without replacement."""
    (sample,) = [1, 1, 2, 2] | combiners.Sample.FixedSizeGlobally(3)
    assert sorted(sample) in ([1, 1, 2], [1, 2, 2])
    samples = dict(PAIRS | combiners.Sample.FixedSizePerKey(3, random.Random(1)))
    assert Counter(samples["a"]) <= Counter(VALUES)
    assert [3, 1] == [len(samples["a"]), len(samples["b"])]


@pytest.mark.parametrize(("n", "expected"), [(0, 0), (3, 3), (99, 10)])
def test_any_elements_come_one_by_one(n: int, expected: int) -> None:
    """n of them, or all if there are no more."""
    chosen = VALUES | combiners.Sample.Any(n)
    assert expected == len(chosen)
    assert Counter(chosen) <= Counter(VALUES)


def test_any_elements_are_chosen_in_each_window() -> None:
    """There is no default that would stand in the way of windows."""
    stamped = beam.Map(lambda x: window.TimestampedValue(x, x))
    windowed = stamped | beam.WindowInto(window.FixedWindows(10)) | combiners.Sample.Any(1)
    assert [0, 1] == sorted(x // 10 for x in [1, 2, 11, 12] | windowed)


@pytest.mark.parametrize(
    ("transform", "label"),
    [
        (combiners.Count.Globally(), "Count.Globally"),
        (combiners.Count.PerElement(), "Count.PerElement"),
        (combiners.Mean.PerKey(), "Mean.PerKey"),
        (combiners.Mean.PerKey("mine"), "mine"),
        (combiners.Top.Of(3), "Top(3)"),
        (combiners.Top.PerKey(3), "TopPerKey(3)"),
        (combiners.Top.Largest(3), "Largest(3)"),
        (combiners.Top.SmallestPerKey(3), "SmallestPerKey(3)"),
        (combiners.Sample.FixedSizeGlobally(3), "FixedSizeGlobally(3)"),
        (combiners.ToList(), "ToList"),
        (beam.ApproximateUnique.PerKey(size=16), "ApproximateUnique.PerKey"),
        ("named" >> combiners.ToList().without_defaults(), "named"),
    ],
)
def test_a_label_says_what_is_computed(transform: beam.PTransform, label: str) -> None:
    """Two different ones in a pipeline need no explicit labels."""
    assert label == transform.label


@pytest.mark.parametrize("fanout", [1, 3])
def test_every_combiner_can_be_spread_out(fanout: int) -> None:
    """As CombineGlobally and CombinePerKey can, which these are."""
    assert [[9, 6]] == VALUES | combiners.Top.Largest(2).with_fanout(fanout)
    assert {"a": 3.4, "b": 4.0} == dict(PAIRS | combiners.Mean.PerKey().with_hot_key_fanout(fanout))
    assert [[0, 2, 9]] == VALUES | beam.ApproximateQuantiles.Globally(3).with_fanout(fanout)


@pytest.mark.parametrize(
    ("values", "transform", "expected"),
    [
        (["a"], combiners.Mean.Globally(), "at Mean.Globally: expected .*Number.*, got .*str"),
        ([("a", "b")], combiners.Mean.PerKey(), "at Mean.PerKey: expected .*uple.*Any, .*Number.*, got"),
        (
            [("a", "b")],
            combiners.Mean.PerKey().with_hot_key_fanout(2),
            "at Mean.PerKey: expected .*uple.*Any, .*Number",
        ),
        ([("a", ["b"])], beam.CombineValues(combiners.MeanCombineFn()), "expected .*uple.*Any, .*Iterable.*Number"),
        ([1], combiners.ToDict(), "at ToDict: expected .*uple.*Any.*Any.*, got .*int"),
        ([(1, 2, 3)], combiners.ToDict(), "at ToDict: expected .*uple.*Any.*Any.*, got .*uple.*int.*, .*int"),
    ],
)
def test_combiners_refuse_inputs_of_another_type_when_the_pipeline_is_built(
    values: list[Any], transform: beam.PTransform, expected: str
) -> None:
    p = beam.Pipeline()
    with pytest.raises(TypeHintError, match=expected):
        _ = p | beam.Create(values) | transform


def test_combiners_take_numbers_of_all_types_and_named_pairs() -> None:
    numpy = pytest.importorskip("numpy")
    of_union = beam.Pipeline() | beam.Create([1, 2.5]) | combiners.Mean.Globally()
    assert float is of_union.element_type
    numbers = [True, 2, 1.5, Fraction(3, 2), Decimal(4), numpy.int64(1), numpy.float32(2)]
    assert [[n] for n in numbers] == [[n] | combiners.Mean.Globally() for n in numbers]
    assert [("a", 1.5)] == [("a", 1), ("a", 2)] | beam.CombinePerKey(combiners.MeanCombineFn())
    assert [("a", 1.5)] == [("a", [1, 2])] | beam.CombineValues(combiners.MeanCombineFn())
    named = [Counter(a=1).most_common()[0]]
    assert [{"a": 1}] == named | combiners.ToDict()
