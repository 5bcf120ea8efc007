"""Reshuffle and ReshufflePerKey."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as beam
from penstock.sdk import graph
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.elements.element_wrappers import WindowedValue
from penstock.testing import TestPipeline, TestStream, TestWindowedValue, assert_that, equal_to
from penstock.transforms.times.reshuffle import _Scatter
from penstock.triggers import PaneInfo, PaneInfoTiming
from penstock.windowing import FixedWindows, GlobalWindow, IntervalWindow, Sessions, SlidingWindows, TimestampedValue


def test_elements_are_the_same_whatever_they_are() -> None:
    """Those that can't be keys as well."""
    values: list[Any] = [1, 1, None, {"a": [1]}, ("a", 1)]
    assert sorted(values, key=repr) == sorted(values | beam.Reshuffle(), key=repr)


def test_there_is_a_shuffle() -> None:
    """A grouping, so that runners can't fuse what is before and after it."""
    p = TestPipeline()
    p | beam.Create([1]) | beam.Reshuffle()
    kinds = [type(transform.primitive) for transform in p.graph().transforms]
    assert 1 == kinds.count(graph.GroupByKeyAndWindow)


@pytest.mark.parametrize("transform", [beam.Reshuffle(), beam.ReshufflePerKey()])
def test_timestamps_stay(transform: beam.PTransform) -> None:
    """In the global window; those that were never given stay ungiven."""
    with TestPipeline() as p:
        stamped = p | beam.Create([TimestampedValue(("a", 1), 1), TimestampedValue(("a", 2), 2.5), ("b", 3)])
        expected = [
            TestWindowedValue(("a", 1), 1, [GlobalWindow()]),
            TestWindowedValue(("a", 2), 2.5, [GlobalWindow()]),
            TestWindowedValue(("b", 3), beam.utils.timestamp.MIN_TIMESTAMP, [GlobalWindow()]),
        ]
        assert_that(stamped | transform, equal_to(expected), reify_windows=True)


@pytest.mark.parametrize("transform", [beam.Reshuffle(), beam.ReshufflePerKey()])
@pytest.mark.parametrize("window_fn", [FixedWindows(10), SlidingWindows(10, 5), Sessions(10)])
def test_windows_stay_and_a_grouping_afterwards_goes_by_them(transform: beam.PTransform, window_fn: Any) -> None:
    """The result of a grouping is as without the shuffle; sessions still merge."""
    elements = [TimestampedValue(("a", t), t) for t in (1, 4, 7, 12, 40)]
    with TestPipeline() as p:
        windowed = p | beam.Create(elements) | beam.WindowInto(window_fn)
        plain = windowed | "plain" >> beam.CombinePerKey(sum) | "reify plain" >> beam.Reify.Window()
        shuffled = windowed | transform
        assert windowed.windowing == shuffled.windowing
        summed = shuffled | "summed" >> beam.CombinePerKey(sum) | "reify" >> beam.Reify.Window()
        both = {"plain": plain | beam.Map(lambda e: (e, 1)), "shuffled": summed | "key" >> beam.Map(lambda e: (e, 1))}
        same = both | beam.CoGroupByKey() | beam.Filter(lambda kv: kv[1]["plain"] != kv[1]["shuffled"])
        assert_that(same, equal_to([]))


def test_panes_stay() -> None:
    """The pane of an element is not replaced by one of the shuffle."""
    pane = PaneInfo(False, False, PaneInfoTiming.LATE, 3, 1)
    element = WindowedValue("a", 5, [IntervalWindow(0, 10)], pane)
    with TestPipeline() as p:
        windowed = p | beam.Create(["a"]) | beam.WindowInto(FixedWindows(10))
        shuffled = windowed | beam.Map(lambda _: element) | beam.Reshuffle()
        assert_that(shuffled, equal_to([TestWindowedValue("a", 5, [IntervalWindow(0, 10)], pane)]), reify_windows=True)


def test_an_element_of_several_windows_stays_in_each_of_them() -> None:
    """And comes out of each once."""
    windows = [IntervalWindow(0, 10), IntervalWindow(5, 15)]
    with TestPipeline() as p:
        stamped = p | beam.Create([TimestampedValue("a", 7)]) | beam.WindowInto(SlidingWindows(10, 5))
        expected = [TestWindowedValue("a", 7, [window]) for window in windows]
        assert_that(stamped | beam.Reshuffle(), equal_to(expected), reify_windows=True)


