"""Side inputs of streams: the latest pane of a window replaces the one before it, in each kind of view."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as beam
from penstock.sdk.elements.element_wrappers import Retracted
from penstock.sdk.side_inputs import AsDict, AsIter, AsList, AsMultiMap, AsSingleton
from penstock.testing import TestPipeline, TestStream, assert_that, equal_to
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import FixedWindows, GlobalWindows, TimestampedValue

DISCARDING, ACCUMULATING, RETRACTING = AccumulationMode


def seen_by(runner: Any, expected: list[Any]) -> list[Any]:
    """Return what elements see: in micro-batches the whole script is one batch, and side inputs come first."""
    if not isinstance(runner, str) and type(runner).__name__ == "SparkMicroBatchRunner":
        return [(number, *expected[-1][1:]) for number, *_ in expected]
    return expected


def changes(p: Any, mode: AccumulationMode) -> tuple[Any, Any]:
    """Return elements 1 to 3, and pairs, of which one comes before each."""
    stream = TestStream()
    for number, pair in enumerate([("a", 1), ("a", 2), ("b", 5)], 1):
        stream = stream.add_elements([("pair", pair)]).add_elements([("main", number)])
    both = p | stream.advance_watermark_to_infinity()
    main, pairs = (
        both
        | f"Is {kind}" >> beam.Filter(lambda each, kind=kind: each[0] == kind)
        | kind >> beam.Map(lambda each: each[1])
        for kind in ("main", "pair")
    )
    trigger = Repeatedly(AfterCount(1))
    return main, pairs | beam.WindowInto(GlobalWindows(), trigger=trigger, accumulation_mode=mode)


@pytest.mark.parametrize("mode", AccumulationMode, ids=lambda mode: mode.name)
def test_the_latest_pane_is_seen(streaming_runner: Any, mode: AccumulationMode) -> None:
    """Of combined values, of groups, and where keys have panes of their own."""
    with TestPipeline(streaming_runner) as p:
        main, pairs = changes(p, mode)
        latest = pairs | beam.combiners.Latest.Globally()
        by_key = pairs | beam.combiners.Latest.PerKey()
        groups = pairs | beam.GroupByKey() | beam.FlatMap(lambda group: [(group[0], value) for value in group[1]])
        views = AsSingleton(latest, None), AsDict(by_key), AsList(by_key), AsIter(latest), AsMultiMap(groups)

        def seen(number: int, one: Any, table: Any, pairs: Any, iterable: Any, lists: Any) -> Any:
            return number, one, dict(table), sorted(pairs), list(iterable), {key: sorted(lists[key]) for key in lists}

        former = [] if mode is DISCARDING else [1]
        expected = [
            (1, ("a", 1), {"a": 1}, [("a", 1)], [("a", 1)], {"a": [1]}),
            (2, ("a", 2), {"a": 2}, [("a", 2)], [("a", 2)], {"a": [*former, 2]}),
            (3, ("b", 5), {"a": 2, "b": 5}, [("a", 2), ("b", 5)], [("b", 5)], {"a": [*former, 2], "b": [5]}),
        ]
        assert_that(main | beam.Map(seen, *views), equal_to(seen_by(streaming_runner, expected)))


@pytest.mark.parametrize("mode", AccumulationMode, ids=lambda mode: mode.name)
def test_a_trigger_without_a_grouping_fires_for_the_view(streaming_runner: Any, mode: AccumulationMode) -> None:
    """As in Beam, where a view is a grouping of its window."""
    with TestPipeline(streaming_runner) as p:
        main, pairs = changes(p, mode)
        all_so_far = [("a", 1)], [("a", 1), ("a", 2)], [("a", 1), ("a", 2), ("b", 5)]
        newest = [("a", 1)], [("a", 2)], [("b", 5)]
        expected = list(enumerate(newest if mode is DISCARDING else all_so_far, 1))
        assert_that(
            main | beam.Map(lambda number, seen: (number, sorted(seen)), AsList(pairs)),
            equal_to(seen_by(streaming_runner, expected)),
        )


@pytest.mark.parametrize("mode", AccumulationMode, ids=lambda mode: mode.name)
def test_panes_of_other_keys_are_not_compared(streaming_runner: Any, mode: AccumulationMode) -> None:
    """A function has replaced the keys, of which one has fired more often than the other."""
    with TestPipeline(streaming_runner) as p:
        main, pairs = changes(p, mode)
        latest = pairs | beam.combiners.Latest.PerKey()
        texts = latest | beam.MapTuple(lambda key, value: f"{key}{value}")
        seen = main | beam.Map(lambda number, texts: (number, sorted(texts)), AsList(texts))
        expected: dict[AccumulationMode, list[Any]] = {
            DISCARDING: [(1, ["a1"]), (2, ["a2"]), (3, ["b5"])],
            ACCUMULATING: [(1, ["a1"]), (2, ["a2"]), (3, ["b5"])],
            RETRACTING: [(1, ["a1"]), (2, ["a2"]), (3, ["a2", "b5"])],
        }
        assert_that(seen, equal_to(seen_by(streaming_runner, expected[mode])))


def test_a_late_pane_of_a_key_leaves_the_others(streaming_runner: Any) -> None:
    """In a list behind a function that has replaced the pairs."""
    with TestPipeline(streaming_runner) as p:
        early, late = TimestampedValue(("pair", ("a", 1)), 1), TimestampedValue(("pair", ("a", 4)), 2)
        stream = TestStream().add_elements([early, TimestampedValue(("pair", ("b", 2)), 1)]).advance_watermark_to(15)
        stream = stream.add_elements([late]).add_elements([TimestampedValue(("main", 1), 5)])
        both = p | stream.advance_watermark_to_infinity() | beam.WindowInto(FixedWindows(10), allowed_lateness=60)
        pairs = both | "Pairs" >> beam.Filter(lambda each: each[0] == "pair") | beam.Map(lambda each: each[1])
        main = both | "Main" >> beam.Filter(lambda each: each[0] == "main")
        sums = pairs | beam.CombinePerKey(sum) | beam.MapTuple(lambda key, value: f"{key}{value}")
        seen = main | "See" >> beam.Map(lambda each, texts: (each[1], sorted(texts)), AsList(sums))
        assert_that(seen, equal_to([(1, ["a1", "a4", "b2"])]))


@pytest.mark.parametrize("mode", AccumulationMode, ids=lambda mode: mode.name)
def test_a_dictionary_may_have_other_keys_than_the_grouping(streaming_runner: Any, mode: AccumulationMode) -> None:
    """The last value of a key is seen."""
    with TestPipeline(streaming_runner) as p:
        main, pairs = changes(p, mode)
        any_key = pairs | beam.combiners.Latest.PerKey() | beam.MapTuple(lambda key, value: ("any", value))
        seen = main | beam.Map(lambda number, table: (number, table["any"]), AsDict(any_key))
        assert_that(seen, equal_to([(1, 1), (2, 2), (3, 5)]))


def test_a_retraction_may_come_before_its_addition(streaming_runner: Any) -> None:
    """The addition is ignored then."""

    class Signed(beam.DoFn):
        retracts = True

        def process(self, pair: Any) -> Any:
            value, sign = pair[1]
            yield value if sign > 0 else Retracted(value)

    with TestPipeline(streaming_runner) as p:
        stream = TestStream()
        for number, change in enumerate([("x", -1), ("y", 1), ("x", 1), ("x", 1)], 1):
            stream = stream.add_elements([("change", change)]).add_elements([("main", number)])
        both = p | stream.advance_watermark_to_infinity()
        trigger = Repeatedly(AfterCount(1))
        windowing = beam.WindowInto(GlobalWindows(), trigger=trigger, accumulation_mode=RETRACTING)
        signed = both | "Changes" >> beam.Filter(lambda each: each[0] == "change") | beam.ParDo(Signed()) | windowing
        main = both | "Main" >> beam.Filter(lambda each: each[0] == "main" and each[1] > 1)
        expected = [(2, ["y"]), (3, ["y"]), (4, ["x", "y"])]
        assert_that(
            main | beam.Map(lambda each, seen: (each[1], sorted(seen)), AsList(signed)),
            equal_to(seen_by(streaming_runner, expected)),
        )


@pytest.mark.parametrize("lateness", [0, 20])
def test_late_elements_find_their_window_until_it_has_expired(streaming_runner: Any, lateness: int) -> None:
    """Then both the window of the side input and the elements are dropped."""
    with TestPipeline(streaming_runner) as p:
        stream = TestStream().add_elements([TimestampedValue(("rate", 7), 2), TimestampedValue(("main", 1), 3)])
        stream = stream.advance_watermark_to(15).add_elements([TimestampedValue(("rate", 9), 16)])
        for number, watermark in ((2, 25), (3, 35)):
            stream = stream.advance_watermark_to(watermark).add_elements([TimestampedValue(("main", number), 4)])
        both = p | stream.advance_watermark_to_infinity()
        windowing = beam.WindowInto(FixedWindows(10), allowed_lateness=lateness)
        rates = both | "Rates" >> beam.Filter(lambda each: each[0] == "rate") | beam.Map(lambda each: each[1])
        main = both | "Main" >> beam.Filter(lambda each: each[0] == "main") | "Windows" >> windowing
        side = AsSingleton(rates | "Of rates" >> beam.WindowInto(FixedWindows(10)), None)
        seen = main | "See" >> beam.Map(lambda each, rate: (each[1], rate), side)
        assert_that(seen, equal_to([(1, 7), (2, 7)] if lateness else [(1, 7)]))
    late = p.result.metrics().query(beam.metrics.MetricsFilter().with_name("dropped_late"))["counters"]
    assert (1 if lateness else 2) == sum(each.committed for each in late if each.key.step == "See")
