"""A schema registry, and topics of a test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.broker import KafkaBroker
from kafka.registry import Registry, why_there_is_no_registry
from kafka.topics import Topic
from servers.fixtures import topic as topic

from penstock.io.kafka import client


@pytest.fixture(scope="session")
def registry() -> Iterator[Registry]:
    """A schema registry, fetched from Maven Central and started for the first test that asks."""
    if reason := why_there_is_no_registry():
        pytest.skip(reason)
    with Registry.running() as server:
        yield server


@pytest.fixture
def other_topic(broker: KafkaBroker) -> Topic:
    return Topic(broker)


@pytest.fixture
def known_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that knows all topics: a missing one isn't waited for."""
    monkeypatch.setattr(client, "_CREATED_WITHIN", 0.0)
