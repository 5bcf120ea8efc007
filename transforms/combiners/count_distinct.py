"""CountDistinct: the exact number of distinct elements, in total or by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...persistence import restores
from .globally_and_per_key import GlobalCombiner, KeyedCombiner
from .to_set import ToSetCombineFn, present

if TYPE_CHECKING:
    from ...sdk.columns.arrow_lists import Distinct
    from ...sdk.pvalue import PCollection
    from ...sdk.static_results import CombinesGlobally, CombinesPerKey

    K = TypeVar("K")


class _NotItself:
    """All elements that don't equal themselves, such as NaN, as one."""

    # Unpickled as the same object in every process.
    def __reduce__(self) -> tuple[Any, ...]:
        return (_not_itself, ())


_NOT_ITSELF: Final = _NotItself()


@restores("not-itself", 1)
def _not_itself() -> _NotItself:
    return _NOT_ITSELF


class CountDistinctCombineFn(ToSetCombineFn):
    """The exact number of distinct elements, which must have a hash.

    Equal elements of different types, such as 1 and 1.0, are one.  So are all NaNs.  None is an element like others.
    The accumulator has all distinct elements; `ApproximateUnique` needs less memory.

    >>> CountDistinctCombineFn().apply(["a", "b", "a"])
    2
    """

    @property
    def arrow_fold(self) -> Distinct:  # type: ignore[override]
        """The fold of columns."""
        from ...sdk.columns.arrow_lists import Distinct

        return Distinct()

    def add_input(self, accumulator: dict[Any, int], element: Any) -> dict[Any, int]:
        return super().add_input(accumulator, element if element == element else _NOT_ITSELF)

    def retracts_exactly(self, element: Any) -> bool:
        """Return whether equality finds the element, or it is NaN."""
        return type(element) is float or super().retracts_exactly(element)

    def retract_input(self, accumulator: dict[Any, int], element: Any) -> dict[Any, int]:
        """Return the accumulator without one occurrence of `element`, which may be added later."""
        return super().retract_input(accumulator, element if element == element else _NOT_ITSELF)

    def infer_output_type(self, input_type: Any) -> Any:
        return int

    def extract_output(self, accumulator: dict[Any, int]) -> int:  # type: ignore[override]
        return sum(1 for _ in present(accumulator))


class CountDistinct:
    """The exact number of distinct elements.

    >>> import penstock as beam
    >>> ["a", "b", "a"] | beam.combiners.CountDistinct.Globally()
    [2]
    """

    class Globally(GlobalCombiner):
        """Of a whole collection.

        Returns a `PCollection[int]`.

        >>> import penstock as beam
        >>> ["a", "b", "a"] | beam.combiners.CountDistinct.Globally()
        [2]
        """

        if TYPE_CHECKING:
            __ror__: CombinesGlobally[object, int]  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[Any]) -> PCollection[int]: ...  # type: ignore[override]

        def __init__(self, has_defaults: bool = True) -> None:
            super().__init__(CountDistinctCombineFn(), has_defaults)

    class PerKey(KeyedCombiner):
        """Of each key's values.

        Returns a `PCollection[tuple[K, int]]` for pairs with keys of type K.

        >>> import penstock as beam
        >>> [("a", 1), ("a", 1), ("b", 2)] | beam.combiners.CountDistinct.PerKey()
        [('a', 1), ('b', 1)]
        """

        if TYPE_CHECKING:
            __ror__: CombinesPerKey[object, int]  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[tuple[K, Any]]) -> PCollection[tuple[K, int]]: ...  # type: ignore[override]

        def __init__(self, label: str | None = None) -> None:
            super().__init__(CountDistinctCombineFn(), label)
