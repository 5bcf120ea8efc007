"""Combiners for Python's built-in reductions: sum, min, max, any and all; and count.

`CombinePerKey(sum)` is `CombinePerKey(SumCombineFn())`. A plain callable needs its inputs buffered; each of these folds
an input into one value, by an expression that a fused stage pastes into its loop.

>>> MinCombineFn().apply([3, 1, 2])
1
>>> BUILTIN_COMBINE_FNS[sum]().apply([1, 2, 3])
6
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from itertools import chain
from numbers import Rational
from operator import add
from typing import Any, Final

from ..stored import restores
from .combine_fn import CombineFn, InlineFold
from .errors import PenstockError


def retracts_exactly(element: Any) -> bool:
    """Whether subtracting `element` from a sum gives what the sum was before it.

    True of whole numbers and fractions.  A sum of floats or of Decimals is rounded, so
    subtracting one of them again leaves the rounding behind.

    >>> retracts_exactly(1), retracts_exactly(0.1)
    (True, False)
    """
    return type(element) is int or isinstance(element, Rational)


def inexact_retraction(combiner: CombineFn[Any, Any, Any], element: Any) -> PenstockError:
    """The error of a combiner that was asked to subtract what it can't subtract exactly."""
    return PenstockError(
        f"{type(combiner).__name__} was asked to retract {element!r}: subtracting a {type(element).__name__} from a "
        f"sum is not exact; ask retracts_exactly() first, and recombine the inputs that are left"
    )


class SumCombineFn(CombineFn[Any, Any, Any]):
    """The sum of the elements: numbers, or whatever can be added to 0.

    >>> SumCombineFn().apply([1, 2, 3])
    6
    """

    inline_fold = InlineFold(first="0 + x", step="acc + x", merge="acc + x")
    output_is_accumulator = True

    def create_accumulator(self) -> Any:
        return 0

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return accumulator + element

    # From Python 3.12 on, the built-in sum compensates for the rounding of floats; a sum
    # must not depend on whether its elements came one by one or in a bundle.
    def add_inputs(self, accumulator: Any, elements: Iterable[Any]) -> Any:
        return reduce(add, elements, accumulator)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return reduce(add, accumulators, 0)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator

    def retracts_exactly(self, element: Any) -> bool:
        """Whether `retract_input` takes `element`: see the function of this name.

        It holds for a sum only while it holds for every element in it.
        """
        return retracts_exactly(element)

    def retract_input(self, accumulator: Any, element: Any) -> Any:
        """The sum without `element`; raises PenstockError if that can't be had exactly."""
        if not retracts_exactly(element):
            raise inexact_retraction(self, element)
        return accumulator - element


class CountCombineFn(CombineFn[Any, int, int]):
    """How many elements there are.

    >>> CountCombineFn().apply(["a", "b", "a"])
    3
    """

    inline_fold = InlineFold(first="1", step="acc + 1", merge="acc + x")
    output_is_accumulator = True

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: Any) -> int:
        return accumulator + 1

    def add_inputs(self, accumulator: int, elements: Iterable[Any]) -> int:
        if isinstance(elements, (list, tuple)):
            return accumulator + len(elements)
        return accumulator + sum(1 for _ in elements)

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator

    def retract_input(self, accumulator: int, element: Any) -> int:
        """One less."""
        return accumulator - 1


class _Nothing:
    """The least and the greatest of no elements: every element is less, and greater, than it."""

    def __lt__(self, other: object) -> bool:
        return True

    def __gt__(self, other: object) -> bool:
        return True

    # There is one, also after a journey to another process.
    def __reduce__(self) -> tuple[Any, ...]:
        return (_nothing, ())

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()


@restores("nothing", 1)
def _nothing() -> _Nothing:
    return NOTHING


class _ExtremeCombineFn(CombineFn[Any, Any, Any]):
    """What `MinCombineFn` and `MaxCombineFn` share: the built-in that folds."""

    output_is_accumulator = True
    _extreme: Callable[..., Any]

    def create_accumulator(self) -> Any:
        return NOTHING

    def add_inputs(self, accumulator: Any, elements: Iterable[Any]) -> Any:
        if accumulator is NOTHING:
            return self._extreme(elements, default=NOTHING)
        return self._extreme(chain((accumulator,), elements))

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return self._extreme((a for a in accumulators if a is not NOTHING), default=NOTHING)

    def extract_output(self, accumulator: Any) -> Any:
        if accumulator is NOTHING:
            name = self._extreme.__name__
            raise ValueError(
                f"{name}() of no elements at all; where a collection or a window may be empty, use "
                f"CombineGlobally({name}).without_defaults(), which gives nothing for it"
            )
        return accumulator


class MinCombineFn(_ExtremeCombineFn):
    """The least element; the first of them where several are equal.

    As of `min(())`, the result for no elements is a ValueError.

    >>> MinCombineFn().apply([3, 1, 2])
    1
    """

    inline_fold = InlineFold(first="x", step="x if x < acc else acc", merge="x if x < acc else acc")
    _extreme = staticmethod(min)

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return element if accumulator is NOTHING or element < accumulator else accumulator


class MaxCombineFn(_ExtremeCombineFn):
    """The greatest element; the first of them where several are equal.

    As of `max(())`, the result for no elements is a ValueError.

    >>> MaxCombineFn().apply([3, 1, 2])
    3
    """

    inline_fold = InlineFold(first="x", step="x if x > acc else acc", merge="x if x > acc else acc")
    _extreme = staticmethod(max)

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return element if accumulator is NOTHING or element > accumulator else accumulator


class AnyCombineFn(CombineFn[Any, bool, bool]):
    """Whether any element is true; of no elements, False.

    >>> AnyCombineFn().apply([0, "", 1])
    True
    """

    inline_fold = InlineFold(first="not not x", step="acc or not not x", merge="acc or x")
    output_is_accumulator = True

    def create_accumulator(self) -> bool:
        return False

    def add_input(self, accumulator: bool, element: Any) -> bool:
        return accumulator or bool(element)

    def add_inputs(self, accumulator: bool, elements: Iterable[Any]) -> bool:
        return accumulator or any(elements)

    def merge_accumulators(self, accumulators: Iterable[bool]) -> bool:
        return any(accumulators)

    def extract_output(self, accumulator: bool) -> bool:
        return accumulator


class AllCombineFn(CombineFn[Any, bool, bool]):
    """Whether all elements are true; of no elements, True.

    >>> AllCombineFn().apply([1, "a", 0])
    False
    """

    inline_fold = InlineFold(first="not not x", step="acc and not not x", merge="acc and x")
    output_is_accumulator = True

    def create_accumulator(self) -> bool:
        return True

    def add_input(self, accumulator: bool, element: Any) -> bool:
        return accumulator and bool(element)

    def add_inputs(self, accumulator: bool, elements: Iterable[Any]) -> bool:
        return accumulator and all(elements)

    def merge_accumulators(self, accumulators: Iterable[bool]) -> bool:
        return all(accumulators)

    def extract_output(self, accumulator: bool) -> bool:
        return accumulator


# What `CombineFn.maybe_from_callable` makes of a built-in that is given without further arguments.
BUILTIN_COMBINE_FNS: dict[Callable[..., Any], Callable[[], CombineFn[Any, Any, Any]]] = {
    sum: SumCombineFn,
    min: MinCombineFn,
    max: MaxCombineFn,
    any: AnyCombineFn,
    all: AllCombineFn,
}
