"""Distinct: each element once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ...sdk import typehints
from ...sdk.combine_fn import CountCombineFn
from ...sdk.dofn.arrangement import WHOLE, ArrangementDoFn, Constant
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ..combine import CombinePerKey
from ..par_do.pardo import ParDo
from .keys import Keys

if TYPE_CHECKING:
    from ...sdk.static_results import Keeps

    T = TypeVar("T")


class Distinct(PTransform):
    """Each distinct element of a window once.

    Returns a `PCollection[T]`, as its input is.

    Elements are keys of a grouping, so they need a hash and a deterministic encoding.

    >>> import penstock as beam
    >>> [1, 2, 1] | beam.Distinct()
    [1, 2]
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: Keeps  # type: ignore[assignment]

    def expand(self, pcoll: PCollection[T]) -> PCollection[T]:
        to_pairs = ParDo(ArrangementDoFn((WHOLE, Constant(None)), "ToPairs"))
        distinct: PCollection[T] = (
            pcoll
            | "ToPairs" >> to_pairs.with_output_types(typehints.pair_of(pcoll.hint, None))
            # Counted, so that an element is retracted only with its last occurrence.
            | "Group" >> CombinePerKey(CountCombineFn())
            | "Distinct" >> Keys()
        )
        return distinct


class RemoveDuplicates(Distinct):
    """Beam's old name for `Distinct`.

    Returns a `PCollection[T]`, as its input is.

    >>> import penstock as beam
    >>> ["a", "b", "a"] | beam.RemoveDuplicates()
    ['a', 'b']
    """
