"""TableSnapshot: the rows that tables had at one position in the log, read in parts, at any time later.

A part is read in the order of the primary key, in a transaction that may have begun long after that position.  The
changes in between are in the slot, with the former rows: so those that the transaction sees are undone.  Whenever a
part is read, its rows are those that the tables had at the position where the slot begins, and all parts are of this
one moment.  So the position in a snapshot is a table and a key; and the changes behind the snapshot are exactly those
of the slot.

Netflix's DBLog and Debezium's incremental snapshots interleave parts with the changes instead, which needs a table of
marks, and gives no moment at which all rows were valid.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from .pgoutput import Begin, Change, Relation, Truncate, Values, is_change, message_of
from .postgres_slot import ReplicationSlot
from .postgres_tables import RowReader, Table

# The texts of a primary key.
Key = tuple[str, ...]


def earlier_ended(control: Any, begun: int) -> bool:
    """Return whether transactions have ended whose commits may be in the log before the slot's begin.

    Until then a snapshot may not see them.

    Args:
      begun: the id of the first transaction that was begun later.
    """
    (first,) = control.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::numeric::int8").fetchone()
    return bool(first >= begun)


class TableSnapshot:
    """A transaction that reads rows, with the changes to undo.  It is begun once `earlier_ended`.

    Args:
      connection: for the transaction alone.
      control: another connection, which reads the slot.
      readers: of the rows, by table.
    """

    def __init__(self, slot: ReplicationSlot, connection: Any, control: Any, readers: Sequence[RowReader]) -> None:
        self._connection = connection
        self._readers = readers
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # The position is later than the snapshot: the commits that the snapshot sees are before it.
        snapshot, inserted = connection.execute(
            "SELECT pg_current_snapshot()::text, (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::int8"
        ).fetchone()
        (block,) = connection.execute("SELECT current_setting('wal_block_size')::int").fetchone()
        # By table: the rows by key before the slot's first change of them; None for no row.
        self._before: list[dict[Key, Values | None]] = [{} for _ in readers]
        end = _end_of_records(inserted, block)
        self._wait_until_durable(control, end)
        self._collect(slot, control, end, Visible.of(snapshot))

    def read(self, table: int, after: Key | None, upto: Key | None, limit: int) -> tuple[list[Any], Key | None]:
        """Return rows of a table, at most `limit`, and the key of the last; None if there are no more.

        Args:
          after: the key after which they begin; None for the first row.
          upto: the key with which they end; None for the last row.
        """
        reader = self._readers[table]
        found = self._found(reader.table, after, upto, limit)
        last = reader.key(found[-1]) if len(found) == limit else upto
        is_last = len(found) < limit
        if self._before[table]:
            found, last_key = self._undone(table, found, after, last, limit)
            if last_key is not None:
                last, is_last = last_key, False
        return [reader.row(values) for values in found], None if is_last else last

    def close(self) -> None:
        """End the transaction."""
        self._connection.close()

    def _found(self, table: Table, after: Key | None, upto: Key | None, limit: int) -> list[Values]:
        names = ", ".join(_quoted(name) for name, _ in table.columns)
        where, parameters = _range(table, [_quoted(name) for name, _ in table.key], after, upto)
        order = ", ".join(_quoted(name) for name, _ in table.key)
        of_table = table.quoted.replace("%", "%%")
        sql = f"SELECT {names} FROM ONLY {of_table}{where} ORDER BY {order} LIMIT {limit}"
        result = self._connection.execute(sql, parameters).pgresult
        columns = range(len(table.columns))
        return [[result.get_value(row, column) for column in columns] for row in range(result.ntuples)]

    def _undone(
        self, table: int, found: list[Values], after: Key | None, last: Key | None, limit: int
    ) -> tuple[list[Values], Key | None]:
        """Return the rows of a range as they were, and the key of the last if the limit cuts them off.

        Args:
          last: the end of the range; None for the end of the table.
        """
        reader, before = self._readers[table], self._before[table]
        rows: dict[Key, Values | None] = {reader.key(values): values for values in found}
        rows |= before
        keys = list(rows)
        of_table = reader.table
        names = [f"k{i}" for i in range(len(of_table.key))]
        where, parameters = _range(of_table, names, after, last)
        arrays = ", ".join(f"%s::{kind}[]" for _, kind in of_table.key)
        sql = f"SELECT place FROM unnest({arrays}) WITH ORDINALITY AS u({', '.join(names)}, place){where} ORDER BY "
        columns = [[key[i] for key in keys] for i in range(len(names))]
        ordered = self._connection.execute(sql + ", ".join(names), [*columns, *parameters]).fetchall()
        undone: list[Values] = []
        for (number,) in ordered:
            key = keys[number - 1]
            values = rows[key]
            if values is not None:
                undone.append(values)
                if len(undone) == limit:
                    return undone, key
        return undone, None

    def _wait_until_durable(self, control: Any, lsn: int) -> None:
        """Wait until the commits that the snapshot sees are durable, and so readable from the slot."""
        # A commit of our own is flushed at once, and all that is before it; other records may wait for seconds.
        control.execute("SELECT pg_logical_emit_message(true, 'penstock', '')")
        while control.execute("SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::int8").fetchone()[0] < lsn:
            time.sleep(0.02)

    def _collect(self, slot: ReplicationSlot, control: Any, end: int, visible: Visible) -> None:
        tables = {reader.table.oid: number for number, reader in enumerate(self._readers)}
        sees = False
        for data in slot.waiting_for_readers(lambda: slot.peek(control, end, None)).messages():
            if not sees and is_change(data):
                continue
            message = message_of(data)
            if isinstance(message, Begin):
                sees = visible.sees(message.xid)
            elif isinstance(message, Relation) and message.oid in tables:
                self._readers[tables[message.oid]].follow(message)
            elif isinstance(message, Truncate) and sees:
                raise truncated(slot, [self._readers[tables[oid]].table for oid in message.oids if oid in tables])
            elif isinstance(message, Change) and message.oid in tables:
                self._note(tables[message.oid], message)

    def _note(self, table: int, change: Change) -> None:
        reader, before = self._readers[table], self._before[table]
        old = None if change.old is None else reader.values(change.old)
        if old is None and change.kind != "I":
            raise missing_former_row(reader)
        if change.new is not None:
            # Of an insert, or of an update that changes the key: before it there was no row.
            key = reader.key(reader.values(change.new))
            if old is None or reader.key(old) != key:
                before.setdefault(key, None)
        if old is not None:
            before.setdefault(reader.key(old), old)


class Visible:
    """The transactions that a snapshot sees.

    >>> visible = Visible.of("4294967300:4294967310:4294967305")
    >>> [visible.sees(xid) for xid in (4294967295, 3, 9, 13, 14)]
    [True, True, False, True, False]
    """

    def __init__(self, first: int, end: int, running: frozenset[int]) -> None:
        self._first = first
        self._end = end
        self._running = running

    @staticmethod
    def of(snapshot: str) -> Visible:
        """Return those of the text of a `pg_snapshot`."""
        first, end, running = snapshot.split(":")
        return Visible(int(first), int(end), frozenset(map(int, filter(None, running.split(",")))))

    def sees(self, xid: int) -> bool:
        """Return whether a committed transaction is visible.

        Args:
          xid: the lower 32 bits of its id, which is less than 2**31 away from the snapshot's.
        """
        whole = self._end + ((xid - self._end + 2**31) % 2**32 - 2**31)
        return whole < self._first or (whole < self._end and whole not in self._running)


def truncated(slot: ReplicationSlot, tables: Sequence[Table]) -> Exception:
    """Return the error for tables of which all rows were removed."""
    names = ", ".join(repr(table.name) for table in tables)
    return slot.server.error(
        f"{names} was truncated, and the log doesn't have the rows that a truncate removes, so that they can't be "
        "retracted; use DELETE instead, and begin again, with a new slot and without the checkpoint"
    )


def missing_former_row(reader: RowReader) -> Exception:
    """Return the error for an update or delete without its former row."""
    table = reader.table
    return reader.server.error(
        f"an update or delete of table {table.name!r} was logged without the former row, which is to be retracted; run "
        f"ALTER TABLE {table.quoted} REPLICA IDENTITY FULL, and begin again, with a new slot and without the checkpoint"
    )


def _end_of_records(inserted: int, block: int) -> int:
    """Return the end of the last record before the position of the next one, which may be after the head of a block."""
    return inserted - inserted % block if inserted % block <= 40 else inserted


def _range(table: Table, names: Sequence[str], after: Key | None, upto: Key | None) -> tuple[str, list[str]]:
    """Return a WHERE clause and its parameters."""
    marks = ", ".join(f"%s::{kind}" for _, kind in table.key)
    conditions: list[str] = []
    parameters: list[str] = []
    for operator, key in ((">", after), ("<=", upto)):
        if key is not None:
            conditions.append(f"({', '.join(names)}) {operator} ({marks})")
            parameters += key
    return f" WHERE {' AND '.join(conditions)}" if conditions else "", parameters


def _quoted(name: str) -> str:
    """Return a column's name in SQL with parameters, where a percent sign is doubled."""
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'
