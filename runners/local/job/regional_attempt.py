"""An attempt in which only the failover region of a failure restarts (ABS, section 5)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import attrs

from ....sdk.errors import SnapshotError
from ....sdk.redaction import logger_of
from ...execution.checkpoints.manifest import Checkpoint, CheckpointKind
from ...execution.error_transport import local
from ...execution.plan.execution_graph import SubtaskId
from ...execution.sinks.committer import Staged
from ..subtask.replay_dedup import NotRepeatedError
from ..subtask.reports import CaughtUp, TaskMetrics
from ..workers.processes import WorkerDied
from ..workers.protocol import Acknowledged, Failed, Report, Rewind, Rewound
from ..workers.slot import Start
from .checkpoint_attempt import LONGEST_CHAIN, CheckpointAttempt
from .context import JobContext
from .failover_region import FailoverRegions, touching
from .recovery import CheckpointRecovery

_logger = logger_of(__name__)


class RegionalAttempt(CheckpointAttempt):
    """An attempt that restarts failover regions.  It fails when only a restart of the whole graph will do."""

    def __init__(
        self,
        context: JobContext,
        recovery: CheckpointRecovery,
        checkpoint: Checkpoint | None,
    ) -> None:
        super().__init__(context, recovery, checkpoint)
        self._regions = FailoverRegions(context.graph.execution)
        # What subtasks had staged and counted, in this attempt, up to the newest checkpoint.
        self._staged_at: dict[SubtaskId, Staged] = {}
        self._counted_at: dict[SubtaskId, TaskMetrics] = {}

    def _first_start(self) -> Start:
        self._start = attrs.evolve(
            super()._first_start(),
            fail_alone=True,
            repeatable=self._regions.repeatable,
        )
        return self._start

    def _reports(self) -> list[Report]:
        """Return the reports; a worker that has died is replaced."""
        try:
            return super()._reports()
        except WorkerDied as death:
            if death.number is None:
                raise
            workers = self._context.workers
            lost = workers.gone() | {death.number}
            failed = [id for id in self._context.graph.subtasks if id.index % workers.slots in lost]
            self._recover_region(failed, death, lost)
            return []

    def _is_catching_up(self) -> bool:
        return self._regions.is_under_way

    def _is_durable(self, parts: dict[SubtaskId, Acknowledged]) -> None:
        self._staged_at = {id: report.staged for id, report in parts.items()}
        self._counted_at = {id: report.metrics for id, report in parts.items() if report.metrics is not None}

    def _process(self, subtask: SubtaskId | None, report: Any) -> str | None:
        if subtask is not None and self._regions.is_old(subtask):
            return None
        if isinstance(report, Failed) and subtask is not None:
            error = local(report.error)
            if isinstance(error, (SnapshotError, NotRepeatedError)):
                raise error
            self._recover_region([subtask], error)
            return None
        if isinstance(report, Rewound):
            self._regions.have_restarted(report.generation, report.subtasks)
            return None
        if isinstance(report, CaughtUp):
            assert subtask is not None
            self._regions.has_caught_up(subtask, report)
            return None
        return super()._process(subtask, report)

    def _recover_region(
        self, failed: Collection[SubtaskId], error: Exception, lost: frozenset[int] = frozenset()
    ) -> None:
        """Restart the failover region of failed subtasks; raise the error if the whole graph has to restart."""
        newest, region = self._newest, self._regions.region_of(failed)
        if (why := self._why_all(region)) is not None:
            _logger.warning("The whole graph restarts, not a region: %s", why)
            raise error
        assert newest is not None
        self._restart_part(region, f"restart from epoch {newest.epoch}", error, lambda: self._restart(region, lost))

    def _why_all(self, region: frozenset[SubtaskId]) -> str | None:
        """Return why the whole graph has to restart; None if a region can."""
        context = self._context
        reasons = [
            (context.graph.has_script, "a script waits for all subtasks after each event"),
            (context.graph.has_loops, "a loop restarts as a whole"),
            (self._is_final or self._drained, "the job is about to end, and drained sources can't be read again"),
            (self._newest is None, "there is no checkpoint yet"),
            (len(region) == len(context.graph.subtasks), "all subtasks are connected with the failed ones"),
        ]
        return next((why for applies, why in reasons if applies), None)

    def _restart(self, region: frozenset[SubtaskId], lost: frozenset[int]) -> None:
        context, regions, recovery = self._context, self._regions, self._recovery
        assert self._store is not None
        if self._coordinator.epoch is not None:
            # A requested savepoint is taken later.
            self._listeners, self._kind = [], CheckpointKind.CHECKPOINT
            self._drop(self._store, self._coordinator.epoch)
        # The parts of the restarted subtasks are lost, so the next checkpoint is a full one.
        self._chain = LONGEST_CHAIN
        self._completed -= region
        carried = {label: list(tokens) for label, tokens in recovery.carried.items()}
        for id in sorted(region):
            for label, tokens in self._staged_at.pop(id, {}).items():
                carried.setdefault(label, []).extend(context.committer.still_open(tokens))
        recovery.carried = carried
        regions.restart(region, [id for id in region if id.index % context.workers.slots in lost])
        rewind = Rewind(
            regions.generation,
            region,
            touching(context.graph.execution, region),
            self._newest,
            self._transaction,
            context.token(),
            context.barriers.last,
            {id: metrics for id, metrics in self._counted_at.items() if id in region},
        )
        context.workers.rewind(self._start.rewound(rewind), rewind, lost)
