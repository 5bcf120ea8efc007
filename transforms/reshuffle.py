"""Reshuffle: redistribution of elements over the workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..sdk import typehints
from ..sdk.dofn import DoFn, ExpressionDoFn, TimestampDoFn
from ..sdk.element_wrappers import WindowedValue
from ..sdk.mixed_hash import pickled_hash, place
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..triggers import AccumulationMode, AfterCount, Repeatedly
from ..windowing import GlobalWindows, Timestamp
from .assign_windows import WindowInto
from .group_by_key import GroupByKey, pair_types
from .pardo import FlatMap, Map, ParDo


class Reshuffle(PTransform):
    """The elements with their timestamps and windows, after a shuffle.

    The transforms behind it run with full parallelism, independent of the input's partitions, and aren't fused with the
    transforms before it.

    Args:
      num_buckets: the largest number of parts, by default 16,384.

    >>> import penstock as beam
    >>> sorted([3, 1, 2] | beam.Reshuffle())
    [1, 2, 3]
    """

    # Enough for an even distribution over a hundred workers, and few enough for several elements in a group.
    DEFAULT_BUCKETS = 1 << 14

    def __init__(self, num_buckets: int | None = None) -> None:
        super().__init__()
        if num_buckets is not None and (not isinstance(num_buckets, int) or num_buckets < 1):
            raise ValueError(f"Reshuffle: num_buckets must be an int of at least 1, got {num_buckets!r}")
        self.num_buckets = num_buckets or self.DEFAULT_BUCKETS

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        hint = pcoll.element_type
        return (  # type: ignore[no-any-return]
            pcoll
            | "AddRandomKeys" >> ParDo(_InTurn(self.num_buckets)).with_output_types(typehints.KV[int, hint])
            | ReshufflePerKey()
            | "RemoveRandomKeys" >> ParDo(ExpressionDoFn("v[1]", "RemoveRandomKeys")).with_output_types(hint)
        )


class ReshufflePerKey(PTransform):
    """Pairs with their timestamps and windows, after a shuffle by key.

    Panes are kept as well, unless the input is in the default windowing.  Elements of an unbounded input are emitted on
    arrival.  An unbounded input with retractions raises `UnsupportedError`.

    >>> import penstock as beam
    >>> sorted([("a", 2), ("b", 3), ("a", 1)] | beam.ReshufflePerKey())
    [('a', 1), ('a', 2), ('b', 3)]
    """

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        pair_types(pcoll)
        hint = pcoll.element_type
        if pcoll.windowing.is_default() and pcoll.is_bounded:
            return (  # type: ignore[no-any-return]
                pcoll
                | "Reify" >> Map(_with_micros).with_output_types(tuple[Any, Any])
                | "Group" >> GroupByKey()
                | "Ungroup" >> FlatMap(_ungrouped).with_output_types(tuple[Any, int])
                | "Restore" >> ParDo(TimestampDoFn(_timestamp))
                | "Values" >> ParDo(ExpressionDoFn("v[0]", "Values", plain=True)).with_output_types(hint)
            )
        restored: PCollection[Any] = (
            pcoll
            | "Reify" >> Map(_reified).with_output_types(tuple[Any, Any])
            # Elements don't wait for the end of a window, and none is late.
            | "Globally" >> _globally(pcoll.is_bounded)
            | "Group" >> GroupByKey()
            | "Restore" >> FlatMap(_restored).with_output_types(hint)
        )
        # The elements are in their former windows again, which the graph must record.
        restored.windowing = pcoll.windowing
        return restored


def _globally(is_bounded: bool) -> PTransform:
    if is_bounded:
        return WindowInto(GlobalWindows())
    return WindowInto(GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.DISCARDING)


class _InTurn(DoFn):
    """Pairs of a bucket's number and an element, with the buckets in turn.

    The first element of a bundle decides the first bucket: bundles start at different buckets, and a recomputed bundle
    fills the same buckets.
    """

    # A retraction would be sent to another bucket than its element.
    deterministic = False

    def __init__(self, num_buckets: int) -> None:
        self.num_buckets = num_buckets

    def start_bundle(self) -> None:
        self.turn = -1

    def process(self, element: Any) -> Iterable[Any]:
        if self.turn < 0:
            self.turn = place(pickled_hash(element), self.num_buckets)
        self.turn += 1
        return ((self.turn % self.num_buckets, element),)


# In the global window only timestamps must be restored, and elements stay in the fused loop.


def _with_micros(element: Any, timestamp: Any = DoFn.TimestampParam) -> Any:
    key, value = element
    return key, (value, timestamp.micros)


def _ungrouped(element: Any) -> list[Any]:
    key, values = element
    return [((key, value), micros) for value, micros in values]


def _timestamp(stamped: tuple[Any, int]) -> Timestamp:
    return Timestamp.of_micros(stamped[1])


# In other windows an element is kept with all its properties.


def _reified(
    element: Any,
    timestamp: Any = DoFn.TimestampParam,
    window: Any = DoFn.WindowParam,
    pane: Any = DoFn.PaneInfoParam,
) -> Any:
    key, value = element
    return key, (value, timestamp.micros, (window,), pane)


def _restored(element: Any) -> Iterator[WindowedValue]:
    key, values = element
    for value, micros, windows, pane in values:
        yield WindowedValue((key, value), Timestamp.of_micros(micros), windows, pane)
