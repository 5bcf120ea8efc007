"""A job: a run of a pipeline that takes checkpoints, commits sinks with them, and recovers.

It runs in the process that the user started.  A loop waits for what the workers report, and
decides: when a checkpoint begins, when it is complete, when a script's next event may be
played, when it is over; and after a failure, from where to start again (ABS, section 4.4).
"""

from __future__ import annotations

import logging
import pickle
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import attrs

from ...sdk import graph
from ...sdk.errors import CheckpointMismatchError, PenstockError, SnapshotError, StaleWriterError, UncertainCommitError
from ...sdk.runner import PipelineState
from ...sdk.script import Script
from ..execution.execution_graph import EdgeKind, ExecutionGraph, label_of
from ..execution.fusion import Source
from ..execution.manifest import Checkpoint, CheckpointKind
from ..execution.remote_error import local
from ..execution.snapshot_store import SnapshotStore, fresh_token
from .commands import (
    Acknowledged,
    Commit,
    Declined,
    Drain,
    Failed,
    Inject,
    Pause,
    Play,
    Quiet,
    Stop,
    Stopped,
)
from .coordinator import CheckpointSettings, Coordinator
from .messages import Barrier, BarrierKind
from .requests import Answer, Inbox, Wish
from .restarts import Restarts
from .slot import SINKS, Start, part_name
from .subtask import Completed, Played, Settled, SubtaskId
from .tally import Tally
from .transactions import Staged, Transactions
from .vitals import Observations, Vitals
from .workers import WorkerDied, Workers, ids_of

_logger = logging.getLogger(__name__)

# Is told what came of a request.
Listener = Callable[[Answer], None]

# How long, in microseconds, from one look at what is in loops to the next.
_ROUND = 20_000

# How long, in microseconds, from one look at how the slots are getting on to the next.
_LOOK = 250_000

# After so many changes a checkpoint is whole again, so that chains stay short.
LONGEST_CHAIN = 10


@attrs.frozen
class JobSettings:
    """How a job is run.

    Attributes:
      checkpoints: when they are taken.
      unaligned: whether barriers overtake what waits in the channels.
      stops_the_world: whether sources wait until a checkpoint is complete: the baseline that
        barriers are measured against.
      restarts: how often, and how soon, it starts again after a failure.
      allow_dropped_state: whether state of steps that the pipeline doesn't have any more may be dropped.
      aligns, logs: False switches alignment, or the log of back-edges, off: to show that the
        results are wrong then.
    """

    checkpoints: CheckpointSettings = attrs.field(factory=CheckpointSettings)
    unaligned: bool = False
    stops_the_world: bool = False
    restarts: Restarts = attrs.field(factory=Restarts)
    allow_dropped_state: bool = False
    aligns: bool = True
    logs: bool = True


