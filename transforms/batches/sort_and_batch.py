"""SortAndBatchElements: lists of elements of similar size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import GenericAlias
from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk.dofn.dofn import DoFn
from ...sdk.elements.element_wrappers import WindowedValue
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...windowing import BoundedWindow
from ..par_do.pardo import ParDo

if TYPE_CHECKING:
    from ...sdk.static_results import MakesLists

    T = TypeVar("T")


class SortAndBatchElements(PTransform):
    """Elements in lists, sorted by size, so that a list has elements of similar size.

    Returns a `PCollection[list[T]]` for elements of type T.

    For steps that pad the elements of a list to the largest, such as a language model.  The elements of a bundle and a
    window are sorted, without a shuffle.  A list has the window of its elements, and the timestamp of its end.

    Args:
      min_batch_size: the least number of elements of a list that is ended because of its weight.
      max_batch_size: the largest number of elements of a list.
      max_batch_weight: the largest sum of the sizes of a list's elements.
      element_size_fn: returns the size of an element; by default its length, or 1 without a length.

    >>> import penstock as beam
    >>> ["aaaa", "b", "ccc", "dd"] | beam.SortAndBatchElements(1, 3, max_batch_weight=6)
    [['b', 'dd', 'ccc'], ['aaaa']]
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: MakesLists  # type: ignore[assignment]

    def __init__(
        self,
        min_batch_size: int,
        max_batch_size: int,
        max_batch_weight: int,
        element_size_fn: Callable[[Any], int] | None = None,
    ) -> None:
        super().__init__()
        if min_batch_size < 1:
            raise ValueError(f"SortAndBatchElements: min_batch_size must be >= 1, got {min_batch_size}")
        if element_size_fn is not None and not callable(element_size_fn):
            raise TypeError(f"SortAndBatchElements: element_size_fn must be callable, got {element_size_fn!r}")
        if min_batch_size > max_batch_size:
            raise ValueError(
                "SortAndBatchElements: expected min_batch_size <= max_batch_size, "
                f"got {min_batch_size} and {max_batch_size}"
            )
        if max_batch_weight < 1:
            raise ValueError(f"SortAndBatchElements: max_batch_weight must be >= 1, got {max_batch_weight}")
        self.limits = (min_batch_size, max_batch_size, max_batch_weight)
        self.size_of = element_size_fn or _length

    def expand(self, pcoll: PCollection[T]) -> PCollection[list[T]]:
        hint = GenericAlias(list, (pcoll.hint,))
        return pcoll | "Batch" >> ParDo(_SortAndBatch(self.limits, self.size_of)).with_output_types(hint)


class _SortAndBatch(DoFn):
    # The elements of a list depend on the bundle.
    deterministic = False

    def __init__(self, limits: tuple[int, int, int], size_of: Callable[[Any], int]) -> None:
        self.limits = limits
        self.size_of = size_of

    def start_bundle(self) -> None:
        self.by_window: dict[BoundedWindow, list[tuple[int, Any]]] = {}

    def process(self, element: Any, window: Any = DoFn.WindowParam) -> None:
        self.by_window.setdefault(window, []).append((self.size_of(element), element))

    def finish_bundle(self) -> Iterable[Any]:
        by_window, self.by_window = self.by_window, {}
        return [
            WindowedValue(batch, window.max_timestamp(), (window,))
            for window, sized in by_window.items()
            for batch in batches(sized, *self.limits)
        ]


def batches(
    sized: list[tuple[int, Any]], min_batch_size: int, max_batch_size: int, max_batch_weight: int
) -> list[list[Any]]:
    """Yield lists of elements of similar size, for pairs of size and element.

    >>> batches([(3, "ccc"), (1, "a"), (2, "bb")], 1, 2, 100)
    [['a', 'bb'], ['ccc']]
    """
    done: list[list[Any]] = []
    batch: list[Any] = []
    weight = 0
    for size, element in sorted(sized, key=lambda pair: pair[0]):
        too_heavy = weight + size > max_batch_weight and len(batch) >= min_batch_size
        if len(batch) == max_batch_size or too_heavy:
            done.append(batch)
            batch, weight = [], 0
        batch.append(element)
        weight += size
    return [*done, batch] if batch else done


def _length(element: Any) -> int:
    try:
        return len(element)
    except TypeError:
        return 1
