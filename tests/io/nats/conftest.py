"""A real NATS server, and streams of a test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers.nats_server import NatsServer, Stream, why_there_is_no_nats


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    """A server, started for the first test that asks."""
    if reason := why_there_is_no_nats():
        pytest.skip(reason)
    with NatsServer.running() as server:
        yield server


@pytest.fixture
def stream(nats_server: NatsServer) -> Stream:
    return Stream(nats_server)


@pytest.fixture
def other_stream(nats_server: NatsServer) -> Stream:
    return Stream(nats_server)
