"""ToSet: a collection's distinct elements as one set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk.combine_fn import CombineFn
from .equal_copies import equals_its_copies
from .globally_and_per_key import GlobalCombiner

if TYPE_CHECKING:
    from ...sdk.pvalue import PCollection
    from ...sdk.static_results import MakesSets

    T = TypeVar("T")


class ToSetCombineFn(CombineFn[Any, dict[Any, int], set[Any]]):
    """The distinct elements, which must have a hash.

    The accumulator counts each element, so that an element is retracted only with its last occurrence.  The count of an
    element whose retraction came first is below zero.

    >>> sorted(ToSetCombineFn().apply([3, 1, 3]))
    [1, 3]
    """

    def create_accumulator(self) -> dict[Any, int]:
        return {}

    def add_input(self, accumulator: dict[Any, int], element: Any) -> dict[Any, int]:
        count = accumulator.get(element, 0) + 1
        if count:
            accumulator[element] = count
        else:
            # Its retraction came before it.
            del accumulator[element]
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[dict[Any, int]]) -> dict[Any, int]:
        merged: dict[Any, int] = {}
        for accumulator in accumulators:
            for element, count in accumulator.items():
                merged[element] = merged.get(element, 0) + count
        return {element: count for element, count in merged.items() if count}

    def infer_output_type(self, input_type: Any) -> Any:
        return set[input_type]

    def extract_output(self, accumulator: dict[Any, int]) -> set[Any]:
        return set(present(accumulator))

    def retracts_exactly(self, element: Any) -> bool:
        """Return whether equality finds the element.

        For other elements the inputs are kept, and found by their encodings.
        """
        return equals_its_copies(element)

    def retract_input(self, accumulator: dict[Any, int], element: Any) -> dict[Any, int]:
        """Return the accumulator without one occurrence of `element`, which may be added later."""
        count = accumulator.get(element, 0) - 1
        if count:
            accumulator[element] = count
        else:
            del accumulator[element]
        return accumulator


def present(counts: dict[Any, int]) -> Iterator[Any]:
    """Yield the elements that were added more often than retracted."""
    return (element for element, count in counts.items() if count > 0)


class ToSet(GlobalCombiner):
    """The distinct elements of a collection as one set.

    Returns a `PCollection[set[T]]` for elements of type T.

    >>> import penstock as beam
    >>> [3, 3] | beam.combiners.ToSet()
    [{3}]
    """

    if TYPE_CHECKING:
        __ror__: MakesSets  # type: ignore[assignment]

        def expand(self, pcoll: PCollection[T]) -> PCollection[set[T]]: ...  # type: ignore[override]

    def __init__(self, has_defaults: bool = True) -> None:
        super().__init__(ToSetCombineFn(), has_defaults)
