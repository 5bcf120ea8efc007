"""An attempt: from one start of a job's workers to their end.

It hears what they report, and decides: when a checkpoint begins, when it is complete, when a script's next
event may be played, when it is over.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...sdk.errors import PenstockError, SnapshotError, StaleWriterError, UncertainCommitError
from ...sdk.runner import PipelineState
from ..execution.manifest import Checkpoint, CheckpointKind
from ..execution.remote_error import local
from ..execution.snapshot_store import SnapshotStore
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
    Report,
    Rewind,
    Rewound,
    Stop,
    Stopped,
)
from .coordinator import Coordinator
from .messages import Barrier, BarrierKind
from .region import touching
from .region_recovery import RegionRecovery
from .repetitions import NotRepeatedError
from .requests import Answer, Wish
from .snapshot_parts import SINKS, part_name
from .start import Start
from .subtask import CaughtUp, Completed, Played, Settled, SubtaskId
from .tally import Tally
from .transactions import Staged
from .workers import WorkerDied

if TYPE_CHECKING:
    from .job import Job

_logger = logging.getLogger(__name__)

# Is told what came of a request.
Listener = Callable[[Answer], None]

# How long, in microseconds, from one look at what is in loops to the next.
_ROUND = 20_000

# How long, in microseconds, from one look at how the slots are getting on to the next.
_LOOK = 250_000

# After so many changes a checkpoint is whole again, so that chains stay short.
LONGEST_CHAIN = 10


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
        # Where subtasks go back to, and what they had staged and counted there in this attempt.
        self._newest = checkpoint
        self._staged_at: dict[SubtaskId, Staged] = {}
        self._counted_at: dict[SubtaskId, Tally] = {}
        self._regions = RegionRecovery(job._graph) if job._settings.recovers_regions else None

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

    def run(self) -> str:
        """Run until the end; the state of the run then."""
        job = self._job
        start = self._start = self._first_start()
        job._observations.restored(None if self._checkpoint is None else self._checkpoint.epoch)
        job._workers.start(job._graph, start)
        if job._has_script:
            self._settle()
        while True:
            for subtask, report in self._reports():
                done = self._hear(subtask, report)
                if done is not None:
                    return done
            if self._look():
                return PipelineState.CANCELLED

    def _first_start(self) -> Start:
        job, regions = self._job, self._regions
        return Start(
            job._store,
            self._checkpoint,
            self._transaction,
            self._name,
            job._has_script or job._graph.plan.graph.is_bounded,
            job._settings.aligns,
            job._settings.logs,
            fail_alone=regions is not None,
            repeatable=frozenset() if regions is None else regions.repeatable,
            drops_repetitions=job._settings.drops_repetitions,
        )

    def _reports(self) -> list[Report]:
        """What there is to hear; a worker's death may be made good at once."""
        try:
            return self._job._workers.poll(self._patience())
        except WorkerDied as death:
            if self._regions is None or death.number is None:
                raise
            lost = self._job._workers.gone() | {death.number}
            failed = [id for id in self._job._subtasks if id.index % self._job._workers.slots in lost]
            self._recover_region(failed, death, lost)
            return []

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
        if self._regions is not None and self._regions.is_under_way:
            # Neither a checkpoint nor a drain before all are at one point of the stream again.
            return False
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

    # Some go back, and the others go on

    def _recover_region(
        self, failed: Collection[SubtaskId], error: Exception, lost: frozenset[int] = frozenset()
    ) -> None:
        """Have those go back that have to; raises the error if that is everybody, or can't be done."""
        job, regions = self._job, self._regions
        assert regions is not None
        region = regions.region_of(failed)
        if (why := self._why_all(region)) is not None:
            _logger.warning("not a region starts again, but the whole graph: %s", why)
            raise error
        assert self._newest is not None
        wait = job.restarts.after_failure(self.progressed)
        self.progressed = False
        if wait is None:
            raise error
        _logger.warning(
            "the pipeline failed, and %d of its %d subtasks start again in %.1f seconds, from epoch %d: %s",
            len(region),
            len(job._subtasks),
            wait,
            self._newest.epoch,
            error,
        )
        job._observations.restarted(str(error))
        job.wait_for_restart(wait)
        try:
            self._go_back(region, lost)
        except Exception as failure:
            _logger.warning("the region can't start again, so the whole graph does: %s", failure)
            raise error from failure

    def _why_all(self, region: frozenset[SubtaskId]) -> str | None:
        """Why nothing less than the whole graph can start again; None if a region can."""
        job = self._job
        reasons = [
            (job._has_script, "a script waits for everybody after each event"),
            (job._has_loops, "a loop goes back as a whole"),
            (self._is_final or self._drained, "it is about to end, and what was drained isn't read again"),
            (self._newest is None, "there is no checkpoint yet"),
            (len(region) == len(job._subtasks), "everybody is connected with who has failed"),
        ]
        return next((why for applies, why in reasons if applies), None)

    def _go_back(self, region: frozenset[SubtaskId], lost: frozenset[int]) -> None:
        job, regions = self._job, self._regions
        assert regions is not None
        assert job._store is not None
        if self._coordinator.epoch is not None:
            # A savepoint is still wanted.
            self._listeners, self._kind = [], CheckpointKind.CHECKPOINT
            self._drop(job._store, self._coordinator.epoch)
        # What is in the changes that follow is to rest on parts that are there.
        self._chain = LONGEST_CHAIN
        self._completed -= region
        carried = {label: list(tokens) for label, tokens in job._carried.items()}
        for id in sorted(region):
            for label, tokens in self._staged_at.pop(id, {}).items():
                carried.setdefault(label, []).extend(job._transactions.still_open(tokens))
        job._carried = carried
        regions.go_back(region, [id for id in region if id.index % job._workers.slots in lost])
        rewind = Rewind(
            regions.generation,
            region,
            touching(job._graph, region),
            self._newest,
            self._transaction,
            job._token(),
            job._barriers,
            {id: tally for id, tally in self._counted_at.items() if id in region},
        )
        job._workers.rewind(self._start.gone_back(rewind), rewind, lost)
        if job._settings.stops_the_world:
            job._workers.send(Pause(False))

    # What is reported

    def _hear(self, subtask: SubtaskId | None, report: Any) -> str | None:
        """Take in a report; the state of the run, if it is over."""
        if subtask is not None and self._regions is not None and self._regions.is_old(subtask):
            return None
        if isinstance(report, Failed):
            error = local(report.error)
            if subtask is None or isinstance(error, (SnapshotError, NotRepeatedError)):
                raise error
            self._recover_region([subtask], error)
            return None
        if isinstance(report, Rewound):
            assert self._regions is not None
            self._regions.have_heard(report.generation, report.subtasks)
            return None
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
        elif isinstance(report, CaughtUp):
            assert self._regions is not None
            self._regions.has_caught_up(subtask, report)
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
        self._staged_at = {id: report.staged for id, report in parts.items()}
        self._counted_at = {id: report.tally for id, report in parts.items() if report.tally is not None}
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

    def _has_stopped(self, report: Stopped) -> str | None:
        job = self._job
        self._tallies.append(report.tally)
        if len(self._tallies) < job._workers.slots:
            return None
        self._publish(*self._final)
        job._observations.ended(job._clock(), self._tallies)
        self._abort_what_is_open()
        return self._ends or PipelineState.CANCELLED
