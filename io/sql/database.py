"""SqlDatabase: the address of a database, and sessions with transactions.

A file of SQLite, a URL of SQLAlchemy, or a user's function that returns a connection (PEP 249).  All are picklable, and
connect in the process that uses them.
"""

from __future__ import annotations

import os
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from ...sdk.errors import missing_extra
from ...sdk.process.working_directory import absolute
from ...sdk.redaction import looks_secret, redacted, redacted_cause
from ..connections.server_connection import as_in_urls, hidden
from ..files.filesystem import path_string
from ..optional_package import optional_package
from .dialect import MARK, SqlDialect, dialect_of

T = TypeVar("T")

# A connection setting, which isn't expected in a path.
_PASSWORD = re.compile(r"(?:^|[\s;?&])(?:password|passwd|pwd)\s*=", re.IGNORECASE)


class SqlDatabase(ABC):
    """Address of a database.  Its `str` has no password."""

    # The dialect's name, unless it is known from the class of the connections.
    dialect: str | None = None

    @abstractmethod
    def connect(self) -> Any:
        """Return a new DB-API connection."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the name of the database in errors."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def without_secrets(self, text: str) -> str:
        """Return a driver's message without secrets."""
        return redacted(text)

    def shown_cause(self, error: BaseException | None) -> BaseException | None:
        """Return a driver's error as the cause of a raised one, or None if its text contains a secret."""
        return None if error is None or self.without_secrets(str(error)) != str(error) else redacted_cause(error)

    @contextmanager
    def session(self) -> Iterator[SqlSession]:
        """Open a connection, and close it at the end of the block."""
        session = SqlSession(self.connect(), self.dialect)
        try:
            yield session
        finally:
            session.close()


