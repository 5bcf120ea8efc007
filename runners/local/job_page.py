"""A job as the subject of a page: its status as data, what the page wants observed, and its requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ...windowing.timestamp import MAX_MICROS, MIN_MICROS
from ..execution.log_tail import LogTail
from ..execution.page.description import described_counts, described_graph, described_metrics, described_observation
from ..execution.page.event_log import Events
from ..execution.streaming.observation import Observe, Observed
from ..execution.streaming.output_sampler import DrawnInput, DrawnPane
from .job.control_requests import Answer
from .job.status import JobStatus

if TYPE_CHECKING:
    from .job.job import Job


class JobPage:
    """A job as a page shows it.

    Args:
      job: the job.
      status: returns its current status.
      has_page: a page may be opened, so the log is tailed.
    """

    requests: tuple[str, ...] = ("savepoint", "stop", "drain", "cancel", "restart")
    limits: Mapping[str, str] = {}

    def __init__(self, job: Job, status: Callable[[], JobStatus], has_page: bool) -> None:
        self._job = job
        self._status = status
        self._observation = job.context.observation
        self._wanted = Observe()
        self._profiles: dict[int, dict[str, int]] = {}
        self._awaited: set[int] = set()
        self.events: Events = job.context.events
        self._tail = LogTail() if has_page else None
        if self._tail is not None:
            self._tail.install()
            self._observation.want(self._wanted)

    def close(self) -> None:
        """Stop tailing the log."""
        if self._tail is not None:
            self._tail.remove()

    def graph(self) -> dict[str, Any]:
        """Return the graph as data."""
        return described_graph(self._job.execution_graph)

    def observe(self, is_open: bool, step: str | None, key: str | None) -> None:
        """Observe what an open page shows."""
        self._want(is_open=is_open, step=step, key=key)

    def _want(self, **changes: Any) -> None:
        self._wanted = self._wanted._replace(**changes)
        self._observation.want(self._wanted)

    def profile(self, number: int, seconds: float) -> None:
        """Sample the stacks of the workers."""
        self._want(profile=number, seconds=seconds)

    def request(self, kind: str, number: int) -> None:
        """Execute a request, and answer with an event."""
        job = self._job
        if kind in ("savepoint", "restart"):
            if not job.has_checkpoints:
                text = f"a {kind} needs checkpoints; run the pipeline with --checkpoint_dir"
                self._answer(number, Answer(False, text))
                return
            take = job.take_savepoint if kind == "savepoint" else job.restart
            take(partial(self._answer, number))
            return
        begin = {"drain": job.drain, "cancel": job.cancel, "stop": job.stop_with_savepoint}[kind]
        begin()
        self._answer(number, Answer(True, f"requested: {kind}"))

    def _answer(self, number: int, answer: Answer) -> None:
        self.events.add("answer", number=number, is_done=answer.is_done, text=answer.text, epoch=answer.epoch)

    def status(self) -> dict[str, Any]:
        """Return the present status as data, and add what was observed since the last as events."""
        status = self._status()
        latest, observed = self._observation.take()
        self._add_observed(observed)
        described = described_status(status, self._job.state, [task.label for task in self._job.execution_graph.tasks])
        described["workers"] = self._job.context.workers.slots
        if self._wanted.is_open:
            described.update(described_observation(latest.values()))
        return described

    def _add_observed(self, observed: list[tuple[int, Observed]]) -> None:
        logs = [] if self._tail is None else [["job", *line] for line in self._tail.taken()]
        inputs: list[DrawnInput] = []
        panes: list[DrawnPane] = []
        for number, each in observed:
            logs += [[f"worker {number}", *line] for line in each.logs]
            inputs += each.inputs
            panes += each.panes
            if each.profile is not None:
                self.events.add("profile", number=each.profile[0], worker=number, stacks=each.profile[1])
        if logs:
            self.events.add("logs", lines=logs)
        if inputs or panes:
            self.events.add(
                "panes",
                step=self._wanted.step,
                inputs=[each._asdict() for each in inputs],
                panes=[each._asdict() for each in panes],
            )


def described_status(status: JobStatus, state: str, tasks: list[str]) -> dict[str, Any]:
    """Return a status as data (docs/ui.md)."""
    subtasks: list[list[list[float]]] = [[] for _ in tasks]
    for id, load in sorted(status.loads.items()):
        subtasks[id.task].append([round(load.busy, 4), round(load.backpressured, 4), load.read])
    return {
        "state": state,
        "now": status.now,
        "started": status.started,
        **described_counts(status.attempted.counts),
        "watermarks": {
            label: micros if micros < MAX_MICROS else "done"
            for label, micros in status.watermarks.items()
            if micros > MIN_MICROS
        },
        "subtasks": subtasks,
        "backlog": status.backlog,
        "checkpoints": status.checkpoints,
        "failed_checkpoints": status.failed_checkpoints,
        "epoch": status.epoch,
        "restarts": status.restarts,
        "metrics": described_metrics(status.attempted.user_metrics),
    }
