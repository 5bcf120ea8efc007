"""Start of worker processes: forked from the template process, or spawned.

>>> sorted(STARTS)
['forkserver', 'spawn']
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Final, Protocol, TypeAlias

from .handover import take_over
from .heartbeats import Heartbeats, end_with_parent
from .interpreter import ignore_signals, start_interpreter
from .template import fork_worker

# The function of a spawned worker.
_SPAWNED = "penstock.runners.local.workers.start:run_spawned"


class Process(Protocol):
    """A worker process."""

    @property
    def pid(self) -> int: ...

    @property
    def exitcode(self) -> int | None:
        """Its exit status, negative if a signal has ended it; None while it runs."""

    def join(self, seconds: float | None = None) -> None:
        """Wait for its end, at most so long."""

    def close(self) -> None:
        """Release what belongs to it here."""


def _forked(module: str, control: Connection, beats: Heartbeats) -> Process:
    return fork_worker(module, control.fileno(), beats.file.fileno())


def _spawned(module: str, control: Connection, beats: Heartbeats) -> Process:
    return _Spawned(start_interpreter(_SPAWNED, (control.fileno(), beats.file.fileno())))


# Starts a process that runs a module, by its name, with the worker's end of the pipe to the job.
Start: TypeAlias = Callable[[str, Connection, Heartbeats], Process]

STARTS: Final[Mapping[str, Start]] = {"forkserver": _forked, "spawn": _spawned}


class _Spawned:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def join(self, seconds: float | None = None) -> None:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()

    def close(self) -> None:
        pass


def run_spawned(_: str, job: int, control: int, beats: int) -> None:
    """Run a worker in this interpreter.

    Args:
      job: the id of the process that has started it.
      control, beats: as `take_over` expects them.
    """
    ignore_signals()
    end_with_parent(job)
    take_over(control, beats)
