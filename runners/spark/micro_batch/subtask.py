"""One level's task on one shard: what its Python worker keeps of it from batch to batch, and one batch of it.

The state is resident in the worker.  A batch says which part of the snapshot store it goes on from; a
worker that holds just that goes on, any other one reads it first.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any
from uuid import uuid4

import attrs

from ....sdk import graph
from ....sdk.bundle import expanded
from ....sdk.metrics import MetricsContainer, scoped
from ....sdk.serialization import dumps
from ....sdk.sources.unbounded import UnboundedSource
from ....windowing.timestamp import Timestamp
from ...execution.checkpoints.catalog import path_of
from ...execution.checkpoints.files import FileReference
from ...execution.checkpoints.manifest import PartReference
from ...execution.checkpoints.store import SnapshotStore
from ...execution.clock import Clock
from ...execution.counters import Counts
from ...execution.plan.execution_graph import Edge, EdgeKind, ExecutionGraph, Task
from ...execution.plan.fusion import Grouping, Keyed, Source
from ...execution.shuffle.blocks import decode_bundle
from ...execution.streaming.snapshot import Restored, snapshot
from ...execution.streaming.snapshot_chunks import CLOCKS, Chunk, Origin, chunks_of, records_of
from ...execution.streaming.spiller import Spiller
from ...execution.streaming.task_execution import TaskExecution
from ...execution.user_errors import guarded
from .exchange import Buffer, Outbox, Parcel, TaskId, TaskResult, TaskSeconds, address
from .failpoints import Reached, go_on
from .plan import Arriving, FrameRows, OffsetRange, PlannedBatch, Reading
from .task_rdds import Row

# A part is written whole again when there are so many changes on it, or they are larger than it.
LONGEST_CHAIN = 16


@attrs.frozen
class Program:
    """What a run's workers know from the beginning.

    Attributes:
      execution_graph: its tasks are levels.
      store: where state is kept.
      reached: is told of each of the `commit_points`.
      shard_memory: about how many bytes of keyed state a shard may have in memory; None if all of it.
      worker_timeout: seconds after which a call that has not returned is named in the worker's log.
    """

    execution_graph: ExecutionGraph
    store: SnapshotStore
    reached: Reached = go_on
    shard_memory: int | None = None
    worker_timeout: float = 10.0

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return len(self.execution_graph.tasks)

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return self.execution_graph.parallelism


@attrs.frozen
class StatePart:
    """A part that a task's state is in, and which shard of how many wrote it."""

    part: PartReference
    shard: int
    of: int


def part_name(id: TaskId, shards: int) -> str:
    """What a task's part of a checkpoint is called.

    >>> part_name(TaskId(1, 0), 4)
    'level 1, shard 0 of 4'
    """
    return f"level {id.level}, shard {id.shard} of {shards}"


