"""SignedInputs: a result is that of the inputs which are left, whatever was taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as beam
from penstock.runners.execution.windows.retractions import SignedInputs, SignedWindows
from penstock.sdk.combine_fn import CombineFn
from penstock.windowing import IntervalWindow

EARLY, MIDDLE, LATE = IntervalWindow(0, 10), IntervalWindow(5, 15), IntervalWindow(12, 22)

COMBINERS: dict[str, Callable[[], Any]] = {
    "sum": lambda: CombineFn.from_callable(sum),
    "mean": beam.combiners.MeanCombineFn,
    "count": beam.combiners.CountCombineFn,
    "set": beam.combiners.ToSetCombineFn,
    "list": beam.combiners.ToListCombineFn,
    "distinct": beam.combiners.CountDistinctCombineFn,
    # It can't take anything back.
    "largest": lambda: beam.combiners.TopCombineFn(2),
    # A plain grouping.
    "values": lambda: None,
}

# Sums of them are exact in any order.
numbers = st.one_of(st.integers(-5, 5), st.sampled_from([0.5, -0.25, 8.75]))


def result(fn: Any, values: list[Any]) -> Any:
    return values if fn is None else fn.apply(values)


@pytest.mark.parametrize("name", COMBINERS)
@given(kept=st.lists(numbers, min_size=1), gone=st.lists(numbers), random=st.randoms(use_true_random=False))
def test_the_result_is_that_of_what_is_left(name: str, kept: list[Any], gone: list[Any], random: Any) -> None:
    """In any order of coming and going."""
    fn, inputs = COMBINERS[name](), SignedInputs()
    moves = [(value, 1) for value in kept + gone] + [(value, -1) for value in gone]
    random.shuffle(moves)
    for value, sign in moves:
        inputs.add(fn, None, value, None, sign)
    expected, actual = result(fn, kept), inputs.result(fn)
    if isinstance(expected, list):
        expected, actual = sorted(expected), sorted(actual)
    assert (expected, True) == (actual, inputs.has_inputs)


def test_a_float_that_is_taken_back_leaves_no_trace() -> None:
    """Subtracting it would: 1 is nothing beside 1e17."""
    fn, inputs = COMBINERS["sum"](), SignedInputs()
    for value, sign in ((1e17, 1), (1.0, 1), (1e17, -1)):
        inputs.add(fn, None, value, None, sign)
    assert 1.0 == inputs.result(fn)


@pytest.mark.parametrize("name", COMBINERS)
def test_nothing_is_left_when_all_is_taken_back(name: str) -> None:
    """The last retraction reports it."""
    fn, inputs = COMBINERS[name](), SignedInputs()
    assert [False, False, True] == [
        inputs.add(fn, None, value, value, sign) for value, sign in ((1, 1), (2, 1), (1, -1), (2, -1))
    ][1:]
    assert (False, []) == (inputs.has_inputs, inputs.times())


def test_a_retraction_may_come_first() -> None:
    """Until its input arrives, the retraction is outstanding."""
    fn, inputs = COMBINERS["sum"](), SignedInputs()
    assert not inputs.add(fn, None, 5, None, -1)
    assert inputs.add(fn, None, 5, None, 1)


@pytest.mark.parametrize("name", COMBINERS)
def test_a_retraction_that_comes_first_is_not_balanced_by_another_input(name: str) -> None:
    """As many inputs as retractions have come, and yet something is left: in a merged window, too."""
    fn, inputs, windows = COMBINERS[name](), SignedInputs(), SignedWindows()
    for value, sign in ((3, -1), (5, 1)):
        inputs.add(fn, None, value, None, sign)
        windows.add(fn, EARLY, value, None, sign)
    for value, sign in ((3, 1), (7, 1), (7, -1)):
        inputs.add(fn, None, value, None, sign)
        windows.add(fn, EARLY, value, None, sign)
    expected = result(fn, [5])
    assert (expected, expected) == (inputs.result(fn), windows.result(fn))


def test_the_times_are_those_of_what_is_left() -> None:
    """As often as they are there."""
    fn, inputs = COMBINERS["sum"](), SignedInputs()
    for value, stamp, sign in ((1, 10, 1), (2, 20, 1), (3, 20, 1), (2, 20, -1)):
        inputs.add(fn, None, value, stamp, sign)
    assert [10, 20] == sorted(inputs.times())


def test_a_result_does_not_change_the_accumulator() -> None:
    """Asking twice gives the same, also where some inputs are kept beside it."""
    fn, inputs = COMBINERS["sum"](), SignedInputs()
    for value in (1, 0.5, 2):
        inputs.add(fn, None, value, None, 1)
    assert [3.5, 3.5] == [inputs.result(fn), inputs.result(fn)]


# Merged windows


def three_visits(fn: Any) -> SignedWindows:
    """Of which the middle one joins the others."""
    inputs = SignedWindows()
    for window, value in ((EARLY, 1), (MIDDLE, 2), (LATE, 4)):
        inputs.add(fn, window, value, window.start_micros, 1)
    return inputs


@pytest.mark.parametrize(("name", "whole", "parts"), [("sum", 7, (1, 4)), ("largest", [4, 2], ([1], [4]))])
def test_what_was_joined_can_be_taken_apart(name: str, whole: Any, parts: tuple[Any, Any]) -> None:
    """When the input that joined it is taken back."""
    fn = COMBINERS[name]()
    inputs = three_visits(fn)
    assert whole == inputs.result(fn)
    assert inputs.add(fn, MIDDLE, 2, MIDDLE.start_micros, -1)
    late = inputs.taken([LATE])
    assert (parts, [EARLY], [LATE]) == ((inputs.result(fn), late.result(fn)), [*inputs.by_window], [*late.by_window])
    assert ([0], [12_000_000]) == (inputs.times(), late.times())


def test_merged_inputs_are_those_of_all_parts() -> None:
    """The accumulators of the parts stay unchanged."""
    fn = COMBINERS["values"]()
    parts = [SignedWindows(), SignedWindows()]
    parts[0].add(fn, EARLY, 1, None, 1)
    parts[1].add(fn, LATE, 4, None, 1)
    assert [1, 4] == sorted(SignedWindows.merged(parts).result(fn))
    assert ([1], [4]) == (parts[0].result(fn), parts[1].result(fn))


def test_a_result_of_several_windows_leaves_each_as_it_was() -> None:
    """A combiner may merge into the accumulators that it is given."""

    class Listing(CombineFn):
        def create_accumulator(self) -> list[Any]:
            return []

        def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
            accumulator.append(element)
            return accumulator

        def retract_input(self, accumulator: list[Any], element: Any) -> list[Any]:
            accumulator.remove(element)
            return accumulator

        def merge_accumulators(self, accumulators: Any) -> list[Any]:
            first, *others = accumulators
            for other in others:
                first.extend(other)
                other.clear()
            return first

        def extract_output(self, accumulator: list[Any]) -> list[Any]:
            return sorted(accumulator)

    inputs = three_visits(Listing())
    assert [[1, 2, 4], [1, 2, 4]] == [inputs.result(Listing()), inputs.result(Listing())]
    assert not inputs.is_empty
