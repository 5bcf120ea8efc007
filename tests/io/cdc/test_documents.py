"""The programs of the pages on changes of tables run as they are written."""

from __future__ import annotations

import pathlib

import pytest
from servers.postgresql import PostgreSQL
from support.programs.document_code import programs


def test_the_programs_on_debezium(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first sums what is left; the second is built, without a broker."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for program in programs("docs/connectors/debezium.md", __file__):
        exec(program, names)
    assert "[('ann', 15)]\n" == capsys.readouterr().out


def test_the_programs_on_changes_of_postgresql(
    postgresql: PostgreSQL, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the address of another server, in a database of their own."""
    import psycopg

    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with psycopg.connect(postgresql.dsn, autocommit=True) as connection:
        connection.execute("CREATE DATABASE shop")
        try:
            for program in programs("docs/connectors/postgres_changes.md", __file__):
                url = postgresql.url.replace("/postgres", "/shop")
                exec(program.replace("postgresql://penstock:secret@localhost:5432/shop", url), names)
        finally:
            connection.execute("SELECT pg_drop_replication_slot('shop')")
            connection.execute("DROP DATABASE shop WITH (FORCE)")
