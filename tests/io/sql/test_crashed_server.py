"""A server of PostgreSQL that is killed keeps what a sink has staged and committed."""

from __future__ import annotations

import psycopg
import pytest
from servers.postgresql import PostgreSQL, why_there_is_no_postgresql

from penstock.io import WriteToSQL
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sink import LabelledSink


def test_no_commit_is_lost_though_the_server_does_not_wait_for_its_disk() -> None:
    """By its settings, which leave the last seconds to a crash."""
    if reason := why_there_is_no_postgresql():
        pytest.skip(reason)
    with PostgreSQL.running() as server:
        port = server.port

        def crash() -> None:
            server.kill()
            server.start(port)

        server.stop()
        server.settings |= {"synchronous_commit": "off", "wal_writer_delay": "10s"}
        server.start(port)
        sink = LabelledSink(WriteToSQL(server.url, "words", "word", {"word": str, "n": int}).sink, "WriteToSQL")
        sink.prepare("1")
        writer = sink.sink.open_writer(sink.context("1", "unit"))
        writer.write(Bundle([("ann", 1)]))
        token = writer.stage()
        crash()
        sink.commit("1", [token])
        crash()
        with psycopg.connect(server.dsn) as connection:
            assert [("ann", 1)] == connection.execute("SELECT * FROM words").fetchall()
