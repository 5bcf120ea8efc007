"""Runs of micro-batches whose driver is killed with its JVM and workers, and started again, until all is done."""

from __future__ import annotations

import pathlib
import random
import signal
import time
from collections.abc import Callable
from typing import Any

from kills.killing import KilledRun
from kills.sessions import kill_session, session_of
from spark_programs import environment

from penstock.runners.spark.commit_points import DRIVER_POINTS, TASK_POINTS

PROGRAM = pathlib.Path(__file__).with_name("killed_micro_batches.py")
POINTS = (*DRIVER_POINTS[:2], *TASK_POINTS, *DRIVER_POINTS[2:])

# Seconds: for anything that is waited for.
PATIENCE = 600.0

# A random moment is within a second of one of so many plans of a start.
PLANS = 5


class KilledDriver(KilledRun):
    """One run, from its first start to its end.

    Args:
      numbers: how many are to be read, at most a hundred in a batch.
    """

    def __init__(self, directory: pathlib.Path, numbers: int):
        super().__init__(directory, seconds=numbers / 1000)
        # All of them are there already.
        self.start_time -= numbers

    def start(self, die: str | None = None) -> None:
        """Start the program, or start it again, to die at a point."""
        options = ["--checkpoint_dir=kept", "--max_records_per_batch=100", "--spark_master=local[2]"]
        self._planned_before = self._planned()
        self._launch(PROGRAM, options, die, env=environment(), start_new_session=True)

    def kill_soon(self, choose: random.Random) -> bool:
        """Kill it at a random moment when it has planned a batch or some; whether it came in time."""
        plans, left = {self._planned_before}, choose.randint(1, PLANS)

        def is_time() -> bool:
            plans.add(self._planned())
            return len(plans) > left or self.process.poll() is not None

        self._wait_until(is_time)
        time.sleep(choose.uniform(0, 1))
        if self.process.poll() is not None:
            return False
        kill_session(self.process.pid)
        self._is_gone()
        return True

    def wait_for_death(self) -> str | None:
        """Wait until it has killed itself at its point; where that was, None if it has ended before."""
        self._wait_until(lambda: self.process.poll() is not None)
        died = self.directory / "died"
        if not died.exists():
            return None
        self._is_gone()
        return died.read_text()

    def finish(self) -> None:
        """Have it run to its end."""
        self.start()
        self._wait_until(lambda: self.process.poll() is not None)
        assert self.process.returncode == 0, self.log

    def clean_up(self) -> None:
        """Let nothing of it go on."""
        if self._process is not None:
            kill_session(self._process.pid)
            self._process.wait()

    def _planned(self) -> int:
        """What changes whenever a batch is planned."""
        path = self.directory / "kept" / "planned"
        return path.stat().st_mtime_ns if path.exists() else 0

    def _is_gone(self) -> None:
        assert self.process.wait(PATIENCE) == -signal.SIGKILL, self.log
        self._wait_until(lambda: not session_of(self.process.pid))
        self.kills += 1

    def _wait_until(self, holds: Callable[[], Any]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, self.log
            time.sleep(0.01)


def drivers_killed(
    directory: pathlib.Path, seed: str, kills: int, points: tuple[str, ...] = (), report: Callable[[str], Any] = print
) -> int:
    """One run with so many kills at random moments, and one at each of these points; how many there were.

    The results are those of a run without kills, or this raises `AssertionError`.
    """
    choose = random.Random(seed)
    deaths: list[str | None] = [*([None] * kills), *points]
    choose.shuffle(deaths)
    # At a point it surely dies, as long as there is something left to do.
    deaths.sort(key=lambda death: death != (points or (None,))[0])
    # More than can be done before the last of them.
    run = KilledDriver(directory, 1000 + 1000 * len(deaths))
    try:
        for death in deaths:
            run.start(death)
            if death is None:
                killed = run.kill_soon(choose)
                report(f"seed {seed}: killed at a random moment" if killed else f"seed {seed}: it had ended")
            else:
                report(f"seed {seed}: died {run.wait_for_death() or 'not'}, of {death}")
            run.check_so_far()
        run.finish()
        run.check_end()
    finally:
        run.clean_up()
    return run.kills
