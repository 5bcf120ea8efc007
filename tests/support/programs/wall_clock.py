"""A wall clock that a test sets in another process and in its child processes.

Its time is that of the machine and an offset, which each Python process reads from a file whenever it looks.  Python
imports `sitecustomize` before anything else, also in workers that are started anew and in those of Spark.
"""

from __future__ import annotations

import os
import pathlib

import pytest

_SITECUSTOMIZE = """
import os, time

def _offset():
    with open(os.environ["SET_CLOCK"]) as file:
        return int(file.read()) * 1_000_000_000

_of_the_machine = time.time_ns

def time_ns():
    return _of_the_machine() + _offset()

def seconds():
    return time_ns() / 1e9

time.time_ns, time.time = time_ns, seconds
"""


class SetClock:
    """The wall clock of all programs that are started with its environment."""

    def __init__(self, directory: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._file = directory / "seconds"
        self.seconds = 0
        self.set(0)
        modules = directory / "modules"
        modules.mkdir()
        (modules / "sitecustomize.py").write_text(_SITECUSTOMIZE)
        before = os.environ.get("PYTHONPATH")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(modules), *([before] if before else [])]))
        monkeypatch.setenv("SET_CLOCK", str(self._file))

    def set(self, by: int) -> None:
        """Set the clock forward by so many seconds, or back by a negative number."""
        self.seconds += by
        written = self._file.with_suffix(".new")
        written.write_text(str(self.seconds))
        written.replace(self._file)