class Shard:
    """A task at work, from batch to batch.

    Attributes:
      version: the last file of its state as it is in the store; None if nothing is there.
    """

    def __init__(self, program: Program, id: TaskId, batch: PlannedBatch) -> None:
        self.id = id
        self.program = program
        self.version: str | None = None
        self.was_loaded = False
        self._loading = 0.0
        self._task = program.execution_graph.tasks[id.level]
        self._metrics = MetricsContainer()
        self._newest: dict[str, int] = {}
        self._counts = Counts()
        self._clock = Clock(0)
        plan = program.execution_graph.plan
        self.execution = TaskExecution(
            plan,
            self._task,
            self._clock,
            self._metrics,
            self._counts,
            batch.transaction,
            f"{id.level}-{id.shard}-{uuid4().hex[:8]}",
        )
        nodes = plan.graph.pcollections
        labels = {
            edge.id: edge.step.transform.label  # type: ignore[union-attr]
            if edge.step is not None and edge.kind is EdgeKind.SHUFFLE
            else nodes[edge.pcollection].producer
            for edge in self._task.outputs
        }
        self._spiller = self._new_spiller()
        self._outbox = Outbox(id, self._task.outputs, program.shards, labels)
        for edge in self._task.outputs:
            self.execution.dataflow.attach(edge.pcollection, partial(self._outbox.send, edge))
        self._edges = {edge.id: edge for edge in self._task.inputs}
        self._receivers = {edge.id: self.execution.receiver(edge) for edge in self._task.inputs}
        self._sources = {step.transform.label: step for step in self._task.sources}

    def _new_spiller(self) -> Spiller | None:
        """What parks the state that there is no memory for, if any is kept; a shard's levels have equal parts."""
        limit = self.program.shard_memory
        if limit is None or not keeps_state(self._task):
            return None
        levels = sum(map(keeps_state, self.program.execution_graph.tasks))
        # Spark's own places for what is temporary: large ones, which it removes with the executor.
        directories = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
        return Spiller(self.execution, limit // levels, directories[0] or None)

    def load(self, parts: Sequence[StatePart]) -> None:
        """Take over what is in the store."""
        began = time.perf_counter()
        is_anothers = not all(self.program.store.has_written(p.part) for p in parts)
        restored = Restored(self.id.shard, self.program.shards, compares_keys=is_anothers)
        for part, shard, of in ((p.part, p.shard, p.of) for p in parts):
            records = (of_file for _, of_file in self.program.store.read_part(part))
            files = [self._chunks_of(own, file, restored) for own, file in zip(records, part.files, strict=True)]
            restored.add(files, shard, of)
        restored.into(self.execution)
        restored.watch_keys(self.execution)
        self.was_loaded = bool(parts)
        self._loading = time.perf_counter() - began

    def _chunks_of(self, records: Iterable[bytes], file: FileReference, restored: Restored) -> Iterable[Chunk]:
        program = self.program
        plan = program.execution_graph.plan
        origin = Origin.of(f"the checkpoint in {program.store.directory}", plan)
        chunks = chunks_of(records, origin.of_file(path_of(program.store.directory, file)))
        if self._spiller is None:
            return chunks
        return self._spiller.restoring(restored.noting_keys(chunks), self.id.shard, program.shards)

    def teardown(self) -> None:
        """Nothing more will come to it."""
        self._finish()
        if self._spiller is not None:
            self._spiller.close()

    def _finish(self) -> None:
        self.execution.teardown()
        self._outbox.teardown()

    # A batch

    def run(self, batch: PlannedBatch, rows: Iterable[Buffer], base: PartReference | None) -> Iterator[Row]:
        """One batch: its parcels, and what it has to tell the driver."""
        attempt, began = uuid4().hex[:12], time.perf_counter()
        execution, outbox = self.execution, self._outbox
        outbox.begin(attempt)
        self._newest.clear()
        for output in execution.outputs:
            output.next(batch.transaction)
        try:
            with scoped(self._metrics):
                self._hear(batch)
                if self.id.level == 0:
                    consumed: dict[TaskId, str] = {}
                    for row in rows:
                        self._read(batch, pickle.loads(row))
                        yield from outbox.taken()
                    for pcollection, micros in batch.watermarks.items():
                        execution.move(pcollection, micros)
                else:
                    parcels = sorted(map(pickle.loads, rows), key=_order)
                    consumed = {parcel.source: parcel.attempt for parcel in parcels}
                    for _ in self._take(parcels):
                        yield from outbox.taken()
                execution.propagate()
                is_complete = batch.is_last and execution.is_complete()
                for output in execution.outputs:
                    output.stage()
                if is_complete:
                    self._finish()
            yield from outbox.finish({e.id: execution.watermark(e.pcollection) for e in self._task.outputs})
            seconds = TaskSeconds(self._loading, time.perf_counter() - began)
            result = self._result(batch, attempt, consumed, base, is_complete, seconds)
        except BaseException:
            for output in execution.outputs:
                output.discard()
            with suppress(Exception):
                self.teardown()
            raise
        self.version = None if result.part is None else result.part.files[-1].file
        self.was_loaded, self._loading = False, 0.0
        yield self.id.shard, address(self.program.levels, pickle.dumps(result, protocol=5))

    def _hear(self, batch: PlannedBatch) -> None:
        """Everybody is told what time it is before anything comes of it."""
        execution = self.execution
        if batch.now > self._clock.now:
            self._clock.now = batch.now
            execution.propagate()
        for share, micros in batch.percentiles.items():
            execution.advance_percentile(share, micros)
        for name in batch.signals:
            execution.signal(name)

    def _take(self, parcels: Sequence[Parcel]) -> Iterator[None]:
        """Side inputs first: so that what looks at them needn't wait for the next batch."""
        for is_side in (True, False):
            edges = {id: edge for id, edge in self._edges.items() if (edge.kind is EdgeKind.BROADCAST) is is_side}
            for parcel in parcels:
                for _, id, block in parcel.blocks:
                    if id in edges:
                        self._receivers[id](decode_bundle(block))
                        self._relieve()
                        yield
            self._move(edges, parcels)
            if is_side and edges:
                self.execution.propagate()

    def _relieve(self) -> None:
        if self._spiller is not None:
            self._spiller.spill_excess()

    def _move(self, edges: dict[int, Edge], parcels: Sequence[Parcel]) -> None:
        """The watermark of an edge is the least of those at its beginnings."""
        said: dict[int, list[int]] = {id: [] for id in edges}
        for parcel in parcels:
            for id, micros in (parcel.watermarks or {}).items():
                if id in said:
                    said[id].append(micros)
        for id, watermarks in said.items():
            self.execution.move_edge(edges[id], min(watermarks))

    # Sources

    def _read(self, batch: PlannedBatch, readings: Sequence[Reading]) -> None:
        for reading in readings:
            step = self._sources[reading.label]
            count = self._counts.of(reading.label)
            pcollection, bundles = self._bundles(batch, reading, step)
            send = self.execution.dataflow.send_to(pcollection)
            while (bundle := guarded(reading.label, partial(next, bundles, None))) is not None:
                count.read += len(bundle)
                count.written += len(bundle)
                if isinstance(reading, FrameRows):
                    newest = max(expanded(bundle.timestamps, len(bundle)))
                    self._newest[reading.label] = max(newest, self._newest.get(reading.label, newest))
                send(bundle)
                self._relieve()

    def _bundles(self, batch: PlannedBatch, reading: Reading, step: Source) -> tuple[int, Iterator[Any]]:
        if isinstance(reading, Arriving):
            return reading.pcollection, iter([reading.bundle])
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.Read)
        (output,) = step.transform.outputs.values()
        source: Any = primitive.source
        if isinstance(reading, OffsetRange):
            return output, _between(source, reading, batch.now)
        return output, guarded(reading.label, lambda: iter(source.read_bundles(reading.split)))

    # What is left

    def _chunks(self, is_whole: bool, labels: dict[str, None]) -> Iterator[Chunk]:
        """What has to be remembered; the steps that it is of go into `labels`."""
        if self._spiller is not None:
            self._spiller.remeasure()
        spilled = () if self._spiller is None else self._spiller.chunks(is_whole)
        for chunk in chain(snapshot(self.execution, is_whole), spilled):
            if chunk.kind != CLOCKS:
                labels[chunk.label] = None
            yield chunk

    def _result(
        self,
        batch: PlannedBatch,
        attempt: str,
        consumed: dict[TaskId, str],
        base: PartReference | None,
        is_complete: bool,
        seconds: TaskSeconds,
    ) -> TaskResult:
        began = time.perf_counter()
        execution = self.execution
        staged: dict[str, list[bytes]] = {}
        for output in execution.outputs:
            tokens, output.staged = output.staged, []
            if tokens:
                staged[output.label] = [dumps(token, output.label) for token in tokens]
        whole = base is None or is_long(base)
        labels: dict[str, None] = {}
        chunks = self._chunks(whole, labels)
        first = next(chunks, None)
        part = None
        if first is not None:
            name = part_name(self.id, self.program.shards)
            self.program.reached("before-state", batch.number)
            part = self.program.store.write_part(
                batch.number, name, records_of(chain([first], chunks)), None if whole else base
            )
            self.program.reached("after-state", batch.number)
        seconds.saving = time.perf_counter() - began
        return TaskResult(
            self.id,
            attempt,
            consumed,
            part,
            tuple(labels),
            staged,
            _taken(self._metrics),
            _counted(self._counts),
            execution.next_processing_time(),
            execution.next_event_times(),
            is_complete,
            self.was_loaded,
            seconds,
            dict(self._newest),
        )


