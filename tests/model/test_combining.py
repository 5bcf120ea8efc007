"""CombinePerKey, CombineGlobally, CombineValues: with functions and CombineFns, defaults, views, fanout."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Any

import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock.sdk.side_inputs import AsSingleton
from penstock.sdk.userstate import CombiningValueStateSpec, on_window_expiration
from penstock.testing import TestPipeline, TestWindowedValue, assert_that, equal_to
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import FixedWindows, GlobalWindows, IntervalWindow, Sessions, SlidingWindows, TimestampedValue

PAIRS = [("a", 1), ("b", 2), ("a", 3), ("a", 5)]


class Range(beam.CombineFn):
    """The least and the greatest, with a step for everything."""

    def create_accumulator(self, *args: Any) -> Any:
        return None

    def add_input(self, accumulator: Any, element: Any, *args: Any) -> Any:
        return self.merge_accumulators([accumulator, (element, element)])

    def merge_accumulators(self, accumulators: Iterable[Any], *args: Any) -> Any:
        pairs = [a for a in accumulators if a is not None]
        return (min(low for low, _ in pairs), max(high for _, high in pairs)) if pairs else None

    def compact(self, accumulator: Any, *args: Any) -> Any:
        return accumulator

    def extract_output(self, accumulator: Any, *args: Any) -> Any:
        return (*accumulator, *args) if accumulator is not None else args


# --- What combines


def test_functions_and_combine_fns_combine_the_values_of_each_key(pipeline: Any) -> None:
    """Built-in functions, the user's own, CombineFns; further arguments are passed on."""

    def total(values: Iterable[int], plus: int = 0) -> int:
        return sum(values) + 0 * plus

    with pipeline as p:
        pairs = p | beam.Create(PAIRS)
        check([("a", 9), ("b", 2)], pairs | "sum" >> beam.CombinePerKey(sum))
        check([("a", 5), ("b", 2)], pairs | "max" >> beam.CombinePerKey(max))
        check([("a", 9), ("b", 2)], pairs | "own" >> beam.CombinePerKey(total, plus=7))
        check([("a", (1, 5)), ("b", (2, 2))], pairs | "fn" >> beam.CombinePerKey(Range()))
        check([("a", (1, 5, "!")), ("b", (2, 2, "!"))], pairs | "args" >> beam.CombinePerKey(Range(), "!"))


def test_a_function_is_given_partial_results_as_values(pipeline: Any) -> None:
    """With many values of one key; it has to be associative."""
    with pipeline as p:
        many = p | beam.Create([("k", 1)] * 5000)
        check([("k", 5000)], many | beam.CombinePerKey(lambda values: sum(values)))


def test_everything_is_combined_to_one(pipeline: Any) -> None:
    """By the same functions."""
    with pipeline as p:
        numbers = p | beam.Create([1, 2, 3])
        check([6], numbers | "sum" >> beam.CombineGlobally(sum))
        check([(1, 3)], numbers | "fn" >> beam.CombineGlobally(Range()))
        check([(1, 3, "!")], numbers | "args" >> beam.CombineGlobally(Range(), "!"))
        check([6], numbers | "fanout" >> beam.CombineGlobally(sum).with_fanout(2))
        check([(1, 3)], numbers | "no defaults" >> beam.CombineGlobally(Range()).without_defaults())


def test_groups_are_combined_without_grouping(pipeline: Any) -> None:
    """CombineValues takes (key, iterable)."""
    with pipeline as p:
        groups = p | beam.Create(PAIRS) | beam.GroupByKey()
        check([("a", 9), ("b", 2)], groups | "sum" >> beam.CombineValues(sum))
        check([("a", (1, 5)), ("b", (2, 2))], groups | "fn" >> beam.CombineValues(Range()))
        written = p | "written" >> beam.Create([("c", [1, 2]), ("d", [])])
        check([("c", 3), ("d", 0)], written | "list" >> beam.CombineValues(sum))


def test_arguments_of_a_combiner_may_be_side_inputs(pipeline: Any) -> None:
    """Known before the combining begins."""
    with pipeline as p:
        end = p | "end" >> beam.Create(["!"])
        pairs = p | beam.Create(PAIRS)
        check([("a", (1, 5, "!")), ("b", (2, 2, "!"))], pairs | beam.CombinePerKey(Range(), AsSingleton(end)))
        check([(1, 5, "!")], pairs | beam.Values() | beam.CombineGlobally(Range(), AsSingleton(end)))


