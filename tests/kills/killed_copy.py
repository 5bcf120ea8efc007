"""A stream that copies numbers from one server to another, and whose processes and servers are killed while it runs.

`KILLS=20 pytest ...` kills more often, and `SEED` chooses the moments.  With `RUNNER=spark-microbatch` it kills drivers
of micro-batches with their JVM and workers.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kills.killed_program import KilledProgram
from support.programs.polling import watched
from support.programs.spark_programs import environment

KILLS = int(os.environ.get("KILLS", "3"))
RUNNER = os.environ.get("RUNNER", "local")
SEED = int(os.environ.get("SEED", "1"))

# The numbers that are written before each kill.
EACH = 300

# The options of a run, by runner.
FLAGS = {
    "local": {"checkpoint_interval": 0.1, "parallelism": 2, "max_restarts": 1000, "restart_delay": 0.01},
    "spark-microbatch": {"spark_master": "local[2]"},
}


class KilledCopy(KilledProgram):
    """The program, which runs until there is a file called `drain`."""

    def __init__(self, directory: Path, program: Path, arguments: tuple[str, ...]) -> None:
        super().__init__(directory)
        self._program = program
        self._arguments = arguments

    def start(self) -> None:
        """Start the program, or start it again."""
        self.launch(self._program, *self._arguments, environment=environment())

    def kill_worker(self, choose: random.Random) -> None:
        """Kill one of the worker processes; of micro-batches all processes."""
        if RUNNER == "local":
            super().kill_worker(choose)
        else:
            self.kill_all()

    def kill_all(self) -> None:
        """Kill all processes of the program, and start it again."""
        super().kill_all()
        self.start()

    def drain(self) -> None:
        """Let the program end."""
        (self.directory / "drain").touch()
        assert 0 == self.ended(), self.log


def killed_again_and_again(
    copy: KilledCopy,
    write: Callable[[range], None],
    copied: Callable[[], int],
    kill_server: Callable[[random.Random], None],
    doubled: Callable[[], list[int]],
) -> int:
    """Write numbers, and kill a worker, all processes or the server in turn, while a thread looks at the results.

    Args:
      write: writes numbers.
      copied: how many numbers have arrived.
      doubled: the numbers that a reader has seen twice.

    Returns:
      How many numbers were written.
    """
    choose = random.Random(SEED)
    pause = threading.Lock()
    written = 0

    def look() -> list[int]:
        with pause:
            return doubled()

    def count() -> int:
        with pause:
            return copied()

    try:
        copy.start()
        with watched(look, bool, pause=0.2) as watch:
            for number in range(KILLS):
                assert copy.wait_for(lambda before=written: count() >= before), copy.log
                write(range(written, written + EACH))
                written += EACH
                time.sleep(choose.uniform(0, 1))
                if number % 3 == 0:
                    copy.kill_worker(choose)
                elif number % 3 == 1:
                    copy.kill_all()
                else:
                    with pause:
                        kill_server(choose)
                    copy.kills += 1
            write(range(written, written + EACH))
            written += EACH
            assert copy.wait_for(lambda: count() >= written), copy.log
            copy.drain()
    finally:
        copy.clean_up()
    assert [] == watch.wrong
    assert watch.looks
    assert KILLS == copy.kills
    return written
