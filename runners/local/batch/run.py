"""Run of a bounded pipeline on the batch engine: tasks of its segments, and the commit of sinks at the end.

In the calling process one task has all segments, one after the other.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ....sdk.metrics import MetricsContainer, scoped
from ....sdk.runner import PipelineState
from ....sdk.user_code.step_slot import StepSlot, here
from ...execution.batch.bounded_program import BoundedProgram, splits_of
from ...execution.batch.segment_task import SegmentTask, pace_of_tasks
from ...execution.counters import Counts
from ...execution.plan.fusion import Plan, Source
from ...execution.plan.segments import Segment
from ...execution.sinks.run_records import committed
from ...execution.stages.side_input_views import SideInputViews
from ...execution.stuck_calls import Returned, Stuck, log_call

if TYPE_CHECKING:
    from ...execution.page.observer import Observation
    from ...execution.streaming.observation import Observe, Observed
    from .task_reports import TaskReport, TaskReporter


class Cancelled(Exception):
    """The run is cancelled."""


class BatchRun(ABC):
    """Run of a bounded plan.  Subclasses schedule its tasks.

    Attributes:
      program: the plan, cut into segments.
      counts: elements, by step.
      state: one of `PipelineState`.
      has_begun: True once tasks run.
    """

    def __init__(self, program: BoundedProgram, metrics: MetricsContainer) -> None:
        self.program = program
        self.counts = self._completed = Counts()
        self.state = PipelineState.RUNNING
        self.has_begun = False
        self._metrics = metrics
        self._stuck: Stuck | None = None
        self._is_cancelled = False
        # What a page wants observed, if the run is monitored; and what the workers have observed.
        self._observation: Observation | None = None
        self._observed: list[tuple[int, Observed]] = []

    def run(self) -> None:
        """Run to the end, unless the run is cancelled.  After that, or a failure, nothing that was written is left."""
        try:
            with (
                scoped(self._metrics, seconds=self._completed.seconds),
                committed(self.program.plan, self.program.transaction, self._staged, self._metrics),
            ):
                self._run_or_discard()
            self.state = PipelineState.DONE
        except Cancelled:
            self.state = PipelineState.CANCELLED
        except BaseException:
            self.state = PipelineState.FAILED
            raise

    def _run_or_discard(self) -> None:
        try:
            self._run_tasks()
        except BaseException:
            with suppress(Exception):
                self._discard()
            raise

    @abstractmethod
    def _run_tasks(self) -> None:
        """Run all tasks.  Raises `Cancelled`."""

    @abstractmethod
    def _staged(self) -> Mapping[str, Sequence[Any]]:
        """Return the tokens that the tasks have staged, by the label of a sink."""

    def _discard(self) -> None:
        """Free the resources of tasks that haven't ended."""

    def _check_cancelled(self) -> None:
        if self._is_cancelled:
            raise Cancelled

    def monitor(self, observation: Observation) -> None:
        """Have `reported` and the observation up to date while the run lasts; called before it."""
        self._observation = observation

    @abstractmethod
    def send(self, wanted: Observe) -> None:
        """Have the tasks observe what is wanted."""

    def observed(self) -> list[tuple[int, Observed]]:
        """Return what tasks have observed since the last call, with the numbers of their workers."""
        taken, self._observed = self._observed, []
        return taken

    def note_call(self, report: Stuck | Returned) -> None:
        """Note, and log, that a call in this process doesn't return, or has returned; from any thread."""
        self._stuck = report if isinstance(report, Stuck) else None
        log_call(report)

    # For any thread

    def cancel(self) -> None:
        """Stop as soon as the present bundle is processed; what was written is removed."""
        self._is_cancelled = True

    def refresh(self) -> str:
        """Update `counts`; return what else the progress shows."""
        return ""

    @abstractmethod
    def reported(self) -> TaskReport:
        """Return what all tasks have counted, if the run is monitored."""

    @property
    @abstractmethod
    def turns(self) -> int:
        """A number that grows while the run makes progress."""

    @property
    def parallelism(self) -> int:
        """The number of workers."""
        return 1

    @abstractmethod
    def partitions(self) -> list[tuple[int, int, int]]:
        """Return for each segment the numbers of its partitions that are done, in a task, and waiting."""

    @abstractmethod
    def workers(self) -> list[tuple[int, int | None, int]]:
        """Return for each worker its process id, its segment if it has a task, and the tasks that it has completed."""

    @abstractmethod
    def elements_read(self) -> Mapping[tuple[int, int], int]:
        """Return the elements that steps have read, by the number of their segment and that of the worker."""

    def stuck_steps(self) -> list[str]:
        """Return the steps with a function that doesn't return, and the worker if there are several."""
        stuck = self._stuck
        return [] if stuck is None else [repr(stuck.step)]


