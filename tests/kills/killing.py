"""Runs of a pipeline whose processes are killed, and what must come of it all the same.

Whoever is killed gets SIGKILL, at a moment or at a point of the program that a seed chooses.  When the process that
runs the pipeline is gone, the same program is started again, as whoever watches over it would.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import attrs
from kills.killed_pipeline import COORDINATOR_POINTS, FIRST, KEYS, SECOND, WORKER_POINTS
from running_program import wait_until

from penstock.runners.execution.disk import LocalDisk
from penstock.runners.execution.snapshot_store import SnapshotStore

PROGRAM = pathlib.Path(__file__).with_name("killed_pipeline.py")

# Seconds: for a whole run, on a machine that has other things to do, and for a worker to notice that it is alone, which
# takes some milliseconds anywhere.
PATIENCE = 300.0
ORPHANS_PATIENCE = 1.0


@attrs.frozen
class Kill:
    """One kill.

    Attributes:
      whom: "worker" or "coordinator": any worker, or the process that the user started.
      after: so many seconds after the run's last start; or else
      point: where it kills itself (see `killed_pipeline`), in the one start that is told so.
    """

    whom: str
    after: float | None = None
    point: str | None = None

    def __str__(self) -> str:
        return f"the {self.whom} " + (f"at {self.point}" if self.after is None else f"after {self.after:.3f} s")


class KilledRun:
    """One run, from its first start to its end, however many starts that takes.

    Args:
      directory: for checkpoints, tables and files; empty.
      seconds: how long the numbers take to come.
    """

    def __init__(self, directory: pathlib.Path, seconds: float = 1.0, rate: int = 1000, flags: tuple[str, ...] = ()):
        self.directory = directory
        self.numbers = round(seconds * rate)
        self.rate = rate
        self.seconds = seconds
        self.flags = flags
        self.start_time = int(time.time())
        self.kills = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0

    # Processes

    def start(self, die: str | None = None) -> None:
        """Start the program, or start it again."""
        options = [
            "--checkpoint_dir=kept",
            "--checkpoint_interval=0.05",
            "--parallelism=2",
            "--max_restarts=100",
            "--restart_delay=0.02",
            *self.flags,
        ]
        self._launch(PROGRAM, options, die)
        self._started = time.monotonic()

    def _launch(self, program: pathlib.Path, options: list[str], die: str | None, **process: Any) -> None:
        """Start a program that has the numbers to read, and dies at a point."""
        numbers = [f"--start_time={self.start_time}", f"--numbers={self.numbers}", f"--rate={self.rate}"]
        command = [sys.executable, str(program), *numbers, *options, *([] if die is None else [f"--die={die}"])]
        (self.directory / "died").unlink(missing_ok=True)
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.directory, stdout=log, stderr=subprocess.STDOUT, **process
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that runs the pipeline."""
        assert self._process is not None
        return self._process

    @property
    def log(self) -> str:
        """What all starts have written."""
        log = self.directory / "log"
        return log.read_text() if log.exists() else ""

    def workers(self) -> list[int]:
        """The process ids of the workers that are there now."""
        found = []
        try:
            for thread in os.listdir(f"/proc/{self.process.pid}/task"):
                children = pathlib.Path(f"/proc/{self.process.pid}/task/{thread}/children").read_text()
                found += [int(pid) for pid in children.split() if is_running(int(pid))]
        except FileNotFoundError:
            pass
        return found

    def kill(self, kill: Kill, choose: random.Random) -> bool:
        """Carry out a kill, and start again if there is nobody left; whether it came in time."""
        if kill.point is not None:
            killed = self._wait_for_death()
        else:
            assert kill.after is not None
            time.sleep(max(0.0, self._started + kill.after - time.monotonic()))
            killed = self._kill_worker(choose) if kill.whom == "worker" else self._kill_coordinator()
        self.kills += killed
        return killed

    def _kill_worker(self, choose: random.Random) -> bool:
        # While it recovers there is none for a moment.
        while self.process.poll() is None:
            workers = self.workers()
            if workers:
                os.kill(choose.choice(workers), signal.SIGKILL)
                return True
            time.sleep(0.001)
        return False

    def _kill_coordinator(self) -> bool:
        if self.process.poll() is not None:
            return False
        workers = self.workers()
        self.process.kill()
        self._coordinator_is_gone(workers)
        return True

    def _wait_for_death(self) -> bool:
        deadline = time.monotonic() + PATIENCE
        workers: list[int] = []
        while not (self.directory / "died").exists():
            workers = self.workers() or workers
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < deadline, self.log
            time.sleep(0.002)
        # It may have been a worker, and then all go on.
        time.sleep(0.05)
        if self.process.poll() is not None:
            self._coordinator_is_gone(workers)
        return True

    def _coordinator_is_gone(self, workers: list[int]) -> None:
        self.process.wait()
        wait_for_orphans(workers)

    def finish(self) -> None:
        """Have it end well, starting it again if it was killed."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                code = self.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"it doesn't end:\n{self.log}") from None
            if code == 0:
                return
            assert code == -signal.SIGKILL, f"it ended with {code}:\n{self.log}"
            self.start()

    def clean_up(self) -> None:
        """Let nothing of it go on."""
        if self._process is not None and self._process.poll() is None:
            for pid in (*self.workers(), self._process.pid):
                os.kill(pid, signal.SIGKILL)
            self._process.wait()

    # Results

    def rows(self, sql: str) -> list[Any]:
        """What can be read from the database."""
        if not (self.directory / "out.db").exists():
            return []
        # Not for reading only: whoever reads first after a crash takes back what was half-way.
        connection = sqlite3.connect(self.directory / "out.db", timeout=60)
        try:
            return sorted(connection.execute(sql).fetchall())
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
        finally:
            connection.close()

    def found(self) -> dict[str, list[Any]]:
        """What can be read now, in tables and files."""
        lines = [line for file in self.directory.glob("sums*.txt") for line in file.read_text().splitlines()]
        return {
            "numbers": self.rows("SELECT n, times FROM numbers"),
            "sums": self.rows("SELECT window_start, key, sum FROM sums"),
            "counts": self.rows("SELECT window_start, remainder, n FROM counts"),
            "files": sorted(tuple(map(int, line.split())) for line in lines),
        }

    def expected(self) -> dict[str, list[Any]]:
        """What it must be in the end, computed without the library."""
        begin = self.start_time * 1_000_000
        sums: Counter[tuple[int, int]] = Counter()
        for n in range(self.numbers):
            sums[window(begin + n * 1_000_000 // self.rate, FIRST), n % KEYS] += n
        counts = Counter((window(start, SECOND), total % 3) for (start, _), total in sums.items())
        return {
            "numbers": [(n, 1) for n in range(self.numbers)],
            "sums": sorted((start, key, total) for (start, key), total in sums.items()),
            "counts": sorted((start, remainder, n) for (start, remainder), n in counts.items()),
            "files": sorted((start, key, total) for (start, key), total in sums.items()),
        }

    def check_so_far(self) -> None:
        """Nothing that can be read now is wrong or there twice, where rows are final when they come."""
        expected, found = self.expected(), self.found()
        for name in ("numbers", "files"):
            surplus = Counter(found[name]) - Counter(expected[name])
            assert not surplus, f"{name}: {some(surplus)} too much\n{self.log}"

    def check_end(self) -> None:
        """Everything is there, once, and nothing else, nor is anything left that was staged."""
        expected, found = self.expected(), self.found()
        for name, rows in expected.items():
            missing, surplus = Counter(rows) - Counter(found[name]), Counter(found[name]) - Counter(rows)
            is_right = not missing and not surplus
            assert is_right, f"{name}: {some(missing)} missing, {some(surplus)} too much\n{self.log}"
        tables = {name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert {"numbers", "sums", "counts", "_penstock_transactions"} == tables
        assert [] == [path.name for path in self.directory.glob(".sums*")]
        if any(flag.startswith("--delivery=") for flag in self.flags):
            return
        store = SnapshotStore(LocalDisk(), str(self.directory / "kept"))
        of_checkpoints = {file.file for checkpoint in store.checkpoints() for file in checkpoint.files()}
        assert of_checkpoints == {path.name for path in (self.directory / "kept" / "files").iterdir()}


def window(micros: int, seconds: float) -> int:
    """The start of the window that a time is in, in microseconds."""
    size = int(Fraction(str(seconds)) * 1_000_000)
    return micros - micros % size


def some(rows: Counter[Any]) -> str:
    """How many, and some of them."""
    return f"{sum(rows.values())} ({', '.join(map(str, list(rows)[:5]))})" if rows else "nothing"


def is_running(pid: int) -> bool:
    """Whether a process is there, and not only its exit code."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_dying(pid: int) -> bool:
    """Whether a process is gone, or at least can do nothing any more: SIGKILL waits for it, as it may for a disk."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return True
    status = dict(line.split(":\t", 1) for line in lines)
    # One that is on its way out has no memory left.
    waiting = int(status["SigPnd"], 16) | int(status["ShdPnd"], 16)
    return "VmSize" not in status or bool(waiting & 1 << signal.SIGKILL - 1)


def wait_for_orphans(workers: list[int]) -> None:
    """Wait until these are gone, whose parent has just ended: that they must have noticed within a second."""
    deadline = time.monotonic() + ORPHANS_PATIENCE
    while left := [pid for pid in workers if not is_dying(pid)]:
        assert time.monotonic() < deadline, f"workers {left} outlive the process that started them"
        time.sleep(0.002)
    wait_until(lambda: not any(map(is_running, workers)), "the end of the workers")


def random_kill(whom: str, choose: random.Random, seconds: float) -> Kill:
    """A kill at a random moment of a run, or at a random point of the program."""
    if choose.random() < 0.5:
        # It takes about half a second until the first numbers come.
        return Kill(whom, after=choose.uniform(0.3, 0.6 + seconds))
    points = WORKER_POINTS if whom == "worker" else COORDINATOR_POINTS
    return Kill(whom, point=f"{choose.choice(points)}:{choose.randint(1, 6)}")


def killed_once(directory: pathlib.Path, whom: str, seed: str, report: Callable[[str], Any] = print) -> int:
    """One run in which somebody is killed, and then maybe somebody else while it recovers; how many were.

    The results are those of a run without kills, or this raises `AssertionError`.
    """
    choose = random.Random(seed)
    run = KilledRun(directory)
    kill = random_kill(whom, choose, run.seconds)
    report(f"seed {seed}: {kill}")
    try:
        run.start(kill.point)
        if run.kill(kill, choose) and run.process.poll() is not None:
            # Whoever starts again may die while it recovers.
            again = choose.choice((None, "restoring:1", "before-abort:1", "after-abort:2", "before-commit:1"))
            if again is not None:
                report(f"seed {seed}: and again at {again}")
            run.start(again)
            if again is not None:
                run.kill(Kill("coordinator", point=again), choose)
        run.check_so_far()
        run.finish()
        run.check_end()
    finally:
        run.clean_up()
    return run.kills


def killed_often(directory: pathlib.Path, whom: str, seed: str, kills: int, flags: tuple[str, ...] = ()) -> int:
    """One run in which so many are killed, one after the other, sometimes before all has recovered; how many were."""
    choose = random.Random(seed)
    shortest, longest = (0.4, 1.0) if whom == "coordinator" else (0.1, 0.7)
    # Longer than until the last of them: the first numbers may be a second old.
    run = KilledRun(directory, seconds=1.0 + longest * kills, flags=flags)
    try:
        run.start()
        after = 0.0
        for _ in range(kills):
            # A coordinator that was killed starts again, and the clock with it.
            after = choose.uniform(shortest, longest) + (0.0 if whom == "coordinator" else after)
            run.kill(Kill(whom, after=after), choose)
            run.check_so_far()
            if run.process.poll() is not None:
                run.start()
        run.finish()
        run.check_end()
    finally:
        run.clean_up()
    return run.kills
