"""An unbounded source on the driver: it plans the ranges of the source's partitions that a batch reads.

A reader on the driver says which offset a batch may read to, and the watermark there.  Another reader, in an executor,
reads exactly this range.  If a source can't be read again, the driver's reader reads the elements, which become part of
the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from ....frozen import frozen
from ....sdk import graph
from ....sdk.sources.unbounded import UnboundedReader, UnboundedSource
from ....windowing.duration import micros_of_span
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS, Timestamp
from ...execution.plan.fusion import Source
from ...execution.plan.source_identities import PartitionPosition, rescaled
from ...execution.streaming.sources import checked_partitions, checked_watermark, checked_watermarks
from ...execution.user_errors import guarded
from .plan import BatchInput, InputSplit, PartitionRange, ReadElements

# The most bytes that a plan has of a partition that can't be read again, approximately.
_PLANNED_BYTES = 64 << 20


@frozen
class Admission:
    """Limits of the input of one batch.

    Attributes:
      records: the most elements, of all sources together.
      bytes: the most bytes of each partition, approximately; None for no limit.
    """

    records: int = 1_000_000
    bytes: int | None = None


@attrs.define
class _Partition:
    partition: Any
    # None once a committed batch has read the partition to its end.
    reader: UnboundedReader[Any] | None
    offset: Any
    watermark: int = MIN_MICROS
    is_finished: bool = False


class DriverUnboundedSource:
    """The partitions of an unbounded source.

    Attributes:
      is_drained: whether the source ends as if its input had ended.
    """

    def __init__(self, step: Source) -> None:
        self.label = step.transform.label
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.Read)
        assert isinstance(primitive.source, UnboundedSource)
        self.is_drained = False
        self._source = primitive.source
        (self._output,) = step.transform.outputs.values()
        self._partitions: dict[Any, _Partition] | None = None
        self._watermark = MIN_MICROS
        self._discover_at: int | None = None
        self._turn = 0

    @property
    def is_finished(self) -> bool:
        """True if no batch will read more."""
        if self.is_drained:
            return True
        if self._partitions is None or self._source.discovery_interval is not None:
            return False
        return all(partition.is_finished for partition in self._partitions.values())

    def add_input(self, into: BatchInput, admission: Admission) -> None:
        """Add ranges of partitions, and the watermark after them, to a batch."""
        now = Timestamp.of_micros(into.now)
        self._discover(into.now)
        assert self._partitions is not None
        active = [(p, p.reader) for p in self._partitions.values() if p.reader is not None and not p.is_finished]
        if not self.is_drained:
            remaining = admission.records
            self._turn += 1
            for i in range(len(active)):
                partition, reader = active[(self._turn + i) % len(active)]
                share = -(-remaining // (len(active) - i))
                if share <= 0:
                    break
                splits, end = guarded(self.label, partial(self._admit, partition, reader, share, admission.bytes, now))
                if end != partition.offset:
                    into.splits.extend(splits)
                    partition.offset = end
                    remaining -= share
        self._advance(into, now, active)

    def _admit(
        self, partition: _Partition, reader: UnboundedReader[Any], share: int, bytes: int | None, now: Timestamp
    ) -> tuple[Iterable[InputSplit], Any]:
        """Return what a batch reads of a partition, and the offset after it."""
        if self._source.replayable:
            end = reader.admit(share, bytes, now)
            return [PartitionRange(self.label, partition.partition, partition.offset, end)], end
        read = [ReadElements(self.label, each) for each in reader.admitted(share, bytes or _PLANNED_BYTES, now)]
        return read, reader.offset()

    def _advance(
        self, into: BatchInput, now: Timestamp, active: Sequence[tuple[_Partition, UnboundedReader[Any]]]
    ) -> None:
        holding = []
        for partition, reader in active:
            watermark = checked_watermark(guarded(self.label, partial(reader.watermark, now)), self.label)
            partition.watermark = known = max(partition.watermark, watermark)
            # If partitions may still be found, the finished one's last watermark counts, not the end of time.
            if guarded(self.label, reader.is_finished):
                partition.is_finished = True
                partition.watermark = MAX_MICROS
            # A partition at the end of time doesn't hold the watermark, but can't advance it for those to be found.
            is_over = known >= MAX_MICROS and self._source.discovery_interval is not None
            if is_over or guarded(self.label, partial(reader.is_idle, now)):
                continue
            holding.append(known)
            watermarks = checked_watermarks(guarded(self.label, partial(reader.watermarks, now)), self.label)
            for share, micros in watermarks.items():
                least = into.percentiles.get(share)
                into.percentiles[share] = micros if least is None else min(least, micros)
        if self.is_finished:
            self._watermark = MAX_MICROS
        elif holding:
            self._watermark = max(self._watermark, min(holding))
        into.watermarks[self._output] = self._watermark

    def _discover(self, now: int) -> None:
        if self._partitions is None:
            self._partitions = {}
        elif self._discover_at is None or now < self._discover_at or self.is_drained:
            return
        for partition in checked_partitions(guarded(self.label, self._source.partitions), self.label):
            known = self._partitions.get(partition)
            if known is None or (self._source.reopens and known.is_finished):
                self._open(partition, None, MIN_MICROS, False)
        interval = self._source.discovery_interval
        self._discover_at = None if interval is None else now + micros_of_span(interval)

    def _open(self, partition: Any, offset: Any, watermark: int, is_finished: bool) -> None:
        assert self._partitions is not None
        before = self._partitions.get(partition)
        if before is not None and before.reader is not None:
            before.reader.close()
        # The input of a finished partition may have been removed.
        reader = None if is_finished else guarded(self.label, partial(self._source.open, partition, offset))
        start = guarded(self.label, reader.offset) if offset is None and reader is not None else offset
        self._partitions[partition] = _Partition(partition, reader, start, watermark, is_finished)

    def time_jumped(self, micros: int) -> None:
        """Tell the readers that processing time was set forward."""
        for partition in (self._partitions or {}).values():
            if partition.reader is not None and not partition.is_finished:
                guarded(self.label, partial(partition.reader.time_jumped, micros))

    # Positions

    def position(self) -> Any:
        """Return the watermark, `is_drained`, and the positions of the partitions."""
        partitions = (self._partitions or {}).values()
        return (
            self._watermark,
            self.is_drained,
            [(p.partition, p.offset, p.watermark, p.is_finished) for p in partitions],
        )

    def restore(self, position: Any, before: Mapping[str, Any] | None = None) -> None:
        """Continue from a position.

        Args:
          before: the source's identity when the position was taken, if it is known.
        """
        self.close()
        self._watermark, self.is_drained, partitions = position
        if partitions:
            if before is not None:
                partitions = rescaled(
                    self.label, self._source, before, [PartitionPosition(*each) for each in partitions]
                )
            self._partitions = {}
            for partition in partitions:
                self._open(*partition)
            if not self._source.keeps_partitions:
                self._discover_at = MIN_MICROS

    def acknowledge(self, position: Any) -> None:
        """Tell the readers that a batch with this position is committed."""
        _, is_drained, partitions = position
        for partition, offset, _, is_finished in partitions:
            own = (self._partitions or {}).get(partition)
            if own is None or own.reader is None:
                continue
            guarded(self.label, partial(own.reader.acknowledge, offset))
            if is_drained:
                guarded(self.label, own.reader.discard)
            if is_finished and own.is_finished:
                own.reader.close()
                own.reader = None

    def close(self) -> None:
        """Close all readers."""
        for partition in (self._partitions or {}).values():
            if partition.reader is not None:
                partition.reader.close()
        self._partitions = None
