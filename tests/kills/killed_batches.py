"""A stream of micro-batches whose driver is killed with its JVM and workers while it plans one after the other."""

from __future__ import annotations

import pathlib
import random
import time

from kills.killed_program import KilledProgram
from kills.sessions import kill_session

# A random moment is within a second of one of so many plans of a start.
PLANS = 5


class KilledBatches(KilledProgram):
    """The same, where checkpoints are kept in `kept`."""

    def launch(self, program: pathlib.Path, *options: str, environment: dict[str, str] | None = None) -> None:
        self._planned_before = self._planned()
        super().launch(program, *options, environment=environment)

    def kill_soon(self, choose: random.Random) -> bool:
        """Kill it at a random moment when it has planned a batch or some; whether it came in time."""
        plans, enough = {self._planned_before}, choose.randint(1, PLANS)

        def is_time() -> bool:
            plans.add(self._planned())
            return len(plans) > enough

        self.wait_for(is_time, pause=0.005)
        time.sleep(choose.uniform(0, 1))
        if self.process.poll() is not None:
            return False
        kill_session(self.process.pid)
        self.all_gone()
        return True

    def _planned(self) -> int:
        """What changes whenever a batch is planned."""
        path = self.directory / "kept" / "planned"
        return path.stat().st_mtime_ns if path.exists() else 0
