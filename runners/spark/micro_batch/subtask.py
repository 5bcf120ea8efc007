"""A subtask of a micro-batch: it runs once per batch, and keeps its state in its Python worker in between.

The driver says which part of the snapshot store a batch continues from.  A worker whose subtask has just that state
continues with it; any other worker restores the part first.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

import attrs

from ....frozen import frozen
from ....sdk import graph
from ....sdk.columns.column_bundle import ColumnBundle
from ....sdk.elements.bundle import Bundle, expanded
from ....sdk.metrics import MetricsContainer, scoped
from ....sdk.sources.unbounded import UnboundedSource
from ....sdk.user_code.serialization import dumps
from ....windowing.timestamp import Timestamp
from ...execution.checkpoints.catalog import path_of
from ...execution.checkpoints.files import FileReference
from ...execution.checkpoints.manifest import PartReference
from ...execution.checkpoints.store import SnapshotStore, Tables
from ...execution.clock import Clock
from ...execution.counters import Counts, StepCount
from ...execution.operators.traffic import WorkerTraffic
from ...execution.page.profiles import Profiler
from ...execution.plan.execution_graph import EdgeKind, ExecutionGraph, SubtaskId
from ...execution.plan.fusion import Source
from ...execution.shuffle.blocks import decode_bundle
from ...execution.streaming.observation import Observe, Observed, drawn_by, observed_of
from ...execution.streaming.output_sampler import OutputSampler
from ...execution.streaming.snapshot import Restored, snapshot
from ...execution.streaming.snapshot_chunks import CLOCKS, Chunk, Origin, chunks_of, records_of
from ...execution.streaming.state_settings import StateSettings
from ...execution.streaming.tables import StoredTables
from ...execution.streaming.task_program import TaskProgram
from ...execution.user_errors import guarded
from .commit_log import Reached, StatePart, part_name
from .exchange import MessageWriter, ReceivedMessages, Row, SubtaskResult, SubtaskSeconds, address, addressed
from .plan import FrameRows, InputSplit, PartitionRange, PlannedBatch, ReadElements, ScriptedElements

# The most deltas of a part: with more of them, and larger together than the full snapshot, it is written whole.
MAX_DELTAS = 16


@frozen
class Program:
    """What the workers of a run are sent once.

    Attributes:
      store: the store of state.
      reached: called at each of `TASK_POINTS`.
      state: how much state the subtasks of one index may have in memory; None for all of it.
      worker_timeout: seconds after which a call that has not returned is named in the worker's log.
    """

    execution_graph: ExecutionGraph
    store: SnapshotStore
    reached: Reached | None = None
    state: StateSettings | None = None
    worker_timeout: float = 10.0

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return len(self.execution_graph.tasks)

    @property
    def parallelism(self) -> int:
        """The number of subtasks of each task."""
        return self.execution_graph.parallelism


class MicroBatchSubtask:
    """A subtask, from batch to batch.

    Attributes:
      version: the last file of its state in the store; None if it has no state there.
      batch: the number of the last batch that it has run.
      base: the part that a delta of the state can be based on; None if there is none.
    """

    def __init__(self, program: Program, id: SubtaskId, batch: PlannedBatch) -> None:
        self.id = id
        self.program = program
        self.version: str | None = None
        self.batch = batch.number
        self.base: PartReference | None = None
        self._name = part_name(id, program.parallelism)
        self._was_loaded = False
        self._loading = 0.0
        self._task = program.execution_graph.tasks[id.task]
        self._metrics = MetricsContainer()
        self._newest: dict[str, int] = {}
        self._counts = Counts()
        self._clock = Clock(0)
        unit = f"{id.task}-{id.index}-{uuid4().hex[:8]}"
        self.execution = TaskProgram(
            program.execution_graph.plan,
            self._task,
            self._clock,
            self._metrics,
            self._counts,
            batch.transaction,
            unit,
            state=None if program.state is None else _on_scratch(program.state.among(program.execution_graph.tasks)),
        )
        labels = {edge.id: self.execution.output_label(edge) for edge in self._task.outputs}
        self._writer = MessageWriter(id, self._task.outputs, program.parallelism, labels)
        for edge in self._task.outputs:
            self.execution.dataflow.attach(edge.pcollection, partial(self._writer.write, edge))
        self._edges = {edge.id: edge for edge in self._task.inputs}
        self._side_edges = {edge.id for edge in self._task.inputs if edge.kind is EdgeKind.BROADCAST}
        self._receivers = {edge.id: self.execution.receiver(edge) for edge in self._task.inputs}
        self._sources = {step.transform.label: step for step in self._task.sources}
        # What a page shows, and the sampler for it.
        self._observe = Observe()
        self._sampler: OutputSampler | None = None
        self._profiler: Profiler | None = None

    def restore(self, parts: Sequence[StatePart]) -> None:
        """Restore the state from parts of the store."""
        began = time.perf_counter()
        program = self.program
        by_another_run = not all(program.store.has_written(p.part) for p in parts)
        restored = Restored(
            self.id.index, program.parallelism, compares_keys=by_another_run, backend=self.execution.backend
        )
        for part in parts:
            records = (of_file for _, of_file in program.store.read_part(part.part))
            files = [self._chunks_of(own, file) for own, file in zip(records, part.part.files, strict=True)]
            tables = StoredTables(program.store, part.part, self._origin()) if part.part.tables else None
            restored.add(files, part.index, part.parallelism, tables)
        restored.into(self.execution)
        if not restored.is_base:
            self.base = None
        restored.watch_keys(self.execution)
        self._was_loaded = bool(parts)
        self._loading = time.perf_counter() - began

    def _chunks_of(self, records: Iterable[bytes], file: FileReference) -> Iterable[Chunk]:
        return chunks_of(records, self._origin().of_file(path_of(self.program.store.directory, file)))

    def _origin(self) -> Origin:
        program = self.program
        return Origin.of(f"the checkpoint in {program.store.directory}", program.execution_graph.plan)

    def teardown(self) -> None:
        """Tear down user code, and remove state on the disk."""
        self._teardown_steps()
        self.execution.close_backend()

    def _teardown_steps(self) -> None:
        self.execution.teardown()
        self._writer.teardown()

    # A batch

    def run(self, batch: PlannedBatch, rows: Iterable[bytes]) -> Iterator[Row]:
        """Run a batch: yield its messages to later tasks, then its result.

        Args:
          rows: pickled splits for a subtask of the first task; for any other addressed messages, of which it yields
            those for later tasks.
        """
        self.batch = batch.number
        attempt, began = uuid4().hex[:12], time.perf_counter()
        execution, writer = self.execution, self._writer
        writer.begin(attempt)
        self._newest.clear()
        self._begin_observation(batch.observe)
        for output in execution.outputs:
            output.next(batch.transaction)
        try:
            with scoped(self._metrics, seconds=self._counts.seconds):
                self._advance_clocks(batch)
                consumed: dict[SubtaskId, str] = {}
                if self.id.task == 0:
                    for row in rows:
                        for _ in self._read(batch, pickle.loads(row)):
                            yield from writer.take_full()
                    for pcollection, micros in batch.watermarks.items():
                        execution.move(pcollection, micros)
                else:
                    received = ReceivedMessages(self._side_edges)
                    for row in rows:
                        task, message = addressed(row)
                        if task == self.id.task:
                            received.add(pickle.loads(message))
                        else:
                            yield self.id.index, row
                    consumed = received.attempts
                    for _ in self._receive(received):
                        yield from writer.take_full()
                    received.close()
                execution.propagate()
                writer.flush_tables()
                is_complete = batch.is_last and execution.is_complete()
                for output in execution.outputs:
                    output.stage()
                if is_complete:
                    self._teardown_steps()
            yield from writer.finish({e.id: execution.watermark(e.pcollection) for e in self._task.outputs})
            seconds = SubtaskSeconds(self._loading, time.perf_counter() - began)
            result = self._result(batch, attempt, consumed, is_complete, seconds)
        except BaseException:
            if self._profiler is not None:
                self._profiler.stop()
            for output in execution.outputs:
                output.discard()
            with suppress(Exception):
                self.teardown()
            raise
        self.version = None if result.part is None else result.part.files[-1].file
        self._was_loaded, self._loading = False, 0.0
        yield self.id.index, address(self.program.tasks, pickle.dumps(result, protocol=5))

    def _begin_observation(self, wanted: Observe) -> None:
        """Begin a profile; sample what the page shows, if it shows something else than in the last batch."""
        self._profiler = None
        if wanted.profile:
            self._profiler = Profiler(wanted.profile, wanted.seconds, __file__)
        if wanted[:3] == self._observe[:3]:
            return
        self._observe = wanted
        if self._sampler is not None:
            self._sampler.detach()
        self._sampler = (
            OutputSampler(self.execution, self._clock, wanted.step, wanted.key, WorkerTraffic())
            if wanted.is_open
            else None
        )

    def _advance_clocks(self, batch: PlannedBatch) -> None:
        """Advance processing time and percentile watermarks, and deliver signals, before any element."""
        execution = self.execution
        if batch.now > self._clock.now:
            self._clock.now = batch.now
            execution.propagate()
        for share, micros in batch.percentiles.items():
            execution.advance_percentile(share, micros)
        for name in batch.signals:
            execution.signal(name)

    def _receive(self, messages: ReceivedMessages) -> Iterator[None]:
        """Process side inputs first, so that no element waits for the next batch."""
        for is_side in (True, False):
            for id, block in messages.blocks(is_side):
                self._receivers[id](decode_bundle(block))
                self.execution.spill_excess()
                yield
            # The watermark of an edge is the least of its upstream subtasks' watermarks.
            for id, edge in self._edges.items():
                if (id in self._side_edges) is is_side:
                    self.execution.move_edge(edge, min(messages.watermarks[id]))
            if is_side and self._side_edges:
                self.execution.propagate()

    # Sources

    def _read(self, batch: PlannedBatch, splits: Sequence[InputSplit]) -> Iterator[None]:
        """Read splits; yields after each bundle."""
        for split in splits:
            count = self._counts.of(split.label)
            pcollection, bundles = self._bundles(batch, split, self._sources[split.label])
            send = self.execution.dataflow.send_to(pcollection)
            while (bundle := guarded(split.label, partial(next, bundles, None))) is not None:
                count.read += len(bundle)
                count.written += len(bundle)
                if isinstance(split, FrameRows):
                    newest = _newest(bundle)
                    self._newest[split.label] = max(newest, self._newest.get(split.label, newest))
                send(bundle)
                self.execution.spill_excess()
                yield

    def _bundles(self, batch: PlannedBatch, split: InputSplit, step: Source) -> tuple[int, Iterator[Any]]:
        if isinstance(split, ScriptedElements):
            return split.pcollection, iter([split.bundle])
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.Read)
        (output,) = step.transform.outputs.values()
        if isinstance(split, ReadElements):
            return output, iter([split.bundle])
        source: Any = primitive.source
        if isinstance(split, PartitionRange):
            return output, _read_range(source, split, batch.now)
        return output, guarded(split.label, lambda: iter(source.read_bundles(split.split)))

    # The result

    def _observed(self) -> Observed | None:
        """Return what was observed in the batch; None if nothing was to be."""
        if self._sampler is None and self._profiler is None:
            return None
        samplers = [] if self._sampler is None else [self._sampler]
        inputs, panes = drawn_by(samplers)
        observed = observed_of(samplers)._replace(inputs=inputs, panes=panes)
        if self._profiler is None:
            return observed
        return observed._replace(profile=(self._profiler.number, self._profiler.stop()))

    def _snapshot(self, is_whole: bool) -> tuple[list[Chunk], Tables | None]:
        """Return the snapshot, in two parts."""
        self.execution.look_at_memory()
        backend = self.execution.backend
        if backend is None:
            return snapshot(self.execution, is_whole), None
        backend.remeasure()
        chunks = snapshot(self.execution, is_whole)
        spilled, tables = backend.snapshot(is_whole)
        return [*spilled, *chunks], tables

    def _result(
        self,
        batch: PlannedBatch,
        attempt: str,
        consumed: dict[SubtaskId, str],
        is_complete: bool,
        seconds: SubtaskSeconds,
    ) -> SubtaskResult:
        began = time.perf_counter()
        base, execution, program = self.base, self.execution, self.program
        staged: dict[str, list[bytes]] = {}
        for output in execution.outputs:
            tokens, output.staged = output.staged, []
            if tokens:
                staged[output.label] = [dumps(token, output.label) for token in tokens]
        whole = base is None or has_many_deltas(base)
        chunks, tables = self._snapshot(whole)
        labels = dict.fromkeys(chunk.label for chunk in chunks if chunk.kind != CLOCKS)
        part = None
        if chunks or tables is not None:
            if program.reached is not None:
                program.reached("before-state", batch.number)
            tables = None if tables is None else tables.after(base)
            part = program.store.write_part(
                batch.number, self._name, records_of(chunks), None if whole else base, tables
            )
            if program.reached is not None:
                program.reached("after-state", batch.number)
        seconds.saving = time.perf_counter() - began
        return SubtaskResult(
            self.id,
            attempt,
            consumed,
            part,
            tuple(labels),
            staged,
            _take_metrics(self._metrics),
            _take_counts(self._counts),
            execution.next_processing_time(),
            execution.next_event_times(),
            is_complete,
            self._was_loaded,
            seconds,
            dict(self._newest),
            self._observed(),
            execution.kept(),
        )


class SubtaskCache:
    """The subtasks of a run that a worker keeps between batches."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.subtasks: dict[SubtaskId, MicroBatchSubtask] = {}

    def take(self, id: SubtaskId, batch: PlannedBatch, parts: Sequence[StatePart]) -> MicroBatchSubtask:
        """Remove and return a subtask with the state before a batch.  The caller puts it back if the batch succeeds."""
        self._forget_stale(batch.number)
        subtask = self.subtasks.pop(id, None)
        own = _own_part(parts, id, self.program.parallelism)
        version = None if own is None else own.files[-1].file
        if subtask is not None:
            if subtask.version == version and (own is not None or not parts):
                subtask.base = own
                return subtask
            # A batch has failed, or another worker has run batches since.
            with suppress(Exception):
                subtask.teardown()
        subtask = MicroBatchSubtask(self.program, id, batch)
        subtask.base = own
        subtask.restore(parts)
        return subtask

    def _forget_stale(self, number: int) -> None:
        """Let go of subtasks that another worker has run in the batch before."""
        for id, subtask in list(self.subtasks.items()):
            if subtask.batch < number - 1:
                del self.subtasks[id]
                with suppress(Exception):
                    subtask.teardown()