class RunInThisProcess(BatchRun):
    """Run as one task of all segments, in the calling thread."""

    def __init__(self, plan: Plan, metrics: MetricsContainer) -> None:
        super().__init__(BoundedProgram(plan), metrics)
        self._task: SegmentTask | None = None
        self._slot: StepSlot | None = None
        # The number of the segment that runs.
        self._at_work = 0
        self._reporter: TaskReporter | None = None
        self._latest: TaskReport | None = None

    def _run_tasks(self) -> None:
        self._slot, self.has_begun = here.slot, True
        program = self.program
        arguments = program.plan.steps, SideInputViews(), program.transaction, "0", self.counts, self._metrics
        task = self._task = SegmentTask(program.plan, program.segments, *arguments, cut=pace_of_tasks().parts)
        if self._reporter is not None:
            self._reporter.begin(task, self.program.segments, self.counts, self._metrics)
        for segment in self.program.segments:
            began = time.monotonic()
            is_source = isinstance(segment.root, Source)
            for _ in task.run(segment, splits_of(segment, 1)) if is_source else task.run(segment):
                if self._reporter is not None:
                    self._pause(self._reporter, segment, began)
            self.counts.busy[segment.label, 0] = time.monotonic() - began
            self._at_work += 1
        for _ in task.finish():
            pass
        if self._reporter is not None:
            self._reporter.report()

    def _pause(self, reporter: TaskReporter, segment: Segment, began: float) -> None:
        self.counts.busy[segment.label, 0] = time.monotonic() - began
        reporter.pause()
        self._check_cancelled()

    def monitor(self, observation: Observation) -> None:
        from .task_reports import TaskReporter

        super().monitor(observation)
        self._reporter = TaskReporter(self._take)

    def _take(self, report: TaskReport) -> None:
        assert self._observation is not None
        self._latest = report.copy()
        if report.observed is not None:
            self._observed.append((0, report.observed))
        self._observation.exchange(self)

    def send(self, wanted: Observe) -> None:
        if self._reporter is not None:
            self._reporter.obey(wanted)

    def reported(self) -> TaskReport:
        from .task_reports import TaskReport

        if self.state != PipelineState.RUNNING:
            return TaskReport(self.counts, self._metrics).copy()
        return TaskReport(Counts(), MetricsContainer()) if self._latest is None else self._latest

    def _staged(self) -> Mapping[str, Sequence[Any]]:
        assert self._task is not None
        staged: dict[str, list[Any]] = {}
        for output in self._task.outputs:
            output.stage()
            staged[output.label] = output.staged
        return staged

    def _discard(self) -> None:
        if self._task is not None:
            self._task.discard()

    @property
    def turns(self) -> int:
        return 0 if self._slot is None else self._slot.moves

    def partitions(self) -> list[tuple[int, int, int]]:
        at_work = self._at_work if self.has_begun else -1
        return [(int(n < at_work), int(n == at_work), int(n > at_work)) for n in range(len(self.program.segments))]

    def workers(self) -> list[tuple[int, int | None, int]]:
        is_at_work = self.has_begun and self._at_work < len(self.program.segments)
        return [(os.getpid(), self._at_work if is_at_work else None, 0)]

    def elements_read(self) -> Mapping[tuple[int, int], int]:
        steps = self.reported().counts.steps
        return {
            (number, 0): sum(steps[label].read for label in segment.label.split(" → ") if label in steps)
            for number, segment in enumerate(self.program.segments)
        }
