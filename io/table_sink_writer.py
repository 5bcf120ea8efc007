"""TableSinkWriter: one worker's rows, staged."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from ..sdk.bundle import Bundle
from ..sdk.coders.coder import shortened
from ..sdk.errors import RejectedRecordError, SinkError
from ..sdk.sink import SinkWriter
from .dead_letters import Rejected
from .sql_database import SqlSession
from .sql_dialect import MARK, is_database_error
from .table_changes import PREFIX

if TYPE_CHECKING:
    from .table_sink import TableSink

# How many rows a worker holds before it stages them.
STAGE_ROWS = 10_000

# What drivers raise for a value that they can't take, besides their own errors.
_VALUE_ERRORS = (OverflowError, TypeError, ValueError)


class TableSinkWriter(SinkWriter[Any]):
    """Stages one worker's rows, some thousands at a time, each time in a transaction of its own."""

    def __init__(self, sink: TableSink, transaction: str, unit: str) -> None:
        self._sink = sink
        self._transaction = transaction
        self._unit = unit
        self._session: SqlSession | None = None
        self._pending: list[tuple[Any, ...]] = []
        self._staged = 0

    def write(self, bundle: Bundle) -> None:
        with self._sink.naming_the_table("can't be written"):
            session = self._opened()
            for change in self._rows.changes(bundle, session.dialect):
                self._pending.append((self._unit, change.sign, change.window, change.order, *change.values))
            while len(self._pending) >= STAGE_ROWS:
                self._flush(session)

    def stage(self) -> tuple[str, int]:
        with self._sink.naming_the_table("can't be written"):
            while self._pending:
                self._flush(self._opened())
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
            self._session = SqlSession(self._sink.database.connect(), self._sink.database.dialect)
            with self._session.transaction():
                changes = self._sink.changes(self._session, self._transaction)
            if changes is None:
                raise SinkError(
                    f"transaction {self._transaction!r} isn't prepared: there is no staging table; "
                    "it was committed or aborted already"
                )
            self._changes = changes
            self._rows = self._sink.rows(changes.columns)
        return self._session

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _flush(self, session: SqlSession) -> None:
        rows = list(islice(self._pending, STAGE_ROWS))
        insert = self._changes.insert_staged()
        try:
            with session.transaction():
                session.run_for_each(insert, rows)
        except Exception as error:
            if not (is_database_error(error) or isinstance(error, _VALUE_ERRORS)):
                raise
            if not (self._sink.has_dead_letters and _is_about_values(error)):
                self._raise_for_the_row(session, insert, rows)
                raise
            self._stage_apart(session, insert, rows)
        del self._pending[: len(rows)]
        self._staged += len(rows)

    def _stage_apart(self, session: SqlSession, insert: str, rows: list[tuple[Any, ...]]) -> None:
        """Stage the rows one by one; those that can't be are staged to be moved aside by the commit."""
        with session.transaction():
            for row in rows:
                try:
                    with session.attempt():
                        session.run(insert, row)
                except Exception as error:
                    if not _is_about_values(error):
                        raise
                    refused = Rejected(dict(zip(self._changes.columns, row[4:])), row[1], self._sink.found(error))
                    why = refused.why.encode(errors="backslashreplace").decode().replace("\0", "\\0")
                    session.run(self._changes.insert_apart(), (row[0], refused.sign, refused.as_json(), why))

    def _raise_for_the_row(self, session: SqlSession, insert: str, rows: list[tuple[Any, ...]]) -> None:
        """Find the row that can't be staged, one by one, and raise; return if it isn't the fault of one."""
        for row in rows:
            try:
                with session.rehearsal():
                    session.run(insert, row)
            except Exception as error:
                if not _is_about_values(error):
                    return
                found = dict(zip(self._changes.columns, row[4:]))
                rejection = RejectedRecordError(
                    f"the row {shortened(found, 200)} doesn't fit: {self._sink.found(error)}"
                )
                rejection.record = shortened(found, 200)
                raise rejection from error


def _is_about_values(error: Exception) -> bool:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, _VALUE_ERRORS) or not kinds.isdisjoint(
        {"DataError", "IntegrityError", "ProgrammingError", "InterfaceError"}
    )
