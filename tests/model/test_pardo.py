"""ParDo and its short forms: what goes in, what comes out, and what a function may ask for."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock.sdk.elements.element_wrappers import WindowedValue
from penstock.sdk.side_inputs import AsList, AsSingleton
from penstock.testing import TestWindowedValue
from penstock.triggers import PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming
from penstock.windowing import (
    GLOBAL_WINDOW,
    MIN_TIMESTAMP,
    FixedWindows,
    GlobalWindow,
    IntervalWindow,
    SlidingWindows,
    Timestamp,
    TimestampedValue,
)

ONLY_PANE = PaneInfo(is_first=True, is_last=True, timing=PaneInfoTiming.ON_TIME, index=0, nonspeculative_index=0)


# --- The short forms


def test_functions_of_elements_map_flat_map_and_filter(pipeline: Any) -> None:
    """Each with positional and keyword arguments."""
    with pipeline as p:
        numbers = p | beam.Create([1, 2, 3])
        pairs = p | "pairs" >> beam.Create([("a", 2), ("b", 1)])
        check([11, 21, 31], numbers | "map" >> beam.Map(lambda x, y, z=0: x * y + z, 10, z=1))
        check([2, 3, 3], numbers | "flat" >> beam.FlatMap(lambda x, y: [x] * (x - y), 1))
        check([2, 3], numbers | "filter" >> beam.Filter(lambda x, least: x >= least, least=2))
        check(["aa", "b"], pairs | "tuple" >> beam.MapTuple(lambda k, n: k * n))
        check(
            ["a", "a", ".", "b", "."], pairs | "flat tuple" >> beam.FlatMapTuple(lambda k, n, end: [k] * n + [end], ".")
        )
        nested = p | "nested" >> beam.Create([[1], [], [2, 3]])
        check([1, 2, 3], nested | "unpack" >> beam.FlatMap())


class Stamped:
    """A number whose operators give elements with a timestamp."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __add__(self, other: int) -> Any:
        return TimestampedValue(self.n, self.n + other)

    def __neg__(self) -> Any:
        return TimestampedValue(-self.n, 7)

    def __lt__(self, other: Any) -> Any:
        return TimestampedValue(self.n, other)

    def __abs__(self) -> Any:
        return TimestampedValue(self.n, 5)


def in_a_variable(x: Any) -> Any:
    result = x + 3
    return result


def test_an_operator_of_an_element_may_give_a_timestamp(pipeline: Any) -> None:
    """As any function may: what its bytecode looks like makes no difference."""

    def with_time(value: Any, at: Any = beam.DoFn.TimestampParam) -> tuple[Any, int]:
        return value, at.micros // 1_000_000

    with pipeline as p:
        stamped = p | beam.Create([1]) | beam.Map(Stamped)
        functions = {
            "add": (lambda x: x + 3, (1, 4)),
            "variable": (in_a_variable, (1, 4)),
            "negative": (lambda x: -x, (-1, 7)),
            "less": (lambda x: x < 9, (1, 9)),
            "abs": (lambda x: abs(x), (1, 5)),
        }
        for name, (function, expected) in functions.items():
            check([expected], stamped | name >> beam.Map(function) | f"time of {name}" >> beam.Map(with_time))


def letters(word: str) -> Iterator[str]:
    yield from word