def _own_part(parts: Sequence[StatePart], id: SubtaskId, parallelism: int) -> PartReference | None:
    """Return the part that this subtask wrote with the same parallelism, or None."""
    if len(parts) == 1 and (parts[0].index, parts[0].parallelism) == (id.index, parallelism):
        return parts[0].part
    return None


def _on_scratch(state: StateSettings) -> StateSettings:
    """Return settings with a directory, by default Spark's: on large disks, and removed with the executor."""
    directories = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return attrs.evolve(state, directory=state.directory or directories[0] or None)


def has_many_deltas(part: PartReference) -> bool:
    """Return True if the next snapshot of a part should be a full one."""
    full, *deltas = part.files
    return len(deltas) >= MAX_DELTAS and sum(delta.length for delta in deltas) > full.length


def _read_range(source: UnboundedSource[Any], split: PartitionRange, now: int) -> Iterator[Any]:
    reader = source.open(split.partition, split.start)
    try:
        yield from reader.read_to(split.end, Timestamp.of_micros(now))
    finally:
        reader.close()


def _newest(bundle: Bundle) -> int:
    if isinstance(bundle, ColumnBundle) and not isinstance(bundle.micros, int):
        return int(bundle.micros.max())
    newest: int = max(expanded(bundle.timestamps, len(bundle)))
    return newest


def _take_metrics(metrics: MetricsContainer) -> MetricsContainer:
    """Return the metrics of this batch and reset them in place: user code holds references to the containers."""
    taken = MetricsContainer()
    taken.merge(metrics)
    for step in metrics.steps.values():
        step.clear()
    return taken


def _take_counts(counts: Counts) -> Counts:
    taken = Counts()
    for label, step in counts.steps.items():
        if step.read or step.written:
            taken.steps[label] = StepCount(label, step.read, step.written)
            step.read = step.written = 0
    taken.seconds.update(counts.seconds)
    counts.seconds.clear()
    return taken
