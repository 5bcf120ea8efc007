"""Async calls in flight across checkpoints, kills, rescalings, stops and drains: each element's result once.

`KILLS=20 SEED=... pytest tests/runners/local/test_killed_calls.py` kills more often.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from kills.killed_program import KilledProgram

PROGRAM = Path(__file__).with_name("killed_calls.py")
KILLS = int(os.environ.get("KILLS", "3"))
SEED = os.environ.get("SEED", "1")

# Numbers a second, and how many there are: more than are asked for.
RATE, NUMBERS = 200, 10_000_000


class KilledCalls(KilledProgram):
    """The program, with each start's parallelism."""

    def __init__(self, directory: Path, ordered: str) -> None:
        super().__init__(directory)
        self._arguments = (str(NUMBERS), str(RATE), str(int(time.time())), ordered)

    def start(self, parallelism: int) -> None:
        self.launch(PROGRAM, str(parallelism), *self._arguments)

    def numbers(self) -> list[int]:
        """Return the numbers that the table has."""
        return [n for (n,) in self.rows("SELECT n FROM numbers")]

    def go_on(self) -> None:
        """Wait until more numbers were answered, and some are in flight."""
        before = len(self.numbers())
        assert self.wait_for(lambda: len(self.numbers()) > before), self.log

    def drain(self) -> None:
        """Let it end.  Each number that was read has its result, once."""
        (self.directory / "drain").touch()
        assert 0 == self.ended(), self.log
        assert "ended: DRAINED" in self.log
        by_partition = [[n for n in self.numbers() if n % 3 == partition] for partition in range(3)]
        assert [list(range(i, i + 3 * len(found), 3)) for i, found in enumerate(by_partition)] == by_partition


@pytest.mark.parametrize("ordered", ["no", "key"])
def test_each_element_has_one_result(tmp_path: Path, ordered: str) -> None:
    """Whatever dies, and however many subtasks there are afterwards; a reader sees none twice."""
    choose = random.Random(f"{SEED}-{ordered}")
    calls = KilledCalls(tmp_path, ordered)
    stops = 0
    try:
        calls.start(2)
        for number in range(KILLS):
            calls.go_on()
            time.sleep(choose.uniform(0, 1))
            if number % 3 == 0:
                calls.kill_worker(choose)
            elif number % 3 == 1:
                calls.kill_all()
                calls.start(choose.randint(1, 3))
            else:
                (tmp_path / "stop").touch()
                assert 0 == calls.ended(), calls.log
                (tmp_path / "stop").unlink()
                stops += 1
                # With workers, of which the next one is killed.
                calls.start(choose.randint(2, 3))
            assert [] == [n for n, count in Counter(calls.numbers()).items() if count > 1]
        calls.go_on()
        calls.drain()
    finally:
        calls.clean_up()
    assert (KILLS - KILLS // 3, KILLS // 3) == (calls.kills, stops)


def test_a_drain_waits_for_the_calls_in_flight(tmp_path: Path) -> None:
    """Each number that was read has its result, once."""
    calls = KilledCalls(tmp_path, "no")
    try:
        calls.start(2)
        calls.go_on()
        calls.drain()
    finally:
        calls.clean_up()
