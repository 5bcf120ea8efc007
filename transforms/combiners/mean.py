"""Mean: the arithmetic mean of a collection, or of each key's values."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Number
from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk.columns.arrow_fold import MEAN
from ...sdk.combine_fn import CombineFn, inexact_retraction, retracts_exactly
from ...sdk.typehints import with_input_types
from ...sdk.typehints.simplified import members
from .globally_and_per_key import GlobalCombiner, KeyedCombiner

if TYPE_CHECKING:
    from ...sdk.pvalue import PCollection
    from ...sdk.static_results import CombinesGlobally, CombinesPerKey
    from ...sdk.static_types import Divisible

    K = TypeVar("K")


@with_input_types(Number)
class MeanCombineFn(CombineFn["Divisible", tuple[Any, int], float]):
    """The arithmetic mean; NaN for no elements.

    The accumulator is the pair of sum and count.  A sum of ints is exact, and so is the mean of Fractions.

    >>> MeanCombineFn().apply([1, 2, 4, 5])
    3.0
    """

    arrow_fold = MEAN

    def create_accumulator(self) -> tuple[Any, int]:
        return 0, 0

    def add_input(self, accumulator: tuple[Any, int], element: Divisible) -> tuple[Any, int]:
        total, count = accumulator
        return total + element, count + 1

    def merge_accumulators(self, accumulators: Iterable[tuple[Any, int]]) -> tuple[Any, int]:
        total, count = 0, 0
        for partial_total, partial_count in accumulators:
            total += partial_total
            count += partial_count
        return total, count

    def infer_output_type(self, input_type: Any) -> Any:
        return float if set(members(input_type) or (input_type,)) <= {int, float, bool} else Any

    def extract_output(self, accumulator: tuple[Any, int]) -> float:
        total, count = accumulator
        return total / count if count else float("nan")

    def retracts_exactly(self, element: Any) -> bool:
        """Return whether `retract_input` accepts `element`, as for `SumCombineFn`."""
        return retracts_exactly(element)

    def retract_input(self, accumulator: tuple[Any, int], element: Any) -> tuple[Any, int]:
        """Return the accumulator without `element`.  Raises `PenstockError` if it would be inexact."""
        if not retracts_exactly(element):
            raise inexact_retraction(self, element)
        total, count = accumulator
        return total - element, count - 1


class Mean:
    """The arithmetic mean.

    >>> import penstock as beam
    >>> [("a", 3), ("a", 1)] | beam.combiners.Mean.PerKey()
    [('a', 2.0)]
    """

    class Globally(GlobalCombiner):
        """Of a whole collection; NaN if it is empty.

        Returns a `PCollection[float]`.

        >>> import penstock as beam
        >>> [1, 2, 6] | beam.combiners.Mean.Globally()
        [3.0]
        """

        if TYPE_CHECKING:
            __ror__: CombinesGlobally[Divisible, float]

            def expand(self, pcoll: PCollection[Divisible]) -> PCollection[float]: ...  # type: ignore[override]

        def __init__(self, has_defaults: bool = True) -> None:
            super().__init__(MeanCombineFn(), has_defaults)

    class PerKey(KeyedCombiner):
        """Of each key's values.

        Returns a `PCollection[tuple[K, float]]` for pairs with keys of type K.

        >>> import penstock as beam
        >>> [("a", 1), ("a", 2)] | beam.combiners.Mean.PerKey()
        [('a', 1.5)]
        """

        if TYPE_CHECKING:
            __ror__: CombinesPerKey[Divisible, float]  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[tuple[K, Divisible]]) -> PCollection[tuple[K, float]]: ...  # type: ignore[override]

        def __init__(self, label: str | None = None) -> None:
            super().__init__(MeanCombineFn(), label)
