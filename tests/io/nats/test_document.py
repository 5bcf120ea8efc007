"""The program of docs/connectors/nats.md runs as it is written, on a real server."""

from __future__ import annotations

import pytest
from servers.nats_server import NatsServer
from support.programs.document_code import programs


def test_the_program_counts_words(nats_server: NatsServer, capsys: pytest.CaptureFixture[str]) -> None:
    """At the address of another server, with credentials."""
    (program,) = programs("docs/connectors/nats.md", __file__)
    nats_server.make_stream("words", ["words.*"])
    exec(program.replace("nats://localhost:4222", nats_server.url), {})

    assert ["('a', 2)", "('b', 1)"] == sorted(capsys.readouterr().out.splitlines())