@pytest.mark.parametrize("num_buckets", [0, -1, "3", 1.5])
def test_how_many_buckets_there_are_is_a_positive_int(num_buckets: Any) -> None:
    """Or None, for the default."""
    with pytest.raises(ValueError, match="Reshuffle: If `num_buckets` is set, it has to be an integer greater than 0"):
        beam.Reshuffle(num_buckets)


def test_of_an_input_that_does_not_end_elements_are_let_through_as_they_come() -> None:
    """With their windows and times; what is late stays late, and nothing waits for the end of the stream."""
    with TestPipeline() as p:
        stream = (
            TestStream()
            .add_elements([TimestampedValue("a", 1), TimestampedValue("b", 2)])
            .advance_watermark_to(11)
            .add_elements([TimestampedValue("c", 3), TimestampedValue("d", 12)])
            .advance_watermark_to(100)
            .add_elements([TimestampedValue("e", 105)])
            .advance_watermark_to_infinity()
        )
        windowed = p | stream | beam.WindowInto(FixedWindows(10)) | beam.Reshuffle()
        grouped = windowed | beam.WithKeys(0) | beam.GroupByKey()
        seen = grouped | beam.Map(lambda kv, w=beam.DoFn.WindowParam: (sorted(kv[1]), w.start))
        assert_that(seen, equal_to([(["a", "b"], 0), (["d"], 10), (["e"], 100)]))
        assert FixedWindows(10) == windowed.windowing.window_fn


def test_a_retraction_is_in_the_bucket_of_its_element() -> None:
    """Also where its value is another object, in another order, or has none of its own."""
    dofn = _Scatter(1 << 14, is_plain=False, is_signed=True)
    dofn.setup()
    values: list[Any] = [("a", [1]), {"x": [1], "y": {"p", "q"}}, ("b", {"n": 1}), 7, [object()], ({}, object())]
    copies: list[Any] = [("a", [2]), {"y": {"q", "p"}, "x": [1]}, ("b", {"n": 2}), 7, [object()], ({}, object())]
    added, retracted = (
        [(bucket, item[-1]) for output in dofn.outputs(Bundle(each, signs=sign)) for bucket, item in output.values]
        for each, sign in ((values, 1), (copies, -1))
    )
    assert added == [(bucket, -sign) for bucket, sign in retracted]
    assert 6 == len({bucket for bucket, _ in added})


def keys_of_a_bundle(elements: list[Any], num_buckets: int) -> list[int]:
    dofn = _Scatter(num_buckets, is_plain=True)
    dofn.start_bundle()
    return [key for output in dofn.outputs(Bundle(elements)) for key, _ in output.values]


def test_buckets_take_turns() -> None:
    """The sizes of two buckets differ by at most one element."""
    keys = keys_of_a_bundle(list(range(10)), 4)
    assert [2, 2, 3, 3] == sorted(keys.count(key) for key in range(4))


def test_a_bundle_that_is_run_again_fills_the_same_buckets() -> None:
    """And another bundle, most of the time, others."""
    assert keys_of_a_bundle([5, 6], 1 << 14) == keys_of_a_bundle([5, 6], 1 << 14)
    assert 90 < len({keys_of_a_bundle([x], 1 << 14)[0] for x in range(100)})


def test_elements_that_can_not_be_pickled_are_put_into_buckets_too() -> None:
    """Where the runner has no need to pickle them."""
    assert [1, 2] == keys_of_a_bundle([lambda: 1, lambda: 2], 10)


def test_the_type_stays_known() -> None:
    """That of the input."""
    pairs = TestPipeline() | beam.Create([("a", 1)])
    assert tuple[str, int] == (pairs | beam.Reshuffle()).element_type == (pairs | beam.ReshufflePerKey()).element_type


def test_bundles_of_one_numbered_element_start_at_different_buckets() -> None:
    """As a stream of few elements has them."""
    assert {0, 1, 2, 3} == {bucket for n in range(20) for bucket in keys_of_a_bundle([f"user-{n}"], 4)}
