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

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...sdk.errors import SinkError
from ...sdk.sink import SinkContext, SinkSpec
from ..sinks.dead_letters import Rejected, raise_for, tell
from ..sinks.opened_sink import OpenedSink
from .changes import PREFIX, TableChanges, in_schema_of, staging_table
from .committed_transactions import CommittedTransactions
from .database import SqlDatabase, SqlSession
from .dialect import MARK
from .named_table import NamedTable
from .rows import WINDOW_COLUMNS, Columns, TableRows
from .staging import TableSinkWriter


class TableSink(OpenedSink[NamedTable]):
    """A table, one row for each key.

    An element adds its row, which replaces the row with the same key.  A retraction deletes its row, if the table still
    has it.  The result of a transaction doesn't depend on the order of its rows.

    In columns of PostgreSQL's types jsonb and json, dicts, lists, numbers and booleans are written as JSON, and a
    string is JSON already.  Rows are compared as jsonb, which is what is written into columns of both types.

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
      transform: the name of the writing transform in errors of the arguments.
    """

    spec = SinkSpec(accepts_retractions=True, has_dead_letters=True)

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
        super().__init__()
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
        self._check(transform or type(self).__name__)

    def _check(self, transform: str) -> None:
        if not isinstance(self.table, str) or not self.table:
            raise ValueError(f"{transform}: expected the name of a table, got {self.table!r}")
        if self.columns is not None:
            for name in self.columns:
                if not isinstance(name, str):
                    raise TypeError(
                        f"{transform}: expected columns as names, or as a mapping of names to types, got {name!r} "
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
                    f"{transform}: the key {', '.join(self.key)} of table {self.table!r} is not all in "
                    f"the columns {', '.join(self.columns)}: {', '.join(unknown)} is missing"
                )
        if self.count_column is None and not self.key:
            raise ValueError(f"{transform}: table {self.table!r} needs a key: the columns that tell its rows apart")
        if self.count_column is not None and self.columns is not None:
            if self.count_column in self.columns:
                raise ValueError(f"{transform}: count_column {self.count_column!r} is one of the columns already")
            if set(self.key) != set(self.columns):
                raise ValueError(f"{transform}: with a count_column all columns are the key; leave `key` out")
        if self.row is not None and not callable(self.row):
            raise TypeError(f"{transform}: row must be a function from an element to a record, got {self.row!r}")

    def open_for(self, label: str) -> NamedTable:
        return NamedTable(label, self.database, f"table {self.table!r}", self.key)

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        return {"database": str(self.database), "table": self.table, "key": ", ".join(self.key)}

    def target(self) -> str:
        return f"{self.table} in {self.database}"

    # Two phases

    def prepare(self, context: SinkContext) -> None:
        def prepare(session: SqlSession) -> None:
            with session.transaction():
                for statement in session.dialect.one_definition_at_a_time():
                    session.run(statement)
                if self.changes(session, context) is not None:
                    # Staged before a crash, and possibly still to be committed.
                    return
                if self.create:
                    self._create(session)
                self._committed(session, context).make_table()
                changes = self.changes_to(session, context, self._columns_found(session))
                # With dead letters a refused row is staged, and the commit moves it.
                changes.make_tables(session, strictly=not context.dead_letters)
            # No row is staged yet, so this only checks the table.
            with session.rehearsal():
                changes.apply(session)

        self.opened(context).called("can't be written to", prepare)

    def open_writer(self, context: SinkContext) -> TableSinkWriter:
        changes = partial(self.changes, context=context)
        own = f"{context.unit} {os.urandom(8).hex()}"
        return TableSinkWriter(self.opened(context), changes, self.rows, context, own)

    def precommit(self, staged: Mapping[SinkContext, Sequence[tuple[str, int]]]) -> None:
        """Apply the staged rows and roll back."""

        def apply(session: SqlSession) -> None:
            with session.rehearsal():
                for statement in session.dialect.one_at_a_time(self.table):
                    session.run(statement)
                for context, tokens in staged.items():
                    is_empty = not any(rows for _, rows in tokens)
                    if not is_empty and context.transaction not in self._committed(session, context):
                        raise_for(self._apply(session, context, tokens))

        first = next(iter(staged))
        if not first.dead_letters:
            self.opened(first).called("can't be committed to", apply)

    def commit(self, context: SinkContext, staged: Sequence[tuple[str, int]]) -> None:
        """Apply the staged rows, and record the transaction."""
        transaction = context.transaction

        def commit(session: SqlSession) -> list[Rejected]:
            rejected: list[Rejected] = []
            committed = self._committed(session, context)
            with session.transaction():
                if transaction not in committed:
                    for statement in session.dialect.one_at_a_time(self.table):
                        session.run(statement)
                    # Checked again, now that no other process can commit it concurrently.
                    if transaction not in committed:
                        rejected = self._apply(session, context, staged)
                        if context.dead_letters:
                            self._move_aside(session, context, rejected)
                        else:
                            raise_for(rejected)
                        committed.add(transaction)
            with session.transaction():
                self.changes_to(session, context, ()).drop_tables(session)
            return rejected

        rejected = self.opened(context).called("can't be committed to", commit)
        tell(rejected, context.label, f"table {self.dead_letters!r}")

    def _apply(self, session: SqlSession, context: SinkContext, staged: Sequence[tuple[str, int]]) -> list[Rejected]:
        """Apply the staged rows to the table, and return the refused rows."""
        accepted = {unit: rows for unit, rows in staged if rows}
        changes = self.changes(session, context)
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

    def _move_aside(self, session: SqlSession, context: SinkContext, rejected: Sequence[Rejected]) -> None:
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
            [
                (context.transaction, context.label, self.table, each.as_json(), each.sign, each.why)
                for each in rejected
            ],
        )

    def abort(self, context: SinkContext) -> None:
        naming = self.opened(context).explained("can't be cleaned up", SinkError)
        with naming, self.database.session() as session, session.transaction():
            self.changes_to(session, context, ()).drop_tables(session)

    def changes_to(self, session: SqlSession, context: SinkContext, columns: Sequence[str]) -> TableChanges:
        """Return the statements of a transaction that writes these columns."""
        return TableChanges(
            self.table,
            staging_table(self.table, context.label, context.transaction),
            self.key or tuple(columns),
            tuple(columns),
            session.dialect,
            self.count_column,
            self.retracting,
            self.latest,
        )

    def changes(self, session: SqlSession, context: SinkContext) -> TableChanges | None:
        """Return the statements of a prepared transaction, or None if it isn't prepared."""
        staged = self.changes_to(session, context, ()).staged
        if not session.has_table(staged):
            return None
        columns = [name for name in session.columns_of(staged) if not name.startswith(PREFIX)]
        return self.changes_to(session, context, columns)

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

    def _committed(self, session: SqlSession, context: SinkContext) -> CommittedTransactions:
        return CommittedTransactions(session, self.table, context.label)


def _with_types(columns: Columns | None) -> dict[str, Any] | None:
    if columns is None:
        return None
    return dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
