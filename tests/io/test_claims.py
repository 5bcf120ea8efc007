"""What only one transform of a pipeline can use: two that use it are refused when the pipeline is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as beam
from penstock.sdk.errors import PipelineError

KAFKA = {"bootstrap.servers": "localhost:9092", "group.id": "shop"}


def mqtt(id: str = "kitchen", server: str = "mqtt://localhost") -> Any:
    return beam.io.ReadFromMqtt(server, "home/#", client_id=id)


def slot(name: str = "shop", url: str = "postgresql://ann:secret@localhost/shop") -> Any:
    return beam.io.ReadFromPostgresChanges(url, "orders", slot=name)


def redis(url: str = "redis://localhost", stream: str = "clicks", **options: Any) -> Any:
    return beam.io.ReadFromRedisStream(url, stream, **options)


def nats(stream: str = "orders", **options: Any) -> Any:
    return beam.io.ReadFromNats("nats://localhost:4222", stream, **options)


def kafka(commits: bool, topic: str = "clicks", **settings: Any) -> Any:
    return beam.io.ReadFromKafka(KAFKA | settings, topic, commit_offset_in_finalize=commits)


REFUSED: dict[str, tuple[Callable[[], Any], Callable[[], Any], str]] = {
    "client id": (mqtt, mqtt, "client_id 'kitchen'"),
    "client id by another name of the server": (
        mqtt,
        lambda: mqtt(server="mqtt://ann:secret@127.0.0.1:1883"),
        "client_id 'kitchen'",
    ),
    "slot": (slot, lambda: slot(url="host=localhost port=5432 dbname=shop"), "slot 'shop'"),
    "trimmed stream": (lambda: redis(trim=True), redis, "stream 'clicks'"),
    "stream that another one trims": (redis, lambda: redis("redis://127.0.0.1:6379/0", trim=True), "trims the stream"),
    "group of a stream": (lambda: redis(group="a"), lambda: redis(group="a"), "group 'a'"),
    "durable consumer": (lambda: nats(durable="a"), lambda: nats(durable="a"), "durable consumer 'a'"),
    "offsets of a group": (lambda: kafka(True), lambda: kafka(True), "group 'shop' and topic 'clicks'"),
    "offsets that another one begins at": (lambda: kafka(False), lambda: kafka(True), "commits offsets of group"),
}

ACCEPTED: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "client ids": (mqtt, lambda: mqtt("garden")),
    "brokers": (mqtt, lambda: mqtt(server="mqtt://other")),
    "slots": (slot, lambda: slot("other")),
    "a stream without trim": (redis, redis),
    "databases": (lambda: redis(trim=True), lambda: redis("redis://localhost/1", trim=True)),
    "consumers without acknowledgements": (nats, nats),
    "durables of other subjects": (
        lambda: nats(durable="a", subjects="orders.new"),
        lambda: nats(durable="a", subjects="orders.old"),
    ),
    "groups": (lambda: kafka(True), lambda: kafka(True, **{"group.id": "other"})),
    "topics": (lambda: kafka(True), lambda: kafka(True, "views")),
    "a group whose offsets nobody commits": (lambda: kafka(False), lambda: kafka(False)),
}


@pytest.fixture(autouse=True)
def packages(request: pytest.FixtureRequest) -> None:
    for name in ("paho.mqtt", "psycopg", "redis", "nats", "confluent_kafka"):
        pytest.importorskip(name)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_used_twice_is_refused_by_both_labels(case: str) -> None:
    first, second, what = REFUSED[case]
    p = beam.Pipeline()
    _ = p | "First" >> first()
    with pytest.raises(PipelineError, match=rf"^Second/.*{what}.*, as First/.* does already; .*") as error:
        _ = p | "Second" >> second()
    assert "secret" not in str(error.value)


def test_the_same_transform_applied_twice_is_refused() -> None:
    """It is the same object."""
    p, read = beam.Pipeline(), mqtt()
    _ = p | "First" >> read
    with pytest.raises(PipelineError, match=r"^Second/.*, as First/.* does already"):
        _ = p | "Second" >> read


@pytest.mark.parametrize("case", ACCEPTED)
def test_other_things_are_accepted(case: str) -> None:
    first, second = ACCEPTED[case]
    p = beam.Pipeline()
    _ = p | "First" >> first()
    _ = p | "Second" >> second()
    assert 2 == sum(1 for t in p.outline().transforms if "Read" in t.label and not t.inputs)


def test_a_refused_transform_leaves_nothing() -> None:
    """The corrected one may be applied."""
    p = beam.Pipeline()
    _ = p | "First" >> mqtt()
    with pytest.raises(PipelineError):
        _ = p | "Second" >> mqtt()
    _ = p | "Second" >> mqtt("garden")
