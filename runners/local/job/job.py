"""A job: a run of a pipeline that takes checkpoints, commits sinks with them, and recovers.

It runs in the process that the user started.  Each attempt, from one start of the workers to their end, decides
when a checkpoint begins and when it is over; here it is decided from where to start again after a failure (ABS,
section 4.4).
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import attrs

from ....sdk import graph
from ....sdk.errors import CheckpointMismatchError, PenstockError, StaleWriterError, UncertainCommitError
from ....sdk.redaction import logger_of
from ....sdk.runner import PipelineState
from ....sdk.sources.scripted_source import Script
from ...execution.checkpoints.catalog import path_of
from ...execution.checkpoints.manifest import Checkpoint, CheckpointKind
from ...execution.checkpoints.store import SnapshotStore, fresh_token
from ...execution.clock import ProcessingTime
from ...execution.plan.execution_graph import EdgeKind, ExecutionGraph, label_of
from ...execution.plan.fusion import Source
from ...execution.plan.source_identities import ADVICE, changes_of_sources, described, identities_of, sources_of
from ...execution.sinks.checkpoint_commits import ManifestDecision, OpenTransactionsFile, commit_succeeded
from ...execution.sinks.committer import SinkCommitter, Staged, decode_staged
from ...execution.sinks.errors import END_OF_RUN, Decision
from ...execution.state.schema import mismatches, shapes_of
from ...execution.streaming.restored import restored_line
from ..workers.pool import WorkerDied, Workers, ids_of
from ..workers.snapshot_writer import PROCESSING_TIME, PUBLISHED, SINKS
from .attempt import Attempt
from .checkpoint_attempt import CheckpointedAttempt
from .checkpoint_coordinator import CheckpointSettings
from .control_requests import Answer, Inbox, Listener, Wish
from .failover_region import RegionRecovery
from .regional_attempt import RegionalAttempt
from .restart_strategy import Restarts
from .status import Observations, Vitals

_logger = logger_of(__name__)

# A wall clock that is set back by less, in microseconds, isn't worth a line.
_NOTED = 1_000_000


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
      allow_changed_sources: resume changed sources from their checkpointed positions, too.
      recovers_regions: whether after a failure only those start again that have to.
    """

    checkpoints: CheckpointSettings = attrs.field(factory=CheckpointSettings)
    unaligned: bool = False
    stops_the_world: bool = False
    restarts: Restarts = attrs.field(factory=Restarts)
    allow_dropped_state: bool = False
    allow_changed_sources: bool = False
    recovers_regions: bool = False


