"""Workers of a batch run: processes that run one task after the other."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import attrs

# Groupings and keyed operators are imported once, in the template of workers, though not every task has them.
from ..execution.batch import groupings  # noqa: F401
from ..execution.batch.file_tasks import CollectedViews, CompletedTask, PartitionedPlan, SideInputs, run_task
from ..execution.counters import Counts
from ..execution.error_transport import RemoteError
from ..execution.operators import keyed  # noqa: F401
from ..execution.stuck_calls import CallWatch, Returned, Stuck
from .workers.handover import Work
from .workers.processes import WorkerProcesses, run_worker
from .workers.protocol import send

# Seconds between two reports of a task's counts.
_COUNTS = 0.25


@attrs.frozen
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


@attrs.frozen
class Partition:
    """The task's next partition; None if none is left."""

    partition: Any


@attrs.frozen
class Wanted:
    """The task is ready for its next partition."""


@attrs.frozen
class TaskFailed:
    """The task has raised an error."""

    error: RemoteError


Report: TypeAlias = Wanted | Counts | CompletedTask | TaskFailed


class BatchWorkers(WorkerProcesses):
    """Worker processes of a batch run.

    Args:
      program: the plan that all of them run tasks of.
      start_method: "forkserver" or "spawn".
      timeout: seconds without a heartbeat after which a worker is given up.
    """

    def __init__(self, program: PartitionedPlan, slots: int, start_method: str, timeout: float) -> None:
        super().__init__(slots, timeout, start_method)
        self._work = Work(_run_tasks, (program, timeout))

    def start(self) -> None:
        """Start all workers."""
        self._start_all([self._work] * self.slots)

    def replace(self, number: int) -> None:
        """Start another worker in the place of one that has failed."""
        self._bury(number)
        self._replace(number, self._work)

    def send(self, number: int, command: Begin | Partition) -> None:
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


def _run_tasks(control: Connection, sockets: Sequence[Any], program: PartitionedPlan, timeout: float) -> None:
    """Run tasks in this process until it is killed, or the parent is gone."""
    worker = _Worker(control, program, timeout)
    run_worker(worker.run, lambda error: worker.report(TaskFailed(error)))


class _Worker:
    """A worker, in its process."""

    def __init__(self, control: Connection, program: PartitionedPlan, timeout: float) -> None:
        self._control = control
        self._program = program
        self._timeout = timeout
        self._views = CollectedViews()
        # The call watch reports from a thread of its own.
        self._lock = threading.Lock()
        self._counts_at = 0.0

    def run(self) -> None:
        """Run one task after the other."""
        with CallWatch(self._timeout, self._report_call):
            while True:
                begin = self._control.recv()
                views = self._views.read(begin.side_inputs)
                self._counts_at = time.monotonic() + _COUNTS
                arguments = begin.segment, begin.attempt, views, self._next, self._pause
                task = run_task(self._program, *arguments, begin.worker)
                # The process is killed when the run is over.
                sys.stdout.flush()
                sys.stderr.flush()
                self.report(task)

    def _next(self) -> Any:
        self.report(Wanted())
        return self._control.recv().partition

    def _pause(self, counts: Counts) -> None:
        now = time.monotonic()
        if now >= self._counts_at:
            self._counts_at = now + _COUNTS
            self.report(counts)

    def report(self, report: Report | Stuck | Returned) -> None:
        """Report to the parent process."""
        with self._lock:
            send(self._control, report)

    def _report_call(self, report: Stuck | Returned) -> None:
        # If the parent is gone, the worker's loop finds out.
        with suppress(OSError):
            self.report(report)