class SqlSession:
    """A connection with transactions."""

    def __init__(self, connection: Any, dialect: str | None = None) -> None:
        self._connection = connection
        self.dialect: SqlDialect = dialect_of(connection, dialect)
        if isinstance(connection, sqlite3.Connection):
            # By default the driver begins no transaction for statements that define tables.
            connection.isolation_level = None
        elif getattr(connection, "autocommit", False) is True:
            connection.autocommit = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block atomically."""
        if isinstance(self._connection, sqlite3.Connection):
            self.run("BEGIN IMMEDIATE")
        try:
            if self.dialect.name == "postgresql":
                self.run(_LASTING)
            yield
            self._connection.commit()
        except BaseException:
            with suppress(Exception):
                self._connection.rollback()
            raise

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Run a block, and roll it back."""
        try:
            with self.transaction():
                yield
                raise _RehearsedError
        except _RehearsedError:
            return

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Run a block atomically within a transaction, which goes on if the block fails."""
        self.run(f"SAVEPOINT {_ATTEMPT}")
        try:
            yield
        except BaseException:
            with suppress(Exception):
                self.run(f"ROLLBACK TO SAVEPOINT {_ATTEMPT}")
                self.run(f"RELEASE SAVEPOINT {_ATTEMPT}")
            raise
        self.run(f"RELEASE SAVEPOINT {_ATTEMPT}")

    def conditions_of(self, table: str, columns: Sequence[str]) -> dict[str, str]:
        """Return the conditions of a table on these columns, by name, as far as the database exposes them."""
        quoted = self.dialect.quoted
        schema, _dot, name = table.rpartition(".")
        if self.dialect.name == "sqlite":
            of_schema = f"{quoted(schema)}." if schema else ""
            found = self.run(f"PRAGMA {of_schema}table_info({quoted(name)})")
            needed, checks = [row[1] for row in found if row[3]], []
        elif self.dialect.name == "postgresql":
            of_table = f"to_regclass({MARK})"
            parameter = (quoted(table),)
            sql = f"SELECT attname FROM pg_attribute WHERE attrelid = {of_table} AND attnotnull AND attnum > 0"
            needed = [column for (column,) in self.run(sql, parameter)]
            sql = (
                "SELECT conname, pg_get_expr(conbin, conrelid), (SELECT array_agg(attname::text) FROM pg_attribute "
                f"WHERE attrelid = conrelid AND attnum = ANY(conkey)) FROM pg_constraint WHERE conrelid = {of_table} "
                "AND contype = 'c' ORDER BY conname"
            )
            checks = self.run(sql, parameter)
        else:
            return {}
        conditions = {
            f"{column} is not null": f"{quoted(column)} IS NOT NULL" for column in needed if column in columns
        }
        return conditions | {
            constraint: expression for constraint, expression, used in checks if set(used or ()) <= set(columns)
        }

    def json_columns(self, table: str, *kinds: str) -> frozenset[str]:
        """Return the names of a table's columns of JSON, as far as the database exposes them.

        Args:
          kinds: their types, by default `json` and `jsonb`.
        """
        if self.dialect.name != "postgresql":
            return frozenset()
        kinds = kinds or ("json", "jsonb")
        sql = (
            f"SELECT attname FROM pg_attribute WHERE attrelid = to_regclass({MARK}) AND attnum > 0 "
            f"AND format_type(atttypid, NULL) IN ({', '.join([MARK] * len(kinds))})"
        )
        return frozenset(name for (name,) in self.run(sql, (self.dialect.quoted(table), *kinds)))

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Run a statement, and return its rows."""
        cursor = self._connection.cursor()
        try:
            if parameters:
                cursor.execute(self.dialect.with_marks(sql), self.dialect.parameters(parameters))
            else:
                # Unchanged: drivers look for parameter marks only if there are parameters.
                cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []
        finally:
            cursor.close()

    def select(self, sql: str, parameters: Sequence[Any], limit: int) -> tuple[list[str], list[Any]]:
        """Return the names of a query's columns and its first rows, and leave no transaction open."""
        cursor = self._connection.cursor()
        try:
            if parameters:
                cursor.execute(self.dialect.with_marks(sql), self.dialect.parameters(parameters))
            else:
                cursor.execute(sql)
            return [column[0] for column in cursor.description], list(cursor.fetchmany(limit)) if limit else []
        finally:
            cursor.close()
            if not isinstance(self._connection, sqlite3.Connection):
                self._connection.rollback()

    def run_for_each(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row of parameters."""
        cursor = self._connection.cursor()
        try:
            cursor.executemany(self.dialect.with_marks(sql), [self.dialect.parameters(row) for row in rows])
        finally:
            cursor.close()

    def has_table(self, table: str) -> bool:
        """Return whether a table or view exists."""
        schema, _dot, name = table.rpartition(".")
        if self.dialect.name == "sqlite":
            master = f"{self.dialect.quoted(schema)}.sqlite_master" if schema else "sqlite_master"
            return bool(self.run(f"SELECT 1 FROM {master} WHERE name = {MARK} COLLATE NOCASE", (name,)))
        if self.dialect.name == "postgresql":
            return self.run(f"SELECT to_regclass({MARK}) IS NOT NULL", (self.dialect.quoted(table),)) == [(True,)]
        sql = f"SELECT 1 FROM information_schema.tables WHERE table_name = {MARK}"
        return bool(self.run(f"{sql} AND table_schema = {MARK}", (name, schema)) if schema else self.run(sql, (name,)))

    def columns_of(self, table: str) -> tuple[str, ...]:
        """Return the names of a table's columns.  Raises the driver's error for a missing table."""
        cursor = self._connection.cursor()
        try:
            cursor.execute(f"SELECT * FROM {self.dialect.quoted(table)} WHERE 1 = 0")
            return tuple(column[0] for column in cursor.description)
        finally:
            cursor.close()

    def close(self) -> None:
        """Close the connection.  Changes that aren't committed are lost."""
        with suppress(Exception):
            self._connection.close()


# A server that doesn't wait for its disk might lose what a checkpoint counts on, in a crash of its own.
_LASTING = (
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit', true) = 'off'"
)

# The savepoint that a failed attempt is rolled back to.
_ATTEMPT = "_penstock_attempt"


class _RehearsedError(Exception):
    """Ends a rehearsed transaction."""


class SqliteFile(SqlDatabase):
    """A database file of SQLite, which is created if it doesn't exist.

    Args:
      path: the file; workers on the same host write into the same one.
      timeout: seconds to wait for another process that is writing.
    """

    dialect = "sqlite"

    def __init__(self, path: str, timeout: float) -> None:
        self.path = os.path.normpath(absolute(path))
        self.timeout = timeout

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=self.timeout)

    def __str__(self) -> str:
        return repr(redacted(self.path))


