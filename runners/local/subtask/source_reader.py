"""An injector: a source at work in one subtask (MillWheel, section 4.2).

It has some of the source's partitions, each with its offset, and says how far their watermarks
are: a partition that is declared idle holds nobody back, nor does one that is finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ....sdk import graph
from ....sdk.bundle import Bundle
from ....sdk.coders.key_encoding import key_hash
from ....sdk.errors import InvalidKeyError
from ....sdk.mixed_hash import pickled_hash, place
from ....sdk.sources.unbounded import UnboundedReader, UnboundedSource
from ....windowing.duration import micros_of_span
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS, Timestamp
from ...execution.plan.fusion import Source
from ...execution.plan.source_identities import PartitionPosition, rescaled
from ...execution.streaming.bounded_source import BoundedPartitions, SplitPartition
from ...execution.streaming.source_checks import (
    checked_backlog,
    checked_bundle,
    checked_partitions,
    checked_watermark,
    checked_watermarks,
)
from ...execution.user_errors import guarded

# The number of a partition that is no number itself is one of so many.
_NUMBERS = 1 << 12


class _Partition:
    __slots__ = ("is_finished", "is_heard", "partition", "reader", "watermark")

    def __init__(self, partition: Any, reader: UnboundedReader[Any] | None, watermark: int) -> None:
        self.partition = partition
        self.reader = reader
        self.watermark = watermark
        self.is_finished = reader is None
        # Whether it was asked for its watermark behind the elements that it gave last.
        self.is_heard = True


class Injector:
    """Reads a subtask's part of a source.

    Args:
      step: the source.
      index, parallelism: which of how many subtasks this is.
      over: true when a poll is to return what it has (`TimeSlice.over`).

    Attributes:
      outputs: the PCollections that it makes; one.
      drained: whether it was told to stop as if the input had ended.
      polled: the partition that `poll` gave elements of last.
      bundles: how often it gave any.
    """

    def __init__(self, step: Source, index: int, parallelism: int, over: Any = ()) -> None:
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.Read)
        self.label = step.transform.label
        (self.output,) = step.transform.outputs.values()
        self.drained = False
        self.polled: Any = None
        self.bundles = 0
        source: Any = primitive.source
        if not isinstance(source, UnboundedSource):
            source = BoundedPartitions(source, parallelism)
        self._source: UnboundedSource[Any] = source
        self._over = over
        self._index = index
        self._parallelism = parallelism
        self._partitions: dict[Any, _Partition] = {}
        self._next = 0
        self._watermark = MIN_MICROS
        self._discover_at: int | None = None

    def start(
        self, now: int, positions: Sequence[PartitionPosition] | None, before: Mapping[str, Any] | None = None
    ) -> None:
        """Open the partitions: at the beginning, or where a snapshot of the whole source says.

        Args:
          before: the source's identity when that snapshot was taken, where it is known.
        """
        if positions and before is not None:
            positions = rescaled(self.label, self._source, before, positions)
        if positions is not None:
            # What is finished says nothing of partitions that are yet to be found.
            known = [p.watermark for p in positions if not p.is_finished and p.watermark < MAX_MICROS]
            self._watermark = min(known, default=MIN_MICROS)
            for position in positions:
                if self._is_mine(position.partition):
                    self._open(position)
        self._discover(now, positions is not None)

    def _is_mine(self, partition: Any) -> bool:
        return number_of(partition) % self._parallelism == self._index

    def _open(self, position: PartitionPosition) -> None:
        partition, offset, watermark, is_finished = position
        self._close(self._partitions.get(partition))
        reader = None if is_finished else guarded(self.label, lambda: self._source.open(partition, offset))
        if reader is not None:
            reader.over = self._over
        self._partitions[partition] = _Partition(partition, reader, watermark)

    def _discover(self, now: int, is_restored: bool) -> None:
        if not (is_restored and self._source.keeps_partitions):
            for partition in checked_partitions(guarded(self.label, self._source.partitions), self.label):
                if self._is_mine(partition) and self._is_news(partition):
                    self._open(PartitionPosition(partition, None, MIN_MICROS, False))
        interval = self._source.discovery_interval
        self._discover_at = None if interval is None else now + micros_of_span(interval)

    def _is_news(self, partition: Any) -> bool:
        known = self._partitions.get(partition)
        return known is None or (self._source.reopens and known.is_finished)

    def time_jumped(self, micros: int) -> None:
        """Processing time was set forward by so much."""
        for partition in self._partitions.values():
            if partition.reader is not None and not partition.is_finished:
                guarded(self.label, partial(partition.reader.time_jumped, micros))

    # Reading

    def poll(self, max_elements: int, now: int) -> Bundle | None:
        """Elements of the next partition that has any; None if there are none."""
        if self._discover_at is not None and now >= self._discover_at and not self.drained:
            self._discover(now, False)
        if self.drained:
            return None
        time = Timestamp.of_micros(now)
        partitions = list(self._partitions.values())
        for i in range(len(partitions)):
            partition = partitions[(self._next + i) % len(partitions)]
            reader = partition.reader
            if reader is None or partition.is_finished:
                continue
            bundle = checked_bundle(guarded(self.label, partial(reader.poll, max_elements, time)), self.label)
            if bundle is not None and len(bundle):
                self._next += i + 1
                partition.is_heard = False
                self.bundles += 1
                self.polled = partition.partition
                return bundle
            # What is over says nothing more, and where others may come nobody says it instead.
            if partition.is_heard and guarded(self.label, reader.is_finished):
                partition.is_finished = True
                partition.watermark = MAX_MICROS
        return None

    def watermark(self, now: int) -> int | None:
        """How far the watermark is, in microseconds; None if there is nothing to hold it back here."""
        if self.is_finished:
            return MAX_MICROS
        time = Timestamp.of_micros(now)
        active = []
        for partition in self._partitions.values():
            if partition.is_finished:
                continue
            reader = partition.reader
            assert reader is not None
            watermark = checked_watermark(guarded(self.label, partial(reader.watermark, time)), self.label)
            partition.watermark = max(partition.watermark, watermark)
            partition.is_heard = True
            # Of partitions that are yet to be found nobody knows, also if this one is at the end of time.
            is_over = partition.watermark >= MAX_MICROS and self._source.discovery_interval is not None
            if not is_over and not guarded(self.label, partial(reader.is_idle, time)):
                active.append(partition.watermark)
        if not active:
            return None
        self._watermark = max(self._watermark, min(active))
        return self._watermark

    def percentiles(self, now: int) -> dict[float, int]:
        """The percentile watermarks of the partitions that are read."""
        time = Timestamp.of_micros(now)
        found: dict[float, int] = {}
        for partition in self._partitions.values():
            reader = partition.reader
            if reader is None or partition.is_finished or guarded(self.label, partial(reader.is_idle, time)):
                continue
            watermarks = checked_watermarks(guarded(self.label, partial(reader.watermarks, time)), self.label)
            for share, micros in watermarks.items():
                found[share] = min(found.get(share, micros), micros)
        return found

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will come."""
        if self.drained:
            return True
        return self._source.discovery_interval is None and all(p.is_finished for p in self._partitions.values())

    def backlog(self) -> int | None:
        """About how much waits to be read, as far as that is known."""
        readers = [p.reader for p in self._partitions.values() if p.reader is not None and not p.is_finished]
        found = [checked_backlog(guarded(self.label, reader.backlog), self.label) for reader in readers]
        known = [n for n in found if n is not None]
        return sum(known) if known else None

    # Snapshots

    def positions(self) -> list[PartitionPosition]:
        """Where every partition stands."""
        return [
            PartitionPosition(
                p.partition,
                None if p.reader is None else guarded(self.label, p.reader.offset),
                p.watermark,
                p.is_finished,
            )
            for p in self._partitions.values()
        ]

    def acknowledge(self, positions: Iterable[PartitionPosition]) -> None:
        """A checkpoint with these positions is durable."""
        for position in positions:
            partition = self._partitions.get(position.partition)
            if partition is None or partition.reader is None:
                continue
            guarded(self.label, partial(partition.reader.acknowledge, position.offset))
            if position.is_finished and partition.is_finished:
                # Nobody will ask it for anything any more, and a file that is gone takes up room while it is open.
                self._close(partition)

    def close(self) -> None:
        """Close every reader."""
        for partition in self._partitions.values():
            self._close(partition)

    def _close(self, partition: _Partition | None) -> None:
        if partition is not None and partition.reader is not None:
            reader, partition.reader = partition.reader, None
            guarded(self.label, reader.close)


def number_of(partition: Any) -> int:
    """Return a number that is the same for a partition in every process: the partition itself if it is a number.

    The numbers of other partitions are random-like.
    """
    if isinstance(partition, SplitPartition):
        return partition.index
    if type(partition) is int:
        return partition
    try:
        hash = key_hash(partition)
    except InvalidKeyError:
        hash = pickled_hash(partition)
    return place(hash, _NUMBERS)
