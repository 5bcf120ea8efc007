"""The program of docs/connectors/pubsub.md runs as it is written."""

from __future__ import annotations

import pytest
from servers.pubsub_server import PubsubServer
from support.programs.document_code import programs


def test_the_program_writes_and_reads(pubsub: PubsubServer, capsys: pytest.CaptureFixture[str]) -> None:
    pubsub.make("orders")
    (program,) = programs("docs/connectors/pubsub.md", __file__)
    exec(program, {})

    assert ["b'milk'", "b'tea'"] == sorted(capsys.readouterr().out.split())
