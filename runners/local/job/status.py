"""The status of a running job: watermarks, backpressure, checkpoints, restarts and metrics.

What a failed attempt has counted after its last checkpoint is subtracted: it is processed, and counted, again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import attrs

from ....frozen import frozen
from ....sdk.metrics import MetricsContainer
from ...execution.checkpoints.manifest import Checkpoint
from ...execution.counters import Counts
from ...execution.plan.execution_graph import SubtaskId
from ..subtask.reports import TaskMetrics, sum_of
from ..workers.protocol import Counted, SubtaskTime

# The number of updates, four a second, that backpressure is averaged over.
_UPDATES = 20

# The number of checkpoints whose metrics are kept.
_KEPT_METRICS = 100


class Phase(StrEnum):
    """The phase of a run: it restores a checkpoint, processes records, waits after a failure, stops, or is over."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    ENDED = "ended"


@frozen
class Load:
    """Load of a subtask over the last seconds.

    Attributes:
      busy: the share of the time in which it was processing.
      backpressured: the share in which a receiver of its output was behind, and it wasn't processing.
      idle: the rest.
      read: the elements that its steps have read in this attempt.
    """

    busy: float
    backpressured: float
    read: int

    @property
    def idle(self) -> float:
        return max(0.0, 1.0 - self.busy - self.backpressured)


@frozen
class JobStatus:
    """The status of a job at one moment; times in microseconds.

    Attributes:
      now, started: processing time now, and when the job started.
      committed: the metrics at the last checkpoint.
      attempted: the metrics now.
      watermarks: by the label of a step, the watermark of its output.
      backpressure: by task, the share of the last seconds in which it was backpressured.
      backlog: about how many elements the sources have yet to read; None if no source knows.
      checkpoints, failed_checkpoints: how many have completed and failed.
      epoch: the epoch of the last checkpoint, or None.
      checkpoint_at, checkpoint_duration, checkpoint_size: of the last checkpoint; its size in bytes.
      kept: in it, the number of windows or cells of state by the label of their step.
      restarts: the number of restarts.
      failure: the error that caused the last restart, or None.
      loads: the load of each subtask.
      times: the time of each subtask since the last restart.
    """

    now: int
    started: int
    committed: TaskMetrics
    attempted: TaskMetrics
    watermarks: Mapping[str, int]
    backpressure: Mapping[str, float]
    backlog: int | None
    checkpoints: int
    failed_checkpoints: int
    epoch: int | None
    checkpoint_at: int | None
    checkpoint_duration: int | None
    checkpoint_size: int | None
    restarts: int
    failure: str | None
    loads: Mapping[SubtaskId, Load] = attrs.field(factory=dict)
    times: Mapping[SubtaskId, SubtaskTime] = attrs.field(factory=dict)
    kept: Mapping[str, int] = attrs.field(factory=dict)

    @property
    def counts(self) -> Counts:
        """The counts now."""
        return self.attempted.counts

    @property
    def metrics(self) -> MetricsContainer:
        """The metrics of user code now."""
        return self.attempted.user_metrics


