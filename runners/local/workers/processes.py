"""A worker ends with the process that started it, also while a function of the user's doesn't return.

Processes that work for the one that runs the pipeline: listened to, named if they die or hang, and ended.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from ....sdk.errors import OptionsError
from ....sdk.options import StreamingOptions
from ....sdk.redaction import logger_of
from ...execution.stuck_calls import Returned, Stuck
from .heartbeats import SILENCE, Heartbeats
from .pool import WorkerDied

# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process as soon as its parent has ended, or the parent's thread that started it.

    Only Linux can.  Elsewhere a worker notices that nobody hears it when it is done with what it is doing.

    Args:
      parent: its process id, as it was before this process was started.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have ended before that.
    if os.getppid() != parent:
        os._exit(0)


_logger = logger_of(__name__)


class WorkerProcesses:
    """So many processes, each with a pipe for what is said.

    Args:
      timeout: a worker that gives no sign of life for so many seconds is given up.
    """

    def __init__(self, slots: int, timeout: float) -> None:
        self.slots = slots
        self._timeout = timeout
        self._processes: list[Any] = []
        self._controls: list[Connection] = []
        self._beats: Heartbeats | None = None
        self._silent: set[int] = set()
        self._stuck: dict[int, Stuck] = {}

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [process.pid for process in self._processes]

    def _listen(self, stopped: Collection[int] = ()) -> None:
        """Warn of workers that have fallen silent; raises `WorkerDied` when one has been for too long."""
        assert self._beats is not None
        for number, silence in enumerate(self._beats.silences()):
            if number in stopped:
                continue
            name = f"worker {number} (pid {self.pids[number]})"
            if silence >= self._timeout:
                raise WorkerDied(f"{name} hangs: no sign of life for {silence:.1f} s (--worker_timeout)", number)
            if silence >= SILENCE and number not in self._silent:
                self._silent.add(number)
                _logger.warning(
                    "%s gives no sign of life; it will be killed after %g s (--worker_timeout)", name, self._timeout
                )
            elif silence < SILENCE and number in self._silent:
                self._silent.remove(number)
                _logger.warning("%s is alive again", name)

    def _heard_of(self, number: int, news: Stuck | Returned) -> None:
        """A worker is stuck in a call, or no more."""
        if isinstance(news, Stuck):
            self._stuck[number] = news
        else:
            self._stuck.pop(number, None)
        _logger.warning("worker %d (pid %d): %s", number, self.pids[number], news)

    def stuck_steps(self) -> list[str]:
        return [f"{stuck.step!r} in worker {number}" for number, stuck in sorted(dict(self._stuck).items())]

    def stuck(self) -> list[str]:
        return [f"worker {number} (pid {self.pids[number]}): {stuck}" for number, stuck in sorted(self._stuck.items())]

    def _bury(self, number: int) -> None:
        """Be rid of a worker, whatever it is doing."""
        process = self._processes[number]
        with suppress(OSError):
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        process.close()
        self._controls[number].close()
        self._silent.discard(number)
        self._stuck.pop(number, None)

    def _died(self, number: int) -> WorkerDied:
        process = self._processes[number]
        process.join(1)
        code = process.exitcode
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        else:
            how = f"exited unexpectedly with status {code} (does user code call os._exit?)"
        return WorkerDied(f"worker {number} (pid {process.pid}) {how}", number)

    def kill(self) -> None:
        for process in list(self._processes):
            # Its end may have been seen meanwhile.
            with suppress(OSError, ValueError):
                os.kill(process.pid, signal.SIGKILL)

    def end(self) -> None:
        self.kill()
        for process in self._processes:
            # Of one that is closed already whoever was told so was interrupted.
            with suppress(ValueError):
                process.join()
                process.close()
        for control in self._controls:
            control.close()
        self._processes, self._controls = [], []
        if self._beats is not None:
            self._beats.close()
            self._beats = None


def forked(run: Callable[[], None], number: int) -> Any:
    """Start a process that runs a function, and ends when this one does."""
    parent = os.getpid()

    def live() -> None:
        end_with_parent(parent)
        run()

    context = multiprocessing.get_context("fork")
    process = context.Process(target=live, name=f"penstock worker {number}", daemon=True)
    process.start()
    return process


def slots_of(streaming: StreamingOptions) -> int:
    """Return how many processes the flags ask for, of which each has work."""
    parallelism, workers = streaming.parallelism, streaming.workers
    slots = min(workers or parallelism, parallelism)
    if workers is not None and workers > slots:
        _logger.warning("--workers=%d: only %d of them would have work, with --parallelism=%d", workers, slots, slots)
    return int(slots)


def start_of(slots: int, streaming: StreamingOptions) -> str:
    """Return how processes begin, "fork" or "spawn".  Raises `OptionsError` where they can't."""
    if sys.platform == "win32":
        raise OptionsError(
            f"option --workers: {slots} processes were asked for, but on Windows pipes can't be handed on; "
            "expected --workers=1, with any --parallelism"
        )
    return streaming.worker_start or ("fork" if hasattr(os, "fork") else "spawn")
