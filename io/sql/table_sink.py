"""TableSink: a table that holds the latest row of each key.

The two phases, for every database:

1. Each worker (`TableSinkWriter`) inserts its signed rows into a staging table in the same database, which belongs to
   this transaction alone.
2. A commit is *one* transaction of the database: it applies the net effect of the staged rows to the table, and notes
   the transaction's id in `_penstock_transactions`. A commit that finds the id there has nothing to do, so committing
   again changes nothing.

A reader of the table sees the whole change or none of it. A crash leaves the staging table, under a name that begins
with `_penstock_`, until the transaction is committed or aborted.

Rows that the table refuses are detected before the commit is decided: the staging table has the conditions of the
table's columns, and `precommit` applies all rows in a transaction that is rolled back.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, ClassVar, NoReturn, TypeVar

from ...sdk.coders.coder import shortened
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import RejectedRecordError, SinkError
from ...sdk.sink import Sink, SinkWriter
from ..dead_letters import Rejected, raise_for, tell
from ..waiting import WAITS
from .changes import PREFIX, TableChanges, in_schema_of, staging_table
from .committed_transactions import CommittedTransactions
from .database import SqlDatabase, SqlSession
from .dialect import MARK, is_database_error
from .lost_connections import is_lost_connection
from .rows import WINDOW_COLUMNS, Columns, TableRows

T = TypeVar("T")

# Number of rows that a worker collects before it stages them.
STAGE_ROWS = 10_000

# Errors that drivers raise for a refused value, besides their own.
_VALUE_ERRORS = (OverflowError, TypeError, ValueError)


class TableSink(Sink[Any]):
    """A table, one row for each key.

    An element adds its row, which replaces the row with the same key.  A retraction deletes its row, if the table still
    has it.  The result of a transaction doesn't depend on the order of its rows.

    Args:
      database: the database of the table.
      table: its name, with or without its schema.
      key: the column or columns that identify a row.  The table has a primary key or a unique constraint on them.
      columns: the columns to write, as names or as names and types; None for all columns of the table.
      row: a function from an element to a record, or to the values of the columns in order.  Without it, elements are
        records or (key, value) pairs.
      with_window: writes the window, the timestamp and the pane as well: see `WINDOW_COLUMNS`.  An element in several
        windows has a row for each.
      latest: without retractions, writes the row of the latest window, pane and timestamp of several rows with one key.
        Otherwise the row of the latest pane is written, and rows of different windows, or of the same pane, are an
        error.
      count_column: the column with the number of equal rows.  All other columns are the key then, so that no key has
        several rows.
      create: creates the table if it doesn't exist.
      retracting: whether rows are retracted before others replace them, so that a second row of a key is an error in
        any pane.  Derived from the pipeline.
      transform: the name of the writing transform in errors.
    """

    accepts_retractions: ClassVar[bool] = True
    # True if a commit writes refused rows to dead letters instead of failing.
    has_dead_letters = False

    def __init__(
        self,
        database: SqlDatabase,
        table: str,
        key: str | Sequence[str] | None = None,
        columns: Columns | None = None,
        *,
        row: Callable[[Any], Any] | None = None,
        with_window: bool = False,
        latest: bool = False,
        count_column: str | None = None,
        create: bool = True,
        retracting: bool = False,
        transform: str = "",
    ) -> None:
        self.transform = transform or type(self).__name__
        self.database = database
        self.table = table
        self.key = (key,) if isinstance(key, str) else tuple(key or ())
        self.columns = _with_types(columns)
        self.row = row
        self.with_window = with_window
        self.latest = latest
        self.count_column = count_column
        self.create = create
        self.retracting = retracting
        # True if this process has reached the database.
        self._is_known = False
        self._check()

    def _check(self) -> None:
        if not isinstance(self.table, str) or not self.table:
            raise ValueError(f"{self.transform}: expected the name of a table, got {self.table!r}")
        if self.columns is not None:
            for name in self.columns:
                if not isinstance(name, str):
                    raise TypeError(
                        f"{self.transform}: expected columns as names, or as a mapping of names to types, got {name!r} "
                        "among them"
                    )
            if self.with_window:
                # These columns come last, in this order.
                self.columns = {n: t for n, t in self.columns.items() if n not in WINDOW_COLUMNS} | WINDOW_COLUMNS
            if self.count_column is not None and not self.key:
                self.key = tuple(self.columns)
            unknown = [name for name in self.key if name not in self.columns]
            if unknown:
                raise ValueError(
                    f"{self.transform}: the key {', '.join(self.key)} of table {self.table!r} is not all in "
                    f"the columns {', '.join(self.columns)}: {', '.join(unknown)} is missing"
                )
        if self.count_column is None and not self.key:
            raise ValueError(
                f"{self.transform}: table {self.table!r} needs a key: the columns that tell its rows apart"
            )
        if self.count_column is not None and self.columns is not None:
            if self.count_column in self.columns:
                raise ValueError(f"{self.transform}: count_column {self.count_column!r} is one of the columns already")
            if set(self.key) != set(self.columns):
                raise ValueError(f"{self.transform}: with a count_column all columns are the key; leave `key` out")
        if self.row is not None and not callable(self.row):
            raise TypeError(f"{self.transform}: row must be a function from an element to a record, got {self.row!r}")

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        return {"database": str(self.database), "table": self.table, "key": ", ".join(self.key)}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_is_known": False}

    # Two phases

    def prepare(self, transaction: str) -> None:
        def prepare(session: SqlSession) -> None:
            with session.transaction():
                for statement in session.dialect.one_definition_at_a_time():
                    session.run(statement)
                if self.changes(session, transaction) is not None:
                    # Staged before a crash, and possibly still to be committed.
                    return
                if self.create:
                    self._create(session)
                self._committed(session).make_table()
                changes = self.changes_to(session, transaction, self._columns_found(session))
                # With dead letters a refused row is staged, and the commit moves it.
                changes.make_tables(session, strictly=not self.has_dead_letters)
            # No row is staged yet, so this only checks the table.
            with session.rehearsal():
                changes.apply(session)

        self._reached("can't be written to", prepare)

    def open_writer(self, transaction: str, unit: str) -> TableSinkWriter:
        return TableSinkWriter(self, transaction, f"{unit} {os.urandom(8).hex()}")

    def with_dead_letters(self) -> TableSink:
        sink = copy.copy(self)
        sink.has_dead_letters = True
        return sink

    def precommit(self, transactions: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        """Apply the staged rows and roll back."""

        def apply(session: SqlSession) -> None:
            committed = self._committed(session)
            with session.rehearsal():
                for statement in session.dialect.one_at_a_time(self.table):
                    session.run(statement)
                for transaction, staged in transactions.items():
                    if any(rows for _, rows in staged) and transaction not in committed:
                        raise_for(self._apply(session, transaction, staged))

        if not self.has_dead_letters:
            self._reached("can't be committed to", apply)

    def commit(self, transaction: str, staged: Sequence[tuple[str, int]]) -> None:
        """Apply the staged rows, and record the transaction."""

        def commit(session: SqlSession) -> list[Rejected]:
            rejected: list[Rejected] = []
            committed = self._committed(session)
            with session.transaction():
                if transaction not in committed:
                    for statement in session.dialect.one_at_a_time(self.table):
                        session.run(statement)
                    # Checked again, now that no other process can commit it concurrently.
                    if transaction not in committed:
                        rejected = self._apply(session, transaction, staged)
                        if self.has_dead_letters:
                            self._move_aside(session, transaction, rejected)
                        else:
                            raise_for(rejected)
                        committed.add(transaction)
            with session.transaction():
                self.changes_to(session, transaction, ()).drop_tables(session)
            return rejected

        rejected = self._reached("can't be committed to", commit)
        tell(rejected, self.transform, f"table {self.dead_letters!r}")

    def _apply(self, session: SqlSession, transaction: str, staged: Sequence[tuple[str, int]]) -> list[Rejected]:
        """Apply the staged rows to the table, and return the refused rows."""
        accepted = {unit: rows for unit, rows in staged if rows}
        changes = self.changes(session, transaction)
        if changes is None:
            if accepted:
                raise SinkError(
                    "its staged rows are missing. "
                    "Another program removed the staging table before the commit; run the pipeline again"
                )
            return []
        changes.keep_units(session, accepted)
        for statement in session.dialect.all_constraints_now():
            session.run(statement)
        return changes.apply(session)

    @property
    def dead_letters(self) -> str:
        """Return the name of the table of refused rows, which commits move there."""
        return in_schema_of(self.table, f"{PREFIX}dead_letters")

    def _move_aside(self, session: SqlSession, transaction: str, rejected: Sequence[Rejected]) -> None:
        if not rejected:
            return
        kind, table = session.dialect.name_type, session.dialect.quoted(self.dead_letters)
        session.run(
            f"CREATE TABLE IF NOT EXISTS {table} (transaction_id {kind} NOT NULL, transform {kind} NOT NULL, "
            f"table_name {kind} NOT NULL, record TEXT NOT NULL, sign INTEGER NOT NULL, reason TEXT NOT NULL, "
            "moved_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)"
        )
        columns = "transaction_id, transform, table_name, record, sign, reason"
        session.run_for_each(
            f"INSERT INTO {table} ({columns}) VALUES ({', '.join([MARK] * 6)})",
            [(transaction, self.transform, self.table, each.as_json(), each.sign, each.why) for each in rejected],
        )

    def abort(self, transaction: str) -> None:
        with self.naming_the_table("can't be cleaned up"), self.database.session() as session, session.transaction():
            self.changes_to(session, transaction, ()).drop_tables(session)

    def changes_to(self, session: SqlSession, transaction: str, columns: Sequence[str]) -> TableChanges:
        """Return the statements of a transaction that writes these columns."""
        return TableChanges(
            self.table,
            staging_table(self.table, self.transform, transaction),
            self.key or tuple(columns),
            tuple(columns),
            session.dialect,
            self.count_column,
            self.retracting,
            self.latest,
        )

    def changes(self, session: SqlSession, transaction: str) -> TableChanges | None:
        """Return the statements of a prepared transaction, or None if it isn't prepared."""
        staged = self.changes_to(session, transaction, ()).staged
        if not session.has_table(staged):
            return None
        columns = [name for name in session.columns_of(staged) if not name.startswith(PREFIX)]
        return self.changes_to(session, transaction, columns)

    def rows(self, columns: Sequence[str]) -> TableRows:
        """Return the conversion of elements to rows with these columns."""
        types = self.columns or dict.fromkeys(columns) | (WINDOW_COLUMNS if self.with_window else {})
        return TableRows(
            self.key or tuple(columns), {n: types[n] for n in columns}, self.row, self.with_window, self.latest
        )

    # Tables

    def _create(self, session: SqlSession) -> None:
        if session.has_table(self.table):
            return
        if self.columns is None:
            raise SinkError("there is no such table; name its columns in `columns` to have it made")
        q = session.dialect.quoted
        lines = []
        for name, kind in self.columns.items():
            of_type = session.dialect.column_type(kind) if kind is not None else ""
            if of_type is None or (kind is None and session.dialect.needs_types):
                raise SinkError(
                    f"there is no such table, and column {name!r} has no type to make one ({kind!r}); "
                    f"give its type in `columns`, as in columns={{{name!r}: str}}, or in SQL"
                )
            lines.append(f"{q(name)} {of_type}".rstrip() + (" NOT NULL" if name in self.key else ""))
        if self.count_column is not None:
            lines.append(f"{q(self.count_column)} {session.dialect.column_type(int)} NOT NULL")
        lines.append(f"PRIMARY KEY ({', '.join(map(q, self.key))})")
        session.run(f"CREATE TABLE {q(self.table)} ({', '.join(lines)})")

    def _columns_found(self, session: SqlSession) -> tuple[str, ...]:
        """Return the columns to write, all of which the table has."""
        if not session.has_table(self.table):
            raise SinkError("there is no such table; make it, or let it be made by create=True")
        found = session.columns_of(self.table)
        wanted = tuple(self.columns or (name for name in found if name != self.count_column))
        needed = [*self.key, *wanted, *(WINDOW_COLUMNS if self.with_window else ())]
        needed += [self.count_column] if self.count_column is not None else []
        missing = [name for name in dict.fromkeys(needed) if name not in found]
        if missing:
            raise SinkError(f"it has the columns {_listed(found)}, but not {_listed(missing)}")
        if self.columns is None and self.with_window:
            wanted = (*(name for name in wanted if name not in WINDOW_COLUMNS), *WINDOW_COLUMNS)
        return wanted

    def _committed(self, session: SqlSession) -> CommittedTransactions:
        return CommittedTransactions(session, self.table, self.transform)

    # Errors

    def _reached(self, what: str, call: Callable[[SqlSession], T]) -> T:
        """Return the result of a call with a connection, whose errors name the table and the database.

        Once this process has reached the database, a lost one is waited for.
        """

        def connected() -> T:
            with self.database.session() as session:
                return call(session)

        with self.naming_the_table(what):
            found = self.database.patiently(self.transform, connected, WAITS if self._is_known else 0)
            self._is_known = True
            return found

    @contextmanager
    def naming_the_table(self, what: str) -> Iterator[None]:
        """Convert a database's errors into a `SinkError` that names the transform and the table."""
        try:
            yield
        except SinkError as error:
            if error.transform:
                raise
            self._raise(what, str(error), error.__cause__, getattr(error, "record", None))
        except Exception as error:
            if not is_database_error(error):
                raise
            self._raise(what, self.found(error), error)

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

    def _raise(self, what: str, found: str, cause: BaseException | None, record: str | None = None) -> NoReturn:
        text = f"{self.transform}: table {self.table!r} in {self.database} {what}: {found}"
        error = SinkError(text)
        if record is not None:
            error = rejection = RejectedRecordError(text)
            rejection.record = record
        error.transform = self.transform
        raise error from self.database.shown_cause(cause)


