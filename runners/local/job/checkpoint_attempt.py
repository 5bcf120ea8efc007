"""An attempt that rests on checkpoints: when one begins, when it is complete, and what is published then."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

from ....sdk.errors import PenstockError, SnapshotError, StaleWriterError, UncertainCommitError
from ....sdk.redaction import logger_of, redacted
from ....sdk.runner import PipelineState
from ....sdk.user_code.error_text import text_or_class
from ...execution.checkpoints.control_requests import Answer, Listener, RequestKind
from ...execution.checkpoints.manifest import Checkpoint, CheckpointKind
from ...execution.checkpoints.store import SnapshotStore
from ...execution.clock import steady_time
from ...execution.plan.execution_graph import SubtaskId
from ...execution.sinks.checkpoint_commits import PREVIOUS
from ...execution.sinks.committer import Staged, encode_staged
from ...execution.streaming.restored import NAMED
from ..channels.messages import Barrier, BarrierKind
from ..workers.protocol import Acknowledged, ChangeOver, Commit, Declined, Inject, Pause, Stop
from ..workers.slot import Start
from ..workers.snapshot_writer import PROCESSING_TIME, PUBLISHED, SINKS, part_name
from .attempt import Attempt
from .checkpoint_coordinator import CheckpointCoordinator
from .context import JobContext
from .recovery import CheckpointRecovery

_logger = logger_of(__name__)

# The number of incremental checkpoints between two full ones.
LONGEST_CHAIN = 10


class CheckpointAttempt(Attempt):
    """The run of a job from one start of its workers, at a checkpoint or at the beginning.

    Args:
      recovery: what it rests on.
      checkpoint: the checkpoint to restore, or None.
    """

    def __init__(
        self,
        context: JobContext,
        recovery: CheckpointRecovery,
        checkpoint: Checkpoint | None,
    ) -> None:
        super().__init__(context)
        self._store = recovery.store
        self._recovery = recovery
        self._transaction = ""
        self._coordinator = CheckpointCoordinator(
            context.graph.subtasks, context.settings.checkpoints, context.clocks.steady()
        )
        # Of the checkpoint in progress: its kind, whether it is a full one, and the listeners to its result.
        self._kind = CheckpointKind.CHECKPOINT
        self._is_whole = True
        # Its barrier.
        self._barrier: Barrier | None = None
        self._listeners: list[Listener] = []
        self._chain = LONGEST_CHAIN
        self._newest = checkpoint
        # By the steady clock, when the checkpoint in progress began; and the epoch that was last logged as late.
        self._began, self._logged_late = 0, -1

    def prepare(self) -> None:
        """Begin the first transaction of the sinks."""
        self._next_transaction()

    def _next_transaction(self) -> str:
        """Begin the transaction of the next epoch, and return its name."""
        context, recovery = self._context, self._recovery
        if context.graph.commits_at_end and self._transaction:
            return self._transaction
        transaction = f"{recovery.epoch + 1:08d}-{self._name}"
        if context.graph.commits_at_end and recovery.unfinished is not None:
            transaction = recovery.unfinished
        context.committer.begin(transaction)
        self._transaction = transaction
        return transaction

    def _first_start(self) -> Start:
        context = self._context
        return Start(
            self._store,
            self._newest,
            self._transaction,
            self._name,
            context.graph.has_script or context.graph.execution.plan.graph.is_bounded,
            sources_begun_anew=self._recovery.sources_begun_anew,
            state=context.settings.state,
        )

    def run(self) -> str:
        self._context.workers.have_looked_on(self._log_late_checkpoint)
        return super().run()

    def _log_late_checkpoint(self) -> None:
        """Log the call that delays a checkpoint, while the job's thread is in that call."""
        epoch, timeout = self._coordinator.epoch, self._context.settings.checkpoints.timeout
        if epoch is None or epoch == self._logged_late or steady_time() - self._began <= timeout:
            return
        self._logged_late = epoch
        _logger.warning(
            "checkpoint %d is not complete within %g s (--checkpoint_timeout): %s",
            epoch,
            timeout / 1_000_000,
            "; ".join(self._context.workers.stuck()),
        )

    # Checkpoints and commits

    def _is_cancelled(self) -> bool:
        if RequestKind.CANCEL not in self._context.requests.kinds:
            return False
        self._abort_open_transactions()
        return True

    def _begin_next(self, now: int) -> None:
        requests, coordinator = self._context.requests, self._coordinator
        if coordinator.is_late(now):
            missing = ", ".join(str(id) for id in coordinator.missing)
            stuck = "".join(f"; {each}" for each in self._context.workers.stuck())
            self._give_up(f"it was not complete in time; not acknowledged by {missing}{stuck}")
        if self._barrier is not None and coordinator.changes_over(now):
            self._context.workers.send(ChangeOver(self._barrier._replace(kind=BarrierKind.UNALIGNED)))
        if coordinator.epoch is not None or self._is_final or self._quiescence.is_in_progress(now):
            return
        if self._is_complete:
            self._is_final = True
            self._begin(now)
        elif self._store is None:
            return
        elif RequestKind.STOP in requests.kinds:
            self._is_final = True
            self._kind = CheckpointKind.SAVEPOINT
            self._begin(now)
        elif requests.savepoints:
            self._kind = CheckpointKind.SAVEPOINT
            self._begin(now)
        elif coordinator.is_due(now):
            self._begin(now)

    def _begin(self, now: int) -> None:
        """Begin a checkpoint."""
        context = self._context
        epoch = self._recovery.next_epoch()
        self._coordinator.begin(epoch, now)
        self._began = steady_time()
        if self._is_final:
            context.workers.send(Pause(True))
        is_savepoint = self._kind is CheckpointKind.SAVEPOINT
        self._listeners = list(context.requests.savepoints) if is_savepoint else []
        self._is_whole = is_savepoint or self._chain >= LONGEST_CHAIN
        try:
            if self._store is not None:
                self._store.begin(epoch)
            transaction = "" if self._is_final else self._next_transaction()
        except StaleWriterError:
            raise
        except SnapshotError as error:
            self._give_up(text_or_class(error))
            return
        # The last checkpoint has no in-flight records, and a savepoint should not have any.
        is_unaligned = context.settings.unaligned and not self._is_final and not is_savepoint
        kind = BarrierKind.UNALIGNED if is_unaligned else BarrierKind.CHECKPOINT
        base = -1 if self._newest is None else self._newest.epoch
        self._barrier = Barrier(
            context.barriers.next(), kind, transaction, self._is_whole, epoch, base, is_portable=is_savepoint
        )
        context.workers.send(Inject(self._barrier))

    # Reports

    def _process(self, subtask: SubtaskId | None, report: Any) -> str | None:
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
        return super()._process(subtask, report)

    def _give_up(self, why: str) -> None:
        """Fail the checkpoint in progress.  Raises `PenstockError` if it is the last one of the run."""
        epoch = self._coordinator.epoch
        assert epoch is not None
        assert self._store is not None
        if self._is_final:
            raise PenstockError(f"{self._store.directory}: the last checkpoint, of epoch {epoch}, failed: {why}")
        _logger.warning("%s: checkpoint %d failed: %s", self._store.directory, epoch, why)
        self._context.events.add("checkpoint_failed", epoch=epoch, why=redacted(why), checkpoint=self._kind.value)
        self._drop(self._store, epoch)
        self._answer(Answer(False, f"the savepoint failed: {why}"))

    def _drop(self, store: SnapshotStore, epoch: int) -> None:
        # The epoch is not open if its beginning has failed.
        if store.is_open(epoch):
            store.abort(epoch)
        self._coordinator.over(self._context.clocks.steady())
        self._context.status.checkpoint_failed()
        # The changes since the checkpoint before are lost with this one.
        self._chain = LONGEST_CHAIN

    def _complete(self, epoch: int, parts: dict[SubtaskId, Acknowledged]) -> None:
        """Commit a checkpoint whose parts are all durable, and then the sinks."""
        context = self._context
        staged: dict[str, list[tuple[str, Any]]] = {
            label: context.committer.still_open(tokens) for label, tokens in self._recovery.carried.items()
        }
        for subtask in sorted(parts):
            for label, tokens in parts[subtask].staged.items():
                staged.setdefault(label, []).extend(context.committer.still_open(tokens))
        if self._is_final:
            # User code is torn down, and may fail, before anything is published.
            self._final = epoch, parts, staged
            context.workers.send(Stop(awaits_commit=context.graph.acknowledges))
            return
        self._publish(epoch, parts, staged)

    def _publish(self, epoch: int, parts: dict[SubtaskId, Acknowledged], staged: Staged) -> None:
        context, decision = self._context, self._recovery.decision_of(epoch)
        commits = not context.graph.commits_at_end or self._ends is not None
        if commits:
            context.committer.precommit(staged, decision)
        if self._store is not None:
            try:
                self._write_manifest(self._store, epoch, parts, staged)
            except (StaleWriterError, UncertainCommitError):
                raise
            except SnapshotError as error:
                self._give_up(text_or_class(error))
                return
            self._chain = self._length_of_chain()
        self._is_durable(parts)
        transactions: tuple[str, ...] = ()
        if commits:
            complete = [self._transaction] if context.graph.commits_at_end else []
            transactions = context.committer.commit(staged, decision, complete)
            # All subtasks have passed the barrier, and reported what they had staged before it.
            context.committer.close_before(self._transaction)
            if any(staged.values()):
                context.committer.note_commits()
        ended = context.clocks.steady()
        self._coordinator.over(ended)
        self.progressed = True
        context.status.completed += 1
        checkpoint = None if self._store is None else context.status.last_checkpoint
        metrics = [report.metrics for report in parts.values() if report.metrics is not None]
        kept: Counter[str] = Counter()
        for report in parts.values():
            kept.update(report.kept)
        duration = ended - self._coordinator.began
        context.status.checkpointed(context.clocks.time(), epoch, duration, checkpoint, metrics, kept)
        self._record(epoch, duration, checkpoint, parts)
        if not self._is_final or context.graph.acknowledges:
            context.workers.send(Commit(epoch, transactions))
        if self._kind is CheckpointKind.SAVEPOINT:
            self._answer(Answer(True, f"savepoint of epoch {epoch}", epoch))

    def _length_of_chain(self) -> int:
        """Return the number of changes that the next checkpoint would follow."""
        if self._kind is CheckpointKind.SAVEPOINT and self._context.settings.state is not None:
            # It has the state as chunks, where others have tables.
            return LONGEST_CHAIN
        return 0 if self._is_whole else self._chain + 1

    def _record(
        self, epoch: int, duration: int, checkpoint: Checkpoint | None, parts: dict[SubtaskId, Acknowledged]
    ) -> None:
        """Add the event of a complete checkpoint, with the part of each subtask."""
        sizes = {id: report.part.length for id, report in parts.items() if report.part}
        self._context.events.add(
            "checkpoint",
            epoch=epoch,
            checkpoint=self._kind.value,
            is_whole=self._is_whole,
            duration=duration,
            size=None if checkpoint is None else sum(file.length for file in checkpoint.files()),
            parts=[
                {
                    "task": id.task,
                    "subtask": id.index,
                    "size": sizes.get(id),
                    "waited": report.waited,
                    "wrote": report.wrote,
                }
                for id, report in sorted(parts.items())
            ],
        )

    def _is_durable(self, parts: dict[SubtaskId, Acknowledged]) -> None:
        """Called when a checkpoint can be restored."""

    def _answer(self, answer: Answer) -> None:
        """Answer the requests for a savepoint; the next checkpoint is an ordinary one."""
        for listener in self._listeners:
            self._context.requests.savepoints.remove(listener)
            listener(answer)
        self._listeners = []
        if not self._is_final:
            self._kind = CheckpointKind.CHECKPOINT

    def _write_manifest(
        self, store: SnapshotStore, epoch: int, parts: dict[SubtaskId, Acknowledged], staged: Staged
    ) -> None:
        context = self._context
        references = [report.part for report in parts.values() if report.part is not None]
        if any(staged.values()):
            references.append(store.write_part(epoch, SINKS, [encode_staged(staged)]))
        n = context.graph.execution.parallelism
        described = {
            part_name(id, n): {
                "subtask": id.index,
                "of": n,
                "labels": list(report.labels),
                **({"entries": dict(report.kept)} if any(report.kept.values()) else {}),
            }
            for id, report in parts.items()
        }
        offsets: dict[str, list[tuple[str, str]]] = {}
        for id in sorted(parts):
            for label, own in parts[id].offsets.items():
                offsets.setdefault(label, []).extend(own)
        metadata: dict[str, Any] = {
            "parts": described,
            "state": context.graph.state_shapes,
            "sources": context.graph.sources,
            PREVIOUS: None if self._newest is None else self._newest.epoch,
            "offsets": {label: [list(each) for each in own[:NAMED]] for label, own in offsets.items()},
            PROCESSING_TIME: max((report.now for report in parts.values()), default=0),
        }
        if self._ends is not None:
            metadata["ended"] = self._ends
            if context.graph.commits_at_end:
                metadata[PUBLISHED] = self._transaction
        elif context.graph.commits_at_end:
            metadata["transaction"] = self._transaction
        context.status.last_checkpoint = self._newest = store.commit(epoch, references, metadata, self._kind)
        self._recovery.unfinished = metadata.get("transaction")

    @property
    def _ends(self) -> str | None:
        """The final state of the run if the checkpoint in progress ends it, or None."""
        if not self._is_final or self._kind is CheckpointKind.SAVEPOINT:
            return None
        return PipelineState.DRAINED if self._drained else PipelineState.DONE

    def abandon(self) -> None:
        """Remove the parts of the checkpoint in progress."""
        epoch, store = self._coordinator.epoch, self._store
        if epoch is not None and store is not None and store.is_open(epoch):
            # Recovery finds out whether a commit in doubt has succeeded.
            with suppress(UncertainCommitError):
                store.abort(epoch)

    def _abort_open_transactions(self) -> None:
        """Abort the open transactions, except the one that the newest checkpoint continues."""
        unfinished = self._recovery.unfinished
        self._context.committer.abort(but=() if unfinished is None else [unfinished])

    def _finish(self) -> str:
        context = self._context
        self._publish(*self._final)
        if context.graph.acknowledges:
            context.workers.join()
        context.status.ended(context.clocks.time(), self._metrics)
        self._abort_open_transactions()
        return self._ends or PipelineState.CANCELLED
