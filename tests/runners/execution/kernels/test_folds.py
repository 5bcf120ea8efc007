"""folds: a fold in a kernel is what the combiner's own methods compute, one call after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.execution.stages import SECOND, GroupingAlone

import penstock as beam
from penstock.runners.execution.kernels.folds import fold_functions, fold_source
from penstock.sdk.combine_fn import SumCombineFn
from penstock.sdk.elements.bundle import Bundle, narrowed
from penstock.transforms.combiners import (
    CountCombineFn,
    LatestCombineFn,
    MeanCombineFn,
    SingleInputTupleCombineFn,
    ToListCombineFn,
    ToSetCombineFn,
    TupleCombineFn,
)
from penstock.windowing import FixedWindows, GlobalWindows, Sessions, SlidingWindows, WindowFn

NUMBERS = st.integers(-5, 5)
PAIRS = st.tuples(NUMBERS, NUMBERS)

# By name, a combiner and its inputs.
COMBINERS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    **{fn.__name__: (beam.CombineFn.maybe_from_callable(fn), NUMBERS) for fn in (sum, min, max, any, all)},
    "count": (CountCombineFn(), NUMBERS),
    "mean": (MeanCombineFn(), NUMBERS),
    "latest": (LatestCombineFn(), PAIRS),
    "list": (ToListCombineFn(), NUMBERS),
    "set": (ToSetCombineFn(), NUMBERS),
    "tuple": (TupleCombineFn(sum, ToListCombineFn()), PAIRS),
    "tuple of tuples": (TupleCombineFn(max, TupleCombineFn(MeanCombineFn(), sum)), st.tuples(NUMBERS, PAIRS)),
    "tuple of one input": (SingleInputTupleCombineFn(sum, MeanCombineFn(), max), NUMBERS),
    "tuple with a set": (TupleCombineFn(sum, ToSetCombineFn()), PAIRS),
}
WINDOW_FNS = [GlobalWindows(), FixedWindows(10, 3), SlidingWindows(10, 4), Sessions(5)]
every_combiner = pytest.mark.parametrize("name", COMBINERS)


class Doubled(SumCombineFn):
    def add_input(self, accumulator: Any, element: Any) -> Any:
        return super().add_input(accumulator, 2 * element)


def added(fn: Any, values: Iterable[Any]) -> Any:
    """The accumulator of a loop over `add_input`."""
    accumulator = fn.create_accumulator()
    for value in values:
        accumulator = fn.add_input(accumulator, value)
    return accumulator


@every_combiner
@pytest.mark.parametrize("counts", [False, True])
@given(data=st.data())
def test_the_functions_of_a_fold_are_its_methods(name: str, counts: bool, data: Any) -> None:
    """Also with the number of inputs beside the accumulator."""
    fn, inputs = COMBINERS[name]
    fold = fold_functions(fn, counts)
    parts = data.draw(st.tuples(*[st.lists(inputs, min_size=1, max_size=6)] * 2))

    def folded(values: list[Any]) -> Any:
        accumulator = fold.first(values[0])
        for value in values[1:]:
            accumulator = fold.add(accumulator, value)
        return accumulator

    def expected(accumulator: Any, number: int) -> Any:
        return (accumulator, number) if counts else accumulator

    assert [expected(added(fn, values), len(values)) for values in parts] == [folded(values) for values in parts]
    whole = fn.merge_accumulators([added(fn, values) for values in parts])
    assert expected(whole, sum(map(len, parts))) == fold.merge(*(folded(values) for values in parts))


def test_values_without_a_combiner_are_collected() -> None:
    """In the list of the first one."""
    fold = fold_functions(None)
    first = fold.first(1)
    assert fold.merge(fold.add(first, 2), [3]) is first
    assert [1, 2, 3] == first


@pytest.mark.parametrize("name", sorted(COMBINERS.keys() - {"set", "tuple with a set"}))
def test_the_fold_of_a_built_in_combiner_is_known(name: str) -> None:
    """Nothing is called for an element."""
    assert "add_input" not in fold_source(COMBINERS[name][0]).step


@pytest.mark.parametrize("fn", [Doubled(), type("Same", (SumCombineFn,), {})(), TupleCombineFn(sum, Doubled())])
def test_a_subclass_is_called(fn: Any) -> None:
    """Whatever it overrides."""
    assert "add_input" in fold_source(fn).step


@every_combiner
@pytest.mark.parametrize("window_fn", WINDOW_FNS, ids=lambda fn: type(fn).__name__)
@given(data=st.data())
def test_a_stage_folds_as_a_loop_over_assign_and_add_input_does(name: str, window_fn: WindowFn, data: Any) -> None:
    """For any bundle, in several bundles."""
    fn, inputs = COMBINERS[name]
    elements = data.draw(st.lists(st.tuples(st.sampled_from("ab"), inputs, st.integers(0, 40)), max_size=8))
    grouping = GroupingAlone(beam.WindowInto(window_fn), beam.CombinePerKey(fn))
    for part in filter(None, (elements[:3], elements[3:])):
        times = narrowed([second * SECOND for *_, second in part])
        grouping.process(Bundle([(key, value) for key, value, _ in part], times))

    values: dict[Any, list[Any]] = {}
    for key, value, second in elements:
        for window in window_fn.assign_micros(second * SECOND):
            values.setdefault((key, window), []).append(value)
    if isinstance(window_fn, Sessions):
        for key in "ab":
            own = {window: found for (of, window), found in values.items() if of == key}
            window_fn.merge_windows(_Merges(own))
            values = {place: found for place, found in values.items() if place[0] != key}
            values |= {(key, window): found for window, found in own.items()}
    expected = {place: fn.extract_output(added(fn, own)) for place, own in values.items()}
    assert {place: shown(result) for place, result in expected.items()} == {
        (key, window): shown(result) for (key, result), _, (window,), *_ in grouping.results()
    }


def shown(result: Any) -> Any:
    """A result as text, without the order of its elements."""
    if isinstance(result, tuple):
        return tuple(map(shown, result))
    return repr(sorted(result) if isinstance(result, (list, set, frozenset)) else result)


class _Merges(WindowFn.MergeContext):
    def __init__(self, values: dict[Any, list[Any]]) -> None:
        super().__init__(values)
        self.values = values

    def merge(self, to_be_merged: Any, merge_result: Any) -> None:
        merged = [value for window in to_be_merged for value in self.values.pop(window)]
        self.values.setdefault(merge_result, []).extend(merged)
