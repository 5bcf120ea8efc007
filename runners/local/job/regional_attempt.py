"""An attempt in which, when somebody fails, only a region goes back to the last checkpoint (ABS, section 5)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import attrs

from ....sdk.errors import SnapshotError
from ....sdk.redaction import logger_of
from ...execution.checkpoints.manifest import Checkpoint, CheckpointKind
from ...execution.error_transport import local
from ...execution.plan.execution_graph import SubtaskId
from ...execution.sinks.committer import Staged
from ..subtask.replay_dedup import NotRepeatedError
from ..subtask.reports import CaughtUp
from ..subtask.tally import Tally
from ..workers.pool import WorkerDied
from ..workers.protocol import Acknowledged, Failed, Pause, Report, Rewind, Rewound
from ..workers.slot import Start
from .checkpoint_attempt import LONGEST_CHAIN, CheckpointedAttempt
from .failover_region import RegionRecovery, touching

if TYPE_CHECKING:
    from .job import Job

_logger = logger_of(__name__)


class RegionalAttempt(CheckpointedAttempt):
    """Some may start again while it lasts.  It ends when nothing less than the whole graph can."""

    def __init__(self, job: Job, checkpoint: Checkpoint | None) -> None:
        super().__init__(job, checkpoint)
        self._regions = RegionRecovery(job._graph)
        # What subtasks had staged and counted, in this attempt, where they go back to.
        self._staged_at: dict[SubtaskId, Staged] = {}
        self._counted_at: dict[SubtaskId, Tally] = {}

    def _first_start(self) -> Start:
        self._start = attrs.evolve(
            super()._first_start(),
            fail_alone=True,
            repeatable=self._regions.repeatable,
        )
        return self._start

    def _reports(self) -> list[Report]:
        """What there is to hear; a worker's death may be made good at once."""
        try:
            return super()._reports()
        except WorkerDied as death:
            if death.number is None:
                raise
            lost = self._job._workers.gone() | {death.number}
            failed = [id for id in self._job._subtasks if id.index % self._job._workers.slots in lost]
            self._recover_region(failed, death, lost)
            return []

    def _is_catching_up(self) -> bool:
        # Neither a checkpoint nor a drain before all are at one point of the stream again.
        return self._regions.is_under_way

    def _is_durable(self, parts: dict[SubtaskId, Acknowledged]) -> None:
        self._staged_at = {id: report.staged for id, report in parts.items()}
        self._counted_at = {id: report.tally for id, report in parts.items() if report.tally is not None}

    def _hear(self, subtask: SubtaskId | None, report: Any) -> str | None:
        if subtask is not None and self._regions.is_old(subtask):
            return None
        if isinstance(report, Failed) and subtask is not None:
            error = local(report.error)
            if isinstance(error, (SnapshotError, NotRepeatedError)):
                raise error
            self._recover_region([subtask], error)
            return None
        if isinstance(report, Rewound):
            self._regions.have_heard(report.generation, report.subtasks)
            return None
        if isinstance(report, CaughtUp):
            assert subtask is not None
            self._regions.has_caught_up(subtask, report)
            return None
        return super()._hear(subtask, report)

    # Some go back, and the others go on

    def _recover_region(
        self, failed: Collection[SubtaskId], error: Exception, lost: frozenset[int] = frozenset()
    ) -> None:
        """Have those go back that have to; raises the error if that is everybody, or can't be done."""
        job, regions = self._job, self._regions
        region = regions.region_of(failed)
        if (why := self._why_all(region)) is not None:
            _logger.warning("not a region starts again, but the whole graph: %s", why)
            raise error
        assert self._newest is not None
        wait = job.after_failure(self)
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
