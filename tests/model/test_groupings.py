"""GroupByKey, CoGroupByKey, GroupBy; chains of them, diamonds and empty inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock.sdk.errors import LargeGroupError
from penstock.testing import TestWindowedValue
from penstock.transforms.groups.secret import RawSecret, Secret
from penstock.triggers import PaneInfo, PaneInfoTiming
from penstock.windowing import FixedWindows, IntervalWindow, Sessions, TimestampedValue

PAIRS = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5)]


def in_order(key: Any, values: Iterable[Any]) -> tuple[Any, list[Any]]:
    return key, sorted(values)


def test_the_values_of_a_key_come_together(pipeline: Any) -> None:
    """In no order, each as often as it was there."""
    with pipeline as p:
        groups = p | beam.Create([*PAIRS, ("a", 1)]) | beam.GroupByKey() | beam.MapTuple(in_order)
        check([("a", [1, 1, 3]), ("b", [2, 5]), ("c", [4])], groups)


def test_a_group_can_be_gone_through_more_than_once(pipeline: Any) -> None:
    """With a group of any size."""
    with pipeline as p:
        groups = p | beam.Create([("k", i) for i in range(1000)]) | beam.GroupByKey()
        sums = groups | beam.MapTuple(lambda k, values: (sum(values), sum(values), len(list(values))))
        check([(499500, 499500, 1000)], sums)


def test_encrypted_groups_are_those_of_the_same_key_and_window(pipeline: Any) -> None:
    """Equal keys are one key, whatever their types."""
    secret = RawSecret(Secret.generate_secret_bytes())
    elements = [
        TimestampedValue(pair, time) for time, pair in enumerate([(1, "a"), (1.0, [2]), ("1", None), (True, 3)])
    ]
    with pipeline as p:
        windowed = p | beam.Create(elements) | beam.WindowInto(FixedWindows(3))
        groups = windowed | beam.GroupByEncryptedKey(secret) | beam.MapTuple(lambda k, vs: (k, sorted(vs, key=repr)))
        check([(1, ["a", [2]]), ("1", [None]), (1, [3])], groups)


def index(key: str, values: Any) -> tuple[str, Any]:
    try:
        return key, (len(values), sum(map(len, values)), len(list(values)), values[0][:1])
    except LargeGroupError as error:
        return key, (
            len(values),
            sum(map(len, values)),
            len(list(values)),
            str(error).partition(" for the")[0].encode(),
        )


@pytest.mark.parametrize("flags", [["--parallelism=2"], ["--runner=spark-batch"]], ids=["local", "spark"])
def test_a_group_beyond_memory_has_a_length_and_says_that_it_has_no_index(flags: list[str], spark: Any) -> None:
    """Where it is on disk; small ones are lists."""
    with beam.Pipeline(argv=flags) as p:
        sizes = p | beam.Create([("large", 1 << 20)] * 80 + [("small", 10)]) | beam.Reshuffle()
        values = sizes | beam.MapTuple(lambda key, size: (key, bytes(size)))
        expected = [
            ("large", (80, 80 << 20, 80, b"Group: a group of 80 values is too large")),
            ("small", (1, 10, 1, b"\0")),
        ]
        check(expected, values | "Group" >> beam.GroupByKey() | beam.MapTuple(index))


def test_pairs_may_be_tuples_named_tuples_or_lists(pipeline: Any) -> None:
    """Of two items."""

    class Sale(NamedTuple):
        item: str
        price: int

    with pipeline as p:
        mixed = p | beam.Create([("tea", 1), Sale("tea", 2), ["tea", 3]])
        groups = mixed | beam.GroupByKey() | beam.MapTuple(in_order)
        check([("tea", [1, 2, 3])], groups)


def test_values_may_be_anything(pipeline: Any) -> None:
    """Also what has no hash."""
    values = [None, {"a": [1]}, [1, 2], {1, 2}, (), "", b"", 1.5, 1 << 80, float("inf"), "\ud800"]
    with pipeline as p:
        groups = p | beam.Create([("k", value) for value in values]) | beam.GroupByKey()
        check(values, groups | beam.FlatMapTuple(lambda k, vs: list(vs)))


def test_groups_are_of_a_key_and_a_window(pipeline: Any) -> None:
    """At the end of the window, in its only pane."""
    pane = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)
    with pipeline as p:
        stamped = p | beam.Create([TimestampedValue((k, t), t) for k in "ab" for t in (1, 2, 11)])
        groups = stamped | beam.WindowInto(FixedWindows(10)) | beam.GroupByKey() | beam.MapTuple(in_order)
        expected = [
            TestWindowedValue((k, values), window.max_timestamp(), [window], pane)
            for k in "ab"
            for values, window in [([1, 2], IntervalWindow(0, 10)), ([11], IntervalWindow(10, 20))]
        ]
        check(expected, groups, reify_windows=True)


# --- Several inputs


def test_groups_of_several_inputs_have_a_place_for_each(pipeline: Any) -> None:
    """A dict gives dicts, a tuple gives tuples."""
    with pipeline as p:
        emails = p | "emails" >> beam.Create([("amy", "amy@x"), ("bob", "bob@x")])
        phones = p | "phones" >> beam.Create([("amy", 1), ("amy", 2), ("carl", 3)])
        by_name = {"emails": emails, "phones": phones} | "dict" >> beam.CoGroupByKey()
        sorted_phones = beam.MapTuple(lambda k, v: (k, v["emails"], sorted(v["phones"])))
        expected = [("amy", ["amy@x"], [1, 2]), ("bob", ["bob@x"], []), ("carl", [], [3])]
        check(expected, by_name | sorted_phones)
        by_position = (emails, phones) | "tuple" >> beam.CoGroupByKey()
        joined = by_position | beam.FlatMapTuple(lambda k, v: [(k, e, n) for e in v[0] for n in v[1]])
        check([("amy", "amy@x", 1), ("amy", "amy@x", 2)], joined)


def test_a_pcollection_may_be_joined_with_itself(pipeline: Any) -> None:
    """Each side has all of it."""
    with pipeline as p:
        pairs = p | beam.Create([("a", 1), ("b", 2)])
        both = {"left": pairs, "right": pairs} | beam.CoGroupByKey()
        expected = [("a", {"left": [1], "right": [1]}), ("b", {"left": [2], "right": [2]})]
        check(expected, both)


def test_joins_are_window_by_window(pipeline: Any) -> None:
    """Sessions of the inputs merge with each other."""
    with pipeline as p:
        left, right = (
            p
            | f"{name}" >> beam.Create([TimestampedValue(("k", t), t) for t in times])
            | f"{name} windows" >> beam.WindowInto(Sessions(10))
            for name, times in (("left", (0, 16)), ("right", (8, 40)))
        )
        joined = {"l": left, "r": right} | beam.CoGroupByKey() | beam.MapTuple(lambda k, v: (sorted(v["l"]), v["r"]))
        check([([0, 16], [8]), ([], [40])], joined)


# --- GroupBy


def test_elements_are_grouped_by_fields_and_aggregated(pipeline: Any) -> None:
    """Names of attributes, or functions."""
    sales = [
        beam.Row(item="tea", cups=2, price=3),
        beam.Row(item="tea", cups=1, price=2),
        beam.Row(item="milk", cups=1, price=1),
    ]
    with pipeline as p:
        rows = p | beam.Create(sales)
        by_item = (
            rows | "one" >> beam.GroupBy("item") | "1" >> beam.MapTuple(lambda k, rs: (k, sum(r.cups for r in rs)))
        )
        check([("tea", 3), ("milk", 1)], by_item)
        by_two = rows | "two" >> beam.GroupBy("item", dear=lambda r: r.price > 2)
        in_all = by_two | "2" >> beam.MapTuple(lambda k, rs: (k.item, k.dear, len(list(rs))))
        check([("tea", True, 1), ("tea", False, 1), ("milk", False, 1)], in_all)
        aggregated = (
            rows
            | "aggregated"
            >> beam.GroupBy("item")
            .aggregate_field("cups", sum, "cups")
            .aggregate_field(lambda r: r.cups * r.price, max, "most")
            | "3" >> beam.Map(lambda r: (r.item, r.cups, r.most))
        )
        check([("tea", 3, 6), ("milk", 1, 1)], aggregated)
        selected = rows | beam.Select("item", total=lambda r: r.cups * r.price)
        totals = [beam.Row(item="tea", total=6), beam.Row(item="tea", total=2), beam.Row(item="milk", total=1)]
        check(totals, selected)


# --- Shapes of graphs


def test_groupings_may_follow_each_other(pipeline: Any) -> None:
    """Results are elements again: words to how often each comes, to how many come so often."""
    with pipeline as p:
        words = (
            p
            | beam.Create(["a", "bb", "cc", "a", "ddd", "a"])
            | beam.combiners.Count.PerElement()
            | beam.KvSwap()
            | beam.GroupByKey()
            | "how many" >> beam.MapTuple(lambda times, words: (len(list(words)), times))
            | "again" >> beam.GroupByKey()
            | beam.MapTuple(in_order)
        )
        # "a" comes three times, the three others once.
        check([(1, [3]), (3, [1])], words)


def test_a_chain_of_windowed_groupings_keeps_the_windows(pipeline: Any) -> None:
    """The second one groups what the first one made of each window."""
    with pipeline as p:
        sums = (
            p
            | beam.Create([TimestampedValue((k, t), t) for k in "ab" for t in (1, 2, 11)])
            | beam.WindowInto(FixedWindows(10))
            | beam.CombinePerKey(sum)
            | beam.Values()
            | beam.CombineGlobally(sum).without_defaults()
        )
        first, second = IntervalWindow(0, 10), IntervalWindow(10, 20)
        expected = [
            TestWindowedValue(6, first.max_timestamp(), [first]),
            TestWindowedValue(22, second.max_timestamp(), [second]),
        ]
        check(expected, sums, reify_windows=True)


def test_a_diamond_joins_what_was_computed_of_one_input(pipeline: Any) -> None:
    """Counts and sums of the same pairs, side by side."""
    with pipeline as p:
        pairs = p | beam.Create(PAIRS) | "common" >> beam.Filter(lambda pair: pair[0] != "c")
        counts = pairs | beam.combiners.Count.PerKey()
        sums = pairs | "tens" >> beam.MapTuple(lambda k, v: (k, 10 * v)) | beam.CombinePerKey(sum)
        both = (counts, sums) | beam.CoGroupByKey()
        check([("a", ([2], [40])), ("b", ([2], [70]))], both)
        check([("a", 2), ("b", 2), ("a", 40), ("b", 70)], (counts, sums) | beam.Flatten())


def test_an_input_may_be_used_by_many(pipeline: Any) -> None:
    """Each of them has all of it."""
    with pipeline as p:
        numbers = p | beam.Create([1, 2, 3]) | beam.Map(lambda x: x)
        for i in range(4):
            check([i, 2 * i, 3 * i], numbers | f"times {i}" >> beam.Map(lambda x, i=i: x * i))


def test_composites_hold_composites(pipeline: Any) -> None:
    """Chains of transforms, functions that make transforms, and classes."""

    class Doubled(beam.PTransform):
        def expand(self, pcoll: Any) -> Any:
            return pcoll | beam.Map(lambda x: 2 * x)

    @beam.ptransform_fn
    def Summed(pcoll: Any, label: str) -> Any:
        return pcoll | label >> Doubled() | Doubled() | beam.CombineGlobally(sum)

    with pipeline as p:
        total = p | beam.Create([1, 2]) | (Summed("first") | beam.Map(lambda x: x + 1))
        check([13], total)


# --- Nothing at all


def test_nothing_comes_of_nothing(pipeline: Any) -> None:
    """Through every kind of step; also where all elements were filtered out."""
    with pipeline as p:
        empty = p | beam.Create([])
        gone = p | "some" >> beam.Create(PAIRS) | beam.Filter(lambda pair: False)
        check([], empty | "map" >> beam.Map(lambda x: 1 / 0))
        check([], empty | "group" >> beam.GroupByKey())
        check([], gone | "group gone" >> beam.GroupByKey())
        windowed = gone | beam.WindowInto(Sessions(10))
        check([], windowed | beam.CombinePerKey(sum))
        check([], (empty, gone) | beam.Flatten())
        check([], (empty, gone) | beam.CoGroupByKey())
        check([], gone | beam.Distinct())
        check([], empty | beam.Reshuffle())


def test_a_pipeline_without_transforms_does_nothing(pipeline: Any) -> None:
    """It ends well."""
    assert "DONE" == pipeline.run().state
