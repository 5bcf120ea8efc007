"""Fixtures of real servers: databases, brokers and stores, each started by the first test that uses it."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator

import pytest
from kafka.broker import KafkaBroker
from kafka.packages import why_there_is_no_broker
from kafka.topics import Topic
from servers.bigquery_server import BigQueryServer, why_there_is_no_bigquery
from servers.gcs_server import BUCKET, GcsServer
from servers.mosquitto import Mosquitto, why_there_is_no_mosquitto
from servers.nats_server import NatsServer, why_there_is_no_nats
from servers.postgresql import PostgreSQL, why_there_is_no_postgresql
from servers.pubsub_server import PubsubServer, why_there_is_no_pubsub
from servers.redis_server import RedisServer, why_there_is_no_redis

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A real PostgreSQL server, started by the first test that uses it."""
    if reason := why_there_is_no_postgresql():
        pytest.skip(reason)
    with PostgreSQL.running() as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A real Redis, started by the first test that uses it."""
    if reason := why_there_is_no_redis():
        pytest.skip(reason)
    with RedisServer.running() as server:
        yield server


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A real Kafka broker, fetched from Maven Central and started for the first test that asks."""
    if reason := why_there_is_no_broker():
        pytest.skip(reason)
    with KafkaBroker.running() as server:
        yield server


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    """A real NATS server, started for the first test that asks."""
    if reason := why_there_is_no_nats():
        pytest.skip(reason)
    with NatsServer.running() as server:
        yield server


@pytest.fixture(scope="session")
def mosquitto() -> Iterator[Mosquitto]:
    """A real MQTT broker, started for the first test that asks."""
    if reason := why_there_is_no_mosquitto():
        pytest.skip(reason)
    with Mosquitto.running() as server:
        yield server


@pytest.fixture(scope="session")
def pubsub_server() -> Iterator[PubsubServer]:
    """A real Pub/Sub server, built and started for the first test that asks."""
    if reason := why_there_is_no_pubsub():
        pytest.skip(reason)
    with PubsubServer.running() as server:
        yield server


@pytest.fixture(scope="session")
def bigquery_server() -> Iterator[BigQueryServer]:
    """A server with BigQuery's API, started for the first test that asks."""
    if reason := why_there_is_no_bigquery():
        pytest.skip(reason)
    with BigQueryServer.running() as server:
        yield server


@pytest.fixture
def bigquery(bigquery_server: BigQueryServer, monkeypatch: pytest.MonkeyPatch) -> BigQueryServer:
    """The server, whose address is in the environment."""
    for name, value in bigquery_server.environment.items():
        monkeypatch.setenv(name, value)
    return bigquery_server


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[GcsServer]:
    """A server, started for the first test that asks."""
    with GcsServer.running() as server:
        yield server


@pytest.fixture
def gcs(gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> GcsServer:
    """The server, whose address is in the environment."""
    for name, value in gcs_server.environment.items():
        monkeypatch.setenv(name, value)
    # Which looks at the environment when it is imported, and whose objects do so once.
    from gcsfs.core import GCSFileSystem

    GCSFileSystem.clear_instance_cache()
    return gcs_server


@pytest.fixture
def directory(gcs: GcsServer) -> str:
    """The URL of a directory of the bucket."""
    return f"gs://{BUCKET}/{uuid.uuid4().hex}"


@pytest.fixture
def pubsub(pubsub_server: PubsubServer, monkeypatch: pytest.MonkeyPatch) -> PubsubServer:
    """The server, whose address is in the environment."""
    for name, value in pubsub_server.environment.items():
        monkeypatch.setenv(name, value)
    return pubsub_server


@pytest.fixture
def name(pubsub: PubsubServer) -> str:
    """The name of a topic, and of its subscription."""
    return pubsub.make(f"topic{next(_numbers)}")


@pytest.fixture
def topic(broker: KafkaBroker) -> Topic:
    return Topic(broker)
