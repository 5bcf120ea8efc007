"""The server that other tests rely on answers, asks for its password, and leaves nothing behind."""

from __future__ import annotations

import os

import pytest
from servers.postgresql import PostgreSQL, why_there_is_no_postgresql


def test_the_server_runs_as_long_as_the_block_and_asks_for_its_password() -> None:
    """On a port of its own, with its files in a directory that is gone afterwards."""
    if reason := why_there_is_no_postgresql():
        pytest.skip(reason)
    import psycopg

    with PostgreSQL.running() as server:
        with psycopg.connect(server.dsn) as connection:
            assert (2,) == connection.execute("SELECT 1 + 1").fetchone()
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(server.dsn.replace("well", "tap"))
        process = server.process
        assert process is not None
    assert process.poll() is not None
    assert not os.path.exists(server.directory)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.dsn)
