"""ToSet: a collection's distinct elements as one set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...sdk.combine_fn import CombineFn
from ...sdk.errors import PenstockError
from .equal_copies import equals_its_copies
from .globally_and_per_key import GlobalCombiner


class ToSetCombineFn(CombineFn[Any, dict[Any, int], set[Any]]):
    """The distinct elements, which must have a hash.

    The accumulator counts each element, so that an element is retracted only with its last occurrence.

    >>> sorted(ToSetCombineFn().apply([3, 1, 3]))
    [1, 3]
    """

    def create_accumulator(self) -> dict[Any, int]:
        return {}

    def add_input(self, accumulator: dict[Any, int], element: Any) -> dict[Any, int]:
        accumulator[element] = accumulator.get(element, 0) + 1
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[dict[Any, int]]) -> dict[Any, int]:
        merged: dict[Any, int] = {}
        for accumulator in accumulators:
            for element, count in accumulator.items():
                merged[element] = merged.get(element, 0) + count
        return merged

    def infer_output_type(self, input_type: Any) -> Any:
        return set[input_type]

    def extract_output(self, accumulator: dict[Any, int]) -> set[Any]:
        return set(accumulator)

    def retracts_exactly(self, element: Any) -> bool:
        """Return whether equality finds the element.

        For other elements the inputs are kept, and found by their encodings.
        """
        return equals_its_copies(element)

    def retract_input(self, accumulator: dict[Any, int], element: Any) -> dict[Any, int]:
        """Return the accumulator without one occurrence of `element`.  Raises `PenstockError` if there is none."""
        count = accumulator.get(element, 0)
        if count == 0:
            raise PenstockError(
                f"{type(self).__name__} was asked to retract {element!r}, which it was never given; do its "
                f"__hash__ and its coder agree?"
            )
        if count == 1:
            del accumulator[element]
        else:
            accumulator[element] = count - 1
        return accumulator


class ToSet(GlobalCombiner):
    """The distinct elements of a collection as one set.

    >>> import penstock as beam
    >>> [3, 3] | beam.combiners.ToSet()
    [{3}]
    """

    def __init__(self, has_defaults: bool = True) -> None:
        super().__init__(ToSetCombineFn(), has_defaults)
