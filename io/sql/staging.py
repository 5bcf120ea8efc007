"""TableSinkWriter: stages the rows of one worker in the staging table of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, TypeVar

import attrs

from ...sdk.coders.coder import shortened
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import RejectedRecordError, SinkError
from ...sdk.sink import SinkContext, SinkWriter
from ..connections.lost_connections import is_lost_connection
from ..sinks.dead_letters import Rejected
from .changes import PREFIX, TableChanges
from .database import SqlSession
from .dialect import MARK, is_database_error
from .named_table import NamedTable
from .rows import TableRows

T = TypeVar("T")

# Number of rows that a worker collects before it stages them.
STAGE_ROWS = 10_000

# Errors that drivers raise for a refused value, besides their own.
_VALUE_ERRORS = (OverflowError, TypeError, ValueError)


class TableSinkWriter(SinkWriter[Any]):
    """Writer that stages one worker's rows, some thousands in a transaction.

    Args:
      changes: returns the statements of the transaction, or None if it isn't prepared.
      rows: returns the conversion of elements to rows with these columns.
      context: of the transaction; with dead letters, refused rows are staged as dead letters.
      unit: names the worker's rows.
    """

    def __init__(
        self,
        table: NamedTable,
        changes: Callable[[SqlSession], TableChanges | None],
        rows: Callable[[Sequence[str]], TableRows],
        context: SinkContext,
        unit: str,
    ) -> None:
        self._table = table
        self._changes_in = changes
        self._rows_of = rows
        self._context = context
        self._unit = unit
        self._session: SqlSession | None = None
        self._pending: list[tuple[Any, ...]] = []
        self._staged = 0
        # True if the connection was lost since rows were staged.
        self._was_lost = False

    def write(self, bundle: Bundle) -> None:
        with self._table.explained("can't be written", SinkError):
            dialect = self._patiently(self._opened).dialect
            for change in self._rows.changes(bundle, dialect):
                self._pending.append((self._unit, change.sign, change.window, change.order, *change.values))
            while len(self._pending) >= STAGE_ROWS:
                self._patiently(self._flush)

    def stage(self) -> tuple[str, int]:
        with self._table.explained("can't be written", SinkError):
            while self._pending:
                self._patiently(self._flush)
        self._close()
        return (self._unit, self._staged)

    def discard(self) -> None:
        try:
            if self._staged and self._session is not None:
                table, unit = map(self._session.dialect.quoted, (self._changes.staged, f"{PREFIX}unit"))
                with self._session.transaction():
                    self._session.run(f"DELETE FROM {table} WHERE {unit} = {MARK}", (self._unit,))
        finally:
            self._pending.clear()
            self._close()

    def _opened(self) -> SqlSession:
        if self._session is None:
            self._session = SqlSession(self._table.database.connect(), self._table.database.dialect)
            with self._session.transaction():
                changes = self._changes_in(self._session)
                json = frozenset() if changes is None else self._session.json_columns(changes.staged)
            if changes is None:
                raise SinkError(
                    f"transaction {self._context.transaction!r} isn't prepared: there is no staging table; "
                    "it was committed or aborted already"
                )
            self._changes = changes
            self._rows = attrs.evolve(self._rows_of(changes.columns), json=json)
        return self._session

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _patiently(self, call: Callable[[], T]) -> T:
        """Return the result of a call, which is made again with a new connection if the connection is lost."""

        def connected() -> T:
            try:
                return call()
            except Exception as error:
                if is_lost_connection(error):
                    self._close()
                    self._was_lost = True
                raise

        return self._table.patiently(connected)

    def _flush(self) -> None:
        session = self._opened()
        rows = list(islice(self._pending, STAGE_ROWS))
        if not self._was_lost or self._found_staged(session) < self._staged + len(rows):
            self._stage_rows(session, rows)
        self._was_lost = False
        del self._pending[: len(rows)]
        self._staged += len(rows)

    def _found_staged(self, session: SqlSession) -> int:
        """Return the number of staged rows: the last ones were staged if only the answer was lost."""
        table, unit = map(session.dialect.quoted, (self._changes.staged, f"{PREFIX}unit"))
        with session.transaction():
            ((found,),) = session.run(f"SELECT COUNT(*) FROM {table} WHERE {unit} = {MARK}", (self._unit,))
        return int(found)

    def _found(self, error: Exception) -> str:
        return self._table.said(error) + self._table.advice(error)

    def _stage_rows(self, session: SqlSession, rows: list[tuple[Any, ...]]) -> None:
        insert = self._changes.insert_staged()
        try:
            with session.transaction():
                session.run_for_each(insert, rows)
        except Exception as error:
            if not (is_database_error(error) or isinstance(error, _VALUE_ERRORS)):
                raise
            if is_lost_connection(error):
                raise
            if not (self._context.dead_letters and _is_about_values(error)):
                self._raise_for_the_row(session, insert, rows)
                raise
            self._stage_apart(session, insert, rows)

    def _stage_apart(self, session: SqlSession, insert: str, rows: list[tuple[Any, ...]]) -> None:
        """Stage the rows one by one, and refused rows as dead letters."""
        with session.transaction():
            for row in rows:
                try:
                    with session.attempt():
                        session.run(insert, row)
                except Exception as error:
                    if not _is_about_values(error):
                        raise
                    refused = Rejected(dict(zip(self._changes.columns, row[4:])), row[1], self._found(error))
                    why = refused.why.encode(errors="backslashreplace").decode().replace("\0", "\\0")
                    session.run(self._changes.insert_apart(), (row[0], refused.sign, refused.as_json(), why))

    def _raise_for_the_row(self, session: SqlSession, insert: str, rows: list[tuple[Any, ...]]) -> None:
        """Stage the rows one by one, and raise an error that names the refused row, if there is one."""
        for row in rows:
            try:
                with session.rehearsal():
                    session.run(insert, row)
            except Exception as error:
                if not _is_about_values(error):
                    return
                found = dict(zip(self._changes.columns, row[4:]))
                rejection = RejectedRecordError(f"the row {shortened(found, 200)} doesn't fit: {self._found(error)}")
                rejection.record = shortened(found, 200)
                raise rejection from error


def _is_about_values(error: Exception) -> bool:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, _VALUE_ERRORS) or not kinds.isdisjoint(
        {"DataError", "IntegrityError", "ProgrammingError", "InterfaceError"}
    )
