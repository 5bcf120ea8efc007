"""A topic of a test's own, with a subscription."""

from __future__ import annotations

import itertools

import pytest
from servers.pubsub_server import PubsubServer

_numbers = itertools.count()


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