# --- Nothing to combine


def test_an_empty_input_gives_what_the_combiner_makes_of_nothing(pipeline: Any) -> None:
    """Unless without defaults; of no key there is nothing to give."""
    with pipeline as p:
        empty = p | beam.Create([])
        check([0], empty | "sum" >> beam.CombineGlobally(sum))
        check([()], empty | "fn" >> beam.CombineGlobally(Range()))
        check([("!",)], empty | "args" >> beam.CombineGlobally(Range(), "!"))
        check([], empty | "none" >> beam.CombineGlobally(sum).without_defaults())
        check([0], empty | "fanout" >> beam.CombineGlobally(sum).with_fanout(3))
        check([], empty | "per key" >> beam.CombinePerKey(sum))


def test_a_singleton_view_has_the_default_where_its_window_is_empty(pipeline: Any) -> None:
    """Also of windows, of which there would be endlessly many defaults otherwise."""
    with pipeline as p:
        empty, numbers = p | "empty" >> beam.Create([]), p | "numbers" >> beam.Create([1, 2])
        main = p | "main" >> beam.Create([10])
        check(
            [10],
            main | "0" >> beam.Map(lambda x, y: x + y, empty | "e" >> beam.CombineGlobally(sum).as_singleton_view()),
        )
        check(
            [13],
            main | "3" >> beam.Map(lambda x, y: x + y, numbers | "n" >> beam.CombineGlobally(sum).as_singleton_view()),
        )
        stamped = p | "stamped" >> beam.Create([TimestampedValue(5, 1)]) | "w1" >> beam.WindowInto(FixedWindows(10))
        by_window = stamped | "by window" >> beam.CombineGlobally(sum).as_singleton_view()
        later = p | "later" >> beam.Create([TimestampedValue(t, t) for t in (2, 12)])
        seen = later | "w2" >> beam.WindowInto(FixedWindows(10)) | "see" >> beam.Map(lambda t, y: (t, y), by_window)
        check([(2, 5), (12, 0)], seen)


def test_a_default_for_each_of_endlessly_many_windows_is_refused_when_the_pipeline_is_built() -> None:
    """The message says what to use instead."""
    windowed = beam.testing.TestPipeline() | beam.Create([1]) | beam.WindowInto(FixedWindows(10))
    with pytest.raises(ValueError, match=r"total: .*FixedWindows.*without_defaults\(\) or as_singleton_view\(\)"):
        windowed | "total" >> beam.CombineGlobally(sum)


# --- Windows


def test_combining_is_window_by_window(pipeline: Any) -> None:
    """Fixed, overlapping and merging ones; globally and for each key."""
    with pipeline as p:
        stamped = p | beam.Create([TimestampedValue(("k", t), t) for t in (1, 7, 12, 30)])
        fixed, sliding, sessions = (
            stamped | name >> beam.WindowInto(fn)
            for name, fn in [("fixed", FixedWindows(10)), ("slide", SlidingWindows(10, 5)), ("session", Sessions(6))]
        )

        def of_windows(sums: list[tuple[int, int, int]]) -> list[TestWindowedValue]:
            windows = [(IntervalWindow(start, end), total) for start, end, total in sums]
            return [TestWindowedValue(("k", total), w.max_timestamp(), [w]) for w, total in windows]

        fixed_sums = [(0, 10, 8), (10, 20, 12), (30, 40, 30)]
        check(of_windows(fixed_sums), fixed | "1" >> beam.CombinePerKey(sum), reify_windows=True)
        sliding_sums = [(-5, 5, 1), (0, 10, 8), (5, 15, 19), (10, 20, 12), (25, 35, 30), (30, 40, 30)]
        check(of_windows(sliding_sums), sliding | "2" >> beam.CombinePerKey(sum), reify_windows=True)
        # 7 comes exactly a gap after 1: another session; with 12 it is one.
        session_sums = [(1, 7, 1), (7, 18, 19), (30, 36, 30)]
        check(of_windows(session_sums), sessions | "3" >> beam.CombinePerKey(sum), reify_windows=True)
        everything = sessions | beam.Values() | beam.CombineGlobally(sum).without_defaults()
        check([1, 19, 30], everything)


# --- Hot keys


