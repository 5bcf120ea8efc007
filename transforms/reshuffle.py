"""Reshuffle: the same elements, spread over the workers anew."""

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
    """The same elements with the same timestamps and windows, after a real shuffle.

    What follows runs as parallel as the runner can, however few parts the input came
    in, and isn't fused with what comes before.

    Args:
      num_buckets: how many parts there are at most; 16,384 unless said otherwise.

    >>> import penstock as beam
    >>> sorted([3, 1, 2] | beam.Reshuffle())
    [1, 2, 3]
    """

    # Enough that each of a hundred workers gets about as much as the others; few enough that
    # a group holds several elements of what is worth a shuffle.
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
    """The same for pairs, with all of a key's values in one place.

    Panes stay as well, unless the input was never windowed: then there is only one.

    Of an input that doesn't end each element is let through when it comes; what may be
    retracted can't be, and raises `UnsupportedError`.

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
            # Nothing waits for the end of a window, and nothing is late.
            | "Globally" >> _globally(pcoll.is_bounded)
            | "Group" >> GroupByKey()
            | "Restore" >> FlatMap(_restored).with_output_types(hint)
        )
        # The elements are in their old windows again, which the graph has to know of.
        restored.windowing = pcoll.windowing
        return restored


def _globally(is_bounded: bool) -> PTransform:
    if is_bounded:
        return WindowInto(GlobalWindows())
    return WindowInto(GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.DISCARDING)


class _InTurn(DoFn):
    """Each element behind the number of a bucket, the buckets in turn.

    The first element of a bundle decides where the turn starts: bundles start at different
    buckets, yet one that is run again, after a failure, fills the same ones.
    """

    # The same element, met again as a retraction, would be sent elsewhere.
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


# Where there is but the global window, its elements' timestamps are all there is to restore.  No
# element then leaves the fused loop, as those do that have windows of their own.


def _with_micros(element: Any, timestamp: Any = DoFn.TimestampParam) -> Any:
    key, value = element
    return key, (value, timestamp.micros)


def _ungrouped(element: Any) -> list[Any]:
    key, values = element
    return [((key, value), micros) for value, micros in values]


def _timestamp(stamped: tuple[Any, int]) -> Timestamp:
    return Timestamp.of_micros(stamped[1])


# Elsewhere an element is kept with all that is known of it.


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
