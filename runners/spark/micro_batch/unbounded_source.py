"""An unbounded source as the driver sees it: how far a batch may go, partition by partition.

A reader on the driver is asked what may be admitted, and how far the watermark is then; another one, in an
executor, reads exactly that much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from ....sdk import graph
from ....sdk.sources.unbounded import UnboundedReader, UnboundedSource
from ....windowing.duration import micros_of_span
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS, Timestamp
from ...execution.plan.fusion import Source
from ...execution.plan.source_identities import PartitionPosition, rescaled
from ...execution.streaming.source_checks import checked_partitions, checked_watermark, checked_watermarks
from ...execution.user_errors import guarded
from .plan import Gathered, OffsetRange


@attrs.frozen
class Admission:
    """How much one batch may read.

    Attributes:
      records: at most so many elements, of all sources together.
      bytes: about so many bytes of each partition; None for no limit.
    """

    records: int = 1_000_000
    bytes: int | None = None


@attrs.define
class _Partition:
    partition: Any
    # None once a committed batch says that it is finished.
    reader: UnboundedReader[Any] | None
    offset: Any
    watermark: int = MIN_MICROS
    is_finished: bool = False


class UnboundedOnDriver:
    """A source's partitions.

    Attributes:
      is_drained: whether it was told to stop as if the input had ended.
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
        """Whether nothing more will come."""
        if self.is_drained:
            return True
        if self._partitions is None or self._source.discovery_interval is not None:
            return False
        return all(partition.is_finished for partition in self._partitions.values())

    def gather(self, into: Gathered, admission: Admission) -> None:
        """Add what is to be read."""
        now = Timestamp.of_micros(into.now)
        self._discover(into.now)
        assert self._partitions is not None
        active = [(p, p.reader) for p in self._partitions.values() if p.reader is not None and not p.is_finished]
        if not self.is_drained:
            left = admission.records
            self._turn += 1
            for i in range(len(active)):
                partition, reader = active[(self._turn + i) % len(active)]
                share = -(-left // (len(active) - i))
                if share <= 0:
                    break
                start = partition.offset
                end = guarded(self.label, partial(reader.admit, share, admission.bytes, now))
                if end != start:
                    into.readings.append(OffsetRange(self.label, partition.partition, start, end))
                    partition.offset = end
                    left -= share
        self._move(into, now, active)

    def _move(self, into: Gathered, now: Timestamp, active: Sequence[tuple[_Partition, UnboundedReader[Any]]]) -> None:
        holding = []
        for partition, reader in active:
            watermark = checked_watermark(guarded(self.label, partial(reader.watermark, now)), self.label)
            partition.watermark = known = max(partition.watermark, watermark)
            # Where others may be found it is its last words that count, and not that it says nothing more.
            if guarded(self.label, reader.is_finished):
                partition.is_finished = True
                partition.watermark = MAX_MICROS
            # Of partitions that are yet to be found nobody knows, also if this one is at the end of time.
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
        # What is finished may be gone.
        reader = None if is_finished else guarded(self.label, partial(self._source.open, partition, offset))
        start = guarded(self.label, reader.offset) if offset is None and reader is not None else offset
        self._partitions[partition] = _Partition(partition, reader, start, watermark, is_finished)

    def time_jumped(self, micros: int) -> None:
        """Processing time was set forward by so much."""
        for partition in (self._partitions or {}).values():
            if partition.reader is not None and not partition.is_finished:
                guarded(self.label, partial(partition.reader.time_jumped, micros))

    # Where it stands

    def position(self) -> Any:
        """Where it stands."""
        partitions = (self._partitions or {}).values()
        return (
            self._watermark,
            self.is_drained,
            [(p.partition, p.offset, p.watermark, p.is_finished) for p in partitions],
        )

    def restore(self, position: Any, before: Mapping[str, Any] | None = None) -> None:
        """Go on from there.

        Args:
          before: the source's identity then, where it is known.
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
        """A batch with this position is committed."""
        _, _, partitions = position
        for partition, offset, _, is_finished in partitions:
            own = (self._partitions or {}).get(partition)
            if own is None or own.reader is None:
                continue
            guarded(self.label, partial(own.reader.acknowledge, offset))
            if is_finished and own.is_finished:
                own.reader.close()
                own.reader = None

    def close(self) -> None:
        """Close every reader."""
        for partition in (self._partitions or {}).values():
            if partition.reader is not None:
                partition.reader.close()
        self._partitions = None
