"""WaitOn: a PCollection held back until others are done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk import typehints
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...sdk.side_inputs import AsIter
from ..group_by_key import GroupByKey
from ..par_do.map_and_filter import FlatMap, Map

if TYPE_CHECKING:
    from ...sdk.static_results import Keeps

    T = TypeVar("T")


class WaitOn(PTransform):
    """Its input, emitted once the other PCollections, and the transforms that produce them, are done.

    Returns a `PCollection[T]`, as its input is.

    For steps with external effects, such as rows that must be in a database before others refer to them.  It waits
    window by window.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     first = p | "first" >> beam.Create([1]) | "show first" >> beam.Map(print)
    ...     _ = p | "then" >> beam.Create([2]) | beam.WaitOn(first) | "show then" >> beam.Map(print)
    1
    2
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: Keeps  # type: ignore[assignment]

    def __init__(self, *to_be_waited_on: PCollection[Any]) -> None:
        super().__init__()
        for pcoll in to_be_waited_on:
            if not isinstance(pcoll, PCollection):
                raise TypeError(f"WaitOn: expected PCollections to wait for, got {pcoll!r}")
        self.to_be_waited_on = to_be_waited_on

    def expand(self, pcoll: PCollection[T]) -> PCollection[T]:
        # Of the other PCollections, only the completion of windows matters, when an empty side input is available.
        nothing = typehints.pair_of(None, None)
        sides = [
            AsIter(side | f"Drop[{i}]" >> FlatMap(_nothing).with_output_types(nothing) | f"Done[{i}]" >> GroupByKey())
            for i, side in enumerate(self.to_be_waited_on)
        ]
        return pcoll | "Wait" >> Map(_itself, *sides).with_output_types(pcoll.hint)


def _nothing(element: Any) -> tuple[Any, ...]:
    return ()


def _itself(element: Any, *sides: Any) -> Any:
    return element
