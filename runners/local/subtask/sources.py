"""Sources in one subtask: readers of partitions, polled in turn, and scripts (MillWheel, section 4.2: injectors)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ....sdk import graph
from ....sdk.coders.key_encoding import key_hash
from ....sdk.coders.mixed_hash import bucket, pickled_hash
from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle
from ....sdk.errors import InvalidKeyError
from ....sdk.sources.scripted_source import ClockMoves, PercentileMoves, SignalArrives
from ....sdk.sources.unbounded import UnboundedReader, UnboundedSource
from ....windowing.duration import micros_of_span
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS, Timestamp
from ...execution.clock import Pace, StepClock
from ...execution.plan.execution_graph import Task
from ...execution.plan.fusion import Plan, Source
from ...execution.plan.source_identities import PartitionPosition, rescaled
from ...execution.streaming.snapshot import Restored
from ...execution.streaming.snapshot_chunks import POSITIONS, SCRIPT
from ...execution.streaming.sources import (
    BoundedPartitions,
    SplitPartition,
    checked_backlog,
    checked_bundle,
    checked_partitions,
    checked_watermark,
    checked_watermarks,
)
from ...execution.streaming.task_program import TaskProgram
from ...execution.user_errors import guarded
from ..channels.messages import ClockMoved, Message, PercentileMoved, SignalCame
from .replay_dedup import Numbering
from .reports import TaskMetrics
from .script_reader import ScriptReader, script_of

# Partitions that aren't integers are numbered below this.
_NUMBERS = 1 << 12

# Least interval of watermarks from busy sources, in microseconds: one for every record would cost as much, in every
# task downstream, as the record.
_RARELY = 2_000

# The most elements to read in a pipeline with a loop.  A task behind a shuffle may be slower than the sources know.
_MOST_IN_LOOPS = 256


class _Partition:
    __slots__ = ("has_been_asked", "is_finished", "partition", "reader", "watermark")

    def __init__(self, partition: Any, reader: UnboundedReader[Any] | None, watermark: int) -> None:
        self.partition = partition
        self.reader = reader
        self.watermark = watermark
        self.is_finished = reader is None
        # Whether its watermark was read after its last elements.
        self.has_been_asked = True


class SourceReader:
    """Reads a subtask's partitions of a source, each from its own offset.

    The reader's watermark is the least of its partitions'.  An idle or finished partition doesn't hold it back.

    Args:
      step: the source.
      index, parallelism: which of how many subtasks this is.

    Attributes:
      output: the PCollection that it makes.
      drained: true after it was stopped as if the input had ended.
      polled: the partition of the last bundle.
      bundles: how many bundles it has read.
    """

    def __init__(self, step: Source, index: int, parallelism: int) -> None:
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
        self._index = index
        self._parallelism = parallelism
        self._partitions: dict[Any, _Partition] = {}
        self._next = 0
        self._watermark = MIN_MICROS
        self._discover_at: int | None = None

    def start(
        self, now: int, positions: Sequence[PartitionPosition] | None, before: Mapping[str, Any] | None = None
    ) -> None:
        """Open the partitions: at the beginning, or at the positions of a snapshot of the whole source.

        Args:
          before: the source's identity when that snapshot was taken, if it is known.
        """
        if positions and before is not None:
            positions = rescaled(self.label, self._source, before, positions)
        if positions is not None:
            # A finished partition says nothing about partitions that are yet to be discovered.
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
        self._partitions[partition] = _Partition(partition, reader, watermark)

    def _discover(self, now: int, is_restored: bool) -> None:
        if not (is_restored and self._source.keeps_partitions):
            for partition in checked_partitions(guarded(self.label, self._source.partitions), self.label):
                if self._is_mine(partition) and self._is_new(partition):
                    self._open(PartitionPosition(partition, None, MIN_MICROS, False))
        interval = self._source.discovery_interval
        self._discover_at = None if interval is None else now + micros_of_span(interval)

    def _is_new(self, partition: Any) -> bool:
        known = self._partitions.get(partition)
        return known is None or (self._source.reopens and known.is_finished)

    def time_jumped(self, micros: int) -> None:
        """Tell the partitions' readers that processing time was set forward."""
        for partition in self._partitions.values():
            if partition.reader is not None and not partition.is_finished:
                guarded(self.label, partial(partition.reader.time_jumped, micros))

    def poll(self, max_elements: int, now: int) -> Bundle | None:
        """Return elements of the next partition that has any, or None."""
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
                partition.has_been_asked = False
                self.bundles += 1
                self.polled = partition.partition
                return bundle
            # A finished partition has no watermark, so its last one is read before.
            if partition.has_been_asked and guarded(self.label, reader.is_finished):
                partition.is_finished = True
                partition.watermark = MAX_MICROS
        return None

    def watermark(self, now: int) -> int | None:
        """Return the watermark, in microseconds, or None if all partitions are idle."""
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
            partition.has_been_asked = True
            # The end of time on this partition says nothing about partitions that are yet to be discovered.
            is_over = partition.watermark >= MAX_MICROS and self._source.discovery_interval is not None
            if not is_over and not guarded(self.label, partial(reader.is_idle, time)):
                active.append(partition.watermark)
        if not active:
            return None
        self._watermark = max(self._watermark, min(active))
        return self._watermark

    def percentiles(self, now: int) -> dict[float, int]:
        """Return the percentile watermarks of the partitions that are active."""
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
        """True if there will be no more elements."""
        if self.drained:
            return True
        return self._source.discovery_interval is None and all(p.is_finished for p in self._partitions.values())

    def backlog(self) -> int | None:
        """Return about how many elements wait to be read, or None if no partition knows."""
        readers = [p.reader for p in self._partitions.values() if p.reader is not None and not p.is_finished]
        found = [checked_backlog(guarded(self.label, reader.backlog), self.label) for reader in readers]
        known = [n for n in found if n is not None]
        return sum(known) if known else None

    def positions(self) -> list[PartitionPosition]:
        """Return the position of every partition."""
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
        """Acknowledge the positions of a checkpoint that is durable."""
        for position in positions:
            partition = self._partitions.get(position.partition)
            if partition is None or partition.reader is None:
                continue
            reader = partition.reader
            guarded(self.label, partial(reader.acknowledge, position.offset))
            if self.drained and position.offset == guarded(self.label, reader.offset):
                guarded(self.label, reader.discard)
            if position.is_finished and partition.is_finished:
                # A removed file takes up room for as long as it is open.
                self._close(partition)

    def close(self) -> None:
        """Close the reader of every partition."""
        for partition in self._partitions.values():
            self._close(partition)

    def _close(self, partition: _Partition | None) -> None:
        if partition is not None and partition.reader is not None:
            reader, partition.reader = partition.reader, None
            guarded(self.label, reader.close)