@pytest.mark.parametrize("fanout", [1, 3, lambda key: 4 if key == "a" else 1], ids=["1", "3", "by key"])
def test_a_hot_key_is_combined_in_parts(pipeline: Any, fanout: Any) -> None:
    """With the same result, in windows as well."""
    elements = [TimestampedValue(("a", t), t) for t in range(40)] + [TimestampedValue(("b", 100), 0)]
    with pipeline as p:
        windowed = p | beam.Create(elements) | beam.WindowInto(FixedWindows(20))
        expected = [("a", sum(range(20))), ("a", sum(range(20, 40))), ("b", 100)]
        check(expected, windowed | "sum" >> beam.CombinePerKey(sum).with_hot_key_fanout(fanout))
        ranges = [("a", (0, 19)), ("a", (20, 39)), ("b", (100, 100))]
        check(ranges, windowed | "range" >> beam.CombinePerKey(Range()).with_hot_key_fanout(fanout))


@pytest.mark.parametrize("fanout", [2, lambda key: 0], ids=["2", "none by key"])
def test_panes_of_a_fanout_count_each_input_once(pipeline: Any, fanout: Any) -> None:
    """In the second step they accumulate; in the first one they don't."""
    each = beam.WindowInto(
        GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.ACCUMULATING
    )
    with pipeline as p:
        ones = p | beam.Create([("k", 1)] * 5) | each
        check([("k", n) for n in (1, 2, 3, 4, 5)], ones | beam.CombinePerKey(sum).with_hot_key_fanout(fanout))


# --- The lifecycle of a combiner


class Recorded(beam.CombineFn):
    """Notes what it is asked to do, and refuses to work before it was set up."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.ready = False

    def setup(self) -> None:
        self.ready = True
        (self.directory / f"setup {id(self)}").touch()

    def create_accumulator(self) -> int:
        assert self.ready
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        assert self.ready
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        assert self.ready
        return accumulator

    def teardown(self) -> None:
        assert self.ready
        (self.directory / f"teardown {id(self)}").touch()


def totals_by(fn: beam.CombineFn[int, int, int]) -> beam.DoFn:
    spec = CombiningValueStateSpec("total", fn)

    class Totals(beam.DoFn):
        def process(self, element: Any, total: Any = beam.DoFn.StateParam(spec)) -> None:
            total.add(element[1])

        @on_window_expiration
        def give(self, key: Any = beam.DoFn.KeyParam, total: Any = beam.DoFn.StateParam(spec)) -> Any:
            yield key, total.read()

    return Totals()


@pytest.mark.parametrize("how", ["per key", "globally", "fanout", "values", "state", "nothing"])
def test_a_combiner_is_set_up_before_and_torn_down_after(pipeline: Any, tmp_path: pathlib.Path, how: str) -> None:
    """In every worker, however it is used."""
    fn = Recorded(tmp_path)
    with pipeline as p:
        pairs = p | beam.Create([] if how == "nothing" else PAIRS)
        if how == "per key":
            check([("a", 9), ("b", 2)], pairs | beam.CombinePerKey(fn))
        elif how == "fanout":
            check([("a", 9), ("b", 2)], pairs | beam.CombinePerKey(fn).with_hot_key_fanout(2))
        elif how == "state":
            check([("a", 9), ("b", 2)], pairs | beam.ParDo(totals_by(fn)))
        elif how == "values":
            check([("a", 9), ("b", 2)], pairs | beam.GroupByKey() | beam.CombineValues(fn))
        else:
            check([0 if how == "nothing" else 11], pairs | beam.Values() | beam.CombineGlobally(fn))
    files = [file.name.split()[0] for file in tmp_path.iterdir()]
    assert files.count("setup") == files.count("teardown")
    assert "setup" in files


def test_every_pane_of_a_global_combine_comes_out(runner):
    """A default is for an input that is empty; where a trigger makes several panes, each is a result."""

    def windowed(label, elements):
        return (
            label >> beam.Create(elements),
            beam.WindowInto(
                beam.window.GlobalWindows(),
                trigger=Repeatedly(AfterCount(1)),
                accumulation_mode=AccumulationMode.DISCARDING,
            ),
        )

    with TestPipeline(runner=runner) as p:
        for label, elements, expected in (("three", [5, 6, 7], [5, 6, 7]), ("none", [], [0])):
            create, window = windowed(label, elements)
            sums = p | create | f"{label} windows" >> window | f"{label} sum" >> beam.CombineGlobally(sum)
            assert_that(sums, equal_to(expected), label=f"{label} check")
