"""Processes of a test that are killed: a function in a process of its own, without the threads of the test's."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import pickle
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from ..sdk.user_code.serialization import dumps

# The seconds after which a test fails that waits for something.
PATIENCE = 120.0


def until(holds: Callable[[], Any], what: str) -> None:
    """Wait for a condition.  Raises `AssertionError`, which says what was waited for."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited for {PATIENCE:.0f} s in vain: {what}")
        time.sleep(0.01)


class KilledProcess:
    """A process that calls a function with arguments, which are pickled.

    Processes are forked from one that has no threads and no connections, and have the environment of this process.

    Args:
      log: the path of the file that the process writes its output to.
    """

    def __init__(self, log: pathlib.Path, function: Callable[..., Any], *arguments: Any) -> None:
        self._log = log
        context = multiprocessing.get_context("forkserver")
        # Once for all processes.
        context.set_forkserver_preload(["__main__", "penstock.runners.local", "penstock.io", __name__])
        arguments = str(log), dict(os.environ), dumps((function, arguments))
        self._process = context.Process(target=_called, args=arguments, daemon=True)
        self._process.start()

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()

    @property
    def log(self) -> str:
        """The output of the process."""
        return self._log.read_text() if self._log.exists() else ""

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.join()

    def until_it_is_killed(self) -> None:
        """Wait until it kills itself.  Raises `AssertionError` if it ends otherwise."""
        self._process.join(PATIENCE)
        if self._process.exitcode != -signal.SIGKILL:
            self.kill()
            raise AssertionError(f"expected the process to be killed, got status {self._process.exitcode}\n{self.log}")


def _called(log: str, environment: dict[str, str], pickled: bytes) -> None:
    os.environ.clear()
    os.environ.update(environment)
    file = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    sys.stdout.flush()
    function, arguments = pickle.loads(pickled)
    function(*arguments)
