"""Runs of micro-batches whose driver is killed with its JVM and workers, and restarted until the run is complete."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable
from typing import Any

from kills.killed_batches import KilledBatches
from kills.killing import KilledRun
from support.programs.spark_programs import environment

from penstock.runners.spark.micro_batch.commit_log import DRIVER_POINTS, TASK_POINTS

PROGRAM = pathlib.Path(__file__).with_name("killed_micro_batches.py")
POINTS = (*DRIVER_POINTS[:2], *TASK_POINTS, *DRIVER_POINTS[2:])


class KilledDriver(KilledBatches, KilledRun):
    """One run, from its first start to its end.

    Args:
      numbers: how many are to be read, at most a hundred in a batch.
      where: the option that says where Spark runs.
    """

    def __init__(self, directory: pathlib.Path, numbers: int, where: str):
        super().__init__(directory, seconds=numbers / 1000)
        self.where = where
        # All of them are there already.
        self.start_time -= numbers

    def start(self, die: str | None = None) -> None:
        """Start or restart the program, to die at a point."""
        options = ["--checkpoint_dir=kept", "--max_records_per_batch=100", self.where]
        self._launch(PROGRAM, options, die, environment())

    def wait_for_death(self) -> str | None:
        """Wait until the program has killed itself.

        Returns:
          The point at which it died, or None if it ended before.
        """
        self.ended()
        died = self.directory / "died"
        if not died.exists():
            return None
        self.all_gone()
        return died.read_text()

    def finish(self) -> None:
        """Run the program to its end."""
        self.start()
        assert self.ended() == 0, self.log


def drivers_killed(
    directory: pathlib.Path,
    seed: str,
    kills: int,
    points: tuple[str, ...] = (),
    report: Callable[[str], Any] = print,
    where: str = "--spark_master=local[2]",
) -> int:
    """One run with so many kills at random moments, and one at each of these points; how many there were.

    The results are those of a run without kills, or this raises `AssertionError`.

    Args:
      where: the option that says where Spark runs.  Over Spark Connect only the client is killed.
    """
    choose = random.Random(seed)
    deaths: list[str | None] = [*([None] * kills), *points]
    choose.shuffle(deaths)
    # At a point it surely dies, as long as there is something left to do.
    deaths.sort(key=lambda death: death != (points or (None,))[0])
    # More than can be done before the last of them; after a death at a point, ten batches.
    run = KilledDriver(directory, 1000 * bool(kills) + 1000 * len(deaths), where)
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