def check_path(path: str, transform: str) -> None:
    """Raise `ValueError` for what is no path, such as the settings of a connection, 'host=db password=secret'."""
    if path in ("", ":memory:"):
        raise ValueError(
            f"{transform}: expected the path of a local file, got {path!r}; a database in memory is visible to its own "
            "process only"
        )
    if _PASSWORD.search(path):
        raise ValueError(
            f"{transform}: expected the path of a database file, got settings of a connection, {redacted(path)!r}; "
            "ReadFromSQL and WriteToSQL take a URL, or a function that connects"
        )


class SqlAlchemyUrl(SqlDatabase):
    """A database by its URL, such as 'postgresql://user:password@host/database'.

    SQLAlchemy, which is imported on first use, finds the driver and connects.  Raises `MissingExtraError` if it or the
    driver isn't installed.
    """

    def __init__(self, url: Any, needed_for: str) -> None:
        self.needed_for = needed_for
        sqlalchemy = self._engine_package()
        try:
            parsed = sqlalchemy.engine.make_url(url)
        except Exception as error:
            # The texts of the error and of its cause may contain a password.
            raise ValueError(
                f"{needed_for}: expected a URL such as 'postgresql://user:password@host/database', "
                f"got one that SQLAlchemy can't read ({type(error).__name__})"
            ) from None
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        self._url: str = parsed.render_as_string(hide_password=False)
        self._shown = redacted(self._url)
        secrets = [str(parsed.password)] if parsed.password else []
        self._secrets = as_in_urls(secrets + [str(value) for name, value in parsed.query.items() if looks_secret(name)])
        self.dialect = parsed.get_backend_name()
        self._engine()

    def _engine_package(self) -> Any:
        return optional_package("sqlalchemy", extra="sql", needed_for=self.needed_for)

    def _engine(self) -> Any:
        sqlalchemy = self._engine_package()
        try:
            return sqlalchemy.create_engine(self._url, poolclass=sqlalchemy.pool.NullPool, hide_parameters=True)
        except ModuleNotFoundError as error:
            extra = "postgres" if self.dialect == "postgresql" else "sql"
            raise missing_extra(error.name or "a driver", extra, f"{self.needed_for} to {self}") from error
        except sqlalchemy.exc.NoSuchModuleError as error:
            raise ValueError(f"{self.needed_for}: SQLAlchemy knows no driver for {self}: {error}") from error

    def connect(self) -> Any:
        fairy = self._engine().raw_connection()
        connection = fairy.driver_connection
        fairy.detach()
        return connection

    def without_secrets(self, text: str) -> str:
        return redacted(hidden(text, self._secrets))

    def __str__(self) -> str:
        return repr(self._shown)


class SqlConnector(SqlDatabase):
    """A database by a function that returns a new connection to it."""

    def __init__(self, connector: Callable[[], Any], dialect: str | None) -> None:
        self._connector = connector
        self.dialect = dialect

    def connect(self) -> Any:
        return self._connector()

    def __str__(self) -> str:
        return f"the connection of {getattr(self._connector, '__qualname__', type(self._connector).__qualname__)}()"


def database_of(transform: str, connection: Any, dialect: str | None = None) -> SqlDatabase:
    """Return the database of a transform's argument: a URL, a path of SQLite, or a function that connects.

    Raises `TypeError` and `ValueError`, naming the transform.
    """
    # A connection of SQLite is callable too.
    if callable(connection) and not hasattr(connection, "cursor"):
        return SqlConnector(connection, dialect)
    if not isinstance(connection, (str, os.PathLike)):
        raise TypeError(
            f"{transform}: expected a database's URL, a path, or a function that connects to it, "
            f"got a {type(connection).__name__}; did you forget the lambda?"
        )
    path = path_string(connection)
    if "://" in path:
        return SqlAlchemyUrl(path, transform)
    check_path(path, transform)
    return SqliteFile(path, timeout=60.0)