class Repeater:
    """An object that can be called; it has no name."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self, word: str) -> str:
        return word * self.times

    def method(self, word: str) -> list[str]:
        return [word] * self.times


def test_any_callable_is_a_function(pipeline: Any) -> None:
    """Generators, methods, partial functions, classes, objects, built-ins."""
    with pipeline as p:
        words = p | beam.Create(["ab", "c"])
        check(["a", "b", "c"], words | "generator" >> beam.FlatMap(letters))
        check(["ab", "ab", "c", "c"], words | "method" >> beam.FlatMap(Repeater(2).method))
        check(["abab", "cc"], words | "object" >> beam.Map(Repeater(2)))
        shorten = functools.partial(max, default="")
        check(["b", "c"], words | "partial" >> beam.Map(shorten))
        check([["a", "b"], ["c"]], words | "class" >> beam.Map(list))
        check([2, 1], words | "built-in" >> beam.Map(len))
        check(["AB", "C"], words | "unbound" >> beam.Map(str.upper))


def test_a_function_may_return_no_iterable_at_all_for_nothing(pipeline: Any) -> None:
    """None from a FlatMap, or from a process method."""

    class Odd(beam.DoFn):
        def process(self, element: int) -> list[int] | None:
            return [element] if element % 2 else None

    with pipeline as p:
        numbers = p | beam.Create([1, 2, 3])
        check([3], numbers | beam.FlatMap(lambda x: [x] if x > 2 else None))
        check([1, 3], numbers | beam.ParDo(Odd()))
        check([None] * 3, numbers | "none" >> beam.Map(lambda x: None))


# --- What a function may ask for


class Everything(beam.DoFn):
    def process(
        self,
        element: Any,
        factor: int,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
        key: Any = beam.DoFn.KeyParam,
        whole: Any = beam.DoFn.WindowedValueParam,
        sign: int = beam.DoFn.SignParam,
    ) -> Iterator[Any]:
        whole_of_it = (whole.value, whole.timestamp, whole.windows, whole.pane_info)
        yield element, factor, timestamp, window, pane, key, whole_of_it, sign


def test_a_dofn_is_given_what_its_parameters_ask_for(pipeline: Any) -> None:
    """Before a grouping, with what the element was created with."""
    at_one, at_twelve = Timestamp(1), Timestamp(12)
    first, second = IntervalWindow(0, 10), IntervalWindow(10, 20)
    with pipeline as p:
        stamped = p | beam.Create([TimestampedValue(("a", 1), 1), TimestampedValue(("b", 2), 12)])
        windowed = stamped | beam.WindowInto(FixedWindows(10))
        expected = [
            (("a", 1), 7, at_one, first, PANE_INFO_UNKNOWN, "a", (("a", 1), at_one, [first], PANE_INFO_UNKNOWN), 1),
            (
                ("b", 2),
                7,
                at_twelve,
                second,
                PANE_INFO_UNKNOWN,
                "b",
                (("b", 2), at_twelve, [second], PANE_INFO_UNKNOWN),
                1,
            ),
        ]
        check(expected, windowed | beam.ParDo(Everything(), 7))


def test_after_a_grouping_the_parameters_are_those_of_the_pane(pipeline: Any) -> None:
    """Its timestamp, window, and that it is the window's only one."""
    window, end = IntervalWindow(0, 10), Timestamp.of_micros(9_999_999)
    with pipeline as p:
        stamped = p | beam.Create([TimestampedValue(("a", 1), 1), TimestampedValue(("a", 2), 2)])
        summed = stamped | beam.WindowInto(FixedWindows(10)) | beam.CombinePerKey(sum)
        expected = (("a", 3), 7, end, window, ONLY_PANE, "a", (("a", 3), end, [window], ONLY_PANE), 1)
        check([expected], summed | beam.ParDo(Everything(), factor=7))


def test_what_was_never_stamped_or_windowed_is_at_the_beginning_of_time_in_the_global_window(pipeline: Any) -> None:
    """Beam's defaults."""
    with pipeline as p:
        created = p | beam.Create([1])
        expected = TestWindowedValue(1, MIN_TIMESTAMP, [GlobalWindow()], PANE_INFO_UNKNOWN)
        check([expected], created, reify_windows=True)


