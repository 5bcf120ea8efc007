"""Delivery by barriers: a job recovers from checkpoints, with which its sinks commit (ABS, section 4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....sdk.errors import PenstockError, UncertainCommitError
from ....sdk.redaction import logger_of
from ....sdk.user_code.error_text import text_or_class
from ...execution.checkpoints.manifest import CheckpointKind
from ...execution.checkpoints.store import SnapshotStore
from ...execution.plan.fusion import Plan
from ...execution.sinks.checkpoint_commits import OpenTransactionsFile
from ...execution.sinks.committer import SinkCommitter
from ...execution.sinks.known_sinks import KnownSinks
from ..workers.processes import WorkerDied
from .checkpoint_attempt import CheckpointAttempt
from .context import JobContext
from .delivery import Delivery
from .failover_region import FailoverRegions
from .recovery import CheckpointRecovery
from .regional_attempt import RegionalAttempt

if TYPE_CHECKING:
    from ...execution.inspection.committed_state import StepState

_logger = logger_of(__name__)


class BarrierDelivery(Delivery):
    """Exactly once by checkpoints, or, without a store, by a commit at the end.

    Args:
      store: the snapshot store; None for a run without checkpoints.
    """

    def __init__(self, store: SnapshotStore | None) -> None:
        self._store = store
        self.is_durable = store is not None
        self._open_names = None if store is None else OpenTransactionsFile(store.disk, store.directory)
        self._has_begun = False

    def committer_of(self, plan: Plan) -> SinkCommitter:
        store = self._store
        known = None if store is None else KnownSinks(store.disk, store.directory)
        return SinkCommitter(plan, self._open_names, known=known)

    def attach(self, context: JobContext) -> None:
        self._context = context
        self._recovery = CheckpointRecovery(context, self._store)

    def take_over(self) -> None:
        context = self._context
        if self._open_names is not None:
            context.committer.recover(self._open_names.read())
        self._recovery.take_over()
        if self._store is not None:
            context.requests.open(context.token)
        if context.settings.recovers_regions:
            for why in FailoverRegions(context.graph.execution).reasons:
                _logger.warning("--recovery=region: the receivers of a task restart with it where %s", why)

    def next_attempt(self) -> CheckpointAttempt | str:
        context, store = self._context, self._store
        checkpoint = self._recovery.recover()
        ended: str | None = None if checkpoint is None else checkpoint.metadata.get("ended")
        if checkpoint is not None and store is not None and ended is not None:
            _logger.warning(
                "%s: the run of these checkpoints has ended (%s, epoch %d), and there is nothing left to do; to run "
                "the pipeline again, give another --checkpoint_dir",
                store.directory,
                ended,
                checkpoint.epoch,
            )
            context.status.last_checkpoint = checkpoint
            return ended
        kind = RegionalAttempt if context.settings.recovers_regions else CheckpointAttempt
        attempt = kind(context, self._recovery, checkpoint)
        attempt.prepare()
        self._has_begun = True
        return attempt

    def restart_delay(self, error: Exception, progressed: bool) -> float | None:
        # An error before the first attempt would come again.
        if not self._has_begun:
            return None
        if self._store is None:
            if isinstance(error, WorkerDied):
                raise PenstockError(
                    f"{text_or_class(error)}; without --checkpoint_dir there is no checkpoint to restart from"
                ) from error
            return None
        self._recovery.is_in_doubt |= isinstance(error, UncertainCommitError)
        return self._context.restarts.delay(progressed)

    def cancel(self) -> None:
        self._recovery.recover()

    def abort(self) -> None:
        self._recovery.abort()

    @property
    def ends_with_savepoint(self) -> bool:
        last = self._context.status.last_checkpoint
        return last is not None and last.kind is CheckpointKind.SAVEPOINT

    def committed_state(self, step: str) -> StepState:
        from ...execution.inspection.committed_state import state_of_step

        if self._store is None:
            return super().committed_state(step)
        return state_of_step(self._store, self._context.graph.execution.plan, step)
