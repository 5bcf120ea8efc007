"""Errors of NATS that waiting may mend are told by their classes; one has none of its own, and a fixed text."""

from __future__ import annotations

import asyncio

import pytest
from nats.errors import AuthorizationError, ConnectionClosedError, Error

from penstock.io.nats.client import Connection, Lost


async def closing_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


def test_a_server_that_closes_the_connection_before_it_speaks_is_lost() -> None:
    """As one that starts or stops; this shows that the text is still the client's."""

    async def connect() -> None:
        server = await asyncio.start_server(closing_at_once, "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            async with Connection.of("Read", f"nats://{host}:{port}", None).opened():
                pass

    with pytest.raises(Lost):
        asyncio.run(connect())


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionClosedError(), True),
        (TimeoutError(), True),
        (Error("nats: empty response from server when expecting INFO message"), True),
        (Error("nats: 'no stream matches subject \"empty response from server\"'"), False),
        (AuthorizationError("empty response from server"), False),
    ],
)
def test_an_error_is_lost_by_its_class(error: Exception, expected: bool) -> None:
    """Words in a subject don't make it one that is waited for."""
    with pytest.raises(Lost if expected else type(error)), Connection.of("Read", "nats://a", None).losing():
        raise error
