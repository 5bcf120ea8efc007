"""A commit into any store publishes the results of a prefix of the input; two sinks of a kind stand side by side."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from running_program import RunningProgram, children

# Each number is a credit of one account and a debit of another.  The step behind the sums is slow, so that there is
# always something to process.
ACCOUNTS = """
import sys
import time
import pyarrow
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.trigger import AccumulationMode, AfterCount, Repeatedly

SCHEMA = pyarrow.schema([("account", pyarrow.int64()), ("total", pyarrow.int64())])

def slow(pair):
    time.sleep(0.0003)
    return pair

def entries(n):
    yield n % 100, 1
    yield (7 * n + 3) % 100, -1

def sink(kind, where, name):
    if kind == "postgresql":
        return beam.io.WriteToSQL(where, name, key=["account"], columns={"account": int, "total": int})
    if kind == "redis":
        return beam.io.WriteToRedis(where, name + ":", key=lambda row: row["account"], value=lambda row: row["total"])
    if kind == "iceberg":
        return beam.io.WriteToIceberg(
            "bank." + name, catalog_properties={"warehouse": where}, schema=SCHEMA, key="account"
        )
    if kind == "delta":
        return beam.io.WriteToDelta(where + "/" + name, SCHEMA, key="account")
    return beam.io.WriteToChangelog(where + "/" + name, ".jsonl")

if __name__ == "__main__":
    kind, where, *flags = sys.argv[1:]
    options = PipelineOptions(flags, checkpoint_interval=0.1, restart_delay=0.01, max_restarts=50)
    with beam.Pipeline(options=options) as p:
        numbers = p | beam.io.GenerateSequence(0, None, 2_000, 1)
        mode = AccumulationMode.RETRACTING
        each = beam.WindowInto(beam.window.GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=mode)
        totals = numbers | beam.FlatMap(entries) | each | beam.CombinePerKey(sum) | beam.Map(slow)
        rows = totals | beam.Map(lambda pair: {"account": pair[0], "total": pair[1]})
        _ = rows | "West" >> sink(kind, where, "west")
        _ = rows | "East" >> sink(kind, where, "east")
"""

# A state of a store: what tells it from others, and the sum of the accounts.
State = tuple[Any, int]


class Shelf:
    """A store with the sums of two sinks."""

    def __init__(self, where: str) -> None:
        self.where = where

    def state(self, name: str) -> State | None:
        """Return the state that a reader sees; None before the first commit."""
        raise NotImplementedError


class _PostgreSQL(Shelf):
    def state(self, name: str) -> State | None:
        import psycopg

        with psycopg.connect(self.where.replace("+psycopg", "")) as connection:
            if connection.execute("SELECT to_regclass(%s)", [name]).fetchone() == (None,):
                return None
            rows = connection.execute(f"SELECT account, total FROM {name} ORDER BY account").fetchall()
        return (tuple(rows), sum(total for _, total in rows)) if rows else None


class _Redis(Shelf):
    def state(self, name: str) -> State | None:
        import redis

        with contextlib.closing(redis.Redis.from_url(self.where)) as client:
            # One command, so one state.
            found = client.mget([f"{name}:{account}" for account in range(100)])
        return (tuple(found), sum(int(total) for total in found if total)) if any(found) else None


class _Iceberg(Shelf):
    def state(self, name: str) -> State | None:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError

        try:
            uri = f"sqlite:///{self.where}/catalog.db"
            catalog = load_catalog("default", type="sql", uri=uri, warehouse=self.where)
            table = catalog.load_table(f"bank.{name}")
        except NoSuchTableError:
            return None
        snapshot = table.current_snapshot()
        if snapshot is None:
            return None
        return snapshot.snapshot_id, sum(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["total"].to_pylist())


class _Delta(Shelf):
    def state(self, name: str) -> State | None:
        import deltalake
        from deltalake.exceptions import TableNotFoundError

        try:
            table = deltalake.DeltaTable(f"{self.where}/{name}")
        except TableNotFoundError:
            return None
        return table.version(), sum(table.to_pyarrow_table()["total"].to_pylist())


class _Files(Shelf):
    def state(self, name: str) -> State | None:
        by_epoch: dict[str, int] = defaultdict(int)
        for path in pathlib.Path(self.where).glob(f"{name}-*"):
            changes = map(json.loads, path.read_text().splitlines())
            by_epoch[path.name.split("-")[1]] += sum(
                (1 if change["op"] == "+" else -1) * change["value"]["total"] for change in changes
            )
        # The files of a commit appear one after the other: of the newest one some may be missing.
        past = sorted(by_epoch)[:-1]
        return (past[-1], sum(by_epoch[epoch] for epoch in past)) if past else None


@pytest.fixture(params=["postgresql", "redis", "iceberg", "delta", "files"])
def shelf(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Shelf:
    """A store of a test's own."""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgresql")
        shelf: Shelf = _PostgreSQL(server.url)
        import psycopg

        with psycopg.connect(server.url.replace("+psycopg", "")) as connection:
            connection.execute("DROP TABLE IF EXISTS west, east")
        return shelf
    if request.param == "redis":
        server = request.getfixturevalue("redis_server")
        with contextlib.closing(server.client()) as client:
            client.flushdb()
        return _Redis(server.url)
    kinds: dict[str, Callable[[str], Shelf]] = {"iceberg": _Iceberg, "delta": _Delta, "files": _Files}
    (tmp_path / "out").mkdir()
    return kinds[request.param](str(tmp_path / "out"))


def test_a_reader_of_any_store_sees_prefixes_only(
    shelf: Shelf, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    """Credits and debits cancel in each state of both tables, also after a worker was killed."""
    kind = request.node.callspec.params["shelf"]
    states: dict[str, dict[Any, int]] = {"west": {}, "east": {}}
    flags = kind, shelf.where, "--checkpoint_dir=kept", "--parallelism=2"
    with RunningProgram(tmp_path, ACCOUNTS, *flags) as running:

        def has_seen(count: int) -> bool:
            for name, own in states.items():
                if (state := shelf.state(name)) is not None:
                    own[state[0]] = state[1]
            return all(len(own) >= count for own in states.values())

        running.wait_until(lambda: has_seen(2), "commits")
        os.kill(children(running.process.pid)[0], signal.SIGKILL)
        running.wait_until(lambda: has_seen(5), "commits after a worker was killed")
        running.signal(signal.SIGTERM)
        assert 0 == running.ended(), running.log
        has_seen(0)
    assert [[0], [0]] == [sorted(set(own.values())) for own in states.values()]