def _with_types(columns: Columns | None) -> dict[str, Any] | None:
    if columns is None:
        return None
    return dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


class TableSinkWriter(SinkWriter[Any]):
    """Writer that stages one worker's rows, some thousands in a transaction."""

    def __init__(self, sink: TableSink, transaction: str, unit: str) -> None:
        self._sink = sink
        self._transaction = transaction
        self._unit = unit
        self._session: SqlSession | None = None
        self._pending: list[tuple[Any, ...]] = []
        self._staged = 0
        # True if the connection was lost since rows were staged.
        self._was_lost = False

    def write(self, bundle: Bundle) -> None:
        with self._sink.naming_the_table("can't be written"):
            dialect = self._patiently(self._opened).dialect
            for change in self._rows.changes(bundle, dialect):
                self._pending.append((self._unit, change.sign, change.window, change.order, *change.values))
            while len(self._pending) >= STAGE_ROWS:
                self._patiently(self._flush)

    def stage(self) -> tuple[str, int]:
        with self._sink.naming_the_table("can't be written"):
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

        return self._sink.database.patiently(self._sink.transform, connected)

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
            if not (self._sink.has_dead_letters and _is_about_values(error)):
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
                    refused = Rejected(dict(zip(self._changes.columns, row[4:])), row[1], self._sink.found(error))
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