class Job:
    """One pipeline's run.

    Args:
      execution_graph: what is to be run.
      workers: who runs it.
      store: where checkpoints go; None for a run that keeps none, and commits at its end.
      clock: microseconds since 1970.
      sleep: waits for so many seconds.
      token: makes hexadecimal digits that nobody else has.
      inbox: where other processes ask for things; None if they can't.

    Attributes:
      state: one of `PipelineState`.
    """

    def __init__(
        self,
        execution_graph: ExecutionGraph,
        workers: Workers,
        settings: JobSettings,
        store: SnapshotStore | None,
        clock: Callable[[], int],
        sleep: Callable[[float], Any],
        token: Callable[[], str] = fresh_token,
        inbox: Inbox | None = None,
    ) -> None:
        self.state = PipelineState.RUNNING
        self._graph = execution_graph
        self._workers = workers
        self._settings = settings
        self._store = store
        self._clock = clock
        self._sleep = sleep
        self._token = token
        self._subtasks = ids_of(execution_graph)
        self._observations = Observations([task.label for task in execution_graph.tasks], clock())
        self._transactions = Transactions(
            execution_graph.plan,
            None if store is None else store.disk,
            "" if store is None else store.directory,
        )
        # What ends is published at its end, all at once, in one transaction.
        self._commits_at_end = execution_graph.plan.graph.is_bounded
        # The transaction that the newest checkpoint goes on with, and what others have staged in it until then.
        self._unfinished: str | None = None
        self._carried: Staged = {}
        self._is_in_doubt = False
        self._has_script = any(_has_script(step) for step in execution_graph.plan.steps)
        self._has_loops = any(edge.kind is EdgeKind.BACK for task in execution_graph.tasks for edge in task.inputs)
        self._epoch = 0
        self._barriers = 0
        self._inbox = inbox
        self._wishes: set[Wish] = set()
        # Who waits for the answer to a wish that ends the job, and who for a savepoint; the latter
        # are kept until one was taken, whatever fails before.
        self._askers: list[Listener] = []
        self._savepoints: deque[Listener] = deque()
        self.checkpoints_completed = 0
        self.last_checkpoint: Checkpoint | None = None

    # What others may ask for; from any thread

    @property
    def execution_graph(self) -> ExecutionGraph:
        """What it runs."""
        return self._graph

    @property
    def vitals(self) -> Vitals:
        """How it is getting on, as of a moment ago."""
        return self._observations.vitals

    def drain(self) -> None:
        """Have the sources stop, and everything that is under way be done."""
        self._wishes.add(Wish.DRAIN)

    def cancel(self) -> None:
        """Stop as soon as may be; what isn't committed is lost."""
        self._wishes.add(Wish.CANCEL)

    def savepoint(self) -> None:
        """Take a savepoint, and stop."""
        self._wishes.add(Wish.STOP)

    def take_savepoint(self, listener: Listener) -> None:
        """Take a savepoint, and go on; the listener is called with what came of it."""
        self._savepoints.append(listener)

    def look_at_requests(self) -> None:
        """Hear what other processes ask for."""
        if self._inbox is None:
            return
        for request in self._inbox.look(self._clock()):
            listener = partial(self._inbox.answer, request.id)
            if request.wish is Wish.SAVEPOINT:
                self.take_savepoint(listener)
            else:
                self._askers.append(listener)
                self._wishes.add(request.wish)

    def _answer_at_end(self) -> None:
        epoch = None if self.last_checkpoint is None else self.last_checkpoint.epoch
        for listener in self._askers:
            listener(Answer(self.state != PipelineState.FAILED, f"the job has ended: {self.state}", epoch))
        for listener in self._savepoints:
            listener(Answer(False, f"the job has ended without a savepoint: {self.state}", epoch))

    # The whole run

    def run(self) -> None:
        """Run to the end.  Raises what made it fail for good; then nothing that isn't committed is left."""
        try:
            self._transactions.recall()
            if self._store is not None:
                self._store.take_over()
            if self._inbox is not None:
                self._inbox.clear()
            self._run_attempts()
        except StaleWriterError:
            # Whoever has taken over commits and aborts.
            self.state = PipelineState.FAILED
            raise
        except BaseException:
            self.state = PipelineState.FAILED
            with suppress(Exception):
                self._settle(None if self._store is None else self._store.newest_complete().checkpoint)
            raise
        finally:
            self._answer_at_end()

    def _run_attempts(self) -> None:
        restarts = self._settings.restarts.fresh()
        has_begun = False
        while True:
            attempt = None
            try:
                checkpoint = self._recover()
                if checkpoint is not None and (ended := checkpoint.metadata.get("ended")) is not None:
                    self._has_ended(checkpoint, ended)
                    return
                attempt = Attempt(self, checkpoint)
                attempt.prepare()
                has_begun = True
                self.state = attempt.run()
                return
            except StaleWriterError:
                raise
            except (PenstockError, WorkerDied) as error:
                # What is wrong before anything has begun won't get better by waiting.
                if not has_begun:
                    raise
                if isinstance(error, WorkerDied) and self._store is None:
                    raise PenstockError(f"{error}; without --checkpoint_dir there is nothing to go on from") from error
                self._is_in_doubt |= isinstance(error, UncertainCommitError)
                progressed = attempt is not None and attempt.progressed
                wait = None if self._store is None else restarts.after_failure(progressed)
                if wait is None:
                    if isinstance(error, WorkerDied):
                        raise PenstockError(str(error)) from error
                    raise
                _logger.warning("the pipeline failed, and starts again in %.1f seconds: %s", wait, error)
                self._observations.restarted(str(error))
            finally:
                self._workers.end()
            if attempt is not None:
                attempt.abandon()
            if self._is_cancelled_within(wait):
                self._recover()
                self.state = PipelineState.CANCELLED
                return

    def _has_ended(self, checkpoint: Checkpoint, ended: str) -> None:
        assert self._store is not None
        _logger.warning(
            "%s: the run that these checkpoints are of has ended (%s, epoch %d), and there is nothing left to do; to "
            "run the pipeline anew, give another --checkpoint_dir",
            self._store.directory,
            ended,
            checkpoint.epoch,
        )
        self.last_checkpoint = checkpoint
        self.state = ended

    def _is_cancelled_within(self, seconds: float) -> bool:
        """Wait before the next start, but no longer than until somebody wants the job to end."""
        until = self._clock() + round(seconds * 1_000_000)
        while (left := until - self._clock()) > 0 and not self._wishes:
            self._sleep(min(left / 1_000_000, 0.1))
            self.look_at_requests()
        return Wish.CANCEL in self._wishes

    def _recover(self) -> Checkpoint | None:
        """The checkpoint to start from; what it staged is committed, and all else that was staged removed."""
        if self._store is None:
            return None
        if self._is_in_doubt:
            # If nobody else has taken over: the manifest that may be there yet, or come, must count now or never.
            self._store.sweep()
            self._store.take_over()
            self._is_in_doubt = False
        recovery = self._store.newest_complete()
        checkpoint = recovery.checkpoint
        if checkpoint is not None:
            self._check_labels(checkpoint)
            self._epoch = max(self._epoch, checkpoint.epoch)
            skipped = [skip.epoch for skip in recovery.skipped if skip.was_committed]
            if skipped and self._transactions.has_sinks:
                _logger.warning(
                    "%s: goes on from epoch %d; what sinks have published of epoch %s stays, and comes again",
                    self._store.directory,
                    checkpoint.epoch,
                    ", ".join(map(str, reversed(skipped))),
                )
        self._settle(checkpoint)
        return checkpoint

    def _settle(self, checkpoint: Checkpoint | None) -> None:
        """Commit what the newest checkpoint has staged, and remove all else that was staged."""
        if self._store is not None:
            # If somebody else has taken over, this is theirs to do.
            self._store.sweep()
        staged = {} if checkpoint is None else self._staged_in(checkpoint)
        self._unfinished = None if checkpoint is None else checkpoint.metadata.get("transaction")
        if self._unfinished is None:
            self._carried = {}
            self._transactions.abort(but=self._transactions.commit(staged))
        else:
            self._carried = staged
            self._transactions.abort(but=[self._unfinished])

    def _staged_in(self, checkpoint: Checkpoint) -> Staged:
        assert self._store is not None
        for part in checkpoint.parts:
            if part.name == SINKS:
                ((_, records),) = self._store.read_part(part)
                return pickle.loads(b"".join(records))  # type: ignore[no-any-return]
        return {}

    def _check_labels(self, checkpoint: Checkpoint) -> None:
        """Raises `CheckpointMismatchError` if the checkpoint has state of steps that there are no longer."""
        plan = self._graph.plan
        known = {label_of(step) for step in plan.steps} | {node.producer for node in plan.graph.pcollections.values()}
        known |= {f"{n.producer}[{n.tag}]" for n in plan.graph.pcollections.values()}
        kept = {label for part in checkpoint.metadata["parts"].values() for label in part["labels"]}
        kept |= {label for label, tokens in self._staged_in(checkpoint).items() if tokens}
        unknown = sorted(kept - known)
        if unknown and not self._settings.allow_dropped_state:
            assert self._store is not None
            raise CheckpointMismatchError(
                f"{self._store.directory}: checkpoint {checkpoint.epoch} has state of {', '.join(map(repr, unknown))}, "
                "which the pipeline doesn't have. Give the transforms the labels that they had, or say "
                "--allow_dropped_state to go on without that state"
            )

    def next_epoch(self) -> int:
        """A number for the next checkpoint."""
        self._epoch += 1
        return self._epoch

    def next_barrier(self) -> int:
        """A number for the next barrier."""
        self._barriers += 1
        return self._barriers


