"""A program that is killed with its child processes and restarted in the same directory."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kills.sessions import kill_session, session_of

# Seconds, on a machine that has other things to do: for anything that is waited for.
PATIENCE = 600.0


class KilledProgram:
    """The processes of the program and the files that they leave behind.

    Args:
      directory: of its log and its database; empty.

    Attributes:
      kills: the number of processes that were killed.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.kills = 0
        self._process: subprocess.Popen[bytes] | None = None

    # Processes

    def launch(self, program: pathlib.Path, *options: str, environment: dict[str, str] | None = None) -> None:
        """Start or restart the program in a session of its own."""
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(program), *options],
                cwd=self.directory,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that was started last."""
        assert self._process is not None
        return self._process

    @property
    def log(self) -> str:
        """The output of all starts."""
        log = self.directory / "log"
        return log.read_text() if log.exists() else ""

    def ended(self) -> int:
        """Wait for the end of the program and return its exit code."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it doesn't end:\n{self.log}") from None

    def wait_for(self, holds: Callable[[], object], pause: float = 0.1) -> bool:
        """Wait for a condition or the end of the program.

        Args:
          pause: the seconds between two looks, which take time from the program; three times a look's own if longer.

        Returns:
          Whether the condition holds.
        """
        deadline = (began := time.monotonic()) + PATIENCE
        while not holds():
            if self.process.poll() is not None:
                return bool(holds())
            assert time.monotonic() < deadline, self.log
            time.sleep(min(1.0, max(pause, 3 * (time.monotonic() - began))))
            began = time.monotonic()
        return True

    def kill_worker(self, choose: random.Random) -> None:
        """Kill one of the processes that the program has started, once there is one; the others go on."""

        def is_killed() -> bool:
            workers = [pid for pid in session_of(self.process.pid) if pid != self.process.pid]
            # The one that is chosen may be over: a snapshot is written by a process that ends with it.
            with suppress(ProcessLookupError, IndexError):
                os.kill(choose.choice(workers), signal.SIGKILL)
                return True
            return False

        assert self.wait_for(is_killed, pause=0.01), self.log
        self.kills += 1

    def kill_all(self) -> None:
        """Kill all processes of the program, which hasn't ended by itself."""
        assert self.process.poll() is None, self.log
        kill_session(self.process.pid)
        self.process.wait()
        self.kills += 1

    def all_gone(self) -> None:
        """Wait until all killed processes of the session are gone."""
        assert -signal.SIGKILL == self.ended(), self.log
        deadline = time.monotonic() + PATIENCE
        while left := session_of(self.process.pid):
            assert time.monotonic() < deadline, f"processes {left} don't end:\n{self.log}"
            time.sleep(0.01)
        self.kills += 1

    def clean_up(self) -> None:
        """Kill the processes that are left."""
        if self._process is not None:
            kill_session(self._process.pid)
            self._process.wait()

    # Results

    def rows(self, sql: str) -> list[Any]:
        """Return the committed rows of the database."""
        if not (self.directory / "out.db").exists():
            return []
        # Not read-only: the first reader after a crash rolls an unfinished transaction back.
        connection = sqlite3.connect(self.directory / "out.db", timeout=60)
        try:
            return sorted(connection.execute(sql).fetchall())
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
        finally:
            connection.close()
