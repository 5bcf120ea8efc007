"""A program that runs beside the test, such as a stream, with its output and exit status."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable

# Seconds: how long anything may take before the test fails.
PATIENCE = 180.0


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Wait for a condition, which is looked at for a quarter of the time at most: others wait for the processor.

    After a look that has taken long, such as of a server that didn't answer at once, the next one comes in a second.
    If it waits in vain, the error has the stacks of the threads, and the processes write theirs.
    """
    deadline = (began := time.monotonic()) + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            # Here, since tests send this function to workers, and the module refers to pytest's configuration.
            from support.suite.time_limits import what_goes_on

            raise AssertionError(f"waited in vain: {what}\n\n{what_goes_on()}")
        time.sleep(min(1.0, max(0.01, 3 * (time.monotonic() - began))))
        began = time.monotonic()


def children(pid: int) -> list[int]:
    """Return the processes that the threads of a process have started; in the place of its template, the workers."""
    return [each for child in _started_by(pid) for each in (_started_by(child) if _is_template(child) else [child])]


def _started_by(pid: int) -> list[int]:
    found = []
    for file in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        # A thread may end in between.
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            found += [int(child) for child in file.read_text().split()]
    return found


def _is_template(pid: int) -> bool:
    try:
        return b"worker_template\0serve" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


class RunningProgram:
    """A Python program in a process of its own; if it `leads`, also in a process group of its own.

    Attributes:
      log: what it writes to standard error; standard output goes there too.
    """

    def __init__(
        self, directory: pathlib.Path, program: str, *arguments: str, name: str = "pipeline.py", leads: bool = False
    ) -> None:
        (directory / name).write_text(program)
        self._log = directory / f"{name}.log"
        command = [sys.executable, name, *arguments]
        with open(self._log, "w") as log:
            self.process = subprocess.Popen(
                command, cwd=directory, stdout=log, stderr=subprocess.STDOUT, start_new_session=leads
            )

    @property
    def log(self) -> str:
        """The output of the program so far."""
        return self._log.read_text()

    def wait_until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for a condition; fail if the program ends before."""

        def happens() -> object:
            found = holds()
            assert found or self.process.poll() is None, self.log
            return found

        wait_until(happens, what)

    def signal(self, number: int) -> None:
        """Send the program a signal."""
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for the end of the program and return its exit code."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it doesn't end: {self.log}") from None

    def __enter__(self) -> RunningProgram:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
