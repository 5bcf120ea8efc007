"""The rest of the library, at least once on each runner: its details are tested with each transform."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

import attrs
import numpy
from support.pipelines.checks import check

import penstock as beam
from penstock.sdk.coders import ShardedKey
from penstock.sdk.elements.element_wrappers import WindowedValue
from penstock.testing import TestWindowedValue
from penstock.triggers import PaneInfo, PaneInfoTiming
from penstock.windowing import (
    MIN_TIMESTAMP,
    Duration,
    FixedWindows,
    GlobalWindow,
    IntervalWindow,
    Sessions,
    SlidingWindows,
    Timestamp,
    TimestampedValue,
)


def test_create_and_impulse_begin_a_pipeline(pipeline: Any) -> None:
    """Values, pairs of a dictionary, values with timestamps, one empty string of bytes."""
    with pipeline as p:
        check([1, "a", None], p | "values" >> beam.Create([1, "a", None]))
        check([("a", 1)], p | "dictionary" >> beam.Create({"a": 1}))
        check(range(5), p | "iterator" >> beam.Create(iter(range(5)), reshuffle=False))
        timestamped = p | "timestamped" >> beam.Create([TimestampedValue("x", 3), "y"])
        globally = [GlobalWindow()]
        expected = [TestWindowedValue("x", 3, globally), TestWindowedValue("y", MIN_TIMESTAMP, globally)]
        check(expected, timestamped, reify_windows=True)
        check([b""], p | beam.Impulse())


def test_parts_of_pairs(pipeline: Any) -> None:
    """Keys, Values, KvSwap, WithKeys."""
    with pipeline as p:
        pairs = p | beam.Create([("a", 1), ("b", 2)])
        check(["a", "b"], pairs | beam.Keys())
        check([1, 2], pairs | beam.Values())
        check([(1, "a"), (2, "b")], pairs | beam.KvSwap())
        check([(2, 1), (3, 2)], pairs | "values" >> beam.Values() | beam.WithKeys(lambda v: v + 1))
        check([("k", "a"), ("k", "b")], pairs | "keys" >> beam.Keys() | "constant" >> beam.WithKeys("k"))


def test_distinct_elements_come_once_in_each_window(pipeline: Any) -> None:
    """With any number of duplicates."""
    with pipeline as p:
        stamped = p | beam.Create([TimestampedValue(x, t) for t, x in [(1, "a"), (2, "a"), (3, "b"), (11, "a")]])
        check(["a", "b"], stamped | "globally" >> beam.Distinct())
        windowed = stamped | beam.WindowInto(FixedWindows(10)) | "by window" >> beam.Distinct()
        check(["a", "b", "a"], windowed)


def test_a_reshuffle_changes_nothing_of_any_element(pipeline: Any) -> None:
    """Neither timestamps nor windows nor, in windows, panes; elements may be what can't be a key."""
    pane = PaneInfo(False, False, PaneInfoTiming.LATE, 3, 1)
    moved = WindowedValue({"no": ["key"]}, 5, [IntervalWindow(0, 10), IntervalWindow(5, 15)], pane)
    with pipeline as p:
        plain = p | "plain" >> beam.Create([TimestampedValue(1, 1), TimestampedValue(1, 1), 2])
        globally = [GlobalWindow()]
        expected = [TestWindowedValue(1, 1, globally)] * 2 + [TestWindowedValue(2, MIN_TIMESTAMP, globally)]
        check(expected, plain | "1" >> beam.Reshuffle(), reify_windows=True)
        sliding = p | "sliding" >> beam.Create([TimestampedValue(7, 7)]) | "5" >> beam.WindowInto(SlidingWindows(10, 5))
        in_both = [TestWindowedValue(7, 7, [IntervalWindow(start, start + 10)]) for start in (0, 5)]
        check(in_both, sliding | "2" >> beam.Reshuffle(), reify_windows=True)
        with_pane = p | "pane" >> beam.Create([1]) | beam.WindowInto(FixedWindows(10)) | beam.Map(lambda _: moved)
        in_panes = [TestWindowedValue({"no": ["key"]}, 5, [window], pane) for window in moved.windows]
        check(in_panes, with_pane | "3" >> beam.Reshuffle(), reify_windows=True)


@attrs.define
class Box:
    """A class of the user's, mutable and without a hash."""

    content: Any


def test_values_come_out_of_a_shuffle_of_the_type_that_they_went_in_with(pipeline: Any) -> None:
    """Numbers that are equal to each other, too; whole columns of one type, and mixed ones."""
    columns: list[list[Any]] = [
        [1, 2],
        [True, False],
        [1.0, -0.0],
        [1, 1.0, True],
        [numpy.int64(1), numpy.float32(0.5), numpy.bool_(True)],
        [(1, "a"), (2, "b")],
        [(1, 2), [1, 2], (1,)],
        [b"a", "a", bytearray(b"a")],
        [{"a": (1, [2])}],
        [Size.SMALL, Timestamp(1), Duration(1), IntervalWindow(0, 1)],
        [Box([1]), beam.Row(a=1)],
    ]
    with pipeline as p:
        for i, column in enumerate(columns):
            shuffled = p | f"column {i}" >> beam.Create(column) | f"shuffle {i}" >> beam.Reshuffle()
            check(map(typed, column), shuffled | f"typed {i}" >> beam.Map(typed))


class Size(enum.IntEnum):
    SMALL = 1


def typed(value: Any) -> tuple[str, str]:
    return type(value).__name__, repr(value)


