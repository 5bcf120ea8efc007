"""NamedTable: a table that a sink writes into, whose errors name the transform, the table and the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from ...sdk.errors import RejectedRecordError, SinkError
from ..waiting import WAITS
from .database import SqlDatabase, SqlSession
from .dialect import is_database_error

T = TypeVar("T")


class NamedTable:
    """A table of a database, which is waited for if it is lost.

    The label of the transform that writes is an argument of the methods.

    Attributes:
      key: the columns that identify a row.
    """

    def __init__(self, database: SqlDatabase, table: str, key: tuple[str, ...]) -> None:
        self.database = database
        self.table = table
        self.key = key
        # True if this process has reached the database.
        self._is_known = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_is_known": False}

    def reached(self, label: str, what: str, call: Callable[[SqlSession], T]) -> T:
        """Return the result of a call with a connection, whose errors name the table and the database.

        Once this process has reached the database, a lost one is waited for.
        """

        def connected() -> T:
            with self.database.session() as session:
                return call(session)

        with self.naming_the_table(label, what):
            found = self.database.patiently(label, connected, WAITS if self._is_known else 0)
            self._is_known = True
            return found

    @contextmanager
    def naming_the_table(self, label: str, what: str) -> Iterator[None]:
        """Convert a database's errors into a `SinkError` that names the transform and the table."""
        try:
            yield
        except SinkError as error:
            if error.transform:
                raise
            self._raise(label, what, str(error), error.__cause__, getattr(error, "record", None))
        except Exception as error:
            if not is_database_error(error):
                raise
            self._raise(label, what, self.found(error), error)

    def found(self, error: Exception) -> str:
        """Return the text of a database's error, with advice."""
        # SQLAlchemy wraps the driver's errors, and adds lines.
        original = getattr(error, "orig", None) or error
        found = self.database.without_secrets(" ".join(str(original).split())) or type(original).__name__
        if "locked" in found:
            found += "; another process is writing to it: end that first, or wait longer by timeout=..."
        if "ON CONFLICT" in found:
            found += f"; give it a primary key or a unique constraint on ({', '.join(self.key)})"
        return found

    def _raise(
        self, label: str, what: str, found: str, cause: BaseException | None, record: str | None = None
    ) -> NoReturn:
        text = f"{label}: table {self.table!r} in {self.database} {what}: {found}"
        error = SinkError(text)
        if record is not None:
            error = rejection = RejectedRecordError(text)
            rejection.record = record
        error.transform = label
        raise error from self.database.shown_cause(cause)
