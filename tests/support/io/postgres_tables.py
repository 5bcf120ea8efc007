"""Tables of PostgreSQL of a test's own, whose changes are read."""

from __future__ import annotations

import itertools
from typing import Any

from servers.postgresql import PostgreSQL

from penstock.io import ReadFromPostgresChanges
from penstock.io.cdc.postgres_source import PostgresReader, PostgresSource
from penstock.sdk.elements.bundle import expanded
from penstock.windowing import Timestamp


class Tables:
    """Tables of a test's own, in a schema of its own, and a slot.

    Attributes:
      server: the server.
      schema: the name of the schema.
      slot: the name of the slot, and of the publication.
    """

    _numbers = itertools.count()

    def __init__(self, server: PostgreSQL) -> None:
        self.server = server
        self.schema = f"cdc{next(self._numbers)}"
        self.slot = f"slot_{self.schema}"
        self._connection: Any = None
        self._readers: list[PostgresReader] = []
        self.run(f"CREATE SCHEMA {self.schema}")
        self.run(f"SET search_path = {self.schema}")

    @property
    def connection(self) -> Any:
        """A connection, by which each statement is committed."""
        import psycopg

        if self._connection is None or self._connection.closed:
            # What is committed is durable, and so in the slot, at once.
            options = f"-c search_path={self.schema} -c synchronous_commit=on"
            self._connection = psycopg.connect(self.server.dsn, autocommit=True, options=options)
        return self._connection

    def run(self, sql: str, parameters: Any = None) -> list[Any]:
        """Run a statement; its rows."""
        cursor = self.connection.execute(sql, parameters)
        return list(cursor.fetchall()) if cursor.description else []

    def make(self, name: str = "orders", columns: str = "id int PRIMARY KEY, price int", rows: int = 0) -> str:
        """Make a table whose former rows are logged; its name with its schema."""
        self.run(f"CREATE TABLE {name} ({columns})")
        self.run(f"ALTER TABLE {name} REPLICA IDENTITY FULL")
        if rows:
            self.run(f"INSERT INTO {name} SELECT i, i * 10 FROM generate_series(1, {rows}) i")
        return f"{self.schema}.{name}"

    def read(self, table: Any = "orders", **options: Any) -> ReadFromPostgresChanges:
        """The transform that reads a table, or several."""
        names = f"{self.schema}.{table}" if isinstance(table, str) else [f"{self.schema}.{each}" for each in table]
        options = {"url": self.server.url, "slot": self.slot, "poll_interval": 0.01} | options
        return ReadFromPostgresChanges(table=names, **options)

    def source(self, table: Any = "orders", **options: Any) -> PostgresSource:
        return PostgresSource(self.read(table, **options)._reading)

    def open(self, table: Any = "orders", offset: Any = None, **options: Any) -> PostgresReader:
        """A reader, which is closed after the test."""
        reader = self.source(table, **options).open(self.slot, offset)
        self._readers.append(reader)
        return reader

    def clean_up(self) -> None:
        """Close the readers, and remove the slot."""
        for reader in self._readers:
            reader.close()
        self.run(f"DROP PUBLICATION IF EXISTS {self.slot}")
        self.run(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", [self.slot]
        )
        self.connection.close()


_later = itertools.count(1)


def poll(reader: PostgresReader, most: int = 1000) -> list[tuple[int, Any, int]]:
    """The next elements: signs, rows and microseconds."""
    bundle = reader.poll(most, Timestamp(next(_later)))
    if bundle is None:
        return []
    times = expanded(bundle.timestamps, len(bundle))
    return [(change.sign, change.row, micros) for change, micros in zip(bundle.values, times, strict=True)]


def read_all(reader: PostgresReader, most: int = 1000) -> list[tuple[int, Any, int]]:
    """The elements that there are: signs, rows and microseconds."""
    found = []
    while elements := poll(reader, most):
        assert len(elements) <= most
        found += elements
    return found


def signed(elements: list[tuple[int, Any, int]]) -> list[tuple[Any, ...]]:
    """Signs and the values of rows."""
    return [(sign, *row) for sign, row, _ in elements]
