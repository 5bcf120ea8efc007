"""An attempt that rests on checkpoints: when one begins, when it is complete, and what is published then."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ....sdk.errors import PenstockError, SnapshotError, StaleWriterError, UncertainCommitError
from ....sdk.redaction import logger_of
from ....sdk.runner import PipelineState
from ...execution.checkpoints.manifest import Checkpoint, CheckpointKind
from ...execution.checkpoints.store import SnapshotStore
from ...execution.clock import steady_time
from ...execution.plan.execution_graph import SubtaskId
from ...execution.sinks.checkpoint_commits import PREVIOUS
from ...execution.sinks.committer import Staged, encode_staged
from ...execution.streaming.restored import NAMED
from ..channels.messages import Barrier, BarrierKind
from ..workers.protocol import Acknowledged, Commit, Declined, Inject, Pause, Stop
from ..workers.slot import Start
from ..workers.snapshot_writer import PROCESSING_TIME, PUBLISHED, SINKS, part_name
from .attempt import Attempt
from .checkpoint_coordinator import Coordinator
from .control_requests import Answer, Listener, Wish

if TYPE_CHECKING:
    from .job import Job

_logger = logger_of(__name__)

# After so many changes a checkpoint is whole again, so that chains stay short.
LONGEST_CHAIN = 10


class CheckpointedAttempt(Attempt):
    """From one start of the workers, at a checkpoint or at the beginning, to their end."""

    def __init__(self, job: Job, checkpoint: Checkpoint | None) -> None:
        super().__init__(job)
        self._transaction = ""
        self._coordinator = Coordinator(job._subtasks, job._settings.checkpoints, job._clock())
        # Of the checkpoint under way: what it is, whether it is whole, and who waits for it.
        self._kind = CheckpointKind.CHECKPOINT
        self._is_whole = True
        self._listeners: list[Listener] = []
        self._chain = LONGEST_CHAIN
        # Where subtasks go back to.
        self._newest = checkpoint
        # By the monotonic clock, when the checkpoint under way began; and which was said to be late.
        self._began, self._said_late = 0, -1

    def _next_transaction(self) -> str:
        """What sinks write to from the next barrier on; its name says in which epoch that is."""
        job = self._job
        if job._commits_at_end and self._transaction:
            return self._transaction
        transaction = f"{job._epoch + 1:08d}-{self._name}"
        if job._commits_at_end and job._unfinished is not None:
            transaction = job._unfinished
        job._transactions.begin(transaction)
        self._transaction = transaction
        return transaction

    def prepare(self) -> None:
        """Have the sinks take a first transaction."""
        self._next_transaction()

    def _first_start(self) -> Start:
        job = self._job
        return Start(
            job._store,
            self._newest,
            self._transaction,
            self._name,
            job._has_script or job._graph.plan.graph.is_bounded,
            sources_begun_anew=job.sources_begun_anew,
        )

    def run(self) -> str:
        self._job._workers.have_looked_on(self._say_what_is_late)
        return super().run()

    def _say_what_is_late(self) -> None:
        """Name the call that keeps a checkpoint from being complete in time, while this thread is in that call."""
        epoch, timeout = self._coordinator.epoch, self._job._settings.checkpoints.timeout
        if epoch is None or epoch == self._said_late or steady_time() - self._began <= timeout:
            return
        self._said_late = epoch
        _logger.warning(
            "checkpoint %d is not complete within %g s (--checkpoint_timeout): %s",
            epoch,
            timeout / 1_000_000,
            "; ".join(self._job._workers.stuck()),
        )

    # What is due

    def _is_cancelled(self) -> bool:
        if Wish.CANCEL not in self._job._wishes:
            return False
        self._abort_what_is_open()
        return True

    def _begin_what_is_due(self, now: int) -> None:
        job, coordinator = self._job, self._coordinator
        if coordinator.is_late(now):
            missing = ", ".join(str(id) for id in coordinator.missing)
            stuck = "".join(f"; {each}" for each in job._workers.stuck())
            self._give_up(f"it was not complete in time; without an answer: {missing}{stuck}")
        if coordinator.epoch is not None or self._is_final or self._settling.look(now):
            return
        if self._is_complete:
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

    def _begin(self, now: int) -> None:
        """Begin a checkpoint."""
        job = self._job
        epoch = job.next_epoch()
        self._coordinator.begin(epoch, now)
        self._began = steady_time()
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

    # What is reported

    def _hear(self, subtask: SubtaskId | None, report: Any) -> str | None:
        if isinstance(report, Declined):
            if report.epoch == self._coordinator.epoch:
                self._give_up(report.why)
            return None
        if isinstance(report, Acknowledged):
            assert subtask is not None
            parts = self._coordinator.acknowledge(subtask, report.epoch, report)
            if parts is not None:
                self._complete(report.epoch, parts)
            return None
        return super()._hear(subtask, report)

    def _give_up(self, why: str) -> None:
        """The checkpoint under way has failed; the stream goes on, but at its end there is no other way."""
        job, coordinator = self._job, self._coordinator
        epoch = coordinator.epoch
        assert epoch is not None
        assert job._store is not None
        if self._is_final:
            raise PenstockError(f"{job._store.directory}: the last checkpoint, of epoch {epoch}, failed: {why}")
        _logger.warning("%s: checkpoint %d failed: %s", job._store.directory, epoch, why)
        self._drop(job._store, epoch)
        self._tell(Answer(False, f"the savepoint failed: {why}"))
        if job._settings.stops_the_world:
            job._workers.send(Pause(False))

    def _drop(self, store: SnapshotStore, epoch: int) -> None:
        # That may be what has failed.
        if store.is_open(epoch):
            store.abort(epoch)
        self._coordinator.over(self._job._clock())
        self._job._observations.checkpoint_failed()
        # What had changed is in the parts that are gone.
        self._chain = LONGEST_CHAIN

    def _complete(self, epoch: int, parts: dict[SubtaskId, Acknowledged]) -> None:
        """All parts of a checkpoint are durable: commit it, and then the sinks."""
        job = self._job
        staged: dict[str, list[tuple[str, Any]]] = {
            label: job._transactions.still_open(tokens) for label, tokens in job._carried.items()
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
        commits = not job._commits_at_end or self._ends is not None
        if commits:
            job._transactions.precommit(staged, job.decision_of(epoch))
        if job._store is not None:
            try:
                self._write_manifest(job._store, epoch, parts, staged)
            except (StaleWriterError, UncertainCommitError):
                raise
            except SnapshotError as error:
                self._give_up(str(error))
                return
            self._chain = 0 if self._is_whole else self._chain + 1
        self._is_durable(parts)
        transactions: tuple[str, ...] = ()
        if commits:
            complete = [self._transaction] if job._commits_at_end else []
            transactions = job._transactions.commit(staged, job.decision_of(epoch), complete)
            # All have passed the barrier, and told of what they had staged before it.
            job._transactions.close_before(self._transaction)
        ended = job._clock()
        self._coordinator.over(ended)
        self.progressed = True
        job.checkpoints_completed += 1
        checkpoint = None if job._store is None else job.last_checkpoint
        tallies = [report.tally for report in parts.values() if report.tally is not None]
        duration = ended - self._coordinator.began
        job._observations.checkpointed(job.now(), epoch, duration, checkpoint, tallies)
        if not self._is_final:
            job._workers.send(Commit(epoch, transactions))
        if self._kind is CheckpointKind.SAVEPOINT:
            self._tell(Answer(True, f"savepoint of epoch {epoch}", epoch))

    def _is_durable(self, parts: dict[SubtaskId, Acknowledged]) -> None:
        """A checkpoint is there to go back to."""

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
            references.append(store.write_part(epoch, SINKS, [encode_staged(staged)]))
        n = job._graph.parallelism
        described = {
            part_name(id, n): {"subtask": id.index, "of": n, "labels": list(report.labels)}
            for id, report in parts.items()
        }
        previous = None if self._newest is None else self._newest.epoch
        metadata: dict[str, Any] = {"parts": described, "state": job.shapes, "sources": job.sources, PREVIOUS: previous}
        offsets: dict[str, list[tuple[str, str]]] = {}
        for id in sorted(parts):
            for label, own in parts[id].offsets.items():
                offsets.setdefault(label, []).extend(own)
        metadata["offsets"] = {label: [list(each) for each in own[:NAMED]] for label, own in offsets.items()}
        metadata[PROCESSING_TIME] = max((report.now for report in parts.values()), default=0)
        if self._ends is not None:
            metadata["ended"] = self._ends
            if job._commits_at_end:
                metadata[PUBLISHED] = self._transaction
        elif job._commits_at_end:
            metadata["transaction"] = self._transaction
        job.last_checkpoint = self._newest = store.commit(epoch, references, metadata, self._kind)
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

    def _finish(self) -> str:
        job = self._job
        self._publish(*self._final)
        job._observations.ended(job.now(), self._tallies)
        self._abort_what_is_open()
        return self._ends or PipelineState.CANCELLED
