"""Streams of a test's own."""

from __future__ import annotations

import pytest
from servers.nats_server import NatsServer, Stream


@pytest.fixture
def stream(nats_server: NatsServer) -> Stream:
    return Stream(nats_server)


@pytest.fixture
def other_stream(nats_server: NatsServer) -> Stream:
    return Stream(nats_server)
