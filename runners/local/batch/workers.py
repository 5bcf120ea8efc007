"""Workers of a batch run: processes that run one task after the other."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, TypeAlias

# Groupings and keyed operators are imported once, in the template of workers, though not every task has them.
from ....frozen import frozen
from ...execution.batch import groupings  # noqa: F401
from ...execution.batch.file_tasks import CollectedViews, CompletedTask, PartitionedProgram, SideInputs, run_task
from ...execution.error_transport import RemoteError
from ...execution.operators import keyed  # noqa: F401
from ...execution.stuck_calls import CallWatch, Returned, Stuck
from ..workers.handover import Work
from ..workers.pipe import send
from ..workers.processes import WorkerProcesses, run_worker
from .task_reports import INTERVAL, TaskReport, TaskReporter

if TYPE_CHECKING:
    from ...execution.streaming.observation import Observe


@frozen
class Begin:
    """Begin a task.

    Attributes:
      segment: the number of its segment.
      attempt: its unique name.
      worker: the number of the worker.
    """

    segment: int
    attempt: str
    side_inputs: SideInputs
    worker: int


@frozen
class Partition:
    """The task's next partition; None if none is left."""

    partition: Any


@frozen
class Wanted:
    """The task is ready for its next partition."""


@frozen
class TaskFailed:
    """The task has raised an error."""

    error: RemoteError


Report: TypeAlias = Wanted | TaskReport | CompletedTask | TaskFailed


class BatchWorkers(WorkerProcesses):
    """Worker processes of a batch run.

    Args:
      program: the plan that all of them run tasks of.
      start_method: "forkserver" or "spawn".
      timeout: seconds without a heartbeat after which a worker is given up.
      is_monitored: whether tasks report their metrics while they run, and obey `Observe`.
    """

    def __init__(
        self, program: PartitionedProgram, slots: int, start_method: str, timeout: float, is_monitored: bool
    ) -> None:
        super().__init__(slots, timeout, start_method)
        self._work = Work(_run_tasks, (program, timeout, is_monitored))

    def start(self) -> None:
        """Start all workers."""
        self._start_all([self._work] * self.slots)

    def replace(self, number: int) -> None:
        """Start another worker in the place of one that has failed."""
        self._bury(number)
        self._replace(number, self._work)

    def send(self, number: int, command: Begin | Partition | Observe) -> None:
        """Send a worker a command.  If the worker is gone, `poll` raises."""
        with suppress(OSError):
            send(self._controls[number], command)

    def poll(self, seconds: float) -> list[tuple[int, Report]]:
        """Return reports, each with its worker's number, after at most so many seconds.

        Raises `WorkerDied`.
        """
        self._check_heartbeats()
        reports: list[tuple[int, Report]] = []
        for number, report in self._receive(seconds):
            if isinstance(report, (Stuck, Returned)):
                self._note_stuck(number, report)
            else:
                reports.append((number, report))
        return reports


def _run_tasks(
    control: Connection, sockets: Sequence[Any], program: PartitionedProgram, timeout: float, is_monitored: bool
) -> None:
    """Run tasks in this process until it is killed, or the parent is gone."""
    worker = _Worker(control, program, timeout, is_monitored)
    run_worker(worker.run, lambda error: worker.report(TaskFailed(error)))


class _Worker:
    """A worker, in its process."""

    def __init__(self, control: Connection, program: PartitionedProgram, timeout: float, is_monitored: bool) -> None:
        self._control = control
        self._program = program
        self._timeout = timeout
        self._is_monitored = is_monitored
        self._reporter = TaskReporter(self._tell, is_monitored, is_own_process=True)
        self._views = CollectedViews()
        # The call watch reports from a thread of its own.
        self._lock = threading.Lock()

    def run(self) -> None:
        """Run one task after the other."""
        with CallWatch(self._timeout, self._report_call):
            while True:
                begin = self._command()
                views = self._views.read(begin.side_inputs)
                arguments = begin.segment, begin.attempt, views, self._next
                task = run_task(self._program, *arguments, self._reporter, begin.worker)
                # The process is killed when the run is over.
                sys.stdout.flush()
                sys.stderr.flush()
                if self._is_monitored:
                    self._reporter.report()
                    self._reporter.end()
                self.report(task)

    def _command(self) -> Any:
        """Return the next command, and observe meanwhile what a page asks for."""
        if not self._is_monitored:
            return self._control.recv()
        while True:
            if not self._control.poll(INTERVAL):
                if (news := self._reporter.news()) is not None:
                    self.report(news)
                continue
            command = self._control.recv()
            if isinstance(command, (Begin, Partition)):
                return command
            self._reporter.obey(command)

    def _next(self) -> Any:
        self.report(Wanted())
        return self._command().partition

    def _tell(self, report: TaskReport) -> None:
        """Report, and observe from now on what a page asks for: no other command comes while a task runs."""
        self.report(report)
        while self._is_monitored and self._control.poll():
            self._reporter.obey(self._control.recv())

    def report(self, report: Report | Stuck | Returned) -> None:
        """Report to the parent process."""
        with self._lock:
            send(self._control, report)

    def _report_call(self, report: Stuck | Returned) -> None:
        # If the parent is gone, the worker's loop finds out.
        with suppress(OSError):
            self.report(report)
