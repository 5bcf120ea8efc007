"""GroupIntoBatches: the values of each key in lists of limited length.

A bounded input is grouped, and each group is cut into lists.  Values of an unbounded input are buffered in the state of
their key, until there are enough of them or the buffering duration is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import GenericAlias
from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk import typehints
from ...sdk.coders.sharded_key import ShardedKey
from ...sdk.dofn.dofn import DoFn
from ...sdk.errors import UnsupportedError
from ...sdk.process.task_name import worker_id
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...sdk.userstate import BagStateSpec, CombiningValueStateSpec, TimeDomain, TimerSpec, on_timer
from ...windowing.duration import DurationTypes, micros_of_span, seconds_of_span
from ..group_by_key import GroupByKey, pair_types
from ..par_do.map_and_filter import FlatMap
from ..par_do.pardo import ParDo

if TYPE_CHECKING:
    from ...sdk.static_results import MakesListsPerKey

    K = TypeVar("K")
    V = TypeVar("V")


class GroupIntoBatches(PTransform):
    """(key, value) pairs to (key, list of at most `batch_size` values), for each key and window.

    Returns a `PCollection[tuple[K, list[V]]]` for pairs of K and V.

    Args:
      batch_size: the size of a list; the rest at a window's end is a shorter list.
      max_buffering_duration_secs: the longest buffering of a value, in seconds of processing time; None or 0 for
        buffering until the end of the window.
      clock: returns processing time in seconds; by default the runner's clock.

    Raises `UnsupportedError` for an unbounded input with retractions, since values of an emitted list can't be
    retracted.

    >>> import penstock as beam
    >>> [("a", 1), ("b", 2), ("a", 3), ("a", 4)] | beam.GroupIntoBatches(2)
    [('a', [1, 3]), ('a', [4]), ('b', [2])]
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: MakesListsPerKey  # type: ignore[assignment]

    def __init__(
        self,
        batch_size: int,
        max_buffering_duration_secs: DurationTypes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self.batch_size = _checked(batch_size, max_buffering_duration_secs)
        self.max_buffering_duration_secs: float | None = None
        if max_buffering_duration_secs is not None:
            self.max_buffering_duration_secs = seconds_of_span(max_buffering_duration_secs)
        self.clock = clock

    def expand(self, pcoll: PCollection[tuple[K, V]]) -> PCollection[tuple[K, list[V]]]:
        key, value = pair_types(pcoll)
        hint = typehints.pair_of(key, GenericAlias(list, (value,)))
        if self.max_buffering_duration_secs or not pcoll.is_bounded:
            if pcoll.retracted_by:
                raise UnsupportedError(
                    f"{pcoll.pipeline.full_label}: {pcoll.retracted_by} may retract its input, and values of an "
                    "emitted list can't be retracted; batch an input without retractions, or use GroupByKey"
                )
            buffer = _Buffer(self.batch_size, self.max_buffering_duration_secs or 0, self.clock)
            return pcoll | "Buffer" >> ParDo(buffer).with_output_types(hint)
        return pcoll | "Group" >> GroupByKey() | "Batch" >> FlatMap(_batches, self.batch_size).with_output_types(hint)

    class WithShardedKey(PTransform):
        """Batches with each key split into shards, `ShardedKey(key, shard_id)`, one for each worker.

        >>> import penstock as beam
        >>> batches = [("a", 1), ("a", 2), ("a", 3)] | beam.GroupIntoBatches.WithShardedKey(2)
        >>> [(sharded.key, batch) for sharded, batch in batches]
        [('a', [1, 2]), ('a', [3])]
        """

        def __init__(
            self,
            batch_size: int,
            max_buffering_duration_secs: DurationTypes | None = None,
            clock: Callable[[], float] = time.time,
        ) -> None:
            super().__init__()
            self.batches = GroupIntoBatches(batch_size, max_buffering_duration_secs, clock)

        def expand(self, pcoll: PCollection[tuple[K, V]]) -> PCollection[tuple[Any, list[V]]]:
            _, value = pair_types(pcoll)
            sharded = ParDo(_Sharded()).with_output_types(typehints.pair_of(ShardedKey, value))
            return pcoll | "Shard" >> sharded | self.batches


class _Buffer(DoFn):
    """Buffer of values until there are enough of them, or the buffering duration of the first is over."""

    VALUES = BagStateSpec("values")
    COUNT = CombiningValueStateSpec("count", sum)
    WINDOW_END = TimerSpec("window end", TimeDomain.WATERMARK)
    BUFFERING_END = TimerSpec("buffering end", TimeDomain.REAL_TIME)

    def __init__(self, batch_size: int, seconds: float, clock: Callable[[], float]) -> None:
        self.batch_size = batch_size
        self.seconds = seconds
        self.clock = clock

    def process(
        self,
        element: Any,
        window: Any = DoFn.WindowParam,
        values: Any = DoFn.StateParam(VALUES),
        count: Any = DoFn.StateParam(COUNT),
        window_end: Any = DoFn.TimerParam(WINDOW_END),
        buffering_end: Any = DoFn.TimerParam(BUFFERING_END),
    ) -> Iterator[Any]:
        key, value = element
        values.add(value)
        count.add(1)
        waiting = count.read()
        if waiting >= self.batch_size:
            window_end.clear()
            yield from self.flushed(key, values, count, buffering_end)
        elif waiting == 1:
            window_end.set(window.end)
            # The runner's clock, which tests may control, instead of the machine's.
            if self.seconds and self.clock is time.time:
                buffering_end.set_relative(self.seconds)
            elif self.seconds:
                buffering_end.set(self.clock() + self.seconds)

    @on_timer(WINDOW_END)
    def at_window_end(
        self,
        key: Any = DoFn.KeyParam,
        values: Any = DoFn.StateParam(VALUES),
        count: Any = DoFn.StateParam(COUNT),
        buffering_end: Any = DoFn.TimerParam(BUFFERING_END),
    ) -> Iterator[Any]:
        return self.flushed(key, values, count, buffering_end)

    @on_timer(BUFFERING_END)
    def after_a_while(
        self,
        key: Any = DoFn.KeyParam,
        values: Any = DoFn.StateParam(VALUES),
        count: Any = DoFn.StateParam(COUNT),
        buffering_end: Any = DoFn.TimerParam(BUFFERING_END),
        window_end: Any = DoFn.TimerParam(WINDOW_END),
    ) -> Iterator[Any]:
        window_end.clear()
        return self.flushed(key, values, count, buffering_end)

    def flushed(self, key: Any, values: Any, count: Any, buffering_end: Any) -> Iterator[Any]:
        """Yield the buffered values as one list."""
        batch = values.read()
        values.clear()
        count.clear()
        buffering_end.clear()
        if batch:
            yield key, batch


class _Sharded(DoFn):
    """(key, value) to (ShardedKey of this worker, value)."""

    # Each worker has its own shard.
    deterministic = False

    def setup(self) -> None:
        self.shard_id = worker_id()

    def process(self, element: Any) -> Iterable[Any]:
        key, value = element
        return ((ShardedKey(key, self.shard_id), value),)


def _batches(element: Any, size: int) -> Iterator[tuple[Any, list[Any]]]:
    key, values = element
    rest = iter(values)
    while batch := list(islice(rest, size)):
        yield key, batch


def _checked(batch_size: int, max_buffering_duration_secs: DurationTypes | None) -> int:
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"GroupIntoBatches: batch_size must be an int of at least 1, got {batch_size!r}")
    if max_buffering_duration_secs is not None and micros_of_span(max_buffering_duration_secs) < 0:
        raise ValueError(
            f"GroupIntoBatches: max_buffering_duration_secs must not be negative, got {max_buffering_duration_secs!r}"
        )
    return batch_size
