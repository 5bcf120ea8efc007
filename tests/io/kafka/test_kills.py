"""A stream from topic to topic whose processes, and whose broker, are killed again and again: each record once.

`KILLS=20 pytest tests/io/kafka/test_kills.py` kills more often, and `SEED` chooses the moments.  With
`RUNNER=spark-microbatch` it kills drivers of micro-batches with their JVM and workers.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.broker import KafkaBroker
from kafka.topics import Topic
from kills.killed_copy import EACH, KILLS, RUNNER, KilledCopy

PROGRAM = Path(__file__).with_name("killed_copy.py")


@pytest.fixture
def own_broker() -> Iterator[KafkaBroker]:
    """A broker that no other test uses."""
    from kafka.packages import why_there_is_no_broker

    if reason := why_there_is_no_broker():
        pytest.skip(reason)
    with KafkaBroker.running() as server:
        yield server


class CopiedTopics(KilledCopy):
    """The program, and the topics that it copies from and to."""

    def __init__(self, directory: Path, source: Topic, target: Topic) -> None:
        super().__init__(directory, PROGRAM, (RUNNER, source.broker.address, source.name, target.name))
        self.source = source
        self.target = target

    def copied(self) -> int:
        """How many records readers of committed records see."""
        return len(self.target.found())


def kill_broker(broker: KafkaBroker, choose: random.Random) -> None:
    """Kill the broker, or stop it, and start it again after a while."""
    port = broker.port
    choose.choice([broker.kill, broker.stop])()
    time.sleep(choose.uniform(0, 2))
    broker.start(port)


def test_each_record_is_written_once(own_broker: KafkaBroker, tmp_path: Path) -> None:
    """And whoever looks, at any time, sees none twice."""
    choose = random.Random(int(os.environ.get("SEED", "1")))
    source, target = Topic(own_broker), Topic(own_broker)
    copy = CopiedTopics(tmp_path, source, target)
    doubled: list[bytes] = []
    pause, is_over = threading.Lock(), threading.Event()

    def look() -> None:
        while not is_over.wait(0.2):
            with pause:
                counts = Counter(message.value() for message in target.found())
            doubled.extend(value for value, count in counts.items() if count > 1)

    looking = threading.Thread(target=look)
    written = 0
    try:
        copy.start()
        looking.start()
        for number in range(KILLS):
            # All that was there before, and a part of what comes now.
            assert copy.wait_for(lambda before=written: copy.copied() >= before), copy.log
            source.write(range(written, written + EACH))
            written += EACH
            time.sleep(choose.uniform(0, 1))
            match number % 3:
                case 0:
                    copy.kill_worker(choose)
                case 1:
                    copy.kill_all()
                case 2:
                    with pause:
                        kill_broker(own_broker, choose)
                    copy.kills += 1
        source.write(range(written, written + EACH))
        written += EACH
        assert copy.wait_for(lambda: copy.copied() >= written), copy.log
        (tmp_path / "drain").touch()
        assert 0 == copy.ended(), copy.log
    finally:
        is_over.set()
        if looking.is_alive():
            looking.join()
        copy.clean_up()

    assert [] == doubled
    assert list(range(written)) == target.values()
    assert KILLS == copy.kills
