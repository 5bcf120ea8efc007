"""Limits to the time of each test: one that hangs fails, and shows what every thread and process was doing.

`pytest --time-limit=SECONDS` limits a test's set-up, its call and its tear-down, each.  `make test` gives it: without,
one test that hangs ends the run of all, and nobody learns which it was.

Why not pytest-timeout?  What hangs is mostly another process, which the test waits for.
"""

from __future__ import annotations

import faulthandler
import os
import pathlib
import signal
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import pytest

# Seconds that the process may take to end after its last test, and that others have to write down their stacks.
TO_END = 60.0
TO_WRITE = 1.0

# What a failure for this reason begins with.
OVER = "Over the limit of"


def _none() -> Collection[int]:
    return ()


# Returns the ids of child processes that no test has started.
_spared: Callable[[], Collection[int]] = _none


def add_option(parser: pytest.Parser) -> None:
    """Add the flag."""
    parser.addoption(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="fail a test whose set-up, call or tear-down takes longer, with the stacks of its threads and processes",
    )


def register(config: pytest.Config, spared: Callable[[], Collection[int]]) -> None:
    """Register the plugin if there is a limit.

    Args:
      spared: returns the ids of child processes that no test has started.
    """
    global _spared
    _spared = spared
    if config.option.time_limit:
        config.pluginmanager.register(TimeLimits(config.option.time_limit), "time-limits")


class TimeLimits:
    """Fails tests that take too long, and ends a process that doesn't end."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Iterator[Any]:
        """Limit the set-up, with all fixtures that it needs."""
        with self._limit():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Iterator[Any]:
        """Limit the test itself."""
        with self._limit():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Iterator[Any]:
        """Limit the tear-down, with all fixtures that it ends."""
        with self._limit():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_unconfigure(self) -> Iterator[Any]:
        """End the process if a thread that a test has left doesn't let it end."""
        result = yield
        # Written to the standard error: pytest's own copy of it is closed by now.
        faulthandler.dump_traceback_later(TO_END, exit=True, file=2)
        return result

    @contextmanager
    def _limit(self) -> Iterator[None]:
        before = signal.signal(signal.SIGALRM, self._fail)
        # Again and again, if what is told of the failure waits for something, too.
        signal.setitimer(signal.ITIMER_REAL, self._seconds, max(self._seconds / 4, 2 * TO_WRITE))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _fail(self, number: int, frame: FrameType | None) -> NoReturn:
        pytest.fail(f"{OVER} {self._seconds:g} seconds.\n\n{what_goes_on()}")


def what_goes_on() -> str:
    """Return the stacks of all threads, and the processes that tests have started, which are aborted.

    For a test that fails because it waited: the processes write their stacks where they write errors.
    """
    stacks = stacks_of_threads()
    processes = "\n".join(abort_descendants(_spared()))
    return f"{stacks}\nProcesses that it waited for:\n{processes}"


def stacks_of_threads() -> str:
    """Return the stacks of all threads of this process."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read()


def abort_descendants(spared: Collection[int]) -> list[str]:
    """Abort the Python processes that tests have started, so that they write their stacks where they write errors.

    Returns:
      A line for each: its id, its arguments, and the kernel's function that it waits in.
    """
    lines = []
    for pid in _descendants(os.getpid(), spared):
        try:
            arguments = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            waits_in = pathlib.Path(f"/proc/{pid}/wchan").read_text()
            name = pathlib.Path(f"/proc/{pid}/comm").read_text()
            lines.append(f"{pid} {arguments[:300]} (in {waits_in})")
            # Servers and JVMs are for later tests, too.
            if name.startswith(("python", "pytest")):
                os.kill(pid, signal.SIGABRT)
        except OSError:
            # It has ended.
            continue
    time.sleep(TO_WRITE)
    return lines


def _descendants(pid: int, spared: Collection[int]) -> Iterator[int]:
    for file in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in file.read_text().split()]
        except OSError:
            continue
        for child in children:
            if child not in spared:
                yield child
                yield from _descendants(child, spared)
