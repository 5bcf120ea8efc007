"""Laws of all combiners, written once and tested on each."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import attrs
import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from penstock.transforms import combiners
from penstock.transforms.combiners import (
    AllCombineFn,
    AnyCombineFn,
    AnyElementsCombineFn,
    ApproximateQuantilesCombineFn,
    ApproximateUniqueCombineFn,
    CountCombineFn,
    LatestCombineFn,
    MaxCombineFn,
    MeanCombineFn,
    MinCombineFn,
    SampleCombineFn,
    SingleInputTupleCombineFn,
    SumCombineFn,
    ToDictCombineFn,
    ToListCombineFn,
    TopCombineFn,
    ToSetCombineFn,
    TupleCombineFn,
)


def itself(output: Any, elements: list[Any]) -> Any:
    """Most outputs are the same whatever way they were come by."""
    return output


def as_multiset(output: Any, elements: list[Any]) -> Any:
    """A list in no particular order."""
    return Counter(output)


def as_sample(output: Any, elements: list[Any]) -> Any:
    """Of what is chosen at random: how many, and that each is an element that there was."""
    return len(output), Counter(output) <= Counter(elements)


@attrs.frozen
class Case:
    """A combiner, what it takes, and what of its output is determined by its inputs."""

    make: Callable[[], Any]
    elements: SearchStrategy[list[Any]]
    determined: Callable[[Any, list[Any]], Any] = itself


integers = st.integers(-1000, 1000)
rationals = integers | st.fractions(-10, 10, max_denominator=12)
words = st.text("abc", max_size=3)
# Beyond 64 elements, so that the buffers inside of combiners overflow.
many = {"max_size": 100}

CASES = {
    "sum": Case(SumCombineFn, st.lists(rationals, **many)),
    "count": Case(CountCombineFn, st.lists(words)),
    "min": Case(MinCombineFn, st.lists(rationals, min_size=1)),
    "max": Case(MaxCombineFn, st.lists(words, min_size=1)),
    "any": Case(AnyCombineFn, st.lists(st.integers(0, 1))),
    "all": Case(AllCombineFn, st.lists(st.integers(0, 1))),
    "mean": Case(MeanCombineFn, st.lists(integers, min_size=1)),
    "mean of fractions": Case(MeanCombineFn, st.lists(st.fractions(max_denominator=12), min_size=1)),
    "top": Case(lambda: TopCombineFn(3), st.lists(integers, **many)),
    "top by a key": Case(lambda: TopCombineFn(3, key=abs), st.lists(st.integers(0, 1000), **many)),
    "bottom": Case(lambda: TopCombineFn(3, reverse=True), st.lists(integers, **many)),
    "top of none": Case(lambda: TopCombineFn(0), st.lists(integers)),
    "largest": Case(lambda: combiners.Largest(2), st.lists(integers, **many)),
    "smallest": Case(lambda: combiners.Smallest(2), st.lists(integers, **many)),
    "sample": Case(lambda: SampleCombineFn(3), st.lists(integers, **many), as_sample),
    "any elements": Case(lambda: AnyElementsCombineFn(3), st.lists(integers), as_sample),
    "latest": Case(LatestCombineFn, st.lists(st.tuples(words, integers), unique_by=lambda pair: pair[1])),
    "list": Case(ToListCombineFn, st.lists(words), as_multiset),
    "set": Case(ToSetCombineFn, st.lists(words)),
    "distinct": Case(combiners.CountDistinctCombineFn, st.lists(st.one_of(words, st.just(math.nan), st.none()))),
    "dict": Case(ToDictCombineFn, st.lists(words.map(lambda word: (word, len(word))))),
    "tuple": Case(
        lambda: TupleCombineFn(MinCombineFn(), SumCombineFn(), MeanCombineFn()),
        st.lists(st.tuples(words, integers, integers), min_size=1),
    ),
    "tuple, of an uneven batch": Case(
        lambda: TupleCombineFn(CountCombineFn(), ToSetCombineFn(), merge_accumulators_batch_size=1),
        st.lists(st.tuples(words, words)),
    ),
    "tuple of what can be retracted": Case(
        lambda: TupleCombineFn(CountCombineFn(), SumCombineFn()), st.lists(st.tuples(words, integers))
    ),
    "single input tuple": Case(
        lambda: SingleInputTupleCombineFn(SumCombineFn(), CountCombineFn(), MaxCombineFn()),
        st.lists(integers, min_size=1),
    ),
    "tuple of a tuple": Case(
        lambda: SingleInputTupleCombineFn(
            SumCombineFn(), SingleInputTupleCombineFn(MeanCombineFn(), SumCombineFn(), MeanCombineFn())
        ),
        st.lists(integers, min_size=1),
    ),
    # Up to 2,048 values and 16 different elements these are exact.
    "quantiles": Case(lambda: ApproximateQuantilesCombineFn(5), st.lists(integers, **many)),
    "quantiles by a key": Case(
        lambda: ApproximateQuantilesCombineFn(4, key=lambda x: -x, reverse=True), st.lists(integers)
    ),
    "weighted quantiles": Case(
        lambda: ApproximateQuantilesCombineFn(4, weighted=True),
        st.lists(st.tuples(integers, st.integers(0, 9)), unique_by=lambda pair: pair[0]),
    ),
    "weighted quantiles by a key": Case(
        lambda: ApproximateQuantilesCombineFn(4, weighted=True, key=lambda x: -x),
        st.lists(st.tuples(integers, st.integers(0, 9)), unique_by=lambda pair: pair[0]),
    ),
    "quantiles of batches": Case(
        lambda: ApproximateQuantilesCombineFn(4, input_batched=True), st.lists(st.lists(integers))
    ),
    "weighted quantiles of batches": Case(
        lambda: ApproximateQuantilesCombineFn(4, weighted=True, input_batched=True),
        st.lists(integers.map(lambda x: ([x, x + 1], [1, 2])), unique_by=lambda batch: batch[0][0] // 2),
    ),
    "unique": Case(lambda: ApproximateUniqueCombineFn(16), st.lists(st.integers(0, 15) | words.map(len))),
}

every_combiner = pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])


def test_every_combiner_is_among_the_cases() -> None:
    """A combiner that is added is tried too."""
    public = {name for name in combiners.__all__ if name.endswith("CombineFn")}
    tried = {base.__name__ for case in CASES.values() for base in type(case.make()).__mro__}
    assert set() == public - tried


def accumulated(fn: Any, elements: list[Any], data: DataObject) -> Any:
    """An accumulator of the elements, however a runner might come by one."""
    if len(elements) >= 2 and data.draw(st.booleans(), label="split"):
        cuts = sorted(data.draw(st.lists(st.integers(0, len(elements)), min_size=1, max_size=3), label="cuts"))
        parts = [elements[start:end] for start, end in zip([0, *cuts], [*cuts, len(elements)])]
        if len(max(parts, key=len)) < len(elements):
            accumulator = fn.merge_accumulators([accumulated(fn, part, data) for part in parts])
            return travelled(fn, accumulator, data)
    accumulator = fn.create_accumulator()
    if data.draw(st.booleans(), label="in a bundle"):
        accumulator = fn.add_inputs(accumulator, elements)
    else:
        for element in elements:
            accumulator = fn.add_input(accumulator, element)
    return travelled(fn, accumulator, data)


def travelled(fn: Any, accumulator: Any, data: DataObject) -> Any:
    """The accumulator, maybe after a shuffle."""
    if data.draw(st.booleans(), label="compact"):
        accumulator = fn.compact(accumulator)
    return pickle.loads(pickle.dumps(accumulator)) if data.draw(st.booleans(), label="pickle") else accumulator


@every_combiner
@given(data=st.data())
def test_any_order_split_merge_and_journey_gives_the_same_output(case: Case, data: DataObject) -> None:
    """A combiner is associative and commutative, and its accumulators can travel."""
    fn = case.make()
    elements = data.draw(case.elements, label="elements")
    order = data.draw(st.permutations(elements), label="order")
    expected = case.determined(fn.apply(elements), elements)
    accumulator = accumulated(fn, order, data)
    assert expected == case.determined(fn.extract_output(accumulator), elements)


@every_combiner
@given(data=st.data())
def test_the_combiner_itself_can_travel(case: Case, data: DataObject) -> None:
    """A worker gets a pickled copy."""
    elements = data.draw(case.elements)
    copy = cloudpickle.loads(cloudpickle.dumps(case.make()))
    assert case.determined(case.make().apply(elements), elements) == case.determined(copy.apply(elements), elements)


@every_combiner
@given(data=st.data())
def test_the_output_is_the_accumulator_where_that_is_said(case: Case, data: DataObject) -> None:
    """A runner then leaves the call out."""
    fn = case.make()
    elements = data.draw(case.elements, label="elements")
    if fn.output_is_accumulator and elements:
        accumulator = fn.add_inputs(fn.create_accumulator(), elements)
        assert fn.extract_output(accumulator) is accumulator


@every_combiner
@given(data=st.data())
def test_retracting_inputs_leaves_the_output_of_the_others(case: Case, data: DataObject) -> None:
    """Uncombine: whatever was taken back leaves no trace (Dataflow Model, section 2.3)."""
    fn = case.make()
    if fn.retract_input is None:
        return
    kept = data.draw(case.elements, label="kept")
    retracted = data.draw(case.elements, label="retracted")
    accumulator = accumulated(fn, data.draw(st.permutations([*kept, *retracted]), label="order"), data)
    for element in data.draw(st.permutations(retracted), label="order of retractions"):
        assert getattr(fn, "retracts_exactly", lambda _: True)(element)
        accumulator = travelled(fn, fn.retract_input(accumulator, element), data)
    assert case.determined(fn.apply(kept), kept) == case.determined(fn.extract_output(accumulator), kept)


@pytest.mark.parametrize("name", ["sum", "count", "mean", "list", "set", "tuple of what can be retracted"])
def test_these_combiners_retract(name: str) -> None:
    """The law of retraction isn't empty."""
    assert CASES[name].make().retract_input is not None


@given(st.lists(st.fractions(max_denominator=12) | integers, min_size=1))
def test_a_sum_of_fractions_is_exact(elements: list[Fraction]) -> None:
    """The laws above compare one sum with another; this one with Python's."""
    assert sum(elements) == SumCombineFn().apply(elements)
