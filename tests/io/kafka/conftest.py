"""A schema registry, and topics of a test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.broker import KafkaBroker
from kafka.registry import Registry, why_there_is_no_registry
from kafka.topics import Topic
from servers.fixtures import topic as topic


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
