"""Count: the number of elements, in total, by key, or by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk.columns.column_elements import Pairs, as_nones
from ...sdk.columns.expressions import Rearrangement
from ...sdk.combine_fn import CountCombineFn
from ...sdk.dofn.arrangement import WHOLE, ArrangementDoFn, Constant
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...sdk.typehints import pair_of
from ..combine import CombinePerKey
from ..par_do.pardo import ParDo
from .globally_and_per_key import GlobalCombiner, KeyedCombiner

if TYPE_CHECKING:
    from ...sdk.static_results import CombinesGlobally, CombinesPerKey, CountsElements

    K = TypeVar("K")
    T = TypeVar("T")


class Count:
    """The number of elements.

    >>> import penstock as beam
    >>> ["a", "b", "a"] | beam.combiners.Count.Globally()
    [3]
    >>> ["a", "b", "a"] | beam.combiners.Count.PerElement()
    [('a', 2), ('b', 1)]
    >>> [("a", 1), ("b", 2), ("a", 3)] | beam.combiners.Count.PerKey()
    [('a', 2), ('b', 1)]
    """

    class Globally(GlobalCombiner):
        """The number in a whole collection.

        Returns a `PCollection[int]`.

        >>> import penstock as beam
        >>> ["a", "b", "a"] | beam.combiners.Count.Globally()
        [3]
        """

        if TYPE_CHECKING:
            __ror__: CombinesGlobally[object, int]  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[Any]) -> PCollection[int]: ...  # type: ignore[override]

        def __init__(self, has_defaults: bool = True) -> None:
            super().__init__(CountCombineFn(), has_defaults)

    class PerKey(KeyedCombiner):
        """The number for each key.

        Returns a `PCollection[tuple[K, int]]` for pairs with keys of type K.

        >>> import penstock as beam
        >>> [("a", 7), ("b", 7), ("a", 8)] | beam.combiners.Count.PerKey()
        [('a', 2), ('b', 1)]
        """

        if TYPE_CHECKING:
            __ror__: CombinesPerKey[object, int]  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[tuple[K, Any]]) -> PCollection[tuple[K, int]]: ...  # type: ignore[override]

        def __init__(self, label: str | None = None) -> None:
            super().__init__(CountCombineFn(), label)

    class PerElement(PTransform):
        """The number of occurrences of each element: (element, number).

        Returns a `PCollection[tuple[T, int]]` for elements of type T.

        >>> import penstock as beam
        >>> ["a", "b", "a"] | beam.combiners.Count.PerElement()
        [('a', 2), ('b', 1)]
        """

        if TYPE_CHECKING:
            _declares: None  # type: ignore[assignment]
            __ror__: CountsElements  # type: ignore[assignment]

        def default_label(self) -> str:
            return type(self).__qualname__

        def expand(self, pcoll: PCollection[T]) -> PCollection[tuple[T, int]]:
            dofn = ArrangementDoFn((WHOLE, Constant(None)), "PairWithVoid")
            dofn.column_operation = Rearrangement(
                lambda batch, of: (batch, Pairs(batch.num_columns, of, as_nones)), of_pairs=False
            )
            pairs = pcoll | "PairWithVoid" >> ParDo(dofn).with_output_types(pair_of(pcoll.hint, None))
            return pairs | "Count" >> CombinePerKey(CountCombineFn())
