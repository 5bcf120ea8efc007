"""The programs of the pages on changes of tables run as they are written."""

from __future__ import annotations

import pathlib
import re

import pytest
from package.unpack_wheel import ROOT
from servers.postgresql import PostgreSQL


def programs(page: str) -> list[str]:
    """The programs of a page."""
    return re.findall(r"```py\n(.*?)```", (ROOT / "docs" / "connectors" / page).read_text(), re.DOTALL)


def test_the_programs_on_debezium(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first sums what is left; the second is built, without a broker."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for program in programs("debezium.md"):
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
            for program in programs("postgres_changes.md"):
                url = postgresql.url.replace("/postgres", "/shop")
                exec(program.replace("postgresql://penstock:secret@localhost:5432/shop", url), names)
        finally:
            connection.execute("SELECT pg_drop_replication_slot('shop')")
            connection.execute("DROP DATABASE shop WITH (FORCE)")