def test_plain_functions_may_ask_as_well(pipeline: Any) -> None:
    """Map, FlatMap, Filter and the forms that unpack the element; markers stand anywhere."""

    def stamp(element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Any:
        return element, timestamp.micros

    def element_last(timestamp: Any = beam.DoFn.TimestampParam, element: Any = beam.DoFn.ElementParam) -> Any:
        return element, timestamp.micros

    with pipeline as p:
        pairs = p | beam.Create([TimestampedValue(("a", 1), 3), TimestampedValue(("b", 2), 4)])
        expected = [(("a", 1), 3_000_000), (("b", 2), 4_000_000)]
        check(expected, pairs | beam.Map(stamp))
        check(expected, pairs | beam.Map(element_last))
        check(
            [Timestamp(3), Timestamp(4), Timestamp(4)],
            pairs | beam.FlatMap(lambda e, t=beam.DoFn.TimestampParam: [t] * e[1]),
        )
        check([("b", 2)], pairs | beam.Filter(lambda e, t=beam.DoFn.TimestampParam: t > 3))
        check(
            [("a", 1, 3), ("b", 2, 4)],
            pairs | beam.MapTuple(lambda k, v, t=beam.DoFn.TimestampParam: (k, v, t.seconds())),
        )


def test_an_element_of_several_windows_is_seen_in_each_of_them(pipeline: Any) -> None:
    """As if each window had an element of its own (Dataflow Model, figure 3)."""
    with pipeline as p:
        windowed = p | beam.Create([TimestampedValue("a", 7)]) | beam.WindowInto(SlidingWindows(10, 5))
        seen = windowed | beam.Map(lambda e, w=beam.DoFn.WindowParam: (e, w))
        check([("a", IntervalWindow(0, 10)), ("a", IntervalWindow(5, 15))], seen)


# --- What comes out


def test_outputs_keep_the_timestamp_and_windows_of_their_input(pipeline: Any) -> None:
    """Also through functions that know nothing of them."""
    with pipeline as p:
        windowed = p | beam.Create([TimestampedValue("ab", 7)]) | beam.WindowInto(FixedWindows(5))
        expected = [TestWindowedValue(c, 7, [IntervalWindow(5, 10)], PANE_INFO_UNKNOWN) for c in "ab"]
        check(expected, windowed | beam.FlatMap(list), reify_windows=True)


def test_an_output_may_have_a_timestamp_of_its_own(pipeline: Any) -> None:
    """A TimestampedValue moves the element in time, not into another window."""
    with pipeline as p:
        windowed = p | beam.Create([TimestampedValue(3, 7)]) | beam.WindowInto(FixedWindows(5))
        moved = windowed | beam.FlatMap(lambda x: [x, TimestampedValue(x + 1, 9), TimestampedValue(x + 2, 100)])
        window = [IntervalWindow(5, 10)]
        expected = [TestWindowedValue(3, 7, window), TestWindowedValue(4, 9, window), TestWindowedValue(5, 100, window)]
        check(expected, moved, reify_windows=True)


def test_an_output_may_have_windows_of_its_own(pipeline: Any) -> None:
    """A WindowedValue says everything."""
    pane = PaneInfo(False, False, PaneInfoTiming.LATE, 3, 2)
    moved = WindowedValue("there", 1, [IntervalWindow(0, 2), IntervalWindow(1, 3)], pane)
    with pipeline as p:
        elsewhere = p | beam.Create(["here"]) | beam.FlatMap(lambda x: [x, moved])
        expected = [
            TestWindowedValue("here", MIN_TIMESTAMP, [GLOBAL_WINDOW], PANE_INFO_UNKNOWN),
            TestWindowedValue("there", 1, [IntervalWindow(0, 2)], pane),
            TestWindowedValue("there", 1, [IntervalWindow(1, 3)], pane),
        ]
        check(expected, elsewhere, reify_windows=True)


def test_moved_outputs_go_through_the_rest_of_a_long_chain(pipeline: Any) -> None:
    """Side by side with those that weren't moved, in each of the kinds of step that may follow."""

    class Shift(beam.DoFn):
        def process(self, element: int, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
            yield element
            yield TimestampedValue(-element, timestamp + 10)

    with pipeline as p:
        moved = (
            p
            | beam.Create([TimestampedValue(1, 1), TimestampedValue(2, 2)])
            | beam.ParDo(Shift())
            | "again" >> beam.ParDo(Shift())
            | beam.Filter(lambda x: x != 2)
            | beam.WindowInto(FixedWindows(10))
            | beam.Map(lambda x: ("k", x))
            | beam.CombinePerKey(sum)
            | beam.Map(lambda pair, w=beam.DoFn.WindowParam: (int(w.start), pair[1]))
        )
        # 1 and 2 at 1 and 2; -1, -1, -2, -2 ten later; 1 and 2 twenty later; without the 2s.
        check([(0, 1), (10, -1 - 1 - 2 - 2), (20, 1)], moved)


def test_a_chain_may_be_longer_than_python_can_nest_loops(pipeline: Any) -> None:
    """Fusion splits a chain that is longer than the nesting limit."""
    with pipeline as p:
        numbers = p | beam.Create([1])
        for i in range(45):
            numbers = numbers | f"step {i}" >> beam.FlatMap(lambda x: [x + 1])
        check([46], numbers)


def test_parameters_keep_their_defaults_where_nothing_is_given(pipeline: Any) -> None:
    """Beside markers, and by keyword only."""

    class Scale(beam.DoFn):
        def process(self, x: int, by: int = 2, t: Any = beam.DoFn.TimestampParam, *, plus: int = 1) -> Iterator[int]:
            yield x * by + plus

    with pipeline as p:
        numbers = p | beam.Create([1, 2])
        check([3, 5], numbers | "defaults" >> beam.ParDo(Scale()))
        check([11, 21], numbers | "position" >> beam.ParDo(Scale(), 10))
        check([2, 4], numbers | "keyword" >> beam.ParDo(Scale(), plus=0))
        check([10, 20], numbers | "both" >> beam.ParDo(Scale(), by=10, plus=0))


def test_side_inputs_stand_among_the_other_arguments(pipeline: Any) -> None:
    """By position, by keyword, and beside markers."""

    class Join(beam.DoFn):
        def process(
            self, element: str, words: list[str], mark: str, end: str = "", t: Any = beam.DoFn.TimestampParam
        ) -> Iterator[str]:
            yield mark.join([element, *sorted(words)]) + end + str(t.micros)

    with pipeline as p:
        words = p | "words" >> beam.Create(["x", "y"])
        end = p | "end" >> beam.Create(["!"])
        joined = (
            p | beam.Create([TimestampedValue("a", 0)]) | beam.ParDo(Join(), AsList(words), "-", end=AsSingleton(end))
        )
        check(["a-x-y!0"], joined)


def all_given(a: Any, window: Any = beam.DoFn.WindowParam, b: Any = None, side: Any = None) -> Any:
    return [(a, b, side, type(window).__name__)]


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (beam.FlatMapTuple(all_given, "side"), (1, 2, "side")),
        (beam.FlatMapTuple(all_given, side="side"), (1, 2, "side")),
        (beam.FlatMapTuple(all_given, b="b"), (1, "b", 2)),
        (beam.FlatMapTuple(all_given), (1, 2, None)),
        (beam.FlatMap(all_given, "b", "side"), ((1, 2), "b", "side")),
        (beam.ParDo(all_given, "b", side="side"), ((1, 2), "b", "side")),
        (beam.MapTuple(lambda *given: all_given(*given)[0], "w", "b"), (1, "w", "b")),
    ],
)
def test_arguments_go_to_the_parameters_that_no_marker_stands_for(
    pipeline: Any, transform: Any, expected: tuple[Any, ...]
) -> None:
    """The items of an element as well, with exception handling as without."""
    window = "int" if isinstance(transform, beam.MapTuple) else "GlobalWindow"
    with pipeline as p:
        pairs = p | beam.Create([(1, 2)])
        check([(*expected, window)], pairs | "plain" >> transform)
        check([(*expected, window)], (pairs | "guarded" >> transform.with_exception_handling()).good)


def test_a_function_of_items_may_ask_for_the_element_as_well(pipeline: Any) -> None:
    """`DoFn.ElementParam` is the element, and its items are not counted against it."""
    with pipeline as p:
        both = beam.MapTuple(lambda a, b, whole=beam.DoFn.ElementParam: (a, b, whole))
        check([(1, 2, (1, 2))], p | beam.Create([(1, 2)]) | both)
