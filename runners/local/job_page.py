"""A job as the subject of a page, of the endpoint of metrics, and of that of health."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import attrs

from ...windowing.timestamp import MAX_MICROS, MIN_MICROS
from ..execution.checkpoints.control_requests import Answer
from ..execution.page.description import described_graph, described_run
from .job.job import Job
from .job.status import JobStatus, Phase
from .monitoring.health import MonitoredRun


class JobPage(MonitoredRun):
    """A job as a page shows it, and as it is monitored."""

    def __init__(self, job: Job) -> None:
        requests = {"stop": job.stop_with_savepoint, "drain": job.drain, "cancel": job.cancel}
        context = job.context
        super().__init__(described_graph(job.execution_graph), requests, context.events, {}, "job", context.observation)
        self._job = job
        self.tasks = [task.label for task in job.execution_graph.tasks]

    @property
    def requests(self) -> tuple[str, ...]:
        return ("savepoint", "stop", "drain", "cancel", "restart")

    def request(self, kind: str, number: int) -> None:
        if kind not in ("savepoint", "restart"):
            super().request(kind, number)
        elif not self._job.has_checkpoints:
            self.answer(number, False, f"a {kind} needs checkpoints; run the pipeline with --checkpoint_dir")
        else:
            take = self._job.take_savepoint if kind == "savepoint" else self._job.restart
            take(partial(self._answer, number))

    def _answer(self, number: int, answer: Answer) -> None:
        self.answer(number, answer.is_done, answer.text, answer.epoch)

    def failed(self, error: BaseException) -> None:
        """Nothing: the job itself has recorded it, while it had its directory."""

    @property
    def state(self) -> str:
        return self._job.state

    def described(self) -> dict[str, Any]:
        status = self.current_status()
        subtasks: list[list[list[float]]] = [[] for _ in self.tasks]
        for id, load in sorted(status.loads.items()):
            subtasks[id.task].append([round(load.busy, 4), round(load.backpressured, 4), load.read])
        return described_run(
            self.state,
            status.now,
            status.started,
            status.attempted.counts,
            status.attempted.user_metrics,
            subtasks,
            watermarks={
                label: micros if micros < MAX_MICROS else "done"
                for label, micros in status.watermarks.items()
                if micros > MIN_MICROS
            },
            backlog=status.backlog,
            checkpoints=status.checkpoints,
            failed_checkpoints=status.failed_checkpoints,
            epoch=status.epoch,
            restarts=status.restarts,
            workers=self._job.context.workers.slots,
        )

    @property
    def phase(self) -> Phase:
        return self._job.phase

    @property
    def turns(self) -> int:
        return self._job.context.status.turned_at

    def stuck_steps(self) -> str:
        return self._job.stuck_steps()

    def current_status(self) -> JobStatus:
        return attrs.evolve(self._job.status, now=self._job.peek_time())

    def progress(self) -> Mapping[str, Any]:
        status = self._job.status
        age = None if status.checkpoint_at is None else max(0, status.now - status.checkpoint_at) / 1_000_000
        return {"restarts": status.restarts, "checkpoint_epoch": status.epoch, "checkpoint_age_seconds": age}
