"""A real MQTT broker, and topics of a test's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from servers.mosquitto import Mosquitto, why_there_is_no_mosquitto

_numbers = itertools.count()


@pytest.fixture(scope="session")
def mosquitto() -> Iterator[Mosquitto]:
    """A broker, started for the first test that asks."""
    if reason := why_there_is_no_mosquitto():
        pytest.skip(reason)
    with Mosquitto.running() as server:
        yield server


@pytest.fixture
def topic() -> str:
    """The name of a topic that no other test has."""
    return f"topic{next(_numbers)}"


@pytest.fixture
def other_topic() -> str:
    return f"topic{next(_numbers)}"
