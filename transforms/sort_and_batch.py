"""SortAndBatchElements: elements in lists, similar ones together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import GenericAlias
from typing import Any

from ..sdk.dofn import DoFn
from ..sdk.element_wrappers import WindowedValue
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..windowing import BoundedWindow
from .pardo import ParDo


class SortAndBatchElements(PTransform):
    """Elements in lists, sorted by their size first, so that a list holds elements of similar size.

    For what pads the elements of a list to the largest of them, such as a language model.
    Sorted is what a bundle holds of one window; nothing is shuffled.  A list has the window of
    its elements, and the timestamp of its end.

    Args:
      min_batch_size: how many elements a list has at least before it is ended for its weight.
      max_batch_size: how many it has at most.
      max_batch_weight: what the sizes of its elements add up to at most.
      element_size_fn: how large an element is; its length unless said otherwise, 1 if it has none.

    >>> import penstock as beam
    >>> ["aaaa", "b", "ccc", "dd"] | beam.SortAndBatchElements(1, 3, max_batch_weight=6)
    [['b', 'dd', 'ccc'], ['aaaa']]
    """

    def __init__(
        self,
        min_batch_size: int,
        max_batch_size: int,
        max_batch_weight: int,
        element_size_fn: Callable[[Any], int] | None = None,
    ) -> None:
        super().__init__()
        if not 1 <= min_batch_size <= max_batch_size:
            raise ValueError(
                "SortAndBatchElements: expected 1 <= min_batch_size <= max_batch_size, "
                f"got {min_batch_size} and {max_batch_size}"
            )
        if max_batch_weight < 1:
            raise ValueError(f"SortAndBatchElements: max_batch_weight must be at least 1, got {max_batch_weight}")
        self.limits = (min_batch_size, max_batch_size, max_batch_weight)
        self.size_of = element_size_fn or _length

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        hint = GenericAlias(list, (pcoll.element_type,))
        return pcoll | "Batch" >> ParDo(_SortAndBatch(self.limits, self.size_of)).with_output_types(hint)  # type: ignore[no-any-return]


class _SortAndBatch(DoFn):
    # Which elements share a list depends on what else is in the bundle.
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
    """Elements, each behind its size, in lists of similar size.

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
