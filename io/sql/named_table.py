"""NamedTable: a table or a query of a database as one transform uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from ...sdk.errors import PenstockError, SinkError
from ..connections.lost_connections import is_lost_connection
from ..connections.server_connection import ServerConnection
from .database import SqlDatabase, SqlSession
from .dialect import is_database_error

T = TypeVar("T")


@attrs.define(repr=False, eq=False)
class NamedTable(ServerConnection):
    """A table or a query, whose errors name the transform, the table and the database.

    Attributes:
      name: "table 'words'", or "the query".
      key: the columns that identify a row.
    """

    service = "database"

    transform: str
    database: SqlDatabase
    name: str
    key: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return str(self.database)

    @property
    def server(self) -> str:
        return f"{self.name} in {self.shown}"

    def called(self, what: str, call: Callable[[SqlSession], T]) -> T:
        """Return the result of a call with a connection of its own; see `reached`."""

        def once() -> T:
            with self.database.session() as session:
                return call(session)

        return self.reached(what, once)

    def failed(self, what: str) -> str:
        """Return what failed, such as "can't be written", with the table."""
        return f"{self.server} {what}"

    def said(self, error: Any) -> str:
        # SQLAlchemy wraps the driver's errors, and adds lines.
        original = getattr(error, "orig", None) or error
        return self.database.without_secrets(" ".join(str(original).split())) or type(original).__name__

    def advice(self, error: Any) -> str:
        found = self.said(error)
        if "ON CONFLICT" in found:
            return f"; give it a primary key or a unique constraint on ({', '.join(self.key)})"
        if "locked" in found:
            return "; another process is writing to it: end that first, or wait longer by timeout=..."
        return ""

    def cause(self, error: BaseException | None) -> BaseException | None:
        return self.database.shown_cause(error)

    def is_own(self, error: Exception) -> bool:
        return is_database_error(error)

    def is_unnamed(self, error: PenstockError) -> bool:
        return isinstance(error, SinkError) and not error.transform

    def may_answer(self, error: BaseException) -> bool:
        return is_lost_connection(error)