def test_sessions_merge_after_a_reshuffle(pipeline: Any) -> None:
    """Those of a key, whose elements may have been anywhere."""
    with pipeline as p:
        stamped = p | beam.Create([TimestampedValue(("k", t), t) for t in (0, 6, 12, 40)])
        sums = stamped | beam.WindowInto(Sessions(10)) | beam.Reshuffle() | beam.CombinePerKey(sum)
        check([("k", 18), ("k", 40)], sums)


def test_batches_of_elements_and_of_keys(pipeline: Any) -> None:
    """Of the size asked for, but for those at an end."""

    def sizes(batches: Iterable[list[Any]]) -> tuple[int, list[int]]:
        return sum(map(len, batches)), sorted({len(batch) for batch in batches if len(batch) > 2})

    with pipeline as p:
        numbers = p | "numbers" >> beam.Create(range(20))
        batches = numbers | beam.BatchElements(min_batch_size=2, max_batch_size=2) | beam.combiners.ToList()
        check([(20, [])], batches | beam.Map(sizes))
        pairs = p | "pairs" >> beam.Create([("a", i) for i in range(5)] + [("b", 9)])
        by_key = pairs | beam.GroupIntoBatches(2) | beam.MapTuple(lambda key, batch: (key, len(batch)))
        check([("a", 2), ("a", 2), ("a", 1), ("b", 1)], by_key)
        sharded = pairs | beam.GroupIntoBatches.WithShardedKey(2) | "flat" >> beam.FlatMapTuple(_unsharded)
        check([("a", 0), ("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 9)], sharded)
        sorted_batches = numbers | beam.SortAndBatchElements(1, 20, 1000, element_size_fn=lambda x: -x)
        check([20], sorted_batches | "sizes" >> beam.Map(len) | beam.CombineGlobally(sum))


def _unsharded(key: ShardedKey, batch: list[int]) -> list[tuple[str, int]]:
    return [(key.key, value) for value in batch]


def test_timestamps_and_windows_as_values(pipeline: Any) -> None:
    """WithTimestamps, and Reify."""
    with pipeline as p:
        stamped = p | beam.Create([("a", 3)]) | beam.WithTimestamps(lambda pair: pair[1])
        pairs = stamped | beam.WindowInto(FixedWindows(10))
        window = IntervalWindow(0, 10)
        check([TestWindowedValue(("a", 3), 3, [window])], pairs, reify_windows=True)
        check([TestWindowedValue(("a", 3), 3, [window])], pairs | beam.Reify.Timestamp(), reify_windows=True)
        check([(("a", 3), 3, window)], pairs | beam.Reify.Window())
        check([("a", TimestampedValue(3, 3))], pairs | beam.Reify.TimestampInValue())
        check([("a", (3, 3, window))], pairs | beam.Reify.WindowInValue())


def test_text(pipeline: Any) -> None:
    """Regex, and ToString."""
    with pipeline as p:
        lines = p | beam.Create(["a 1", "b 22 333", "c"])
        check(["a", "b", "c"], lines | beam.Regex.matches(r"\w"))
        check([["a 1", "a", "1"], ["b 22", "b", "22"]], lines | beam.Regex.all_matches(r"(\w) (\d+)"))
        check([("a", "1"), ("b", "22")], lines | beam.Regex.matches_kv(r"(\w) (\d+)", 1, 2))
        check(["1", "22"], lines | beam.Regex.find(r"\d+"))
        check([["1"], ["22", "333"], []], lines | beam.Regex.find_all(r"\d+"))
        check([("1", "1"), ("2", "22"), ("3", "333")], lines | beam.Regex.find_kv(r"(\d)\d*", 1, 0))
        check(["a #", "b ## ###", "c"], lines | beam.Regex.replace_all(r"\d", "#"))
        check(["a #", "b #2 333", "c"], lines | beam.Regex.replace_first(r"\d", "#"))
        check([["a", "1"], ["b", "22", "333"], ["c"]], lines | beam.Regex.split(r"\s"))
        pairs = p | "pairs" >> beam.Create([("a", 1), ("b", None)])
        check(["('a', 1)", "('b', None)"], pairs | beam.ToString.Element())
        check(["a,1", "b,None"], pairs | beam.ToString.Iterables())
        check(["a: 1", "b: None"], pairs | beam.ToString.Kvs(": "))


def test_elements_are_logged_where_they_are_processed_and_go_on(pipeline: Any, runner_name: str, capfd: Any) -> None:
    """On the standard output of this process, or of a worker's."""
    with pipeline as p:
        logged = p | beam.Create([TimestampedValue("x", 3)]) | beam.LogElements(prefix="saw ", with_timestamp=True)
        check([TestWindowedValue("x", 3, [GlobalWindow()])], logged, reify_windows=True)
    if not runner_name.startswith("spark"):
        assert "saw x, timestamp='1970-01-01T00:00:03Z'\n" == capfd.readouterr().out


def test_what_waits_comes_after_what_it_waits_for(pipeline: Any) -> None:
    """And is what it was."""
    with pipeline as p:
        first = p | "first" >> beam.Create([1, 2])
        check([3], p | "second" >> beam.Create([3]) | beam.WaitOn(first))


def test_dead_letters_are_the_elements_that_a_step_fails_on(pipeline: Any) -> None:
    """With what was raised."""
    with pipeline as p:
        good, bad = p | beam.Create([2, 0]) | beam.Map(lambda x: 1 / x).with_exception_handling()
        check([0.5], good)
        check([(0, ZeroDivisionError)], bad | beam.MapTuple(lambda element, error: (element, error[0])))
