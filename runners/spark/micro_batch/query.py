"""A run of micro-batches: planned, written ahead, run, committed, published; and begun again where it stood.

The steps of a batch, and what a restart finds after each of them:

1. The batch is planned: what it reads, how far the watermark is and what time it is.  Its plan is
   written down (`planned`, among the checkpoints).
2. Its job runs.  A restart runs the batch again as it was planned.
3. Its manifest is written: that commits it.  A restart only publishes it again.
4. Its sinks publish, by the name of its transaction, which can be repeated.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ....sdk.errors import RunnerError
from ....sdk.metrics import MetricsContainer
from ....sdk.redaction import logger_of
from ....sdk.runner import PipelineState
from ...execution.checkpoints.manifest import Checkpoint
from ...execution.checkpoints.store import SnapshotStore
from ...execution.clock import ProcessingTime, steady_time
from ...execution.counters import Counts
from ...execution.plan.execution_graph import ExecutionGraph
from ...execution.sinks.checkpoint_commits import PREVIOUS, ManifestDecision, commit_succeeded
from ...execution.sinks.committer import SinkCommitter
from ...execution.sinks.errors import END_OF_RUN, Decision
from ...execution.streaming.restored import restored_line
from ...execution.stuck_calls import CallWatch
from .commit_log import Committed, WriteAhead, described, restored_state, state_of
from .driver_job import MicroBatches
from .exchange import TaskId, TaskResult
from .failpoints import Reached, go_on
from .plan import Gathered, PlannedBatch
from .recovery import Recovery
from .sources import DriverSources, shown_positions_of
from .structured_streaming import StreamSettings
from .subtask import Program, StatePart
from .unbounded_source import Admission

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_logger = logger_of(__name__)

# Seconds: how often an idle query looks whether something has come.
_LOOK = 0.02


@attrs.frozen
class QuerySettings:
    """How a query is driven.

    Attributes:
      interval: microseconds from the beginning of a batch to that of the next, at least.
      available_now: whether it ends when all has been read that was there when it began.
      admission: how much a batch may read.
      allow_dropped_state: whether state of steps that the pipeline doesn't have any more may be dropped.
      allow_changed_sources: resume changed sources from their checkpointed positions, too.
      compares_keys: whether the types of keys are compared with those of the checkpoint.
      may_start_again: whether a next start can find the checkpoints of this one.
      reached: is told of each of the `commit_points`.
      shard_memory: about how many bytes of keyed state a shard may have in memory; None if all of it.
      worker_timeout: seconds after which a call that has not returned is named in the log.
    """

    interval: int = 0
    available_now: bool = False
    admission: Admission = attrs.field(factory=Admission)
    allow_dropped_state: bool = False
    allow_changed_sources: bool = False
    compares_keys: bool = True
    may_start_again: bool = True
    reached: Reached = go_on
    shard_memory: int | None = None
    worker_timeout: float = 10.0


class MicroBatchQuery:
    """Drives the batches of a pipeline, in the thread that calls `run`.

    Args:
      store: where state and manifests go.
      clock: processing time, in microseconds since 1970; not looked at where a script has the clock, or the input
        is bounded.

    Attributes:
      state: one of `PipelineState`.
      metrics, counts: of what has been committed since the start.
      batches: how many have been committed since the start.
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
        self._graph = execution_graph
        self.plan = execution_graph.plan
        self._session = session
        self._store = store
        self._clock = ProcessingTime.of(clock)
        self._jumped = self._clock.jumped
        self._sleep = sleep
        # The write-ahead log names the transaction under way, and a batch's manifest one that is to be committed.
        self._sinks = SinkCommitter(self.plan)
        self._transaction: str | None = None
        self._decided: tuple[str, ...] = ()
        self._ahead = WriteAhead(store)
        self._committed = Committed(0, 0, "", {}, {})
        self._parts: dict[TaskId, Sequence[StatePart]] = {}
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

    # What others may ask for; from any thread

    def cancel(self) -> None:
        """Stop at once; a batch that runs is given up."""
        self._is_cancelled.set()
        if self._batches is not None:
            self._batches.jobs.cancel()

    def drain(self) -> None:
        """Read nothing more, and do everything that is under way."""
        self._is_draining = True

    @property
    def activity(self) -> str:
        """What is going on, for people."""
        jobs = "" if self._batches is None else self._batches.jobs.activity()
        return f"batch {self._committed.number + 1}{jobs and ', '}{jobs}"

    # The whole run

    def run(self) -> None:
        """Run to the end.  Raises what made it fail."""
        with CallWatch(self._settings.worker_timeout):
            self._run_all()

    def _run_all(self) -> None:
        try:
            self._store.take_over()
            again = self._recover()
            settings = self._settings
            program = Program(
                self._graph, self._store, settings.reached, settings.shard_memory, settings.worker_timeout
            )
            self._batches = MicroBatches(program, self._session)
            try:
                self.state = self._loop(again)
            finally:
                # What Spark has brought waits for somebody to say what becomes of it.
                self._sources.close()
                self._batches.close()
        except BaseException as error:
            if not (self._is_cancelled.is_set() and isinstance(error, Exception)):
                self.state = PipelineState.FAILED
                raise
            self.state = PipelineState.CANCELLED
        finally:
            self._sinks.abort(but=self._decided)

    def _loop(self, again: PlannedBatch | None) -> str:
        batch = again
        while not self._is_cancelled.is_set():
            if batch is None:
                if self._committed.is_complete:
                    return PipelineState.DRAINED if self._is_draining else PipelineState.DONE
                batch = self._planned()
            is_over = self._settings.available_now and not self._sources.has_script and not self._sources.is_awaited
            if batch is None and is_over:
                return PipelineState.DONE
            if batch is None and self._committed.is_last and self._committed.next_time is None:
                raise RunnerError(
                    f"after batch {self._committed.number} nothing more can come, and yet it isn't over; "
                    "this is a fault of the runner's"
                )
            if batch is None:
                self._sleep(_LOOK)
                continue
            self._run(batch)
            batch = None
        return PipelineState.CANCELLED

    # Planning

    def _now(self) -> int:
        """Processing time; in a bounded input none goes by, and a script says itself."""
        if self._sources.has_script or self.plan.graph.is_bounded:
            return self._committed.now
        now = self._clock.go_on_from(self._committed.now)
        if self._clock.jumped != self._jumped:
            self._sources.time_jumped(self._clock.jumped - self._jumped)
            self._jumped = self._clock.jumped
        if self._settings.available_now:
            # What comes while it runs is for the next run.
            self._began = now = self._began or now
        return now

    def _planned(self) -> PlannedBatch | None:
        """The next batch, written down; None if there is nothing to do yet."""
        if self._is_draining:
            self._sources.drain()
        now = self._now()
        is_early = now < self._next_batch and not self._is_draining and not self._settings.available_now
        # What Spark has brought comes by the interval already.
        if is_early and not self._sources.has_come:
            return None
        gathered = self._sources.gather(now)
        if not self._is_wanted(gathered):
            return None
        self._next_batch = now + self._settings.interval
        number = self._committed.number + 1
        batch = PlannedBatch(
            number,
            gathered.now,
            self._transaction or f"batch-{number}-{self._ahead.name}",
            tuple(gathered.readings),
            gathered.all_watermarks,
            gathered.percentiles,
            tuple(gathered.signals),
            self._sources.positions(),
            self._sources.is_finished,
            gathered.frames,
        )
        self._settings.reached("before-plan", number)
        self._ahead.write(batch)
        self._settings.reached("after-plan", number)
        return batch

    def _is_wanted(self, gathered: Gathered) -> bool:
        """Whether something has come, or something is due though nothing has."""
        committed = self._committed
        if self._sources.is_finished and not committed.is_last:
            return True
        if self._sources.has_script or self.plan.graph.is_bounded:
            return not gathered.is_empty or gathered.now > committed.now
        if gathered.readings or gathered.frames or gathered.percentiles:
            return True
        if committed.next_time is not None and committed.next_time <= gathered.now:
            return True
        return committed.is_due(gathered.all_watermarks)

    # A batch

    def _run(self, batch: PlannedBatch) -> None:
        assert self._batches is not None
        if self._transaction is None:
            self._transaction = batch.transaction
            self._sinks.begin(batch.transaction)
        self._store.begin(batch.number)
        began = steady_time()
        results = self._batches.run(batch, self._parts, self._sources.frames(batch.frames))
        written: Counter[str] = Counter()
        for result in results:
            written.update({label: count.written for label, count in result.counts.steps.items()})
        self._sources.took(written, steady_time() - began)
        self._commit(batch, results)
        self._publish()
        # Not before: what sources are told of can't be rolled back.
        self._sources.acknowledge(batch.positions)

    def _commit(self, batch: PlannedBatch, results: Sequence[TaskResult]) -> None:
        committed, shards = Committed.of(batch, results, self._graph), self._graph.parallelism
        references = [result.part for result in results if result.part is not None]
        references.append(committed.write(self._store))
        self._sinks.precommit(committed.tokens, ManifestDecision.of_batch(self._store, batch.number))
        self._settings.reached("before-manifest", batch.number)
        if self._is_published(committed) and self._settings.may_start_again:
            # From now on it may be committed, whatever fails; then what is staged has to stay until it is published.
            self._decided = (batch.transaction,)
        previous = self._committed.number or None
        self._store.commit(batch.number, references, {**described(results, shards), PREVIOUS: previous})
        self._settings.reached("after-manifest", batch.number)
        self._committed = committed
        self._sources.heard(committed.newest)
        self._parts = state_of(results, shards)
        self.batches += 1
        for result in results:
            self.metrics.merge(result.metrics)
            for label, count in result.counts.steps.items():
                total = self.counts.of(label)
                total.read += count.read
                total.written += count.written

    def _publish(self) -> None:
        """Publish what the newest batch has staged; a transaction in which nothing was staged goes on."""
        committed = self._committed
        if not self._is_published(committed):
            return
        self._settings.reached("before-publication", committed.number)
        decision: Decision = END_OF_RUN
        if self._settings.may_start_again:
            decision = ManifestDecision.of_batch(self._store, committed.number)
        self._sinks.commit(committed.tokens, decision, [committed.transaction])
        self._transaction, self._decided = None, ()
        self._settings.reached("after-publication", committed.number)

    def _is_published(self, committed: Committed) -> bool:
        """Whether a batch publishes: if anything is staged, or if it is the only one of a bounded pipeline."""
        is_whole = self.plan.graph.is_bounded and committed.is_complete and committed.number == 1
        return committed.has_staged or is_whole

    # Recovery

    def _recover(self) -> PlannedBatch | None:
        """Go on from the newest batch that is committed; the batch that was planned after it, if there was one."""
        settings = self._settings
        recovery = Recovery(
            self._store, self.plan, self._sources, settings.allow_dropped_state, settings.allow_changed_sources
        )
        newest = recovery.newest()
        if newest is not None:
            self._restore(*newest)
            self._publish()
            commit_succeeded(self._store.disk, self._store.directory)
        planned = self._ahead.read()
        self._store.sweep()
        if planned is None or planned.number != self._committed.number + 1:
            return None
        # Nobody knows what of it was staged.
        self._sinks.recover([planned.transaction])
        self._sinks.abort()
        if not self._sources.are_those_of(planned.positions) or not self._sources.have(planned.readings):
            # Of what was planned for other sources, or files, nothing has been published: it is planned anew.
            return None
        self._sources.restore(planned.positions)
        return planned

    def _restore(self, checkpoint: Checkpoint, committed: Committed) -> None:
        offsets = shown_positions_of(committed.positions["sources"])
        store, shards = self._store, self._graph.parallelism
        before = next((part["of"] for part in checkpoint.metadata["parts"].values()), shards)
        what = f"batch {checkpoint.epoch}"
        _logger.info("%s", restored_line(store.directory, what, store.age_of(checkpoint), shards, before, offsets))
        self._sources.restore_committed(committed.positions)
        self._committed = attrs.evolve(committed, watermarks=self._sources.watermarks)
        self._sources.heard(committed.newest)
        self._parts = restored_state(checkpoint, committed, self._graph)
