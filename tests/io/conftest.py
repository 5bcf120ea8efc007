"""Fixtures of the tests of sources and sinks: real databases and brokers."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from servers.crashing_connections import Connector, PostgreSQLConnector, SqliteConnector
from support.suite.worker_template import start_fork_server

from penstock.io.sql.database import SqlConnector, SqlDatabase, SqliteFile
from penstock.io.sql.table_sink import TableSink
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sink import LabelledSink


@pytest.fixture(scope="session")
def fork_server() -> None:
    """Let processes that are killed be forked from one with modules that they would import again and again."""
    start_fork_server()


class Database:
    """A database of a test's own.

    Attributes:
      connector: a function that gives connections; its fuse makes them fail.
      schema: what stands before the names of tables; "" for none.
    """

    _numbers = itertools.count()

    def __init__(self, connector: Connector, schema: str, database: SqlDatabase) -> None:
        self.connector = connector
        self.schema = schema
        self.database = database
        if schema:
            self.run(f"CREATE SCHEMA {schema[:-1]}")

    def run(self, sql: str) -> list[Any]:
        """Run a statement; its rows."""
        connection = self.connector()
        try:
            cursor = connection.cursor()
            cursor.execute(sql)
            rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
            return rows
        finally:
            connection.close()

    def rows(self, table: str = "words") -> list[Any]:
        """Return the rows of a table, in order."""
        return sorted(self.run(f"SELECT * FROM {self.schema}{table}"), key=repr)

    def tables(self) -> list[str]:
        """The names of all tables of the test's own."""
        if self.schema:
            of_schema = f"schemaname = '{self.schema[:-1]}'"
            found = self.run(f"SELECT tablename FROM pg_tables WHERE {of_schema}")
        else:
            found = self.run("SELECT name FROM sqlite_master WHERE type = 'table'")
        return sorted(name for (name,) in found)

    def sink(self, table: str = "words", key: Any = "word", columns: Any = None, **options: Any) -> LabelledSink:
        """A sink into a table of words and numbers, by connections that can fail."""
        columns = {"word": str, "n": int} if columns is None else columns or None
        label = options.pop("label", "save/words")
        return LabelledSink(TableSink(self.database, self.schema + table, key, columns, **options), label)

    def new_table(self) -> str:
        """A name that no table has yet."""
        return f"words{next(self._numbers)}"


def database_of(request: pytest.FixtureRequest, tmp_path: Any, name: str) -> Database:
    """A database of this kind; 'other' is PostgreSQL taken for a database that nothing is known of."""
    if name == "sqlite":
        path = str(tmp_path / "test.db")
        connector: Connector = SqliteConnector(path)
        return Database(connector, "", SqlConnector(connector, None))
    server = request.getfixturevalue("postgresql")
    connector = PostgreSQLConnector(server.dsn)
    schema = f"test{next(Database._numbers)}."
    return Database(connector, schema, SqlConnector(connector, "other" if name == "other" else None))


@pytest.fixture(params=["sqlite", "postgresql", "other"])
def database(request: pytest.FixtureRequest, tmp_path: Any) -> Database:
    """A database of each kind in turn."""
    return database_of(request, tmp_path, request.param)


@pytest.fixture
def sqlite(request: pytest.FixtureRequest, tmp_path: Any) -> Database:
    """SQLite, as WriteToSQLite has it."""
    made = database_of(request, tmp_path, "sqlite")
    made.database = SqliteFile(str(tmp_path / "test.db"), timeout=0.1)
    return made


class Transactions:
    """Transactions of a sink, carried out as a runner does."""

    @staticmethod
    def stage(sink: LabelledSink, transaction: str, *units: Sequence[Bundle]) -> list[Any]:
        """Return the tokens that workers stage, one worker for each list of bundles."""
        tokens = []
        for number, bundles in enumerate(units):
            writer = sink.sink.open_writer(sink.context(transaction, f"unit/{number}"))
            for bundle in bundles:
                writer.write(bundle)
            tokens.append(pickle.loads(pickle.dumps(writer.stage())))
        return tokens

    def write(self, sink: LabelledSink, *bundles: Bundle, transaction: str = "run/1") -> None:
        """A whole transaction of one worker."""
        sink.prepare(transaction)
        sink.commit(transaction, self.stage(sink, transaction, bundles))


@pytest.fixture
def transactions() -> Transactions:
    """How to write through a sink without a pipeline."""
    return Transactions()
