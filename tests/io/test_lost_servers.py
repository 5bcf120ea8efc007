"""Streams from a server to itself whose connections are lost for a while: they say so, and go on.

`OUTAGE=60 pytest tests/io/test_lost_servers.py` loses them for a minute.
"""

from __future__ import annotations

import itertools
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from servers.loopback_server import free_port
from servers.postgresql import PostgreSQL
from servers.redis_server import RedisServer
from servers.severed import SeverableProxy
from support.programs.running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

OUTAGE = float(os.environ.get("OUTAGE", "1.5"))

_numbers = itertools.count()


class Copied(ABC):
    """Numbers that a pipeline copies from one place of a server to another."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.name = f"lost{next(_numbers)}"

    @abstractmethod
    def add(self, numbers: Iterable[int]) -> None:
        """Write numbers to the first place."""

    @abstractmethod
    def found(self) -> list[int]:
        """Return the numbers of the second one."""

    @abstractmethod
    def build(self, p: Any, url: str) -> None:
        """Add the pipeline."""


class CopiedInRedis(Copied):
    """From stream to stream."""

    def add(self, numbers: Iterable[int]) -> None:
        for n in numbers:
            self.server.client().xadd(f"{self.name}-in", {"n": n})

    def found(self) -> list[int]:
        return [int(fields["n"]) for _, fields in self.server.client().xrange(f"{self.name}-out")]

    def build(self, p: Any, url: str) -> None:
        entries = p | "Read" >> beam.io.ReadFromRedisStream(url, f"{self.name}-in")
        write = beam.io.WriteToRedisStream(url, f"{self.name}-out", fields=lambda entry: entry.fields)
        _ = entries | "Write" >> write


class CopiedInSql(Copied):
    """From table to table."""

    def __init__(self, server: Any) -> None:
        super().__init__(server)
        self._run(f"CREATE TABLE {self.name}_in (id serial, n int)")

    def add(self, numbers: Iterable[int]) -> None:
        for n in numbers:
            self._run(f"INSERT INTO {self.name}_in (n) VALUES ({n})")

    def found(self) -> list[int]:
        if not self._run(f"SELECT 1 FROM pg_tables WHERE tablename = '{self.name}_out'"):
            return []
        return [n for (n,) in self._run(f"SELECT n FROM {self.name}_out ORDER BY id")]

    def build(self, p: Any, url: str) -> None:
        read = beam.io.ReadFromSQL(url, f"{self.name}_in", increasing_column="id", poll_interval=0.05)
        _ = p | "Read" >> read | "Write" >> beam.io.WriteToSQL(url, f"{self.name}_out", "id", {"id": int, "n": int})

    def _run(self, sql: str) -> list[Any]:
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return list(cursor) if cursor.description else []


@pytest.fixture(params=["redis", "sql"])
def copied(request: pytest.FixtureRequest) -> Copied:
    """On a server that is there for other tests, too."""
    if request.param == "redis":
        redis: RedisServer = request.getfixturevalue("redis_server")
        return CopiedInRedis(redis)
    postgresql: PostgreSQL = request.getfixturevalue("postgresql")
    return CopiedInSql(postgresql)


def test_a_lost_connection_is_waited_for(copied: Copied, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without a restart; then each number is there once, in the order of the first place."""
    port = copied.server.port
    with SeverableProxy.running(port, free_port()) as proxy:
        flags: dict[str, Any] = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_interval": 0.1}
        p = beam.Pipeline("local", options=PipelineOptions([], max_restarts=0, **flags))
        copied.add(range(10))
        copied.build(p, copied.server.url.replace(f"127.0.0.1:{port}", f"127.0.0.1:{proxy.port}"))
        result = p.run()
        try:
            wait_until(lambda: copied.found() == list(range(10)), "the numbers were copied")
            proxy.sever()
            copied.add(range(10, 20))
            # Both, or one of them, if it waits on the thread of the other one.
            wait_until(lambda: "doesn't answer" in caplog.text, "the reader or the sink says it")
            time.sleep(OUTAGE)
            assert list(range(10)) == copied.found()
            proxy.join()
            wait_until(lambda: copied.found() == list(range(20)), "the other numbers were copied")
        finally:
            # Before the end, when the proxy may be gone first.
            lines = caplog.text.splitlines()
            result.cancel()
    for label, most in (("Read", 1), ("Write", 2)):
        of_transform = [line for line in lines if f"{label}: " in line]
        lost = sum("doesn't answer" in line for line in of_transform)
        # At most one line for each thread that waits: of the sink's, and of the checkpoints'.
        assert lost <= most, of_transform
        assert lost == sum("answers again, after" in line for line in of_transform), of_transform
