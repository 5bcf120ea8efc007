"""Side inputs: a PCollection as an argument of a function, in every view, window by window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock.sdk.errors import SideInputError
from penstock.sdk.side_inputs import AsDict, AsIter, AsList, AsMultiMap, AsSingleton
from penstock.windowing import FixedWindows, GlobalWindows, Sessions, SlidingWindows, TimestampedValue

PAIRS = [("a", 1), ("b", 2), ("a", 3)]


# --- Views


def test_every_view_of_a_side_input(pipeline: Any) -> None:
    """One element; an iterable; a list; a dictionary; a dictionary of lists."""
    with pipeline as p:
        once = p | "once" >> beam.Create(["x"])
        one, pairs = p | "one" >> beam.Create([7]), p | "pairs" >> beam.Create(PAIRS)
        unique = p | "unique" >> beam.Create([("a", 1), ("b", 2)])
        check([("x", 7)], once | "singleton" >> beam.Map(lambda x, side: (x, side), AsSingleton(one)))
        check([PAIRS], once | "iter" >> beam.Map(lambda _, side: sorted(side, key=PAIRS.index), AsIter(pairs)))
        check([(3, True)], once | "list" >> beam.Map(lambda _, s: (len(s), s[0] in PAIRS), AsList(pairs)))
        check([{"a": 1, "b": 2}], once | "dict" >> beam.Map(lambda _, side: dict(side), AsDict(unique)))
        sorted_values = beam.Map(lambda _, side: {k: sorted(side[k]) for k in side}, AsMultiMap(pairs))
        check([{"a": [1, 3], "b": [2]}], once | "multimap" >> sorted_values)


def test_every_view_of_nothing(pipeline: Any) -> None:
    """A singleton has its default; the others are empty."""
    with pipeline as p:
        once, empty = p | "once" >> beam.Create(["x"]), p | "empty" >> beam.Create([])
        sides = [AsSingleton(empty, default_value=7), AsIter(empty), AsList(empty), AsDict(empty), AsMultiMap(empty)]
        seen = once | beam.Map(lambda x, s, i, e, d, m: (s, list(i), e, dict(d), dict(m)), *sides)
        check([(7, [], [], {}, {})], seen)
        nothing = once | "none" >> beam.Map(lambda x, s: s, AsSingleton(empty, default_value=None))
        check([None], nothing)


def test_views_of_one_pcollection_do_not_get_into_each_others_way(pipeline: Any) -> None:
    """Different views, and singletons of different defaults."""
    with pipeline as p:
        once, empty = p | "once" >> beam.Create(["x"]), p | "empty" >> beam.Create([])
        pairs = p | "pairs" >> beam.Create([("a", 1)])
        both = once | "both" >> beam.Map(lambda _, li, di: (li, di["a"]), AsList(pairs), AsDict(pairs))
        check([([("a", 1)], 1)], both)
        defaults = once | "defaults" >> beam.Map(lambda _, x, y: (x, y), AsSingleton(empty, 1), AsSingleton(empty, 2))
        check([(1, 2)], defaults)


def test_values_may_be_none_or_without_a_hash(pipeline: Any) -> None:
    """With any content of the PCollection."""
    with pipeline as p:
        once = p | "once" >> beam.Create(["x"])
        none, dicts = p | "none" >> beam.Create([None]), p | "dicts" >> beam.Create([{"a": [1]}])
        check([(None, [{"a": [1]}])], once | beam.Map(lambda _, n, d: (n, d), AsSingleton(none), AsList(dicts)))


# --- Functions that take side inputs


def test_every_kind_of_function_takes_side_inputs(pipeline: Any) -> None:
    """Several of them, by position and by keyword."""

    class Between(beam.DoFn):
        def process(self, x: int, least: int, greatest: int) -> Iterator[int]:
            if least <= x <= greatest:
                yield x

    with pipeline as p:
        numbers = p | "numbers" >> beam.Create([1, 2, 3, 4])
        two, three = AsSingleton(p | "two" >> beam.Create([2])), AsSingleton(p | "three" >> beam.Create([3]))
        check([2, 3], numbers | beam.ParDo(Between(), two, greatest=three))
        check([2, 3], numbers | beam.Filter(lambda x, a, b: a <= x <= b, a=two, b=three))
        check([1, 1, 1, 2, 2, 3], numbers | beam.FlatMap(lambda x, b: [x] * (b + 1 - x), three))
        pairs = numbers | "pairs" >> beam.Map(lambda x: (x, x))
        check([6, 12, 18, 24], pairs | beam.MapTuple(lambda x, y, a, b: x * a * b, two, three))
        check([(2, 1), (4, 2), (6, 3), (8, 4)], numbers | beam.WithKeys(lambda x, a: a * x, two))


def test_a_side_input_serves_two_functions(pipeline: Any) -> None:
    """In one chain, and in two."""
    with pipeline as p:
        ten = AsSingleton(p | "ten" >> beam.Create([10]))
        numbers = p | "numbers" >> beam.Create([1, 2])
        chain = numbers | "plus" >> beam.Map(lambda x, n: x + n, ten) | "times" >> beam.Map(lambda x, n: x * n, ten)
        check([110, 120], chain)
        check([-9, -8], numbers | "minus" >> beam.Map(lambda x, n: x - n, ten))


def test_a_pcollection_is_main_and_side_input_of_one_function(pipeline: Any) -> None:
    """Each element sees all of them."""
    with pipeline as p:
        numbers = p | beam.Create([1, 2, 3]) | beam.Map(lambda x: x)
        check([1 / 6, 2 / 6, 3 / 6], numbers | beam.Map(lambda x, everything: x / sum(everything), AsList(numbers)))
        shares = numbers | "sum" >> beam.CombineGlobally(sum)
        check([1 / 6, 2 / 6, 3 / 6], numbers | "share" >> beam.Map(lambda x, total: x / total, AsSingleton(shares)))


def test_a_side_input_may_be_computed_with_another(pipeline: Any) -> None:
    """As many deep as one likes; and of a grouping, a flatten, a tagged output."""
    with pipeline as p:
        numbers = p | beam.Create([1, 2, 3])
        total = numbers | "sum" >> beam.CombineGlobally(sum)
        shares = numbers | "share" >> beam.Map(lambda x, s: (x, x / s), AsSingleton(total))
        grouped = shares | beam.GroupByKey() | "first" >> beam.MapTuple(lambda k, v: (k, next(iter(v))))
        flattened = (numbers, total) | beam.Flatten()
        low, high = flattened | beam.Partition(lambda x, n: int(x > 2), 2)
        seen = (
            numbers
            | "by share" >> beam.Map(lambda x, by: (x, by[x]), AsDict(grouped))
            | "and others"
            >> beam.MapTuple(lambda x, share, *sides: (x, share, *map(sorted, sides)), AsList(high), AsList(low))
        )
        check([(x, x / 6, [3, 6], [1, 2]) for x in (1, 2, 3)], seen)


def test_side_inputs_are_complete_before_they_are_seen(pipeline: Any) -> None:
    """Also where they come of more than one bundle."""
    with pipeline as p:
        many = p | "many" >> beam.Create(range(20_000)) | beam.Reshuffle()
        seen = p | "once" >> beam.Create(["x"]) | beam.Map(lambda _, side: (len(side), sum(side)), AsList(many))
        check([(20_000, sum(range(20_000)))], seen)


# --- Windows


def windowed(p: Any, name: str, times: list[float], window_fn: Any) -> Any:
    return (
        p
        | name >> beam.Create([TimestampedValue(t, t) for t in times])
        | f"{name} windows" >> beam.WindowInto(window_fn)
    )


def seen(main: Any, side: Any, label: str = "see") -> Any:
    return main | label >> beam.Map(lambda x, values: (x, sorted(values)), AsList(side))


def test_an_element_sees_the_side_inputs_window_of_its_own(pipeline: Any) -> None:
    """Windowed alike, each window sees its own; a window without any sees nothing."""
    with pipeline as p:
        main = windowed(p, "main", [1, 12, 25], FixedWindows(10))
        side = windowed(p, "side", [2, 3, 14], FixedWindows(10))
        check([(1, [2, 3]), (12, [14]), (25, [])], seen(main, side))


def test_windows_of_other_sizes_are_mapped_by_their_ends(pipeline: Any) -> None:
    """Beam's rule: the side input's window that the end of the main window falls into."""
    with pipeline as p:
        narrow = windowed(p, "narrow", [1, 12, 35], FixedWindows(10))
        wide = windowed(p, "wide", [5, 15, 38], FixedWindows(20))
        # [0, 10) and [10, 20) end in [0, 20); [30, 40) in [20, 40).
        check([(1, [5, 15]), (12, [5, 15]), (35, [38])], seen(narrow, wide, "narrow sees wide"))
        # [0, 20) ends in [10, 20), [20, 40) in [30, 40).
        check([(5, [12]), (15, [12]), (38, [35])], seen(wide, narrow, "wide sees narrow"))


def test_of_overlapping_windows_the_one_that_ends_first_is_seen(pipeline: Any) -> None:
    """Of those that the end of the main window is in."""
    with pipeline as p:
        main = windowed(p, "main", [3], FixedWindows(10))
        side = windowed(p, "side", [1, 7, 12], SlidingWindows(10, 5))
        # The last instant of [0, 10) is in [0, 10) and in [5, 15).
        check([(3, [1, 7])], seen(main, side))


def test_an_element_of_several_windows_sees_a_view_in_each(pipeline: Any) -> None:
    """The element is processed once in each window."""
    with pipeline as p:
        main = windowed(p, "main", [7], SlidingWindows(10, 5))
        side = windowed(p, "side", [1, 12], FixedWindows(10))
        # [0, 10) sees [0, 10); [5, 15) ends in [10, 20).
        check([(7, [1]), (7, [12])], seen(main, side))


def test_the_global_window_is_seen_by_all_and_sees_all(pipeline: Any) -> None:
    """A global side input of windowed elements, and of global ones."""
    with pipeline as p:
        main = windowed(p, "main", [1, 12], FixedWindows(10))
        everything = windowed(p, "everything", [5, 25], GlobalWindows())
        check([(1, [5, 25]), (12, [5, 25])], seen(main, everything))


def test_a_windowed_singleton_has_one_element_in_each_window(pipeline: Any) -> None:
    """And its default in the others."""
    with pipeline as p:
        main = windowed(p, "main", [1, 12, 25], FixedWindows(10))
        side = windowed(p, "side", [2, 14], FixedWindows(10))
        check([(1, 2), (12, 14), (25, -1)], main | beam.Map(lambda x, one: (x, one), AsSingleton(side, -1)))


def test_a_side_input_of_merging_windows_is_refused_when_the_pipeline_is_built(pipeline: Any) -> None:
    """There is no telling which of its windows is meant."""
    side = windowed(pipeline, "side", [2], Sessions(10))
    main = windowed(pipeline, "main", [1], FixedWindows(10))
    with pytest.raises(ValueError, match=r"see: .*AsList\(PCollection\[side windows\]\) .*Sessions.* merges windows"):
        seen(main, side)


# --- Errors


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "look up: AsSingleton: the side input has no element in this window; give AsSingleton a default_value"),
        ([1, 2], "look up: AsSingleton: expected one element in this window, got 2, .*did you mean AsList or AsIter?"),
    ],
    ids=["none", "several"],
)
def test_a_singleton_that_is_none_or_several_is_an_error(pipeline: Any, values: list[int], message: str) -> None:
    """The message has the number of elements, and an alternative."""
    side = pipeline | "side" >> beam.Create(values)
    _ = pipeline | beam.Create(["x"]) | "look up" >> beam.Map(lambda x, y: y, AsSingleton(side))
    with pytest.raises(SideInputError, match=message) as error:
        pipeline.run()
    assert "look up" == error.value.transform


@pytest.mark.parametrize("view", [AsDict, AsMultiMap])
def test_a_dictionary_of_what_are_no_pairs_is_an_error(pipeline: Any, view: Any) -> None:
    """It names the transform and the view."""
    side = pipeline | "side" >> beam.Create([1, 2])
    _ = pipeline | beam.Create(["x"]) | "look up" >> beam.Map(lambda x, y: y, view(side))
    with pytest.raises(SideInputError, match=rf"look up: {view.__name__}: expected \(key, value\) pairs"):
        pipeline.run()


def test_a_pcollection_as_an_argument_needs_a_view() -> None:
    """The message says so."""
    p = beam.testing.TestPipeline()
    side = p | "side" >> beam.Create([1])
    with pytest.raises(TypeError, match=r"look up: a PCollection as an argument needs a view, as in AsList"):
        p | beam.Create(["x"]) | "look up" >> beam.Map(lambda x, y: y, side)


def test_a_side_input_of_another_pipeline_is_refused() -> None:
    """The message names the transform."""
    p = beam.testing.TestPipeline()
    side = beam.testing.TestPipeline() | "side" >> beam.Create([1])
    with pytest.raises(ValueError, match=r"look up: its side input AsList.* belongs to another pipeline"):
        p | beam.Create(["x"]) | "look up" >> beam.Map(lambda x, y: y, AsList(side))
