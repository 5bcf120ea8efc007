"""ToList: a collection as one list."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from ...persistence import restores
from ...sdk.combine_fn import CombineFn
from .equal_copies import equals_its_copies
from .globally_and_per_key import GlobalCombiner

if TYPE_CHECKING:
    from ...sdk.pvalue import PCollection
    from ...sdk.static_results import MakesLists

    T = TypeVar("T")


class _Early:
    """An element that was retracted before it was added, at the front of an accumulator."""

    __slots__ = ("element",)

    def __init__(self, element: Any) -> None:
        self.element = element

    def __eq__(self, other: object) -> bool:
        return type(other) is _Early and bool(self.element == other.element)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return (_early, (self.element,))


@restores("early-retraction", 1)
def _early(element: Any) -> _Early:
    return _Early(element)


class ToListCombineFn(CombineFn[Any, list[Any], list[Any]]):
    """All elements, in the order of arrival.

    >>> ToListCombineFn().apply([3, 1, 3])
    [3, 1, 3]
    """

    output_is_accumulator = True

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        if accumulator and type(accumulator[0]) is _Early and (early := _Early(element)) in accumulator:
            accumulator.remove(early)
        else:
            accumulator.append(element)
        return accumulator

    def add_inputs(self, accumulator: list[Any], elements: Iterable[Any]) -> list[Any]:
        if accumulator and type(accumulator[0]) is _Early:
            for element in elements:
                self.add_input(accumulator, element)
        else:
            accumulator.extend(elements)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        merged = list(chain.from_iterable(accumulators))
        early = [each for each in merged if type(each) is _Early]
        return self.add_inputs(early, (each for each in merged if type(each) is not _Early)) if early else merged

    def infer_output_type(self, input_type: Any) -> Any:
        return list[input_type]

    def extract_output(self, accumulator: list[Any]) -> list[Any]:
        if accumulator and type(accumulator[0]) is _Early:
            return [each for each in accumulator if type(each) is not _Early]
        return accumulator

    def retracts_exactly(self, element: Any) -> bool:
        """Return whether equality finds the element.

        For other elements the inputs are kept, and found by their encodings.
        """
        return equals_its_copies(element)

    def retract_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        """Return the list without one element equal to `element`, which may be added later."""
        try:
            accumulator.remove(element)
        except ValueError:
            accumulator.insert(0, _Early(element))
        return accumulator


class ToList(GlobalCombiner):
    """All elements of a collection, in any order, as one list.

    Returns a `PCollection[list[T]]` for elements of type T.

    >>> import penstock as beam
    >>> [3, 1, 3] | beam.combiners.ToList()
    [[3, 1, 3]]
    """

    if TYPE_CHECKING:
        __ror__: MakesLists  # type: ignore[assignment]

        def expand(self, pcoll: PCollection[T]) -> PCollection[list[T]]: ...  # type: ignore[override]

    def __init__(self, has_defaults: bool = True) -> None:
        super().__init__(ToListCombineFn(), has_defaults)
