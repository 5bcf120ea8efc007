"""Runs of a pipeline whose processes are killed, and checks of their results.

A process is killed by SIGKILL, at a moment or at a point of the program that a seed chooses.  When the process that
runs the pipeline is gone, the same program is started again, as a supervisor would start it.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import attrs
from kills.killed_pipeline import COORDINATOR_POINTS, FIRST, KEYS, SECOND, TABLE_POINTS, WORKER_POINTS
from kills.killed_program import KilledProgram
from kills.orphans import is_running, wait_for_orphans
from support.programs.running_program import children

from penstock.runners.execution.checkpoints.storage import LocalDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore

PROGRAM = pathlib.Path(__file__).with_name("killed_pipeline.py")


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


class KilledRun(KilledProgram):
    """One run, from its first start to its end, however many starts that takes.

    Args:
      directory: for checkpoints, tables and files; empty.
      seconds: how long the numbers take to come.
    """

    def __init__(self, directory: pathlib.Path, seconds: float = 1.0, rate: int = 1000, flags: tuple[str, ...] = ()):
        super().__init__(directory)
        self.numbers = round(seconds * rate)
        self.rate = rate
        self.seconds = seconds
        self.flags = flags
        self.start_time = int(time.time())
        self._started = 0.0

    # Processes

    def start(self, die: str | None = None) -> None:
        """Start or restart the program."""
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

    def _launch(
        self, program: pathlib.Path, options: list[str], die: str | None, environment: dict[str, str] | None = None
    ) -> None:
        """Start a program that reads the numbers and dies at a point."""
        numbers = [f"--start_time={self.start_time}", f"--numbers={self.numbers}", f"--rate={self.rate}"]
        (self.directory / "died").unlink(missing_ok=True)
        death = [] if die is None else [f"--die={die}"]
        self.launch(program, *numbers, *options, *death, environment=environment)

    def workers(self) -> list[int]:
        """Return the process ids of the running workers."""
        return [pid for pid in children(self.process.pid) if is_running(pid)]

    def kill(self, kill: Kill, choose: random.Random) -> bool:
        """Carry out a kill.

        Returns:
          Whether the process was still running when it was killed.
        """
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
        workers: list[int] = []

        def who_died() -> str:
            nonlocal workers
            workers = self.workers() or workers
            died = self.directory / "died"
            return died.read_text() if died.exists() else ""

        if not self.wait_for(who_died, pause=0.005):
            return False
        # If it was a worker, all go on.
        if int(who_died()) == self.process.pid:
            self._coordinator_is_gone(workers)
        return True

    def _coordinator_is_gone(self, workers: list[int]) -> None:
        self.process.wait()
        wait_for_orphans(workers)

    def finish(self) -> None:
        """Run the program to its end; restart it if it was killed."""
        while (code := self.ended()) != 0:
            assert code == -signal.SIGKILL, f"it ended with {code}:\n{self.log}"
            self.start()

    # Results

    def found(self) -> dict[str, list[Any]]:
        """Return the committed content of tables and files."""
        lines = [line for file in self.directory.glob("sums*.txt") for line in file.read_text().splitlines()]
        return {
            "numbers": self.rows("SELECT n, times FROM numbers"),
            "sums": self.rows("SELECT window_start, key, sum FROM sums"),
            "counts": self.rows("SELECT window_start, remainder, n FROM counts"),
            "files": sorted(tuple(map(int, line.split())) for line in lines),
        }

    def expected(self) -> dict[str, list[Any]]:
        """Return the content expected at the end, computed without the library."""
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
        """Check that no committed row is wrong or duplicated, in outputs whose rows are final."""
        expected, found = self.expected(), self.found()
        for name in ("numbers", "files"):
            surplus = Counter(found[name]) - Counter(expected[name])
            assert not surplus, f"{name}: {some(surplus)} too much\n{self.log}"

    def check_end(self) -> None:
        """Check that each result is committed exactly once, and that nothing staged is left."""
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
    """Return the start of the window of a timestamp, in microseconds."""
    size = int(Fraction(str(seconds)) * 1_000_000)
    return micros - micros % size


def some(rows: Counter[Any]) -> str:
    """Return the number of items and some of them, as text."""
    return f"{sum(rows.values())} ({', '.join(map(str, list(rows)[:5]))})" if rows else "nothing"


# The state of the pipeline doesn't fit into so little memory.
ON_DISK = ("--state_backend=rocksdb", "--state_memory=16KB")


def random_kill(whom: str, choose: random.Random, seconds: float, on_disk: bool = False) -> Kill:
    """Return a kill at a random moment of a run or at a random point of the program."""
    if choose.random() < 0.5:
        # It takes about half a second until the first numbers come.
        return Kill(whom, after=choose.uniform(0.3, 0.6 + seconds))
    points = WORKER_POINTS + TABLE_POINTS * on_disk if whom == "worker" else COORDINATOR_POINTS
    return Kill(whom, point=f"{choose.choice(points)}:{choose.randint(1, 6)}")


def killed_once(directory: pathlib.Path, whom: str, seed: str, report: Callable[[str], Any] = print) -> int:
    """Run the pipeline, kill one process, and perhaps kill another one while the job recovers.

    Returns:
      The number of processes that were killed.

    Raises:
      AssertionError: the results aren't those of a run without kills.
    """
    choose = random.Random(seed)
    on_disk = choose.random() < 0.5
    run = KilledRun(directory, flags=ON_DISK if on_disk else ())
    kill = random_kill(whom, choose, run.seconds, on_disk)
    report(f"seed {seed}: {kill}{', with state on the disk' if on_disk else ''}")
    try:
        run.start(kill.point)
        if run.kill(kill, choose) and run.process.poll() is not None:
            # The restarted coordinator may die while it recovers.
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
    """Run the pipeline and kill processes one after the other, sometimes before the job has recovered.

    Returns:
      The number of processes that were killed.
    """
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
