"""Async calls in flight across checkpoints, kills, rescalings, stops and drains: each element's result once.

`KILLS=20 SEED=... pytest tests/runners/local/test_killed_calls.py` kills more often.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from kills.killed_program import KilledProgram
from kills.sessions import kill_session, session_of

PROGRAM = Path(__file__).with_name("killed_calls.py")
KILLS = int(os.environ.get("KILLS", "3"))
SEED = os.environ.get("SEED", "1")

# Numbers a second; and how long a kill is waited for, and its start takes, in seconds.
RATE, PAUSE, START = 200, 1.5, 3.0


class KilledCalls(KilledProgram):
    """The program, with each start's parallelism."""

    def __init__(self, directory: Path, numbers: int, ordered: str) -> None:
        super().__init__(directory)
        self._arguments = (str(numbers), str(RATE), str(int(time.time())), ordered)

    def start(self, parallelism: int) -> None:
        self.launch(PROGRAM, str(parallelism), *self._arguments)

    def numbers(self) -> list[int]:
        """Return the numbers that the table has."""
        return [n for (n,) in self.rows("SELECT n FROM numbers")]


@pytest.mark.parametrize("ordered", ["no", "key"])
def test_each_element_has_one_result(tmp_path: Path, ordered: str) -> None:
    """Whatever dies, and however many subtasks there are afterwards; a reader sees none twice."""
    choose = random.Random(f"{SEED}-{ordered}")
    numbers = int(RATE * (KILLS + 1) * (PAUSE + START))
    calls = KilledCalls(tmp_path, numbers, ordered)
    try:
        calls.start(2)
        for number in range(KILLS):
            seen = len(calls.numbers())
            calls.wait_for(lambda before=seen: len(calls.numbers()) > before)
            time.sleep(choose.uniform(0, PAUSE))
            if calls.process.poll() is not None:
                # A slow machine has asked for all numbers before.
                break
            if number % 3 == 0:
                workers = [pid for pid in session_of(calls.process.pid) if pid != calls.process.pid]
                if workers:
                    os.kill(choose.choice(workers), signal.SIGKILL)
                    calls.kills += 1
            elif number % 3 == 1:
                kill_session(calls.process.pid)
                calls.process.wait()
                calls.kills += 1
                calls.start(choose.randint(1, 3))
            else:
                (tmp_path / "stop").touch()
                assert 0 == calls.ended(), calls.log
                (tmp_path / "stop").unlink()
                calls.start(choose.randint(1, 3))
            assert [] == [n for n, count in Counter(calls.numbers()).items() if count > 1]
        assert 0 == calls.ended(), calls.log
    finally:
        calls.clean_up()
    assert list(range(numbers)) == calls.numbers()
    assert calls.kills


def test_a_drain_waits_for_the_calls_in_flight(tmp_path: Path) -> None:
    """Each number that was read has its result, once."""
    calls = KilledCalls(tmp_path, 1_000_000, "no")
    try:
        calls.start(2)
        assert calls.wait_for(calls.numbers), calls.log
        (tmp_path / "drain").touch()
        assert 0 == calls.ended(), calls.log
    finally:
        calls.clean_up()
    assert "ended: DRAINED" in calls.log
    by_partition = [[n for n in calls.numbers() if n % 3 == partition] for partition in range(3)]
    assert [list(range(i, i + 3 * len(found), 3)) for i, found in enumerate(by_partition)] == by_partition
