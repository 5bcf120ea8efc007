"""GroupIntoBatches: the values of each key in lists of limited length."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import GenericAlias
from typing import Any

from ..sdk import typehints
from ..sdk.coders.sharded_key import ShardedKey
from ..sdk.dofn import DoFn
from ..sdk.errors import UnsupportedError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from .group_by_key import GroupByKey, pair_types
from .pardo import FlatMap, ParDo


class GroupIntoBatches(PTransform):
    """(key, value) pairs to (key, list of at most `batch_size` values), for each key and window.

    Args:
      batch_size: how many values make a list; what is left at a window's end makes a shorter one.
      max_buffering_duration_secs: None or 0, for lists that wait for the end of the window.
        Others aren't supported yet; raises `UnsupportedError`.
      clock: gives the seconds.

    >>> import penstock as beam
    >>> [("a", 1), ("b", 2), ("a", 3), ("a", 4)] | beam.GroupIntoBatches(2)
    [('a', [1, 3]), ('a', [4]), ('b', [2])]
    """

    def __init__(
        self,
        batch_size: int,
        max_buffering_duration_secs: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self.batch_size = _checked(batch_size, max_buffering_duration_secs)
        self.max_buffering_duration_secs = max_buffering_duration_secs
        self.clock = clock

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        key, value = pair_types(pcoll)
        hint = typehints.KV[key, GenericAlias(list, (value,))]
        return pcoll | "Group" >> GroupByKey() | "Batch" >> FlatMap(_batches, self.batch_size).with_output_types(hint)  # type: ignore[no-any-return]

    class WithShardedKey(PTransform):
        """The same with each key split into shards, `ShardedKey(key, shard_id)`, one for each worker.

        >>> import penstock as beam
        >>> batches = [("a", 1), ("a", 2), ("a", 3)] | beam.GroupIntoBatches.WithShardedKey(2)
        >>> [(sharded.key, batch) for sharded, batch in batches]
        [('a', [1, 2]), ('a', [3])]
        """

        def __init__(
            self,
            batch_size: int,
            max_buffering_duration_secs: float | None = None,
            clock: Callable[[], float] = time.time,
        ) -> None:
            super().__init__()
            self.batches = GroupIntoBatches(batch_size, max_buffering_duration_secs, clock)

        def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
            _, value = pair_types(pcoll)
            sharded = ParDo(_Sharded()).with_output_types(typehints.KV[ShardedKey, value])
            return pcoll | "Shard" >> sharded | self.batches  # type: ignore[no-any-return]


class _Sharded(DoFn):
    """(key, value) to (ShardedKey of this worker, value)."""

    # Another worker is another shard.
    deterministic = False

    def setup(self) -> None:
        self.shard_id = uuid.uuid4().bytes

    def process(self, element: Any) -> Iterable[Any]:
        key, value = element
        return ((ShardedKey(key, self.shard_id), value),)


def _batches(element: Any, size: int) -> Iterator[tuple[Any, list[Any]]]:
    key, values = element
    rest = iter(values)
    while batch := list(islice(rest, size)):
        yield key, batch


def _checked(batch_size: int, max_buffering_duration_secs: float | None) -> int:
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"GroupIntoBatches: batch_size must be an int of at least 1, got {batch_size!r}")
    if max_buffering_duration_secs is not None and max_buffering_duration_secs < 0:
        raise ValueError(
            f"GroupIntoBatches: max_buffering_duration_secs must not be negative, got {max_buffering_duration_secs!r}"
        )
    if max_buffering_duration_secs:
        raise UnsupportedError(
            f"GroupIntoBatches: max_buffering_duration_secs={max_buffering_duration_secs!r} isn't supported yet; "
            "leave it out, and values that don't fill a batch wait for the end of their window"
        )
    return batch_size
