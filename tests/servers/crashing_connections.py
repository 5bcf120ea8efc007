"""Connections that fail at a chosen step, as when the power goes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any


class PowerLoss(BaseException):
    """The process ends here."""


class Fuse:
    """Blows at the n-th step, just before it, or just after; never when `steps` is None."""

    def __init__(self, steps: int | None = None, after: bool = False) -> None:
        self.steps = steps
        self.after = after

    def around(self, step: Callable[[], Any]) -> Any:
        """Take a step."""
        if self.steps is None:
            return step()
        self.steps -= 1
        if self.steps == 0 and not self.after:
            raise PowerLoss
        result = step()
        if self.steps == 0:
            raise PowerLoss
        return result


class Connector:
    """A function that gives connections, all of which hang on one fuse."""

    def __init__(self) -> None:
        self.fuse = Fuse()
        self._opened: list[Any] = []

    def opened(self, connection: Any) -> Any:
        """Remember a connection."""
        self._opened.append(connection)
        return connection

    def lose_connections(self) -> None:
        """Close all connections, as the end of their process does."""
        while self._opened:
            self._opened.pop().close()


class SqliteConnector(Connector):
    """To a file of SQLite."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def __call__(self) -> Any:
        fuse = self.fuse

        class Cursor(sqlite3.Cursor):
            def execute(self, *arguments: Any) -> Any:
                return fuse.around(lambda: sqlite3.Cursor.execute(self, *arguments))

            def executemany(self, *arguments: Any) -> Any:
                return fuse.around(lambda: sqlite3.Cursor.executemany(self, *arguments))

        class Connection(sqlite3.Connection):
            def cursor(self, *_arguments: Any) -> Any:
                return Cursor(self)

            def commit(self) -> None:
                fuse.around(lambda: sqlite3.Connection.commit(self))

        connection = sqlite3.connect(self._path, factory=Connection)
        # The machine itself doesn't crash here: nothing needs to wait for the disk.
        sqlite3.Cursor(connection).execute("PRAGMA synchronous = OFF")
        return self.opened(connection)


class PostgreSQLConnector(Connector):
    """To a PostgreSQL."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._dsn = dsn

    def __call__(self) -> Any:
        import psycopg

        fuse = self.fuse

        class Cursor(psycopg.Cursor[Any]):
            def execute(self, *arguments: Any, **options: Any) -> Any:
                return fuse.around(lambda: psycopg.Cursor.execute(self, *arguments, **options))

            def executemany(self, *arguments: Any, **options: Any) -> Any:
                return fuse.around(lambda: psycopg.Cursor.executemany(self, *arguments, **options))

        class Connection(psycopg.Connection[Any]):
            def commit(self) -> None:
                fuse.around(lambda: psycopg.Connection.commit(self))

        return self.opened(Connection.connect(self._dsn, cursor_factory=Cursor))
