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


def test_each_message_is_written_once(tmp_path: Path) -> None:
    """And whoever looks, at any time, sees none twice."""
    if reason := why_there_is_no_nats():
        pytest.skip(reason)
    with NatsServer.running() as server:
        source, target = Stream(server), Stream(server)
        copy = KilledCopy(tmp_path, PROGRAM, (RUNNER, server.url, source.name, target.name))
        doubled: list[int] = []

        def look() -> None:
            doubled.extend(value for value, count in Counter(target.values()).items() if count > 1)

        def kill_server(choose: random.Random) -> None:
            port = server.port
            choose.choice([server.kill, server.stop])()
            time.sleep(choose.uniform(0, 2))
            server.start(port)

        written = killed_again_and_again(copy, source.write, lambda: len(target.values()), kill_server, look)

        assert [] == doubled
        assert list(range(written)) == sorted(target.values())