def number_of(partition: Any) -> int:
    """Return a number that is the same for a partition in every process.

    It is the partition itself if that is an integer; the numbers of other partitions are random-like.
    """
    if isinstance(partition, SplitPartition):
        return partition.index
    if type(partition) is int:
        return partition
    try:
        hash = key_hash(partition)
    except InvalidKeyError:
        hash = pickled_hash(partition)
    return bucket(hash, _NUMBERS)


class PlayedEvent(NamedTuple):
    """Event of a script that was played.

    Attributes:
      position: the script's position after it.
      message: the message to broadcast to all subtasks, if there is one.
    """

    position: int
    message: Message | None


class SubtaskSources:
    """Reads one subtask's part of its task's sources.

    Args:
      index, parallelism: which of how many subtasks it is.
      numbering: of its output, if that is numbered.
      is_timed: whether processing time passes while they are read.
      step_clock: the worker's.
      has_loops: whether each bundle is processed to its end, through all loops: bundles are small then.

    Attributes:
      is_paused: true while nothing may be read.
      read: how many elements the last poll has read.
    """

    def __init__(
        self,
        task: Task,
        execution: TaskProgram,
        index: int,
        parallelism: int,
        metrics: TaskMetrics,
        numbering: Numbering | None,
        is_timed: bool,
        step_clock: StepClock,
        has_loops: bool,
    ) -> None:
        self._execution = execution
        self._counts = metrics.counts
        self._numbering = numbering
        self.scripts = [ScriptReader(step, index) for step in task.sources if script_of(step) is not None]
        self.readers = [SourceReader(step, index, parallelism) for step in task.sources if script_of(step) is None]
        self._by_reader = {reader.label: metrics.counts.of(reader.label) for reader in self.readers}
        self._is_timed = is_timed and not self.scripts
        most = _MOST_IN_LOOPS if has_loops and self._is_timed else BUNDLE_SIZE
        self._paces = {reader.label: step_clock.pace(most) for reader in self.readers}
        self._has_loops = has_loops
        # The pace of the last bundle, if it ends with the last of its feedback.
        self._unpaced: Pace | None = None
        self._asked_at = 0
        self.is_paused = False
        self.read = 0
        self._may_play = False

    @property
    def labels(self) -> Iterator[str]:
        """The labels of the sources."""
        yield from (reader.label for reader in self.readers)
        yield from (script.label for script in self.scripts)

    @property
    def are_finished(self) -> bool:
        """True if there will be no more elements."""
        return all(reader.is_finished for reader in self.readers) and all(each.is_finished for each in self.scripts)

    def start_readers(self, restored: Restored | None, now: int) -> None:
        """Begin to read: at the beginning, or at the positions of a snapshot."""
        for reader in self.readers:
            positions: Sequence[Any] | None = None
            if restored is not None and (known := restored.newest(reader.label, POSITIONS)):
                positions = [position for own in known for position in own]
            reader.start(now, positions, None if restored is None else restored.sources.get(reader.label))

    def start_scripts(self, restored: Restored | None) -> None:
        """Begin to play: at the beginning, or at the position of a snapshot."""
        for script in self.scripts:
            position = max(restored.newest(script.label, SCRIPT), default=0) if restored is not None else 0
            script.start(self._execution, position)

    def poll(self, now: int, room: int | None = None) -> bool:
        """Read a bundle of some source.  Return True if there was one, or if a source has just ended.

        Args:
          room: how many elements the subtask may take before some receiver is behind; None for any number.
        """
        self.read = 0
        if self.is_paused:
            return False
        for reader in [reader for reader in self.readers if not reader.is_finished]:
            pace = self._paces[reader.label]
            pace.begin()
            most = min(pace.count, BUNDLE_SIZE)
            bundle = reader.poll(most if room is None else min(most, room), now)
            if bundle is not None:
                if self._numbering is not None:
                    self._numbering.origin = reader.label, reader.polled
                count = self._by_reader[reader.label]
                self.read = len(bundle)
                count.read += len(bundle)
                count.written += len(bundle)
                self._execution.dataflow.send_to(reader.output)(bundle)
                if self._has_loops:
                    self._unpaced = pace
                else:
                    pace.end(len(bundle))
                return True
            # The end moves the watermark, at once.
            if reader.is_finished:
                return True
        return False

    def done(self) -> None:
        """Measure the pace of the last bundle: all that follows from it has been done here."""
        if self._unpaced is not None:
            self._unpaced.end(self.read)
            self._unpaced = None

    def may_ask(self, now: int) -> bool:
        """Return True if it is time, after elements, to read the sources' watermarks."""
        if self._is_timed and now - self._asked_at < _RARELY and not self.are_finished:
            return False
        self._asked_at = now
        return True

    def may_play(self) -> None:
        """Allow the next event of a script: all that the last one made due has been done."""
        self._may_play = True

    def play(self) -> PlayedEvent | None:
        """Play the next event of a script, if it is allowed and there is one."""
        if self.is_paused or not self._may_play:
            return None
        for script in self.scripts:
            if not script.is_finished:
                self._may_play = False
                event = script.play(self._execution, self._counts)
                message: Message | None = None
                if isinstance(event, ClockMoves):
                    message = ClockMoved(self._execution.clock.now + event.micros)
                elif isinstance(event, SignalArrives):
                    message = SignalCame(script.position, event.name)
                elif isinstance(event, PercentileMoves):
                    message = PercentileMoved(event.percentile, event.micros)
                return PlayedEvent(script.position, message)
        return None

    def drain(self) -> None:
        """Read nothing more, as if the input had ended here."""
        for reader in self.readers:
            reader.drained = True

    def close(self) -> None:
        """Close every reader."""
        for reader in self.readers:
            reader.close()


def time_of_scripts(plan: Plan, restored: Restored) -> int:
    """Return the processing time of a snapshot's scripts, in microseconds; 0 without a script."""
    time = 0
    for step in plan.steps:
        if isinstance(step, Source) and (script := script_of(step)) is not None:
            played = script.events[: max(restored.newest(step.transform.label, SCRIPT), default=0)]
            time = max(time, sum(event.micros for event in played if isinstance(event, ClockMoves)))
    return time