def keeps_state(task: Task) -> bool:
    """Whether a task keeps anything by key."""
    return any(isinstance(step, (Grouping, Keyed)) for step in task.steps)


def is_long(part: PartReference) -> bool:
    """Whether a part had better be written whole again."""
    full, *deltas = part.files
    return len(deltas) >= LONGEST_CHAIN and sum(delta.length for delta in deltas) > full.length


def _order(parcel: Parcel) -> Any:
    return parcel.source, parcel.number


def _between(source: UnboundedSource[Any], reading: OffsetRange, now: int) -> Iterator[Any]:
    reader = source.open(reading.partition, reading.start)
    try:
        yield from reader.read_to(reading.end, Timestamp.of_micros(now))
    finally:
        reader.close()


def _taken(metrics: MetricsContainer) -> MetricsContainer:
    """What has been reported in this batch; the dictionaries stay, for whoever holds them."""
    taken = MetricsContainer()
    taken.merge(metrics)
    for step in metrics.steps.values():
        step.counters.clear()
        step.distributions.clear()
        step.gauges.clear()
    return taken


def _counted(counts: Counts) -> Counts:
    taken = Counts()
    for label, step in counts.steps.items():
        if step.read or step.written:
            count = taken.of(label)
            count.read, count.written = step.read, step.written
            step.read = step.written = 0
    return taken
