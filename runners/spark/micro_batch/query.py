"""The run of a pipeline as micro-batches: plan, run, commit and publish one batch after the other.

The steps of a batch, and what a restart does after each of them:

1. The query plans the batch and writes the plan to the write-ahead log.
2. The batch's Spark job runs.  A restart runs the batch again as planned.
3. The query writes the manifest, which commits the batch.  A restart publishes the batch again.
4. The sinks publish the batch's transaction, which is idempotent.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ....frozen import frozen
from ....sdk.errors import RunnerError
from ....sdk.metrics import MetricsContainer
from ....sdk.redaction import logger_of
from ....sdk.runner import PipelineState
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from ...execution.checkpoints.manifest import Checkpoint
from ...execution.checkpoints.store import SnapshotStore
from ...execution.clock import ProcessingTime, steady_time
from ...execution.counters import Counts
from ...execution.page.event_log import EventLog, Events
from ...execution.plan.execution_graph import ExecutionGraph, SubtaskId
from ...execution.sinks.checkpoint_commits import PREVIOUS, ManifestDecision, commit_succeeded
from ...execution.sinks.committer import SinkCommitter
from ...execution.sinks.errors import END_OF_RUN, Decision
from ...execution.sinks.known_sinks import KnownSinks
from ...execution.state.schema import shapes_of
from ...execution.streaming.observation import Observe, Observed
from ...execution.streaming.restored import restored_line
from ...execution.streaming.state_settings import StateSettings
from ...execution.stuck_calls import CallWatch
from .commit_log import (
    Committed,
    Publication,
    Reached,
    StatePart,
    WriteAhead,
    parts_metadata,
    restored_state,
    state_of,
)
from .exchange import SubtaskResult
from .plan import BatchInput, PlannedBatch
from .recovery import Recovery
from .sources import DriverSources, shown_positions_of
from .spark_job import MicroBatches
from .structured_streaming import StreamSettings
from .subtask import Program
from .unbounded_source import Admission

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...execution.inspection.committed_state import StepState

_logger = logger_of(__name__)

# The interval, in seconds, at which an idle query checks for input.
_IDLE_SECONDS = 0.02


@frozen
class QuerySettings:
    """The settings of a query.

    Attributes:
      interval: the least time between the starts of batches, in microseconds.
      available_now: whether the query ends after the input that existed when it began.
      admission: the limits of a batch's input.
      allow_dropped_state: whether state of steps that the pipeline no longer has may be dropped.
      allow_changed_sources: whether changed sources resume from their checkpointed positions.
      compares_keys: whether the types of keys are compared with those of the checkpoint.
      is_restartable: whether a later run can find the checkpoints of this one.
      reached: called at each failpoint of `commit_log`; None outside of tests.
      state: see `Program`.
      worker_timeout: seconds after which a call that has not returned is named in the log.
    """

    interval: int = 0
    available_now: bool = False
    admission: Admission = attrs.field(factory=Admission)
    allow_dropped_state: bool = False
    allow_changed_sources: bool = False
    compares_keys: bool = True
    is_restartable: bool = True
    reached: Reached | None = None
    state: StateSettings | None = None
    worker_timeout: float = 10.0


class MicroBatchQuery:
    """The batches of a pipeline, which run in the thread that calls `run`.

    Args:
      store: the store of state and manifests.
      clock: processing time, in microseconds since 1970; not used if a script controls the clock or the input is
        bounded.

    Attributes:
      state: one of `PipelineState`.
      metrics, counts: of the batches that this run has committed.
      batches: the number of batches that this run has committed.
      execution_graph: the tasks of a batch.
      events: the events of the run, for a page and a log.
      loads: for each task and subtask, its share of the time of the last batch, 0, and the elements that it read.
      observe: what a page shows of the batches that begin from now on.
      observed: of each subtask in the last batch that was observed.
      stacks: by subtask, how often each stack was seen in batches with a profile.
    """

    def __init__(
        self,
        execution_graph: ExecutionGraph,
        session: SparkSession,
        store: SnapshotStore,
        clock: Callable[[], int],
        settings: QuerySettings,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        self.state = PipelineState.RUNNING
        self.metrics = MetricsContainer()
        self.counts = Counts()
        self.batches = 0
        self.events = Events()
        self.loads: Sequence[Sequence[Sequence[float]]] = ()
        self.observe = Observe()
        self.observed: Mapping[SubtaskId, Observed] = {}
        self.stacks: Mapping[str, Mapping[str, int]] = {}
        self._graph = self.execution_graph = execution_graph
        self._started_at, self._ended_at = steady_time(), 0
        self.plan = execution_graph.plan
        self._session = session
        self._store = store
        self._clock = ProcessingTime.of(clock)
        self._jumped = self._clock.jumped
        self._sleep = sleep
        # The write-ahead log names the open transaction, and a manifest the one to publish.
        self._sinks = SinkCommitter(self.plan, metrics=self.metrics, known=KnownSinks(store.disk, store.directory))
        self._transaction: str | None = None
        self._decided: tuple[str, ...] = ()
        self._ahead = WriteAhead(store)
        self._publication = Publication(store)
        self._committed = Committed(0, 0, "", {}, {})
        self._parts: dict[SubtaskId, Sequence[StatePart]] = {}
        self._is_cancelled = threading.Event()
        self._is_draining = False
        self._settings = settings
        streams = StreamSettings(
            session,
            store.directory,
            store.disk,
            settings.interval,
            settings.available_now,
            self._is_cancelled.is_set,
            settings.allow_changed_sources,
        )
        self._sources = DriverSources(self.plan, execution_graph.parallelism, settings.admission, streams)
        self._began: int | None = None
        self._next_batch = 0
        self._batches: MicroBatches | None = None

    # Requests, from any thread

    def cancel(self) -> None:
        """Stop at once, and abort the batch that runs."""
        self._is_cancelled.set()
        if self._batches is not None:
            self._batches.jobs.cancel()

    def drain(self) -> None:
        """End the unbounded sources, and process all input that was read."""
        self._is_draining = True

    def event_log(self) -> EventLog:
        """Return the log of events beside the state."""
        return EventLog(self._store.disk, self._store.directory)

    def watermarks(self) -> dict[str, int]:
        """Return the watermarks of the sources at the last committed batch, by label."""
        graph = self.plan.graph
        known = dict(self._committed.watermarks).items()
        return {graph.producer(i).label: micros for i, micros in known if MIN_MICROS < micros < MAX_MICROS}

    @property
    def activity(self) -> str:
        """The progress of the batch that runs, as text."""
        jobs = "" if self._batches is None else self._batches.jobs.activity()
        return f"batch {self._committed.number + 1}{jobs and ', '}{jobs}"

    # The whole run

    def run(self) -> None:
        """Run to the end.  Raises the error that made the run fail."""
        with CallWatch(self._settings.worker_timeout):
            self._run_all()

    def _run_all(self) -> None:
        try:
            self._store.take_over()
            self.events.open_log()
            planned = self._recover()
            settings = self._settings
            program = Program(self._graph, self._store, settings.reached, settings.state, settings.worker_timeout)
            self._batches = MicroBatches(program, self._session)
            try:
                self.state = self._loop(planned)
            finally:
                # Also releases Spark's threads that wait for a commit.
                self._sources.close()
                self._batches.close()
            self._sinks.close()
        except BaseException as error:
            if not (self._is_cancelled.is_set() and isinstance(error, Exception)):
                self.state = PipelineState.FAILED
                raise
            self.state = PipelineState.CANCELLED
        finally:
            self._ended_at = steady_time()
            self._sinks.abort(but=self._decided)

    @property
    def seconds(self) -> float:
        """The duration of the run until now, or until its end."""
        return ((self._ended_at or steady_time()) - self._started_at) / 1_000_000

    def committed_state(self, step: str) -> StepState:
        """Return the state of a step after the newest committed batch, for reads in any thread.

        Raises `StateNotFoundError` for an unknown step.
        """
        from ...execution.inspection.committed_state import state_of_step

        return state_of_step(self._store, self.plan, step)

    def _loop(self, batch: PlannedBatch | None) -> str:
        while not self._is_cancelled.is_set():
            # Before the batch is planned, since the last one of a query may still move the watermark.
            awaits = self._sources.has_script or self._sources.awaits_data
            if batch is None:
                if self._committed.is_complete:
                    return PipelineState.DRAINED if self._is_draining else PipelineState.DONE
                batch = self._plan()
            if batch is None and self._settings.available_now and not awaits:
                return PipelineState.DONE
            if batch is None and self._committed.is_last and self._committed.next_time is None:
                raise RunnerError(
                    f"After batch {self._committed.number} all sources have ended and no timer is set, but the "
                    "pipeline isn't complete. This is an error in the runner"
                )
            if batch is None:
                self._sleep(_IDLE_SECONDS)
                continue
            self._run(batch)
            batch = None
        return PipelineState.CANCELLED

    # Planning

    def _now(self) -> int:
        """Return processing time, which doesn't advance for bounded input and scripts: a script moves it by its
        events."""
        if self._sources.has_script or self.plan.graph.is_bounded:
            return self._committed.now
        now = self._clock.go_on_from(self._committed.now)
        if self._clock.jumped != self._jumped:
            self._sources.time_jumped(self._clock.jumped - self._jumped)
            self._jumped = self._clock.jumped
        if self._settings.available_now:
            # Input that arrives later is for the next run.
            self._began = now = self._began or now
        return now

    def _plan(self) -> PlannedBatch | None:
        """Plan the next batch and write the plan.  Returns None if no batch is due."""
        if self._is_draining:
            self._sources.drain()
        now = self._now()
        is_early = now < self._next_batch and not self._is_draining and not self._settings.available_now
        # Spark delivers its batches at the interval already.
        if is_early and not self._sources.has_data:
            return None
        planned = self._sources.plan_input(now)
        if not self._is_due(planned):
            return None
        self._next_batch = now + self._settings.interval
        number = self._committed.number + 1
        batch = PlannedBatch(
            number,
            planned.now,
            self._transaction or f"batch-{number}-{self._ahead.name}",
            tuple(planned.splits),
            planned.all_watermarks,
            planned.percentiles,
            tuple(planned.signals),
            self._sources.positions(),
            self._sources.is_finished,
            planned.frames,
        )
        self._reached("before-plan", number)
        self._ahead.write(batch)
        self._reached("after-plan", number)
        return batch

    def _reached(self, point: str, number: int) -> None:
        if self._settings.reached is not None:
            self._settings.reached(point, number)

    def _is_due(self, planned: BatchInput) -> bool:
        """Return True if a batch has input, or a timer or a watermark is due."""
        committed = self._committed
        if self._sources.is_finished and not committed.is_last:
            return True
        if self._sources.has_script or self.plan.graph.is_bounded:
            return not planned.is_empty or planned.now > committed.now
        if planned.splits or planned.frames or planned.percentiles:
            return True
        # Spark is about to deliver data, which moves the clocks as well.
        if self._sources.expects_data and not self._is_draining:
            return False
        if committed.next_time is not None and committed.next_time <= planned.now:
            return True
        return committed.is_due(planned.all_watermarks)

    # A batch

    def _run(self, batch: PlannedBatch) -> None:
        assert self._batches is not None
        if self._transaction is None:
            self._transaction = batch.transaction
            self._sinks.begin(batch.transaction)
        self._store.begin(batch.number)
        began = steady_time()
        observe = self.observe
        results = self._batches.run(
            attrs.evolve(batch, observe=observe), self._parts, self._sources.frames(batch.frames)
        )
        counts = Counts()
        for result in results:
            counts.add(result.counts)
        self._sources.adapt_pace({label: count.written for label, count in counts.steps.items()}, steady_time() - began)
        self._commit(batch, results)
        self.counts.add(counts)
        self._record(batch, results, steady_time() - began)
        self._record_observed(observe, results)
        self._publish()
        # After the commit, because an acknowledgement can't be rolled back.
        self._sources.acknowledge(batch.positions)

    def _record(self, batch: PlannedBatch, results: Sequence[SubtaskResult], took: int) -> None:
        """Add the event of a committed batch, and note the load of its subtasks."""
        loads: list[list[tuple[float, float, int]]] = [[] for _ in self._graph.tasks]
        parts = []
        for result in sorted(results, key=lambda each: each.id):
            seconds, id = result.seconds, result.id
            busy = (seconds.loading + seconds.working + seconds.saving) * 1_000_000
            self.counts.work((self._graph.tasks[id.task].label, id.index), busy / 1_000_000)
            read = sum(count.read for count in result.counts.steps.values())
            loads[id.task].append((round(min(1.0, busy / max(took, 1)), 4), 0.0, read))
            size = None if result.part is None else result.part.length
            wrote = round(seconds.saving * 1_000_000)
            parts.append({"task": id.task, "subtask": id.index, "size": size, "waited": 0, "wrote": wrote})
        self.loads = loads
        total = sum(part["size"] or 0 for part in parts)
        self.events.add(
            "checkpoint",
            epoch=batch.number,
            checkpoint="batch",
            is_whole=True,
            duration=took,
            size=total,
            parts=parts,
        )

    def _record_observed(self, observe: Observe, results: Sequence[SubtaskResult]) -> None:
        """Note what a page shows, and add an event of the inputs and panes that it draws."""
        observed = {result.id: result.observed for result in results if result.observed is not None}
        self.observed = observed
        self.stacks = _with_profiles(self.stacks, observed)
        inputs = [each._asdict() for one in observed.values() for each in one.inputs]
        panes = [each._asdict() for one in observed.values() for each in one.panes]
        if inputs or panes:
            self.events.add("panes", step=observe.step, key=observe.key, inputs=inputs, panes=panes)

    def _commit(self, batch: PlannedBatch, results: Sequence[SubtaskResult]) -> None:
        committed, parallelism = Committed.of(batch, results, self._graph), self._graph.parallelism
        references = [result.part for result in results if result.part is not None]
        references.append(committed.write(self._store))
        self._sinks.precommit(committed.tokens, ManifestDecision.of_batch(self._store, batch.number))
        self._reached("before-manifest", batch.number)
        if self._is_published(committed) and self._settings.is_restartable:
            # The write below may commit the batch even if it fails, so the staged output must stay.
            self._decided = (batch.transaction,)
        previous = self._committed.number or None
        metadata = {**parts_metadata(results, parallelism), "state": shapes_of(self.plan), PREVIOUS: previous}
        self._store.commit(batch.number, references, metadata)
        self._reached("after-manifest", batch.number)
        self._committed = committed
        self._sources.observe(committed.newest)
        self._parts = state_of(results, parallelism)
        self.batches += 1
        for result in results:
            self.metrics.merge(result.metrics)

    def _publish(self) -> None:
        """Publish the output of the newest batch.  A transaction without staged output stays open for later batches."""
        committed = self._committed
        if not self._is_published(committed):
            return
        self._reached("before-publication", committed.number)
        decision: Decision = END_OF_RUN
        if self._settings.is_restartable:
            decision = ManifestDecision.of_batch(self._store, committed.number)
        self._sinks.commit(committed.tokens, decision, [committed.transaction])
        self._transaction, self._decided = None, ()
        if self._settings.is_restartable:
            self._publication.write(committed.transaction)
        self._reached("after-publication", committed.number)

    def _is_published(self, committed: Committed) -> bool:
        """Return True if a batch has staged output, or is the only one of a bounded pipeline."""
        is_whole = self.plan.graph.is_bounded and committed.is_complete and committed.number == 1
        return committed.has_staged or is_whole

    # Recovery

    def _recover(self) -> PlannedBatch | None:
        """Restore the newest committed batch.  Returns the batch that was planned after it, if any."""
        settings = self._settings
        planned = self._ahead.read()
        self._sinks.recover(None)
        recovery = Recovery(
            self._store,
            self.plan,
            self._sources,
            settings.allow_dropped_state,
            settings.allow_changed_sources,
            self._sinks.renamed,
            lambda number: planned is not None and planned.number == number + 1,
        )
        newest = recovery.newest()
        if newest is not None:
            self._restore(*newest)
            if self._publication.read() != self._committed.transaction:
                self._publish()
            commit_succeeded(self._store.disk, self._store.directory)
        self._store.sweep()
        if planned is None or planned.number != self._committed.number + 1:
            return None
        # The planned batch may have staged output.
        self._sinks.recover([planned.transaction])
        self._sinks.abort()
        if not self._sources.match(planned.positions) or not self._sources.are_unchanged(planned.splits):
            # The plan is for other sources or files.  None of its output was published, so it is dropped.
            return None
        self._sources.restore(planned.positions)
        return planned

    def _restore(self, checkpoint: Checkpoint, committed: Committed) -> None:
        offsets = shown_positions_of(committed.positions["sources"])
        store, parallelism = self._store, self._graph.parallelism
        before = next((part["of"] for part in checkpoint.metadata["parts"].values()), parallelism)
        what, age = f"batch {checkpoint.epoch}", store.age_of(checkpoint)
        _logger.info("%s", restored_line(store.directory, what, age, parallelism, before, offsets))
        self._sources.restore_committed(committed.positions)
        self._committed = attrs.evolve(committed, watermarks=self._sources.watermarks)
        self._sources.observe(committed.newest)
        self._parts = restored_state(checkpoint, committed, self._graph)


def _with_profiles(
    stacks: Mapping[str, Mapping[str, int]], observed: Mapping[SubtaskId, Observed]
) -> Mapping[str, Mapping[str, int]]:
    """Return the stacks with those of the profiles of a batch; another thread may read the old ones."""
    sums = dict(stacks)
    for id, each in observed.items():
        if each.profile is not None:
            # The tasks of one index run in one Python worker.
            worker = f"subtask {id.index}"
            sums[worker] = Counter(sums.get(worker, {})) + Counter(each.profile[1])
    return sums
