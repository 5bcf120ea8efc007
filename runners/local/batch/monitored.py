"""A batch run as the subject of a page, of the endpoint of metrics, and of that of health."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from ....frozen import frozen
from ....sdk.metrics import MetricsContainer
from ....sdk.runner import PipelineState
from ...execution.clock import time_of_day
from ...execution.counters import Counts
from ...execution.page.description import described_run, described_segments
from ...execution.page.event_log import Events
from ...execution.plan.execution_graph import SubtaskId
from ..job.status import Load, Phase
from ..monitoring.health import MonitoredRun
from .run import BatchRun

# Microseconds over which the load of a worker is measured.
_LOAD = 5_000_000

_NO_PANES = "panes are drawn of streams only: a run in batch has one for each key and window, at the end of its input"
_NOT_IN_BATCH = "a run in batch doesn't measure it"
_LIMITS = {
    "panes": _NO_PANES,
    **dict.fromkeys(("backlogs", "kept", "overdue", "watermarks", "state_size"), _NOT_IN_BATCH),
}


@frozen
class BatchStatus:
    """The status of a batch run at one moment: see `RunStatus`."""

    now: int
    started: int
    counts: Counts
    metrics: MetricsContainer
    loads: Mapping[SubtaskId, Load]


class MonitoredBatch(MonitoredRun):
    """A batch run as a page shows it, and as it is monitored.  Made before the run begins.

    Segments are its tasks, and workers have the numbers of subtasks.
    """

    def __init__(self, run: BatchRun) -> None:
        graph = described_segments(run.program.plan, run.program.segments, run.parallelism)
        super().__init__(graph, {"cancel": run.cancel}, Events(), _LIMITS, "run")
        run.monitor(self.observation)
        self._run = run
        self._started = time_of_day()
        self.tasks = [segment.label for segment in run.program.segments]
        self._numbers = {label: number for number, label in enumerate(self.tasks)}
        self._lock = threading.Lock()
        # Times, and the busy seconds of each segment and worker then.
        self._busy: deque[tuple[int, Mapping[tuple[str, int], float]]] = deque([(self._started, {})])

    @property
    def state(self) -> str:
        return self._run.state

    @property
    def phase(self) -> Phase:
        if self._run.state != PipelineState.RUNNING:
            return Phase.ENDED
        return Phase.RUNNING if self._run.has_begun else Phase.STARTING

    @property
    def turns(self) -> int:
        return self._run.turns

    def stuck_steps(self) -> str:
        return ", ".join(self._run.stuck_steps())

    def current_status(self) -> BatchStatus:
        now, (counts, metrics, _) = time_of_day(), self._run.reported()
        return BatchStatus(now, self._started, counts, metrics, self._loads(now, counts))

    def _loads(self, now: int, counts: Counts) -> Mapping[SubtaskId, Load]:
        """Return the loads since the last status that is so long ago."""
        with self._lock:
            while len(self._busy) > 1 and self._busy[1][0] <= now - _LOAD:
                self._busy.popleft()
            since, before = self._busy[0]
            self._busy.append((now, dict(counts.busy)))
        passed, read = max(1, now - since) / 1_000_000, self._run.elements_read()
        loads: dict[SubtaskId, Load] = {}
        for (label, worker), busy in counts.busy.items():
            id = SubtaskId(self._numbers[label], worker)
            share = min(1.0, max(0.0, busy - before.get((label, worker), 0.0)) / passed)
            loads[id] = Load(share, 0.0, read.get((id.task, worker), 0))
        return loads

    def progress(self) -> Mapping[str, Any]:
        """Return how many partitions of the segments are done, in progress, and waiting."""
        totals = [sum(each) for each in zip(*self._run.partitions(), strict=True)] or [0, 0, 0]
        return {"partitions": dict(zip(("done", "running", "waiting"), totals, strict=True))}

    def described(self) -> dict[str, Any]:
        status = self.current_status()
        subtasks: list[list[list[float]]] = [[] for _ in self.tasks]
        for id, load in sorted(status.loads.items()):
            own = subtasks[id.task]
            own += [[0.0, 0.0, 0]] * (id.index - len(own))
            own.append([round(load.busy, 4), 0.0, load.read])
        return described_run(
            self.state,
            status.now,
            status.started,
            status.counts,
            status.metrics,
            subtasks,
            workers=self._run.parallelism,
            partitions=self._run.partitions(),
            tasks=[
                {"worker": number, "pid": pid, "task": segment, "done": done}
                for number, (pid, segment, done) in enumerate(self._run.workers())
            ],
        )
