"""Our sources pass the conformance suite that third parties' sources pass.

A place is a new table, topic, stream or directory.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import fastavro
import pyarrow
import pyarrow.parquet
import pytest
from kafka.broker import KafkaBroker
from kafka.topics import Topic
from servers.bigquery_server import BigQueryServer
from servers.mosquitto import Mosquitto
from servers.nats_server import NatsServer, Stream
from servers.postgresql import PostgreSQL
from servers.pubsub_server import PubsubServer
from servers.redis_server import RedisServer
from support.io.lakehouse_tables import WORDS, LakeTable, table_of
from support.io.postgres_tables import Tables
from support.io.severed_server import BehindAProxy

import penstock as beam
from penstock.testing import SourceSuite

pytestmark = pytest.mark.usefixtures("fork_server")

_names = (f"place{n}" for n in itertools.count())

# Seconds after which a partition without elements doesn't hold back the watermark.
IDLE = 0.1


class AtServer(BehindAProxy, SourceSuite):
    """Base class of tests of sources at a server, behind a proxy."""


class TestText(SourceSuite):
    @pytest.fixture(autouse=True)
    def directory(self, tmp_path: pathlib.Path) -> None:
        self.path = tmp_path

    def place(self) -> Any:
        directory = pathlib.Path(tempfile.mkdtemp(dir=self.path))
        (directory / "0.txt").touch()
        return directory

    def add(self, place: Any, numbers: Sequence[int]) -> None:
        for part in range(2):
            with (place / f"{part}.txt").open("a") as file:
                file.writelines(f"{n}\n" for n in numbers if n % 2 == part)

    def read(self, place: Any) -> Any:
        return beam.io.ReadContinuouslyFromText(place / "*", 0.01, idle_after=IDLE)

    def read_whole(self, place: Any) -> Any:
        return beam.io.ReadFromText(place / "*")


class OfRecords(SourceSuite):
    """Base class of tests of files of records."""

    directory = TestText.directory

    def place(self) -> Any:
        directory = pathlib.Path(tempfile.mkdtemp(dir=self.path))
        self.write([], directory / "empty")
        return directory

    def add(self, place: Any, numbers: Sequence[int]) -> None:
        for part in range(2):
            self.write([{"n": n} for n in numbers if n % 2 == part], place / f"{part}")

    def write(self, records: list[dict[str, int]], path: pathlib.Path) -> None:
        """Write a file, as another program does."""
        raise NotImplementedError

    @staticmethod
    def number(element: Any) -> int:
        return int(element["n"])


class TestJson(OfRecords):
    def write(self, records: list[dict[str, int]], path: pathlib.Path) -> None:
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))

    def read_whole(self, place: Any) -> Any:
        return beam.io.ReadFromJson(place / "*")


class TestCsv(OfRecords):
    def write(self, records: list[dict[str, int]], path: pathlib.Path) -> None:
        path.write_text("".join(f"{line}\n" for line in ("n", *(record["n"] for record in records))))

    def read_whole(self, place: Any) -> Any:
        return beam.io.ReadFromCsv(place / "*")


class TestParquet(OfRecords):
    def write(self, records: list[dict[str, int]], path: pathlib.Path) -> None:
        schema = pyarrow.schema([("n", pyarrow.int64())])
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records, schema), path, row_group_size=100)

    def read_whole(self, place: Any) -> Any:
        return beam.io.ReadFromParquet(place / "*")


class TestAvro(OfRecords):
    def write(self, records: list[dict[str, int]], path: pathlib.Path) -> None:
        schema = {"type": "record", "name": "Number", "fields": [{"name": "n", "type": "long"}]}
        with path.open("wb") as file:
            fastavro.writer(file, schema, records, sync_interval=500)

    def read_whole(self, place: Any) -> Any:
        return beam.io.ReadFromAvro(place / "*")


class TestSQL(AtServer):
    @pytest.fixture(autouse=True)
    def reached(self, postgresql: PostgreSQL) -> Iterator[None]:
        with self.behind_a_proxy(postgresql):
            yield

    def place(self) -> Any:
        name = f"rows_of_{next(_names)}"
        self.run(f"CREATE TABLE {name} (id serial, n bigint)")
        return name

    def add(self, place: Any, numbers: Sequence[int]) -> None:
        self.run(f"INSERT INTO {place} (n) SELECT * FROM generate_series({numbers[0]}, {numbers[-1]})")

    def read(self, place: Any) -> Any:
        return beam.io.ReadFromSQL(self.url, place, increasing_column="id", poll_interval=0.01, idle_after=IDLE)

    @staticmethod
    def number(element: Any) -> int:
        return int(element.n)

    def run(self, sql: str) -> None:
        """Run a statement, past the proxy."""
        import psycopg

        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            connection.execute(sql)


class TestPostgresChanges(AtServer):
    """A slot has one reader."""

    accepts_two = False

    @pytest.fixture(autouse=True)
    def reached(self, postgresql: PostgreSQL) -> Iterator[None]:
        self.tables: list[Tables] = []
        with self.behind_a_proxy(postgresql):
            yield
        for each in self.tables:
            each.clean_up()

    def place(self) -> Any:
        tables = Tables(self.server)
        self.tables.append(tables)
        tables.make(columns="n int PRIMARY KEY")
        return tables

    def add(self, place: Any, numbers: Sequence[int]) -> None:
        place.run(f"INSERT INTO orders SELECT * FROM generate_series({numbers[0]}, {numbers[-1]})")

    def read(self, place: Any) -> Any:
        return place.read(url=self.url, idle_after=IDLE)

    @staticmethod
    def number(element: Any) -> int:
        return int(element.n)


class TestRedisStream(AtServer):
    @pytest.fixture(autouse=True)
    def reached(self, redis_server: RedisServer) -> Iterator[None]:
        with self.behind_a_proxy(redis_server), contextlib.closing(redis_server.client()) as self.client:
            yield

    def place(self) -> Any:
        return f"read-{next(_names)}"

    def add(self, place: Any, numbers: Sequence[int]) -> None:
        with self.client.pipeline() as pipeline:
            for n in numbers:
                pipeline.xadd(place, {"n": n})
            pipeline.execute()

    def read(self, place: Any) -> Any:
        return beam.io.ReadFromRedisStream(self.url, place, idle_after=IDLE)

    @staticmethod
    def number(element: Any) -> int:
        return int(element.fields["n"])


class TestKafka(AtServer):
    @pytest.fixture(autouse=True)
    def reached(self, broker: KafkaBroker) -> Iterator[None]:
        self.server = broker
        with broker.behind_a_proxy() as (self.address, self.proxy):
            yield

    def place(self) -> Any:
        return Topic(self.server)

    def add(self, place: Any, numbers: Sequence[int]) -> None:
        place.write(numbers)

    def read(self, place: Any) -> Any:
        return self.reading(place)

    def read_whole(self, place: Any) -> Any:
        return self.reading(place, bounded=True)

    def reading(self, place: Any, **options: Any) -> Any:
        settings = {"bootstrap.servers": self.address, "auto.offset.reset": "earliest", "reconnect.backoff.max.ms": 200}
        return beam.io.ReadFromKafka(settings, place.name, **options)

    @staticmethod
    def number(element: Any) -> int:
        return int(element[1])


class TestNats(AtServer):
    @pytest.fixture(autouse=True)
    def reached(self, nats_server: NatsServer) -> Iterator[None]:
        with self.behind_a_proxy(nats_server):
            yield

    def place(self) -> Any:
        return Stream(self.server)

    def add(self, place: Any, numbers: Sequence[int]) -> None:
        place.write(numbers)

    def read(self, place: Any) -> Any:
        return beam.io.ReadFromNats(self.url, place.name, idle_after=IDLE)

    def read_whole(self, place: Any) -> Any:
        return beam.io.ReadFromNats(self.url, place.name, bounded=True)

    @staticmethod
    def number(element: Any) -> int:
        return int(element.data)


class TestMqtt(AtServer):
    """A client id has one reader, and its session has the messages since it began."""

    accepts_two = False

    @pytest.fixture(autouse=True)
    def reached(self, mosquitto: Mosquitto) -> Iterator[None]:
        with self.behind_a_proxy(mosquitto):
            yield

    def place(self) -> Any:
        topic = f"read-{next(_names)}"
        begin_session(self.server, topic)
        return topic

    def add(self, place: Any, numbers: Sequence[int]) -> None:
        self.server.publish(place, [b"%d" % n for n in numbers])

    def read(self, place: Any) -> Any:
        return beam.io.ReadFromMqtt(self.url, place, client_id=place, id_fn=lambda m: m.payload, idle_after=IDLE)

    @staticmethod
    def number(element: Any) -> int:
        return int(element.payload)


def begin_session(broker: Mosquitto, topic: str) -> None:
    """Subscribe, as a client with the name of the topic, whose session stays."""
    import paho.mqtt.client as paho
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    subscribed = threading.Event()
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, topic, protocol=paho.MQTTv5)
    client.on_subscribe = lambda *_: subscribed.set()
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 3600
    client.connect("127.0.0.1", broker.port, clean_start=False, properties=properties)
    client.loop_start()
    client.subscribe(topic, 1)
    assert subscribed.wait(60)
    client.disconnect()
    client.loop_stop()


class TestPubsub(AtServer):
    """A subscription has one reader, and the messages since it was made.

    Google's test server sends a hundred messages a second.
    """

    accepts_two = False
    many = 200

    @pytest.fixture(autouse=True)
    def reached(self, pubsub_server: PubsubServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with self.behind_a_proxy(pubsub_server, pubsub_server.proxied_port):
            monkeypatch.setenv("PUBSUB_EMULATOR_HOST", f"127.0.0.1:{self.proxy.port}")
            yield

    def place(self) -> Any:
        return self.server.make(f"read-{next(_names)}")

    def add(self, place: Any, numbers: Sequence[int]) -> None:
        self.server.publish(place, [b"%d" % n for n in numbers])

    def read(self, place: Any) -> Any:
        return beam.io.ReadFromPubSub(subscription=self.server.subscription(place), idle_after=IDLE)


class TestBigQuery(SourceSuite):
    @pytest.fixture(autouse=True)
    def reached(self, bigquery_server: BigQueryServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = bigquery_server
        for name, value in self.server.environment.items():
            monkeypatch.setenv(name, value)

    def place(self) -> Any:
        return self.server.make(next(_names), [("n", "INTEGER")])

    def add(self, place: Any, numbers: Sequence[int]) -> None:
        client = self.server.client()
        assert [] == client.insert_rows_json(place.replace(":", "."), [{"n": n} for n in numbers], retry=None)

    def read_whole(self, place: Any) -> Any:
        return beam.io.ReadFromBigQuery(table=place)

    @staticmethod
    def number(element: Any) -> int:
        return int(element["n"])


class OfLakehouse(SourceSuite):
    """Base class of tests of tables of a lakehouse."""

    format: str

    @pytest.fixture(autouse=True)
    def directory(self, tmp_path: pathlib.Path) -> None:
        self.path = tmp_path

    def place(self) -> Any:
        table = table_of(self.format, self.path, next(_names))
        table.create(WORDS)
        return table

    def add(self, place: LakeTable, numbers: Sequence[int]) -> None:
        place.append({"word": ["a"] * len(numbers), "n": list(numbers)})

    def read(self, place: LakeTable) -> Any:
        return place.read(streaming=True, poll_interval=0.05, idle_after=IDLE)

    def read_whole(self, place: LakeTable) -> Any:
        return place.read()

    @staticmethod
    def number(element: Any) -> int:
        return int(element.n)


class TestDelta(OfLakehouse):
    format = "delta"


class TestIceberg(OfLakehouse):
    format = "iceberg"


class OfLakehouseChanges(OfLakehouse):
    """Base class of tests of the changes of tables of a lakehouse."""

    def read(self, place: LakeTable) -> Any:
        return place.read_changes(poll_interval=0.05, idle_after=IDLE)

    read_whole = SourceSuite.read_whole


class TestDeltaChanges(OfLakehouseChanges):
    format = "delta"


class TestIcebergChanges(OfLakehouseChanges):
    format = "iceberg"