class Attempt:
    """From one start of the workers to their end."""

    def __init__(self, job: Job, checkpoint: Checkpoint | None) -> None:
        self._job = job
        self._checkpoint = checkpoint
        self._name = job._token()
        self._transaction = ""
        self._coordinator = Coordinator(job._subtasks, job._settings.checkpoints, job._clock())
        self._completed: set[SubtaskId] = set()
        self._settling: set[SubtaskId] | None = None
        # Of loops: what the barrier under way has found, the one before it, and when the next is to go.
        self._came_back = 0
        self._is_behind = False
        self._last_settled: int | None = None
        self._next_round = 0
        self._next_look = 0
        self._has_to_settle = False
        self._is_playing = job._has_script
        self._is_final = False
        # Of the checkpoint under way: what it is, whether it is whole, and who waits for it.
        self._kind = CheckpointKind.CHECKPOINT
        self._is_whole = True
        self._listeners: list[Listener] = []
        self._chain = LONGEST_CHAIN
        # What the slots had counted when they stopped.
        self._tallies: list[Tally] = []
        self._drained = False
        self.progressed = False

    def _next_transaction(self) -> str:
        """What sinks write to from the next barrier on; its name says in which epoch that is."""
        job = self._job
        if job._commits_at_end and self._transaction:
            return self._transaction
        transaction = f"{job._epoch + 1:08d}-{self._name}"
        if job._commits_at_end and job._unfinished is not None:
            transaction = job._unfinished
        job._transactions.begin(transaction)
        return transaction

    def prepare(self) -> None:
        """Have the sinks take a first transaction."""
        self._transaction = self._next_transaction()

    def run(self) -> str:
        """Run until the end; the state of the run then."""
        job = self._job
        start = Start(
            job._store,
            self._checkpoint,
            self._transaction,
            self._name,
            job._has_script or job._graph.plan.graph.is_bounded,
            job._settings.aligns,
            job._settings.logs,
        )
        job._observations.restored(None if self._checkpoint is None else self._checkpoint.epoch)
        job._workers.start(job._graph, start)
        if job._has_script:
            self._settle()
        while True:
            for subtask, report in job._workers.poll(self._patience()):
                done = self._hear(subtask, report)
                if done is not None:
                    return done
            if self._look():
                return PipelineState.CANCELLED

    def _patience(self) -> float:
        return 0.05

    # What is due

    def _look(self) -> bool:
        """Begin what is due; whether the run is cancelled."""
        job, now = self._job, self._job._clock()
        job.look_at_requests()
        if now >= self._next_look and not self._is_final:
            self._next_look = now + _LOOK
            job._observations.looked(now, job._workers.counted())
        if Wish.CANCEL in job._wishes:
            self._abort_what_is_open()
            return True
        if Wish.DRAIN in job._wishes and not self._drained:
            self._drained = True
            job._workers.send(Drain())
        coordinator = self._coordinator
        if coordinator.is_late(now):
            missing = ", ".join(str(id) for id in coordinator.missing)
            self._give_up(f"it was not complete in time; without an answer: {missing}")
        if coordinator.epoch is not None or self._is_final:
            return False
        if job._has_loops and self._look_at_loops(now):
            return False
        if len(self._completed) == len(job._subtasks):
            self._is_final = True
            self._begin(now)
        elif Wish.STOP in job._wishes and job._store is not None:
            self._is_final = True
            self._kind = CheckpointKind.SAVEPOINT
            self._begin(now)
        elif job._savepoints and job._store is not None:
            self._kind = CheckpointKind.SAVEPOINT
            self._begin(now)
        elif job._store is not None and coordinator.is_due(now):
            self._begin(now)
        return False

    def _look_at_loops(self, now: int) -> bool:
        """Send a barrier through the loops, when it is time for one; whether one is on its way: they go one by one."""
        if self._settling is None and (self._has_to_settle or (not self._job._has_script and now >= self._next_round)):
            self._send_settling()
        return self._settling is not None

    def _begin(self, now: int) -> None:
        """Begin a checkpoint."""
        job = self._job
        epoch = job.next_epoch()
        self._coordinator.begin(epoch, now)
        if job._settings.stops_the_world or self._is_final:
            job._workers.send(Pause(True))
        is_savepoint = self._kind is CheckpointKind.SAVEPOINT
        self._listeners = list(job._savepoints) if is_savepoint else []
        self._is_whole = is_savepoint or self._chain >= LONGEST_CHAIN
        try:
            if job._store is not None:
                job._store.begin(epoch)
            transaction = "" if self._is_final else self._next_transaction()
        except StaleWriterError:
            raise
        except SnapshotError as error:
            self._give_up(str(error))
            return
        # At the end nothing is in flight, and a savepoint is to be read by other pipelines too.
        overtakes = job._settings.unaligned and not self._is_final and not is_savepoint
        kind = BarrierKind.UNALIGNED if overtakes else BarrierKind.CHECKPOINT
        job._workers.send(Inject(Barrier(job.next_barrier(), kind, transaction, self._is_whole, epoch)))

    def _settle(self) -> None:
        """Ask everybody whether all that has begun is done; in loops, when no other barrier is on its way."""
        if self._job._has_loops:
            self._has_to_settle = True
        else:
            self._send_settling()

    def _send_settling(self) -> None:
        self._has_to_settle = False
        self._settling = set(self._job._subtasks)
        self._came_back, self._is_behind = 0, False
        self._job._workers.send(Inject(Barrier(self._job.next_barrier(), BarrierKind.SETTLE)))

    def _has_settled(self, number: int) -> None:
        """Everything before a barrier has been done; but for what is in loops, of which it is known now."""
        workers, before = self._job._workers, self._last_settled
        self._next_round = self._job._clock() + _ROUND
        self._last_settled = number
        if self._came_back == 0 and self._is_behind and before is not None:
            workers.send(Quiet(before))
        if not self._job._has_script:
            return
        if self._came_back or self._is_behind:
            self._settle()
        else:
            workers.send(Play())

    # What is reported

    def _hear(self, subtask: SubtaskId | None, report: Any) -> str | None:
        """Take in a report; the state of the run, if it is over."""
        if isinstance(report, Failed):
            raise local(report.error)
        if isinstance(report, Stopped):
            return self._has_stopped(report)
        assert subtask is not None
        if isinstance(report, Completed):
            self._completed.add(subtask)
        elif isinstance(report, Played):
            self._settle()
        elif isinstance(report, Settled):
            assert self._settling is not None
            self._settling.discard(subtask)
            self._came_back += report.came_back
            self._is_behind |= report.is_behind
            if not self._settling:
                self._settling = None
                self._has_settled(report.number)
        elif isinstance(report, Declined):
            if report.epoch == self._coordinator.epoch:
                self._give_up(report.why)
        else:
            assert isinstance(report, Acknowledged)
            parts = self._coordinator.acknowledge(subtask, report.epoch, report)
            if parts is not None:
                self._complete(report.epoch, parts)
        return None

    def _give_up(self, why: str) -> None:
        """The checkpoint under way has failed; the stream goes on, but at its end there is no other way."""
        job, coordinator = self._job, self._coordinator
        epoch = coordinator.epoch
        assert epoch is not None
        assert job._store is not None
        if self._is_final:
            raise PenstockError(f"{job._store.directory}: the last checkpoint, of epoch {epoch}, failed: {why}")
        _logger.warning("%s: checkpoint %d failed: %s", job._store.directory, epoch, why)
        # That may be what has failed.
        if job._store.is_open(epoch):
            job._store.abort(epoch)
        coordinator.over(job._clock())
        job._observations.checkpoint_failed()
        self._tell(Answer(False, f"the savepoint failed: {why}"))
        # What had changed is in the parts that are gone.
        self._chain = LONGEST_CHAIN
        if job._settings.stops_the_world:
            job._workers.send(Pause(False))

    def _complete(self, epoch: int, parts: dict[SubtaskId, Acknowledged]) -> None:
        """All parts of a checkpoint are durable: commit it, and then the sinks."""
        job = self._job
        staged: dict[str, list[tuple[str, Any]]] = {
            label: [token for token in tokens if token[0] in job._transactions.open]
            for label, tokens in job._carried.items()
        }
        for subtask in sorted(parts):
            for label, tokens in parts[subtask].staged.items():
                staged.setdefault(label, []).extend(job._transactions.still_open(tokens))
        if self._is_final:
            # User code has a last chance to fail before anything is published.
            self._final = epoch, parts, staged
            job._workers.send(Stop())
            return
        self._publish(epoch, parts, staged)
        if job._settings.stops_the_world:
            job._workers.send(Pause(False))

    def _publish(self, epoch: int, parts: dict[SubtaskId, Acknowledged], staged: Staged) -> None:
        job = self._job
        if job._store is not None:
            try:
                self._write_manifest(job._store, epoch, parts, staged)
            except (StaleWriterError, UncertainCommitError):
                raise
            except SnapshotError as error:
                self._give_up(str(error))
                return
            self._chain = 0 if self._is_whole else self._chain + 1
        transactions: tuple[str, ...] = ()
        if not job._commits_at_end or self._ends is not None:
            transactions = job._transactions.commit(staged)
        self._coordinator.over(job._clock())
        self.progressed = True
        job.checkpoints_completed += 1
        checkpoint = None if job._store is None else job.last_checkpoint
        tallies = [report.tally for report in parts.values() if report.tally is not None]
        job._observations.checkpointed(job._clock(), epoch, self._coordinator.began, checkpoint, tallies)
        if not self._is_final:
            job._workers.send(Commit(epoch, transactions))
        if self._kind is CheckpointKind.SAVEPOINT:
            self._tell(Answer(True, f"savepoint of epoch {epoch}", epoch))

    def _tell(self, answer: Answer) -> None:
        """Tell those who wait for a savepoint; the next checkpoint is an ordinary one."""
        for listener in self._listeners:
            self._job._savepoints.remove(listener)
            listener(answer)
        self._listeners = []
        if not self._is_final:
            self._kind = CheckpointKind.CHECKPOINT

    def _write_manifest(
        self, store: SnapshotStore, epoch: int, parts: dict[SubtaskId, Acknowledged], staged: Staged
    ) -> None:
        job = self._job
        references = [report.part for report in parts.values() if report.part is not None]
        if any(staged.values()):
            references.append(store.write_part(epoch, SINKS, [pickle.dumps(staged, protocol=5)]))
        n = job._graph.parallelism
        described = {
            part_name(id, n): {"subtask": id.index, "of": n, "labels": list(report.labels)}
            for id, report in parts.items()
        }
        metadata: dict[str, Any] = {"parts": described}
        if self._ends is not None:
            metadata["ended"] = self._ends
        elif job._commits_at_end:
            metadata["transaction"] = self._transaction
        job.last_checkpoint = store.commit(epoch, references, metadata, self._kind)
        job._unfinished = metadata.get("transaction")

    @property
    def _ends(self) -> str | None:
        """The state of the run behind the checkpoint under way, if there is nothing left to do."""
        if not self._is_final or self._kind is CheckpointKind.SAVEPOINT:
            return None
        return PipelineState.DRAINED if self._drained else PipelineState.DONE

    def abandon(self) -> None:
        """Remove what was written of a checkpoint that nobody will complete."""
        epoch, store = self._coordinator.epoch, self._job._store
        if epoch is not None and store is not None and store.is_open(epoch):
            # Whether it is there, if it is in doubt, is found out otherwise.
            with suppress(UncertainCommitError):
                store.abort(epoch)

    def _abort_what_is_open(self) -> None:
        """Remove what is staged, but for what the newest checkpoint goes on with."""
        unfinished = self._job._unfinished
        self._job._transactions.abort(but=() if unfinished is None else [unfinished])

    def _has_stopped(self, report: Stopped) -> str | None:
        job = self._job
        self._tallies.append(report.tally)
        if len(self._tallies) < job._workers.slots:
            return None
        self._publish(*self._final)
        job._observations.ended(job._clock(), self._tallies)
        self._abort_what_is_open()
        return self._ends or PipelineState.CANCELLED


def _has_script(step: Any) -> bool:
    if not isinstance(step, Source):
        return False
    primitive = step.transform.primitive
    return isinstance(primitive, graph.Read) and isinstance(primitive.source, Script)