class StatusTracker:
    """Keeps the status up to date.  One thread updates it; any thread may read its attributes.

    Args:
      tasks: the labels of the tasks.
      now, turned_at: in microseconds.
      committed: returns what sinks have reported during commits, which are never undone.

    Attributes:
      status: the status, at most a moment old.
      phase: the phase of the current attempt: starting, running or restarting.
      turned_at: when the loop of the attempt last turned, by the monotonic clock.
      completed: the number of checkpoints, or commits of productions, in this run.
      last_checkpoint: the last checkpoint of this run; None before the first.
    """

    def __init__(
        self,
        tasks: Iterable[str],
        now: int,
        turned_at: int = 0,
        committed: Callable[[], MetricsContainer] = MetricsContainer,
    ) -> None:
        self.phase = Phase.STARTING
        self.turned_at = turned_at
        self.completed = 0
        self.last_checkpoint: Checkpoint | None = None
        self._committed = committed
        self._held_up = {label: deque[bool](maxlen=_UPDATES) for label in tasks}
        self._times: dict[SubtaskId, deque[SubtaskTime]] = {}
        self._base = TaskMetrics()
        # By epoch.
        self._metrics: dict[int, TaskMetrics] = {}
        self.status = JobStatus(
            now=now,
            started=now,
            committed=TaskMetrics(),
            attempted=TaskMetrics(),
            watermarks={},
            backpressure={},
            backlog=None,
            checkpoints=0,
            failed_checkpoints=0,
            epoch=None,
            checkpoint_at=None,
            checkpoint_duration=None,
            checkpoint_size=None,
            restarts=0,
            failure=None,
        )

    def _change(self, **changes: Any) -> None:
        self.status = attrs.evolve(self.status, **changes)

    def restored(self, epoch: int | None) -> None:
        """Reset the metrics to those of the checkpoint that an attempt restores; None for the beginning."""
        self._base = TaskMetrics() if epoch is None else self._metrics.get(epoch, TaskMetrics())
        # Later epochs are assigned again.
        self._metrics = {
            known: metrics for known, metrics in self._metrics.items() if epoch is not None and known <= epoch
        }
        total = self._with_commits(self._base)
        self._change(committed=total, attempted=total, times={})
        self._times.clear()
        for updates in self._held_up.values():
            updates.clear()

    def restarted(self, failure: str) -> None:
        """Count a restart."""
        self._change(restarts=self.status.restarts + 1, failure=failure)

    def update(self, now: int, slots: Sequence[Counted]) -> None:
        """Update the status from what the slots have counted."""
        watermarks: dict[str, int] = {}
        for slot in slots:
            for label, micros in slot.watermarks.items():
                watermarks[label] = min(micros, watermarks.get(label, micros))
        held_up = {label for slot in slots for label in slot.held_up}
        for label, updates in self._held_up.items():
            updates.append(label in held_up)
        times = {id: time for slot in slots for id, time in slot.times.items()}
        known = [slot.backlog for slot in slots if slot.backlog is not None]
        self._change(
            now=now,
            attempted=_later(
                self._with_commits(sum_of([self._base, *(slot.metrics for slot in slots)])), self.status.committed
            ),
            watermarks=watermarks,
            backpressure={label: sum(updates) / len(updates) for label, updates in self._held_up.items()},
            backlog=sum(known) if known else None,
            loads={id: self._load_of(id, time) for id, time in times.items()},
            times=times,
        )

    def _load_of(self, id: SubtaskId, spent: SubtaskTime) -> Load:
        """Return the load of a subtask over the last updates, with this one."""
        updates = self._times.setdefault(id, deque(maxlen=_UPDATES))
        if updates and spent.passed < updates[-1].passed:
            # Its slot was replaced.
            updates.clear()
        updates.append(spent)
        first = updates[0]
        passed = max(1, spent.passed - first.passed)
        busy = min(1.0, (spent.busy - first.busy) / passed)
        return Load(busy, min(1.0 - busy, (spent.backpressured - first.backpressured) / passed), spent.read)

    def checkpointed(
        self,
        now: int,
        epoch: int,
        duration: int,
        checkpoint: Checkpoint | None,
        metrics: Iterable[TaskMetrics],
        kept: Mapping[str, int],
    ) -> None:
        """Count a complete checkpoint.

        Args:
          metrics: what the subtasks had counted before it in this attempt.
          kept: the number of windows or cells of state by the label of their step.
        """
        total = self._metrics[epoch] = sum_of([self._base, *metrics])
        for old in sorted(self._metrics)[:-_KEPT_METRICS]:
            del self._metrics[old]
        total = self._with_commits(total)
        size = None if checkpoint is None else sum(file.length for file in checkpoint.files())
        self._change(
            now=now,
            committed=total,
            attempted=_later(self.status.attempted, total),
            checkpoints=self.status.checkpoints + 1,
            epoch=epoch,
            checkpoint_at=now,
            checkpoint_duration=duration,
            checkpoint_size=size,
            kept=kept,
        )

    def stopped(self, times: Mapping[SubtaskId, SubtaskTime]) -> None:
        """Update the times of a slot's subtasks at its end."""
        self._change(times={**self.status.times, **times})

    def checkpoint_failed(self) -> None:
        """Count a failed checkpoint."""
        self._change(failed_checkpoints=self.status.failed_checkpoints + 1)

    def ended(self, now: int, metrics: Iterable[TaskMetrics]) -> None:
        """Update the metrics at the end of the run from what the last attempt has counted."""
        total = self._with_commits(sum_of([self._base, *metrics]))
        self._change(now=now, committed=total, attempted=total)

    def _with_commits(self, metrics: TaskMetrics) -> TaskMetrics:
        committed = self._committed()
        return sum_of([metrics, TaskMetrics(committed)]) if committed.steps else metrics


def _later(attempted: TaskMetrics, committed: TaskMetrics) -> TaskMetrics:
    """Return the greater of two metrics: `attempted` may have been reported before the checkpoint."""
    steps = attempted.counts.steps
    is_behind = any(
        label not in steps or count.read > steps[label].read for label, count in committed.counts.steps.items()
    )
    return committed if is_behind else attempted
