"""A large epoch of a sink is held to a memory bound, and all of it is published.

`make epochs` writes five million records with each sink, and `make test` fewer, with one of each way to stage them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

from kafka.broker import KafkaBroker
from servers.mosquitto import Mosquitto
from servers.nats_server import NatsServer, Stream
from servers.redis_server import RedisServer
from support.io.lakehouse_tables import ApacheIcebergTable, DeltaLakeTable

PROGRAM = str(pathlib.Path(__file__).parent / "large_epoch.py")

# The records of a small transaction that the program writes first.
BEFORE = 1_000

_names = (f"epoch{n}" for n in itertools.count())

Test = Callable[..., None]


def of_make_epochs(test: Test) -> Test | None:
    """Let a test be collected by `make epochs` only: another sink that stages in the same way is tried each time."""
    return test if "RECORDS" in os.environ else None


def written(kind: str, server: str, place: str, records: int, bound: int) -> int:
    """Write an epoch, and return the number of all records.

    Args:
      bound: of what the process may grow by, in MB.
    """
    records, bound = int(os.environ.get("RECORDS", records)), int(os.environ.get("BOUND", bound))
    command = [sys.executable, PROGRAM, kind, server, place, str(records)]
    grown = float(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    print(f"{kind}: {records:,} records in {grown:.0f} MB")
    assert grown < bound
    return BEFORE + records


def test_keys_of_redis(redis_server: RedisServer) -> None:
    with contextlib.closing(redis_server.client()) as client:
        place = next(_names)
        records = written("redis", redis_server.url, place, 200_000, 70)
        assert records // 2 == sum(1 for _ in client.scan_iter(f"{place}:*", count=10_000))
        client.flushdb(asynchronous=True)


@of_make_epochs
def test_entries_of_redis(redis_server: RedisServer) -> None:
    with contextlib.closing(redis_server.client()) as client:
        place = next(_names)
        assert written("redis stream", redis_server.url, place, 100_000, 40) == client.xlen(place)
        client.flushdb(asynchronous=True)


def test_records_of_kafka(broker: KafkaBroker) -> None:
    place = next(_names)
    broker.create_topic(place, 1)
    assert written("kafka", broker.address, place, 100_000, 60) == len(broker.read(place, 1))


@of_make_epochs
def test_upserts_of_kafka(broker: KafkaBroker) -> None:
    place = next(_names)
    broker.create_topic(place, 1)
    records = written("kafka upserts", broker.address, place, 200_000, 100)
    assert records // 2 == len(broker.read(place, 1))


@of_make_epochs
def test_messages_of_nats(nats_server: NatsServer) -> None:
    stream = Stream(nats_server)
    records = written("nats", nats_server.url, stream.name, 50_000, 25)
    assert records == nats_server.call(lambda js: js.stream_info(stream.name)).state.messages


def test_messages_of_mqtt(mosquitto: Mosquitto) -> None:
    """The broker acknowledges each of them."""
    place = next(_names)
    assert written("mqtt", mosquitto.url, place, 20_000, 25)


@of_make_epochs
def test_rows_of_iceberg(tmp_path: pathlib.Path) -> None:
    table = ApacheIcebergTable(tmp_path)
    records = written("iceberg", str(tmp_path), table.name, 200_000, 220)
    assert records // 2 == table.loaded().scan().count()


def test_rows_of_delta(tmp_path: pathlib.Path) -> None:
    table = DeltaLakeTable(tmp_path)
    assert written("delta", "", table.name, 200_000, 220) // 2 == table.loaded().count()
