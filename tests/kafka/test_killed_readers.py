"""A driver that reads a topic is killed with its JVM and workers, again and again: each record counts once."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.broker import KafkaBroker, Record
from kafka.packages import READER, jars
from kills.sessions import kill_session, session_of
from spark_programs import environment

PROGRAM = Path(__file__).with_name("killed_reader.py")
KILLS = PROGRAM.parents[1] / "kills"

# Where it dies, in this order; None is a moment that a seed chooses.
DEATHS = ["after-plan", None, "after-state", "before-manifest", None, "after-manifest", "before-publication", None]

PARTITIONS, KEYS, WINDOW = 3, 7, 20
# Seconds since 1970, and for anything that is waited for.
BEGIN = 1_700_000_000
PATIENCE = 300.0


class KilledReader:
    """The program, started again and again in a directory, and the topic that it reads."""

    def __init__(self, directory: Path, broker: KafkaBroker, topic: str) -> None:
        self.directory = directory
        self.written = 0
        self._broker = broker
        self._topic = topic
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, count: int) -> None:
        """So many more numbers, each a tenth of a second later than the last."""
        numbers = range(self.written, self.written + count)
        self._broker.write(self._topic, map(record, numbers))
        self.written = numbers.stop

    def start(self, die: str | None = None) -> None:
        """Start the program, or start it again, to die at a point."""
        options = [
            f"--broker={self._broker.address}",
            f"--topic={self._topic}",
            "--checkpoint_dir=kept",
            "--spark_master=local[2]",
            f"--spark_conf=spark.jars={','.join(map(str, jars(READER)))}",
            *([] if die is None else [f"--die={die}"]),
        ]
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), *options],
                cwd=self.directory,
                env=environment(PYTHONPATH=os.pathsep.join([str(KILLS), os.environ.get("PYTHONPATH", "")])),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill_soon(self, choose: random.Random) -> None:
        """Kill it at a moment when it has planned a batch or some."""
        plans, enough = {self._planned()}, choose.randint(2, 6)

        def is_time() -> bool:
            plans.add(self._planned())
            return len(plans) >= enough

        self.wait_until(is_time)
        time.sleep(choose.uniform(0, 0.5))
        kill_session(self.process.pid)

    def wait_for_death(self) -> None:
        """Wait until nothing of it is left."""
        assert -signal.SIGKILL == self.process.wait(PATIENCE), self.log
        deadline = time.monotonic() + PATIENCE
        while session_of(self.process.pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def wait_until(self, holds: Callable[[], object]) -> None:
        """Wait for a condition while it runs."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.01)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    def rows(self, sql: str) -> list[Any]:
        """What can be read from the database."""
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

    def records(self) -> list[tuple[int, int, int]]:
        """The partition and the offset of each record, and how often it is in the table."""
        return self.rows("SELECT part, place, times FROM records")

    def clean_up(self) -> None:
        """Let nothing of it go on."""
        if self._process is not None:
            kill_session(self._process.pid)
            self._process.wait()

    def _planned(self) -> int:
        """What changes whenever a batch is planned."""
        path = self.directory / "kept" / "planned"
        return path.stat().st_mtime_ns if path.exists() else 0


def record(n: int) -> Record:
    """A number."""
    return Record(n % PARTITIONS, str(n % KEYS).encode(), str(n).encode(), BEGIN * 1000 + n * 100)


def places(numbers: range) -> list[tuple[int, int, int]]:
    """Where they are in the topic, each once."""
    return sorted((n % PARTITIONS, n // PARTITIONS, 1) for n in numbers)


def sums(numbers: range) -> list[tuple[int, int, int]]:
    """Their sums by window and key, computed without the library."""
    found: Counter[tuple[int, int]] = Counter()
    for n in numbers:
        second = BEGIN + n // 10
        found[(second - second % WINDOW) * 1_000_000, n % KEYS] += n
    return sorted((*of, total) for of, total in found.items())


@pytest.fixture
def reader(broker: KafkaBroker, tmp_path: Path) -> Iterator[KilledReader]:
    broker.create_topic("killed", PARTITIONS)
    reader = KilledReader(tmp_path, broker, "killed")
    yield reader
    reader.clean_up()


def test_whoever_dies_reads_each_record_once(reader: KilledReader) -> None:
    """At random moments, and at points of a commit; more is written all the time, also while nobody reads."""
    choose = random.Random(int(os.environ.get("SEED", "1")))
    for death in DEATHS:
        reader.write(200)
        reader.start(death)
        reader.write(200)
        if death is None:
            reader.kill_soon(choose)
        reader.wait_for_death()
        assert set(reader.records()) <= set(places(range(reader.written)))
    reader.start()
    reader.write(200)
    reader.wait_until(lambda: len(reader.records()) == reader.written)
    (reader.directory / "drain").touch()

    assert 0 == reader.process.wait(PATIENCE), reader.log
    assert "ended: DRAINED" in reader.log
    assert places(range(reader.written)) == reader.records()
    assert sums(range(reader.written)) == reader.rows("SELECT window_start, key, sum FROM sums")