class Job:
    """One pipeline's run.

    Args:
      execution_graph: what is to be run.
      workers: who runs it.
      store: where checkpoints go; None for a run that keeps none, and commits at its end.
      clock: microseconds, by the monotonic clock: intervals and time-outs follow it.
      sleep: waits for so many seconds.
      token: makes hexadecimal digits that nobody else has.
      inbox: where other processes ask for things; None if they can't.
      time: processing time; None for what `clock` shows.

    Attributes:
      state: one of `PipelineState`.
      shapes: what the pipeline's steps keep.
      sources_begun_anew: the labels of sources whose positions are dropped.
      temporary: a directory that nobody knows to start again from, and that is removed if the run ends well.
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
        time: ProcessingTime | None = None,
    ) -> None:
        self.state = PipelineState.RUNNING
        self.temporary: str | None = None
        self._graph = execution_graph
        self._workers = workers
        self._settings = settings
        self._store = store
        self._clock = clock
        self._time = ProcessingTime.of(clock) if time is None else time
        self._set_back = 0
        self._sleep = sleep
        self._token = token
        self._subtasks = ids_of(execution_graph)
        self.shapes = shapes_of(execution_graph.plan)
        self.sources_begun_anew: frozenset[str] = frozenset()
        self._observations = Observations([task.label for task in execution_graph.tasks], self._time())
        self._open_names = None if store is None else OpenTransactionsFile(store.disk, store.directory)
        self._transactions = SinkCommitter(execution_graph.plan, self._open_names)
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
        # Listeners to the answer to a wish that ends the job, and to that to a savepoint; the latter
        # are kept until one was taken, whatever fails before.
        self._askers: list[tuple[Wish, Listener]] = []
        self._savepoints: deque[Listener] = deque()
        self.restarts = settings.restarts.fresh()
        self.checkpoints_completed = 0
        self.last_checkpoint: Checkpoint | None = None

    # What others may ask for; from any thread

    @property
    def execution_graph(self) -> ExecutionGraph:
        """What it runs."""
        return self._graph

    @cached_property
    def sources(self) -> dict[str, dict[str, Any]]:
        """The identities of the pipeline's sources."""
        return identities_of(self._graph.plan)

    @property
    def vitals(self) -> Vitals:
        """How it is getting on, as of a moment ago."""
        return self._observations.vitals

    def now(self) -> int:
        """Processing time, in the job's thread."""
        return self._time()

    def time_at_a_glance(self) -> int:
        """Processing time, from any thread."""
        return self._time.peek()

    def look_at_clock(self) -> None:
        """Log that the wall clock was set back, where it was."""
        ahead = self._time.ahead_of_wall()
        if ahead >= self._set_back + _NOTED:
            _logger.warning(
                "The wall clock was set back: processing time is %.0f seconds ahead of it, and continues from its "
                "last value",
                ahead / 1_000_000,
            )
        if ahead >= self._set_back + _NOTED or ahead < self._set_back - _NOTED:
            self._set_back = ahead

    def drain(self) -> None:
        """Have the sources stop, and everything that is under way be done."""
        self._wishes.add(Wish.DRAIN)

    def cancel(self) -> None:
        """Stop as soon as may be; what isn't committed is lost."""
        self._wishes.add(Wish.CANCEL)

    def savepoint(self) -> None:
        """Take a savepoint, and stop."""
        self._wishes.add(Wish.STOP)

    def waits_for(self) -> str:
        """Return the steps whose functions don't return, for people; "" if none are known."""
        return ", ".join(self._workers.stuck_steps())

    def kill_workers(self) -> None:
        """The program ends, and the job hasn't ended them."""
        self._workers.kill()

    def take_savepoint(self, listener: Listener) -> None:
        """Take a savepoint, and go on; the listener is called with what came of it."""
        self._savepoints.append(listener)

    def look_at_requests(self) -> None:
        """Hear what other processes ask for."""
        self._look_at_requests(at_once=False)

    def _look_at_requests(self, at_once: bool) -> None:
        if self._inbox is None:
            return
        for request in self._inbox.look(self._clock(), at_once):
            listener = partial(self._inbox.answer, request.id)
            if request.wish is Wish.SAVEPOINT:
                self.take_savepoint(listener)
            else:
                self._askers.append((request.wish, listener))
                self._wishes.add(request.wish)

    def _open_inbox(self) -> None:
        """Let other processes ask this run for things: it owns the directory now."""
        if self._inbox is not None:
            self._inbox.open(self._token())

    def _answer_at_end(self) -> None:
        # A request may have come behind the last look.
        self._look_at_requests(at_once=True)
        epoch = None if self.last_checkpoint is None else self.last_checkpoint.epoch
        for wish, listener in self._askers:
            listener(Answer(self._has_done(wish), f"the job has ended: {self.state}", epoch))
        for listener in self._savepoints:
            listener(Answer(False, f"the job has ended without a savepoint: {self.state}", epoch))
        if self._inbox is not None:
            self._inbox.close(self.state)

    def _has_done(self, wish: Wish) -> bool:
        """Whether a wish that ends the job was granted, as the job has ended."""
        if self.state in (PipelineState.DONE, PipelineState.DRAINED):
            return True
        if self.state == PipelineState.FAILED or wish is Wish.DRAIN:
            return False
        return wish is Wish.CANCEL or self._ends_with_savepoint

    @property
    def _ends_with_savepoint(self) -> bool:
        """Whether the next start loses nothing of what this one has done."""
        return self.last_checkpoint is not None and self.last_checkpoint.kind is CheckpointKind.SAVEPOINT

    # The whole run

    def run(self) -> None:
        """Run to the end.  Raises what made it fail for good; then nothing that isn't committed is left."""
        with self._workers.watching():
            self._run()

    def _run(self) -> None:
        try:
            if self._open_names is not None:
                self._transactions.recover(self._open_names.read())
            if self._store is not None:
                self._look_before_taking_over(self._store)
                self._store.take_over()
                self._open_inbox()
            self._say_what_repeats()
            self._run_attempts()
            if self.temporary is not None:
                shutil.rmtree(self.temporary, ignore_errors=True)
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

    def _say_what_repeats(self) -> None:
        if self._settings.recovers_regions:
            for why in RegionRecovery(self._graph).reasons:
                _logger.warning("--recovery=region: whoever listens to a task starts again with it, where %s", why)

    def _run_attempts(self) -> None:
        self.restarts = self._settings.restarts.fresh()
        has_begun = False
        while True:
            attempt = None
            try:
                checkpoint = self._recover()
                if checkpoint is not None and (ended := checkpoint.metadata.get("ended")) is not None:
                    self._has_ended(checkpoint, ended)
                    return
                attempt = self._attempt_at(checkpoint)
                attempt.prepare()
                has_begun = True
                self.state = attempt.run()
                return
            except StaleWriterError:
                raise
            except (PenstockError, WorkerDied) as error:
                # What is wrong before anything has begun won't get better by waiting.
                if not has_begun or isinstance(error, CheckpointMismatchError):
                    raise
                if isinstance(error, WorkerDied) and self._store is None:
                    raise PenstockError(
                        f"{error}; without --checkpoint_dir there is no checkpoint to restart from"
                    ) from error
                self._is_in_doubt |= isinstance(error, UncertainCommitError)
                wait = None if self._store is None else self.after_failure(attempt)
                if wait is None:
                    if isinstance(error, WorkerDied):
                        raise PenstockError(str(error)) from error
                    raise
                if Wish.CANCEL not in self._wishes:
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

    def _attempt_at(self, checkpoint: Checkpoint | None) -> CheckpointedAttempt:
        kind = RegionalAttempt if self._settings.recovers_regions else CheckpointedAttempt
        return kind(self, checkpoint)

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

    def after_failure(self, attempt: Attempt | None) -> float | None:
        """How many seconds to wait before another start, or that of a part; None if there is to be none."""
        progressed = attempt is not None and attempt.progressed
        return self.restarts.after_failure(progressed, is_ending=bool(self._wishes))

    def wait_for_restart(self, seconds: float) -> None:
        """Wait before some start again; somebody who wants the job to end doesn't have to."""
        self._is_cancelled_within(seconds)

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
            self._check_labels(checkpoint, self._staged_in(checkpoint))
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
        if checkpoint is not None and not self._has_script:
            self._time.go_on_from(checkpoint.metadata.get(PROCESSING_TIME, 0))
        if checkpoint is not None:
            self._log_restored(self._store, checkpoint)
        return checkpoint

    def _log_restored(self, store: SnapshotStore, checkpoint: Checkpoint) -> None:
        """Log the checkpoint that the run restores."""
        metadata, n = checkpoint.metadata, self._graph.parallelism
        before = next((part["of"] for part in metadata["parts"].values()), n)
        what = f"{checkpoint.kind.value} {checkpoint.epoch}"
        offsets = metadata.get("offsets", {})
        _logger.info("%s", restored_line(store.directory, what, store.age_of(checkpoint), n, before, offsets))

    def _settle(self, checkpoint: Checkpoint | None) -> None:
        """Commit what the newest checkpoint has staged, and remove all else that was staged."""
        if self._store is not None:
            # If somebody else has taken over, this is theirs to do.
            self._store.sweep()
        staged = {} if checkpoint is None else self._staged_in(checkpoint)
        self._unfinished = None if checkpoint is None else checkpoint.metadata.get("transaction")
        if self._unfinished is None:
            self._carried = {}
            epoch, complete = 0, None
            if checkpoint is not None:
                epoch, complete = checkpoint.epoch, checkpoint.metadata.get(PUBLISHED)
            committed = self._transactions.commit(
                staged, self.decision_of(epoch), () if complete is None else (complete,)
            )
            self._transactions.abort(but=committed)
            if self._store is not None:
                commit_succeeded(self._store.disk, self._store.directory)
        else:
            self._carried = staged
            self._transactions.abort(but=[self._unfinished])

    def decision_of(self, epoch: int) -> Decision:
        """Return the event that decides the commit of a checkpoint's staged output."""
        if self._store is None:
            return END_OF_RUN
        of = ManifestDecision.of_last_checkpoint if self._commits_at_end else ManifestDecision.of_checkpoint
        return of(self._store, epoch)

    def _staged_in(self, checkpoint: Checkpoint) -> Staged:
        assert self._store is not None
        for part in checkpoint.parts:
            if part.name == SINKS:
                ((_, records),) = self._store.read_part(part)
                return decode_staged(b"".join(records), path_of(self._store.directory, part.files[-1]))
        return {}

    def _look_before_taking_over(self, store: SnapshotStore) -> None:
        """Refuse the checkpoints of another pipeline before a job ends that is writing them."""
        for checkpoint in store.checkpoints()[:1]:
            self._check_labels(checkpoint, {})

    def _check_labels(self, checkpoint: Checkpoint, staged: Staged) -> None:
        """Raises `CheckpointMismatchError` if it isn't one of this runner's, or has state of steps that are gone."""
        assert self._store is not None
        if not all("subtask" in part for part in checkpoint.metadata["parts"].values()):
            raise CheckpointMismatchError(
                f"{self._store.directory}: its checkpoints were written by another runner; give another "
                "--checkpoint_dir"
            )
        plan = self._graph.plan
        known = {label_of(step) for step in plan.steps} | {node.producer for node in plan.graph.pcollections.values()}
        known |= {f"{n.producer}[{n.tag}]" for n in plan.graph.pcollections.values()}
        kept = {label for part in checkpoint.metadata["parts"].values() for label in part["labels"]}
        kept |= {label for label, tokens in staged.items() if tokens}
        unknown = sorted(kept - known)
        if unknown and not self._settings.allow_dropped_state:
            raise CheckpointMismatchError(
                f"{self._store.directory}: checkpoint {checkpoint.epoch} has state of {', '.join(map(repr, unknown))}, "
                "which the pipeline doesn't have. Give the transforms the labels that they had, or say "
                "--allow_dropped_state to go on without that state"
            )
        self._check_shapes(checkpoint, kept & known)
        self._check_sources(checkpoint)

    def _check_shapes(self, checkpoint: Checkpoint, labels: Collection[str]) -> None:
        """Raises `CheckpointMismatchError` if these steps keep something else now than they did."""
        assert self._store is not None
        before = {label: kept for label, kept in checkpoint.metadata.get("state", {}).items() if label in labels}
        changed = mismatches(before, self.shapes)
        if changed and not self._settings.allow_dropped_state:
            raise CheckpointMismatchError(
                f"{self._store.directory}: checkpoint {checkpoint.epoch} has state of another kind than the pipeline "
                f"keeps: {'; '.join(map(str, changed))}. Let these transforms keep what they kept, or say "
                "--allow_dropped_state to go on without that state"
            )

    def _check_sources(self, checkpoint: Checkpoint) -> None:
        """Raise `CheckpointMismatchError` if a source has changed and can't resume from its positions."""
        assert self._store is not None
        before = checkpoint.metadata.get("sources", {})
        changes = changes_of_sources(before, self.sources, sources_of(self._graph.plan))
        changed = [change for change in changes if not change.is_rescalable]
        self.sources_begun_anew = frozenset()
        if not changed or self._settings.allow_changed_sources:
            return
        if not self._settings.allow_dropped_state:
            raise CheckpointMismatchError(
                f"{self._store.directory}: these sources have changed since checkpoint {checkpoint.epoch}: "
                f"{described(changed)}. {ADVICE}"
            )
        self.sources_begun_anew = frozenset(change.label for change in changed)

    def next_epoch(self) -> int:
        """A number for the next checkpoint."""
        self._epoch += 1
        return self._epoch

    def next_barrier(self) -> int:
        """A number for the next barrier."""
        self._barriers += 1
        return self._barriers


def _has_script(step: Any) -> bool:
    if not isinstance(step, Source):
        return False
    primitive = step.transform.primitive
    return isinstance(primitive, graph.Read) and isinstance(primitive.source, Script)
