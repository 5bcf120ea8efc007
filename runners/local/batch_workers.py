"""Workers of a batch run: processes that each have one task after the other."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, TypeAlias

import attrs

from ...sdk.errors import UserCodeError
from ..execution.batch.file_tasks import CollectedViews, CompletedTask, PartitionedPlan, SideInputs, run_task
from ..execution.counters import Counts
from ..execution.error_transport import RemoteError, remote
from ..execution.gc_tuning import look_rarely_for_garbage
from ..execution.stuck_calls import CallWatch, Returned, Stuck
from ..execution.user_errors import as_exception
from .workers.heartbeats import Heartbeats
from .workers.processes import WorkerProcesses, forked
from .workers.spawned import spawned

# Seconds between two reports of what a task has counted so far.
_NEWS = 0.25


@attrs.frozen
class Begin:
    """Begin a task.

    Attributes:
      segment: the number of its segment.
      attempt: its name, which nothing else has.
    """

    segment: int
    attempt: str
    side_inputs: SideInputs


@attrs.frozen
class Partition:
    """The task's next partition; None if no partition is left."""

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
    """So many worker processes.

    Args:
      program: what each of them knows.
      start: "fork" or "spawn".
      timeout: a worker that gives no sign of life for so many seconds is given up.
    """

    def __init__(self, program: PartitionedPlan, slots: int, start: str, timeout: float) -> None:
        super().__init__(slots, timeout)
        self._program = program
        self._start = start

    def start(self) -> None:
        """Start all workers."""
        self._beats = Heartbeats(self.slots)
        pipes = [Pipe() for _ in range(self.slots)]
        self._controls = [ours for ours, _ in pipes]
        for number, (_, theirs) in enumerate(pipes):
            others = [end for pair in pipes for end in pair if end is not theirs]
            self._processes.append(self._launch(number, theirs, others))
        for _, theirs in pipes:
            theirs.close()

    def replace(self, number: int) -> None:
        """Start another worker in the place of one that has failed."""
        assert self._beats is not None
        self._bury(number)
        self._beats.begin(number)
        self._controls[number], theirs = Pipe()
        others = [control for control in self._controls if not control.closed]
        self._processes[number] = self._launch(number, theirs, others)
        theirs.close()

    def _launch(self, number: int, theirs: Connection, others: list[Connection]) -> Any:
        beats = self._beats
        assert beats is not None
        if self._start == "spawn":
            ours = self._controls[number]
            return spawned(_work, (self._program, self._timeout), number, ours, theirs, beats)

        def run() -> None:
            for end in others:
                end.close()
            beats.beat_on(number)
            _work(theirs, self._program, self._timeout)

        return forked(run, number)

    def send(self, number: int, command: Begin | Partition) -> None:
        """Tell a worker what to do.  If it is gone, `poll` raises."""
        with suppress(OSError):
            self._controls[number].send(command)

    def poll(self, seconds: float) -> list[tuple[int, Report]]:
        """Return what workers have reported, each with the worker's number, after at most so many seconds.

        Raises `WorkerDied`.
        """
        self._listen()
        reports: list[tuple[int, Report]] = []
        for ready in wait(self._controls, seconds):
            number = self._controls.index(ready)  # type: ignore[arg-type]
            try:
                while self._controls[number].poll():
                    report = self._controls[number].recv()
                    if isinstance(report, (Stuck, Returned)):
                        self._heard_of(number, report)
                    else:
                        reports.append((number, report))
            except (EOFError, OSError):
                if reports:
                    # The end of a pipe stays there to be read the next time.
                    return reports
                raise self._died(number) from None
        return reports


def _work(control: Connection, program: PartitionedPlan, timeout: float) -> None:
    """Run tasks for as long as there is a process to tell of them."""
    # Signals are for the process that the user has started.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    look_rarely_for_garbage()
    worker = _Worker(control, program)
    try:
        with CallWatch(timeout, worker.tell_of):
            worker.run()
    except BaseException as error:
        is_over = isinstance(error, (BrokenPipeError, ConnectionResetError, EOFError))
        if not is_over or isinstance(error, UserCodeError):
            with suppress(OSError):
                worker.tell(TaskFailed(remote(as_exception(error))))
    sys.stdout.flush()
    sys.stderr.flush()
    # No handlers of the parent's are to run here.
    os._exit(0)


class _Worker:
    """One worker, in its process."""

    def __init__(self, control: Connection, program: PartitionedPlan) -> None:
        self._control = control
        self._program = program
        self._views = CollectedViews()
        # The call watch tells from a thread of its own.
        self._telling = threading.Lock()
        self._news_at = 0.0

    def run(self) -> None:
        """Run one task after the other."""
        while True:
            begin = self._control.recv()
            views = self._views.read(begin.side_inputs)
            self._news_at = time.monotonic() + _NEWS
            task = run_task(self._program, begin.segment, begin.attempt, views, self._next, self._pause)
            # The process is killed when the run is over.
            sys.stdout.flush()
            sys.stderr.flush()
            self.tell(task)

    def _next(self) -> Any:
        self.tell(Wanted())
        return self._control.recv().partition

    def _pause(self, counts: Counts) -> None:
        now = time.monotonic()
        if now >= self._news_at:
            self._news_at = now + _NEWS
            self.tell(counts)

    def tell(self, report: Report | Stuck | Returned) -> None:
        """Report to the process that runs the pipeline."""
        with self._telling:
            self._control.send(report)

    def tell_of(self, news: Stuck | Returned) -> None:
        """Report a call that doesn't return; if the other process is gone, the worker's loop finds out."""
        with suppress(OSError):
            self.tell(news)
