"""A stream from stream to stream whose processes, and whose server, are killed again and again: each message once."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest
from kills.killed_copy import RUNNER, KilledCopy, killed_again_and_again
from servers.nats_server import NatsServer, Stream, why_there_is_no_nats

PROGRAM = Path(__file__).with_name("killed_copy.py")


class Reader:
    """A reader of a stream that gets each of its messages once, by its sequence."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._next = 1
        self._seen: Counter[int] = Counter()

    def doubled(self) -> list[int]:
        """Read on, and return the numbers that two messages have."""
        for sequence, _, data in self._stream.server.messages(self._stream.name, self._next):
            self._seen[int(data)] += 1
            self._next = sequence + 1
        return [number for number, count in self._seen.items() if count > 1]


def test_each_message_is_written_once(tmp_path: Path) -> None:
    """And whoever looks, at any time, sees none twice."""
    if reason := why_there_is_no_nats():
        pytest.skip(reason)
    with NatsServer.running() as server:
        source, target = Stream(server), Stream(server)
        copy = KilledCopy(tmp_path, PROGRAM, (RUNNER, server.url, source.name, target.name))
        reader = Reader(target)

        def kill_server(choose: random.Random) -> None:
            port = server.port
            choose.choice([server.kill, server.stop])()
            time.sleep(choose.uniform(0, 2))
            server.start(port)

        written = killed_again_and_again(copy, source.write, target.count, kill_server, reader.doubled)

        assert list(range(written)) == sorted(target.values())
