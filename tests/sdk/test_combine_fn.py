"""The combiners that built-in reductions stand for; test_laws.py has what all combiners promise."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sdk.combine_fn import (
    BUILTIN_COMBINE_FNS,
    NOTHING,
    AllCombineFn,
    AnyCombineFn,
    CountCombineFn,
    MaxCombineFn,
    MinCombineFn,
    SumCombineFn,
)
from penstock.sdk.errors import PenstockError
from penstock.transforms.combiners.mean import MeanCombineFn

numbers = st.lists(st.integers() | st.floats(), min_size=1)


@pytest.mark.parametrize("builtin", list(BUILTIN_COMBINE_FNS))
@given(elements=numbers)
def test_a_combiner_gives_what_the_builtin_gives(builtin: Callable[..., Any], elements: list[Any]) -> None:
    """Down to NaN, to the sign of zero, and to which of two equal elements it is."""
    assert repr(builtin(elements)) == repr(BUILTIN_COMBINE_FNS[builtin]().apply(elements))


@pytest.mark.parametrize("builtin", [sum, any, all])
def test_of_no_elements_it_is_what_the_builtin_gives(builtin: Callable[..., Any]) -> None:
    """0, False and True."""
    assert builtin([]) == BUILTIN_COMBINE_FNS[builtin]().apply([])


@pytest.mark.parametrize("builtin", [min, max])
def test_an_extreme_of_no_elements_is_a_value_error_that_says_what_to_do(builtin: Callable[..., Any]) -> None:
    """As for min(()), but with the way out."""
    with pytest.raises(ValueError, match=rf"{builtin.__name__}\(\) of no elements.*without_defaults\(\)"):
        BUILTIN_COMBINE_FNS[builtin]().apply([])


@pytest.mark.parametrize("fn", [MinCombineFn(), MaxCombineFn()])
def test_an_extreme_of_empty_parts_ignores_them(fn: Any) -> None:
    """A shard without elements has an accumulator too, and it may have travelled."""
    empty = pickle.loads(pickle.dumps(fn.create_accumulator()))
    assert 3 == fn.extract_output(fn.merge_accumulators([empty, 3, fn.add_inputs(empty, [])]))
    assert fn.merge_accumulators([]) is NOTHING


def test_there_is_one_nothing() -> None:
    """Wherever it has been."""
    assert [NOTHING] * 3 == [pickle.loads(pickle.dumps(NOTHING)), copy.copy(NOTHING), copy.deepcopy(NOTHING)]


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (1, True),
        (True, True),
        (Fraction(1, 3), True),
        (np.int64(1), True),
        (1.0, False),
        (Decimal("0.1"), False),
        (np.float64(1), False),
        (1j, False),
        ("a", False),
    ],
)
def test_what_can_be_subtracted_from_a_sum_exactly(element: Any, expected: bool) -> None:
    """Whole numbers and fractions; a sum of anything else may have been rounded."""
    assert expected == SumCombineFn().retracts_exactly(element)


def test_a_sum_refuses_to_retract_a_float() -> None:
    """1e16 + 1.0 - 1e16 is 0.0 or 2.0, and never 1.0."""
    with pytest.raises(PenstockError, match=r"SumCombineFn was asked to retract 1\.5: subtracting a float"):
        SumCombineFn().retract_input(3.0, 1.5)


def test_a_sum_of_floats_is_the_same_one_by_one_and_in_a_bundle() -> None:
    """From Python 3.12 on, the built-in sum compensates for rounding."""
    fn = SumCombineFn()
    one_by_one = fn.create_accumulator()
    for _ in range(10):
        one_by_one = fn.add_input(one_by_one, 0.1)
    assert one_by_one == fn.add_inputs(fn.create_accumulator(), [0.1] * 10)


def test_counting_takes_any_iterable() -> None:
    """Not only those that have a length."""
    assert [3, 3] == [CountCombineFn().apply(elements) for elements in ([7, 7, 7], iter([7, 7, 7]))]


def test_any_and_all_give_bools() -> None:
    """Not the element that decided it."""
    assert [True, True] == [AnyCombineFn().apply(["", "a"]), AllCombineFn().apply(["a", 1])]


class Doubling:
    def add_input(self, accumulator: Any, element: Any) -> Any:
        return super().add_input(accumulator, 2 * element)  # type: ignore[misc]


class Negating:
    def extract_output(self, accumulator: Any) -> Any:
        return -super().extract_output(accumulator)  # type: ignore[misc]


@pytest.mark.parametrize("bases", [(Doubling, SumCombineFn), (SumCombineFn,)], ids=["mixed in", "overridden"])
def test_an_overridden_method_counts_and_not_what_the_base_class_says_of_its_own(bases: tuple[type, ...]) -> None:
    """Inputs that are added together are those that are added one by one."""
    own = {} if len(bases) > 1 else {"add_input": lambda self, acc, x: acc + 2 * x}
    fn: Any = type("Own", bases, own)()
    assert (12, None, None) == (fn.apply([1, 2, 3]), fn.retract_input, fn.arrow_fold)


def test_an_extraction_that_is_mixed_in_is_called() -> None:
    """The result isn't the accumulator any more, nor of its type."""
    fn: Any = type("Negative", (Negating, MeanCombineFn), {})()
    assert (-2.0, False, None, Any) == (
        fn.apply([1, 3]),
        fn.output_is_accumulator,
        fn.arrow_fold,
        fn.infer_output_type(int),
    )
