"""ToList: a collection as one list."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from ...sdk.combine_fn import CombineFn, InlineFold
from ...sdk.errors import PenstockError
from .equal_copies import equals_its_copies
from .globally_and_per_key import GlobalCombiner


class ToListCombineFn(CombineFn[Any, list[Any], list[Any]]):
    """All elements, in the order of arrival.

    >>> ToListCombineFn().apply([3, 1, 3])
    [3, 1, 3]
    """

    # `append` and `extend` return None.
    inline_fold = InlineFold(first="[x]", step="acc.append(x) or acc", merge="acc.extend(x) or acc")
    output_is_accumulator = True

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        accumulator.append(element)
        return accumulator

    def add_inputs(self, accumulator: list[Any], elements: Iterable[Any]) -> list[Any]:
        accumulator.extend(elements)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        return list(chain.from_iterable(accumulators))

    def infer_output_type(self, input_type: Any) -> Any:
        return list[input_type]

    def extract_output(self, accumulator: list[Any]) -> list[Any]:
        return accumulator

    def retracts_exactly(self, element: Any) -> bool:
        """Return whether equality finds the element.

        For other elements the inputs are kept, and found by their encodings.
        """
        return equals_its_copies(element)

    def retract_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        """Return the list without one element equal to `element`.  Raises `PenstockError` if there is none."""
        try:
            accumulator.remove(element)
        except ValueError:
            raise PenstockError(
                f"ToListCombineFn was asked to retract {element!r}, which it was never given; do its __eq__ and "
                f"its coder agree?"
            ) from None
        return accumulator


class ToList(GlobalCombiner):
    """All elements of a collection, in any order, as one list.

    >>> import penstock as beam
    >>> [3, 1, 3] | beam.combiners.ToList()
    [[3, 1, 3]]
    """

    def __init__(self, has_defaults: bool = True) -> None:
        super().__init__(ToListCombineFn(), has_defaults)
