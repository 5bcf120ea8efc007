"""A driver that reads a topic is killed with its JVM and workers, again and again: each record counts once."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.broker import KafkaBroker, Record
from kafka.packages import READER, jars
from kills.killed_batches import KilledBatches
from support.programs.spark_programs import environment

PROGRAM = Path(__file__).with_name("killed_reader.py")
KILLS = PROGRAM.parents[1] / "kills"

# Where it dies, in this order; None is a moment that a seed chooses.
DEATHS = ["after-plan", None, "after-state", "before-manifest", None, "after-manifest", "before-publication", None]

PARTITIONS, KEYS, WINDOW = 3, 7, 20
# Seconds since 1970.
BEGIN = 1_700_000_000


class KilledReader(KilledBatches):
    """The program, started again and again in a directory, and the topic that it reads."""

    def __init__(self, directory: Path, broker: KafkaBroker, topic: str) -> None:
        super().__init__(directory)
        self.written = 0
        self._broker = broker
        self._topic = topic

    def write(self, count: int) -> None:
        """Produce so many more numbers, each a tenth of a second later than the one before."""
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
        path = os.pathsep.join([str(KILLS), os.environ.get("PYTHONPATH", "")])
        self.launch(PROGRAM, *options, environment=environment(PYTHONPATH=path))

    def records(self) -> list[tuple[int, int, int]]:
        """The partition and the offset of each record, and how often it is in the table."""
        return self.rows("SELECT part, place, times FROM records")


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


def test_a_killed_reader_reads_each_record_once(reader: KilledReader) -> None:
    """At random moments and at points of a commit; records are produced all the time, also while no reader runs."""
    choose = random.Random(int(os.environ.get("SEED", "1")))
    for death in DEATHS:
        reader.write(200)
        reader.start(death)
        reader.write(200)
        if death is None:
            assert reader.kill_soon(choose), reader.log
        else:
            reader.all_gone()
        assert set(reader.records()) <= set(places(range(reader.written)))
    reader.start()
    reader.write(200)
    assert reader.wait_for(lambda: len(reader.records()) == reader.written), reader.log
    (reader.directory / "drain").touch()

    assert 0 == reader.ended(), reader.log
    assert "ended: DRAINED" in reader.log
    assert places(range(reader.written)) == reader.records()
    assert sums(range(reader.written)) == reader.rows("SELECT window_start, key, sum FROM sums")
