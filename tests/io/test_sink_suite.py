"""Our sinks pass the conformance suite that third parties' sinks pass.

A place is a new table, topic, stream, prefix or directory.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import pathlib
import sqlite3
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import fastavro
import pyarrow
import pyarrow.parquet
import pytest
from kafka.broker import KafkaBroker
from servers.bigquery_server import DATASET, BigQueryServer
from servers.mosquitto import Mosquitto
from servers.nats_server import NatsServer, Stream
from servers.postgresql import PostgreSQL
from servers.pubsub_server import PubsubServer
from servers.redis_server import RedisServer
from support.io.lakehouse_tables import table_of
from support.io.severed_server import BehindAProxy

import penstock as beam
from penstock.testing import SinkSuite
from penstock.testing.collecting_sink import CollectingSink, collected

pytestmark = pytest.mark.usefixtures("fork_server")

_numbers = itertools.count()

COLUMNS = {"key": int, "n": int}
SCHEMA = pyarrow.schema([("key", pyarrow.int64()), ("n", pyarrow.int64())])


def where_it_differs(suite: type[SinkSuite]) -> type[SinkSuite]:
    """Leave out what another class of the same sink shows: who begins, commits and recovers transactions."""
    kept = ("many", "stream", "again_and_again", "retractions", "refused")
    for name in dir(suite):
        if name.startswith("test_") and not any(part in name for part in kept):
            setattr(suite, name, None)
    return suite


class InDirectory(SinkSuite):
    """Base class of tests of sinks into a directory."""

    @pytest.fixture(autouse=True)
    def directory(self, tmp_path: pathlib.Path) -> None:
        self.path = tmp_path

    def place(self) -> Any:
        return tempfile.mkdtemp(dir=self.path)


class AtServer(BehindAProxy, SinkSuite):
    """Base class of tests of sinks at a server, behind a proxy."""

    def place(self) -> Any:
        return f"place{next(_numbers)}"

    def neighbour(self, place: Any) -> Any:
        return f"{place}_and_more"


class TestCollectingSink(InDirectory):
    """The sink of the suite of sources."""

    accepts_retractions = True

    def write(self, place: Any) -> Any:
        return CollectingSink(place)

    def read(self, place: Any) -> Any:
        return collected(place)


class TestText(InDirectory):
    """Files of lines, two of which can have one prefix if their suffixes differ."""

    accepts_two = False
    is_atomic = False

    def place(self) -> Any:
        return f"{super().place()}/out", ".a"

    def neighbour(self, place: Any) -> Any:
        return place[0], ".b"

    def element(self, number: int, key: int) -> Any:
        return str(number)

    def write(self, place: Any) -> Any:
        return beam.io.WriteToText(*place)

    def read(self, place: Any) -> Any:
        prefix, suffix = place
        files = pathlib.Path(prefix).parent.glob(f"out*{suffix}")
        return [int(line) for file in files for line in file.read_text().splitlines()]


@where_it_differs
class TestChangelog(TestText):
    """Files of changes; a reader applies them."""

    accepts_retractions = True

    def element(self, number: int, key: int) -> Any:
        return {"n": number}

    def write(self, place: Any) -> Any:
        return beam.io.WriteToChangelog(*place)

    def read(self, place: Any) -> Any:
        prefix, suffix = place
        found: list[int] = []
        lines = [line for file in pathlib.Path(prefix).parent.glob(f"out*{suffix}") for line in file.open()]
        changes = [json.loads(line) for line in lines]
        for change in sorted(changes, key=lambda change: change["op"]):
            number = change["value"]["n"]
            found.append(number) if change["op"] == "+" else found.remove(number)
        return found


class OfRecords(TestText):
    """Base class of tests of files of records."""

    def element(self, number: int, key: int) -> Any:
        return {"key": key, "n": number}

    def read(self, place: Any) -> Any:
        prefix, suffix = place
        files = sorted(pathlib.Path(prefix).parent.glob(f"out*{suffix}"))
        return [int(record["n"]) for file in files for record in self.records(file)]

    def records(self, file: pathlib.Path) -> Iterable[Mapping[str, Any]]:
        """Return the records of a file, as a reader of the format sees them."""
        raise NotImplementedError


@where_it_differs
class TestJson(OfRecords):
    def write(self, place: Any) -> Any:
        return beam.io.WriteToJson(place[0], file_name_suffix=place[1])

    def records(self, file: pathlib.Path) -> Any:
        return map(json.loads, file.read_text().splitlines())


@where_it_differs
class TestCsv(OfRecords):
    def write(self, place: Any) -> Any:
        return beam.io.WriteToCsv(place[0], file_name_suffix=place[1])

    def records(self, file: pathlib.Path) -> Any:
        with file.open(newline="") as lines:
            return list(csv.DictReader(lines))


@where_it_differs
class TestParquet(OfRecords):
    def write(self, place: Any) -> Any:
        return beam.io.WriteToParquet(place[0], SCHEMA, file_name_suffix=place[1])

    def records(self, file: pathlib.Path) -> Any:
        return pyarrow.parquet.read_table(file).to_pylist()


@where_it_differs
class TestAvro(OfRecords):
    def write(self, place: Any) -> Any:
        fields = [{"name": name, "type": "long"} for name in COLUMNS]
        schema = {"type": "record", "name": "Number", "fields": fields}
        return beam.io.WriteToAvro(place[0], schema, file_name_suffix=place[1])

    def records(self, file: pathlib.Path) -> Any:
        with file.open("rb") as data:
            return list(fastavro.reader(data))


@where_it_differs
class TestFilesByDestination(InDirectory):
    """Files of ten destinations, of which a directory takes the name of one."""

    is_atomic = False

    def element(self, number: int, key: int) -> Any:
        return str(number)

    def write(self, place: Any) -> Any:
        return beam.io.fileio.WriteToFiles(place, destination=lambda line: line[-1])

    def read(self, place: Any) -> Any:
        files = [file for file in pathlib.Path(place).glob("*-of-*") if file.is_file()]
        return [int(line) for file in files for line in file.read_text().splitlines()]

    def refused(self, place: Any) -> Any:
        (pathlib.Path(place) / "4-00000-of-00001").mkdir()
        return [self.element(n, n) for n in range(7)]

    def dead_letters(self, place: Any) -> int:
        files = [file for file in pathlib.Path(place).glob(".*.penstock-dead-letters/*") if file.suffix != ".json"]
        return sum(len(file.read_text().splitlines()) for file in files)


class TestSQLite(InDirectory):
    accepts_retractions = True

    def place(self) -> Any:
        return self.path / "out.db", f"place{next(_numbers)}"

    def neighbour(self, place: Any) -> Any:
        return place[0], f"{place[1]}_and_more"

    def element(self, number: int, key: int) -> Any:
        return {"key": key, "n": number}

    def write(self, place: Any) -> Any:
        return beam.io.WriteToSQLite(*place, "key", columns=COLUMNS)

    def read(self, place: Any) -> Any:
        with contextlib.closing(sqlite3.connect(place[0])) as connection, contextlib.suppress(sqlite3.OperationalError):
            return [n for (n,) in connection.execute(f"SELECT n FROM {place[1]}")]
        return []

    def refused(self, place: Any) -> Any:
        with contextlib.closing(sqlite3.connect(place[0])) as connection:
            connection.execute(f"CREATE TABLE {place[1]} (key INTEGER PRIMARY KEY, n INTEGER CHECK (n < 5))")
            connection.commit()
        return [self.element(n, n) for n in range(7)]

    def dead_letters(self, place: Any) -> int:
        with contextlib.closing(sqlite3.connect(place[0])) as connection:
            return int(connection.execute("SELECT count(*) FROM _penstock_dead_letters").fetchone()[0])


class TestPostgreSQL(AtServer):
    accepts_retractions = True

    @pytest.fixture(autouse=True)
    def reached(self, postgresql: PostgreSQL) -> Iterator[None]:
        with self.behind_a_proxy(postgresql):
            yield

    def place(self) -> Any:
        schema = super().place()
        self.run(f"CREATE SCHEMA {schema}")
        return f"{schema}.words"

    def element(self, number: int, key: int) -> Any:
        return {"key": key, "n": number}

    def write(self, place: Any) -> Any:
        return beam.io.WriteToSQL(self.url, place, "key", columns=COLUMNS)

    def read(self, place: Any) -> Any:
        exists = self.run("SELECT to_regclass(%s)", place) != [(None,)]
        return [n for (n,) in self.run(f"SELECT n FROM {place}")] if exists else []

    def refused(self, place: Any) -> Any:
        self.run(f"CREATE TABLE {place} (key bigint PRIMARY KEY, n bigint CHECK (n < 5))")
        return [self.element(n, n) for n in range(7)]

    def dead_letters(self, place: Any) -> int:
        schema = place.partition(".")[0]
        return int(self.run(f"SELECT count(*) FROM {schema}._penstock_dead_letters")[0][0])

    def run(self, sql: str, *parameters: Any) -> list[Any]:
        """Run a statement, past the proxy."""
        import psycopg

        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            cursor = connection.execute(sql, parameters or None)
            return list(cursor) if cursor.description else []


class TestRedis(AtServer):
    accepts_retractions = True

    @pytest.fixture(autouse=True)
    def reached(self, redis_server: RedisServer) -> Iterator[None]:
        with self.behind_a_proxy(redis_server), contextlib.closing(redis_server.client()) as self.client:
            yield

    def neighbour(self, place: Any) -> Any:
        return f"{place}:and:more"

    def element(self, number: int, key: int) -> Any:
        return (key, number)

    def write(self, place: Any) -> Any:
        return beam.io.WriteToRedis(self.url, f"{place}:")

    def read(self, place: Any) -> Any:
        # One command, so one state.
        return [int(n) for n in self.client.mget([f"{place}:{key}" for key in range(self.many)]) if n is not None]

    def refused(self, place: Any) -> Any:
        self.letters_of_others = self.all_letters()
        return [(0, 0), (1, 1), (2, 2), (2, 3)]

    def dead_letters(self, place: Any) -> int:
        return self.all_letters() - self.letters_of_others

    def all_letters(self) -> int:
        return sum(self.client.llen(name) for name in self.client.scan_iter("*dead_letters*", _type="list"))


@where_it_differs
class TestRedisStream(TestRedis):
    accepts_retractions = False

    def element(self, number: int, key: int) -> Any:
        return {"n": number}

    def write(self, place: Any) -> Any:
        return beam.io.WriteToRedisStream(self.url, place)

    def read(self, place: Any) -> Any:
        return [int(fields["n"]) for _, fields in self.client.xrange(place)]

    refused = SinkSuite.refused
    dead_letters = SinkSuite.dead_letters


class TestKafka(AtServer):
    @pytest.fixture(autouse=True)
    def reached(self, broker: KafkaBroker) -> Iterator[None]:
        self.server = broker
        with broker.behind_a_proxy() as (self.address, self.proxy):
            yield

    def place(self) -> Any:
        return self.neighbour(super().place())

    def neighbour(self, place: Any) -> Any:
        place = super().neighbour(place)
        self.server.create_topic(place, 2)
        return place

    def element(self, number: int, key: int) -> Any:
        return str(key).encode(), str(number).encode()

    def write(self, place: Any) -> Any:
        return self.written(place)

    def written(self, place: Any, **options: Any) -> Any:
        settings = {"bootstrap.servers": self.address, "reconnect.backoff.max.ms": 200}
        return beam.io.WriteToKafka(settings, place, **options)

    def read(self, place: Any) -> Any:
        return [int(message.value()) for message in self.server.read(place, 2)]

    def refused(self, place: Any) -> Any:
        return [self.element(0, 0), (b"large", bytes(2_000_000))]


@where_it_differs
class TestKafkaUpserts(TestKafka):
    accepts_retractions = True

    def write(self, place: Any) -> Any:
        return self.written(place, retractions="upsert")

    def read(self, place: Any) -> Any:
        latest = {message.key(): message.value() for message in self.server.read(place, 2)}
        return [int(value) for value in latest.values() if value is not None]


@where_it_differs
class TestKafkaChangelog(TestKafka):
    accepts_retractions = True

    def write(self, place: Any) -> Any:
        return self.written(place, retractions="changelog")

    def read(self, place: Any) -> Any:
        found: list[int] = []
        for message in self.server.read(place, 2):
            is_added = int(dict(message.headers())["penstock-sign"]) > 0
            found.append(int(message.value())) if is_added else found.remove(int(message.value()))
        return found


class TestNats(AtServer):
    is_atomic = False

    @pytest.fixture(autouse=True)
    def reached(self, nats_server: NatsServer) -> Iterator[None]:
        with self.behind_a_proxy(nats_server):
            yield

    def place(self) -> Any:
        return Stream(self.server).name

    def neighbour(self, place: Any) -> Any:
        return self.place()

    def element(self, number: int, key: int) -> Any:
        return str(number).encode()

    def write(self, place: Any) -> Any:
        return beam.io.WriteToNats(self.url, f"{place}.n")

    def read(self, place: Any) -> Any:
        return [int(data) for _, _, data in self.server.messages(place)]

    def refused(self, place: Any) -> Any:
        return [self.element(0, 0), bytes(2_000_000)]


class TestMqtt(AtServer):
    """A subscriber drops doubles by their ids."""

    is_atomic = False

    @pytest.fixture(autouse=True)
    def reached(self, mosquitto: Mosquitto) -> Iterator[None]:
        self.subscribers: dict[str, Subscriber] = {}
        with self.behind_a_proxy(mosquitto):
            yield
        for subscriber in self.subscribers.values():
            subscriber.close()

    def place(self) -> Any:
        return self.neighbour(super().place())

    def neighbour(self, place: Any) -> Any:
        place = super().neighbour(place)
        self.subscribers[place] = Subscriber(self.server, place)
        return place

    def element(self, number: int, key: int) -> Any:
        return str(number).encode()

    def write(self, place: Any) -> Any:
        return beam.io.WriteToMqtt(self.url, place)

    def read(self, place: Any) -> Any:
        return self.subscribers[place].numbers()


class TestPubsub(AtServer):
    """A reader drops doubles by their ids."""

    is_atomic = False

    @pytest.fixture(autouse=True)
    def reached(self, pubsub_server: PubsubServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        self.found: dict[str, dict[str, int]] = {}
        with self.behind_a_proxy(pubsub_server, pubsub_server.proxied_port):
            monkeypatch.setenv("PUBSUB_EMULATOR_HOST", f"127.0.0.1:{self.proxy.port}")
            yield

    def place(self) -> Any:
        return self.neighbour(super().place())

    def neighbour(self, place: Any) -> Any:
        return self.server.make(super().neighbour(place))

    def element(self, number: int, key: int) -> Any:
        return str(number).encode()

    def write(self, place: Any) -> Any:
        return beam.io.WriteToPubSub(self.server.topic(place))

    def read(self, place: Any) -> Any:
        found = self.found.setdefault(place, {})
        found.update((each.attributes["penstock-id"], int(each.data)) for each in self.server.pull(place))
        return list(found.values())


class TestBigQueryStreams(SinkSuite):
    """Rows through pending streams."""

    # The server takes a millisecond for each.
    many = 500
    method = "STORAGE_WRITE_API"
    every: float | None = None

    @pytest.fixture(autouse=True)
    def reached(self, bigquery_server: BigQueryServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = bigquery_server
        for name, value in self.server.environment.items():
            monkeypatch.setenv(name, value)

    def place(self) -> Any:
        return f"place{next(_numbers)}"

    def neighbour(self, place: Any) -> Any:
        return f"{place}_and_more"

    def element(self, number: int, key: int) -> Any:
        return {"key": key, "n": number}

    def write(self, place: Any) -> Any:
        return beam.io.WriteToBigQuery(
            f"{DATASET}.{place}", schema="key:INT64,n:INT64", method=self.method, triggering_frequency=self.every
        )

    def read(self, place: Any) -> Any:
        return [row["n"] for row in self.server.rows(place)]

    def sever(self) -> None:
        self.server.command("stop")

    def restore(self) -> None:
        self.server.command("start")


@where_it_differs
class TestBigQueryLoads(TestBigQueryStreams):
    """Rows through load jobs."""

    method = "FILE_LOADS"
    every = 0.05


@where_it_differs
class TestBigQueryChanges(TestBigQueryStreams):
    """Rows that are replaced and deleted by their key."""

    accepts_retractions = True
    is_atomic = False

    def write(self, place: Any) -> Any:
        return beam.io.WriteToBigQuery(
            f"{DATASET}.{place}", schema="key:INT64,n:INT64", use_cdc_writes=True, primary_key=["key"]
        )


class Subscriber:
    """A subscriber of one topic."""

    def __init__(self, broker: Mosquitto, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self._found: dict[str, int] = {}
        self._marks = 0
        self._seen = threading.Semaphore(0)
        subscribed = threading.Event()
        self._client = broker.client()
        self._client.on_message = self._came
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.subscribe(topic, 1)
        assert subscribed.wait(60)

    def _came(self, client: Any, data: Any, message: Any) -> None:
        if message.payload == b"mark":
            self._seen.release()
        else:
            self._found.setdefault(dict(message.properties.UserProperty)["penstock-id"], int(message.payload))

    def numbers(self) -> list[int]:
        """Return the numbers of the messages that the broker has by now: it delivers those of a topic in order."""
        self._broker.publish(self._topic, [b"mark"])
        assert self._seen.acquire(timeout=60)
        return list(self._found.values())

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class OfLakehouse(InDirectory):
    """Base class of tests of tables of a lakehouse."""

    accepts_retractions = True
    format: str
    key: str | None = "key"

    def place(self) -> Any:
        return f"place{next(_numbers)}"

    def neighbour(self, place: Any) -> Any:
        return f"{place}_and_more"

    def element(self, number: int, key: int) -> Any:
        return {"key": key, "n": number}

    def write(self, place: Any) -> Any:
        return table_of(self.format, self.path, place).write(SCHEMA, key=self.key)

    def read(self, place: Any) -> Any:
        return table_of(self.format, self.path, place).values()

    def refused(self, place: Any) -> Any:
        return [self.element(n, n // 2) for n in range(5)]


class TestDelta(OfLakehouse):
    format = "delta"


class TestIceberg(OfLakehouse):
    format = "iceberg"


@where_it_differs
class TestDeltaAppends(OfLakehouse):
    accepts_retractions = False
    format, key = "delta", None
    refused = SinkSuite.refused


@where_it_differs
class TestIcebergAppends(OfLakehouse):
    accepts_retractions = False
    format, key = "iceberg", None
    refused = SinkSuite.refused
