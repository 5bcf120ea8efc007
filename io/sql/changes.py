"""TableChanges: the SQL that stages signed rows, finds their net effect, and applies it.

Rows are staged as a *signed multiset*: each with +1 or -1, in a staging table whose columns have the types of the
target table, so that values are equal in both or in neither.  The net effect does not depend on the rows' order:

    key  row  sign          key  row  net
    ann  3    +1            ann  3      0     cancelled
    ann  3    -1     ->     ann  4      1     written to the table
    ann  4    +1            bob  1     -1     deleted, if the table has this row
    bob  1    -1

One INSERT ... SELECT into a second table computes the net effects, and two or three statements more apply them, in one
transaction.  No row travels to the committing process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Protocol

from ...frozen import frozen
from ...sdk.errors import SinkError
from ..sinks.dead_letters import Rejected
from .database import SqlSession
from .dialect import MARK, SqlDialect, is_about_a_row

# Prefix of the columns of the staging tables.  User columns may not have it.
PREFIX = "_penstock_"
_STAGED = {"unit": "TEXT", "sign": "INTEGER", "window": "TEXT", "order": "VARCHAR(50)"}
# A row that its columns refuse, as JSON, and the reason: staged for the dead letters.
_APART = {"refused": "TEXT", "reason": "TEXT"}
# Conditions on staged rows belong to the last of these columns, when all others exist.
_LAST_STAGED = "order"
_NET = {
    # The sum of the signs of equal rows; negative for a retraction.
    "net": "BIGINT",
    # Of all rows with its key: the number that is left, the number of different rows, and the number of retractions.
    "left": "BIGINT",
    "kinds": "BIGINT",
    "retractions": "BIGINT",
    # Of all rows with its key that are left: the least and the greatest window.
    "first": "TEXT",
    "last": "TEXT",
    # 1 for the latest of the rows with its key that are left.
    "place": "BIGINT",
    # 1 for a retraction of a row that the table has.
    "found": "INTEGER",
    # The number of its key in the order of keys; 0 until keys are numbered.
    "number": "BIGINT",
}


def staging_table(table: str, *identity: str) -> str:
    """Return the name of a transaction's staging table, in the schema of the target table."""
    digest = hashlib.blake2s("\0".join((table, *identity)).encode(), digest_size=10).hexdigest()
    return in_schema_of(table, f"{PREFIX}staged_{digest}")


def in_schema_of(table: str, name: str) -> str:
    """Return the name of a table in the schema of another table.

    >>> in_schema_of("reports.sales", "regions"), in_schema_of("sales", "regions")
    ('reports.regions', 'regions')
    """
    schema, dot, _table = table.rpartition(".")
    return schema + dot + name


class _Change(Protocol):
    """A change of the target table by selected net effects."""

    def __call__(self, session: SqlSession, which: str, parameters: tuple[Any, ...] = ()) -> None: ...


@frozen
class TableChanges:
    """The statements of one transaction on one table.

    Attributes:
      table: the target table, with or without its schema.
      staged: the staging table.
      key: the columns that identify a row.
      columns: all written columns, the key's included.
      dialect: the dialect of the database.
      count_column: the column with the number of equal rows; None for at most one.
      retracting: whether a row is always retracted before another replaces it.
      latest: whether the latest of several rows with one key is written, in whatever window.
    """

    table: str
    staged: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    dialect: SqlDialect
    count_column: str | None = None
    retracting: bool = False
    latest: bool = False

    @property
    def net(self) -> str:
        """Return the name of the table of net effects."""
        return self.staged.replace(f"{PREFIX}staged_", f"{PREFIX}net_")

    # Before and after

    def make_tables(self, session: SqlSession, strictly: bool = True) -> None:
        """Make the tables of staged rows and of net effects, with the target table's columns.

        Args:
          strictly: gives the staging table the conditions of the target table.  They apply to additions only, since a
            retracted row was accepted before.
        """
        q = self.dialect.quoted
        # The type json has no equality.
        as_jsonb = session.json_columns(self.table, "json")
        compared = [name for name in self.columns if name not in as_jsonb]
        conditions = session.conditions_of(self.table, compared) if strictly else {}
        selected = ", ".join(f"{q(name)}::jsonb AS {q(name)}" if name in as_jsonb else q(name) for name in self.columns)
        checks = "".join(
            f" CONSTRAINT {q(name.replace('.', '_'))} CHECK ({self._o('sign')} < 0 OR ({condition}))"
            for name, condition in conditions.items()
        )
        for name, own in ((self.staged, _APART | _STAGED), (self.net, _NET)):
            session.run(f"CREATE TABLE {q(name)} AS SELECT {selected} FROM {q(self.table)} WHERE 1 = 0")
            for column, kind in own.items():
                checked = checks if name == self.staged and column == _LAST_STAGED else ""
                session.run(f"ALTER TABLE {q(name)} ADD COLUMN {q(PREFIX + column)} {kind}{checked}")

    def drop_tables(self, session: SqlSession) -> None:
        """Remove both tables, if they exist."""
        for name in (self.staged, self.net):
            session.run(f"DROP TABLE IF EXISTS {self.dialect.quoted(name)}")

    # The first phase

    def insert_staged(self) -> str:
        """Return the statement that stages a row: unit, sign, window, order, then the values."""
        names = [*self._own(_STAGED), *map(self.dialect.quoted, self.columns)]
        return (
            f"INSERT INTO {self.dialect.quoted(self.staged)} ({', '.join(names)}) "
            f"VALUES ({', '.join([MARK] * len(names))})"
        )

    def insert_apart(self) -> str:
        """Return the statement that stages a dead letter: unit, sign, the row as JSON, the reason."""
        names = self._own(["unit", "sign", *_APART])
        return f"INSERT INTO {self.dialect.quoted(self.staged)} ({', '.join(names)}) VALUES ({', '.join([MARK] * 4)})"

    def keep_units(self, session: SqlSession, accepted: Mapping[str, int]) -> None:
        """Remove rows of units that aren't accepted.  Raises `SinkError` if rows of an accepted unit are missing."""
        staged, unit = self.dialect.quoted(self.staged), self._own(["unit"])[0]
        found = dict(session.run(f"SELECT {unit}, COUNT(*) FROM {staged} GROUP BY {unit}"))
        for name in found.keys() - accepted.keys():
            session.run(f"DELETE FROM {staged} WHERE {unit} = {MARK}", (name,))
        lost = sum(rows - found.get(name, 0) for name, rows in accepted.items())
        if lost:
            raise SinkError(
                f"{lost} of {sum(accepted.values())} staged rows are gone. "
                "Another program removed them before the commit; run the pipeline again"
            )

    # The second phase

    def apply(self, session: SqlSession) -> list[Rejected]:
        """Apply the staged rows to the table, and return the refused rows.

        Refused are rows that violate a constraint of the table, all rows of a key that would have several, and the
        staged dead letters.
        """
        rejected = self._staged_apart(session)
        self._find_net_effect(session)
        if self.count_column is None:
            rejected += self._leave_out_ambiguous_keys(session)
            self._find_retracted_rows(session)
            gone, rows = f"{self._o('found')} = 1", f"{self._o('net')} > 0 AND {self._o('place')} = 1"
        else:
            rejected += self._add_counts(session)
            gone, rows = f"{self._o('net')} = 0", f"{self._o('net')} > 0"
        rejected += self._change(session, self._delete, gone, -1)
        return rejected + self._change(session, self._upsert, rows, +1)

    def _staged_apart(self, session: SqlSession) -> list[Rejected]:
        refused, reason = self._own(_APART)
        net = f"SUM({self._o('sign')})"
        found = session.run(
            f"SELECT {refused}, {reason}, {net} FROM {self.dialect.quoted(self.staged)} "
            f"WHERE {refused} IS NOT NULL GROUP BY {refused}, {reason} HAVING {net} <> 0 ORDER BY {refused}"
        )
        return [
            Rejected(json.loads(record), 1 if times > 0 else -1, why)
            for record, why, times in found
            for _ in range(abs(times))
        ]

    def _change(self, session: SqlSession, change: _Change, which: str, sign: int) -> list[Rejected]:
        """Apply net effects to the table, and return the refused ones.

        Refused keys are found by bisection, which takes few statements for each.
        """
        if self._refusal(session, change, which) is None:
            return []
        self._number_keys(session)
        net, number, names = self.dialect.quoted(self.net), self._o("number"), self._names(self.columns)
        numbers = [n for (n,) in session.run(f"SELECT DISTINCT {number} FROM {net} WHERE {which} ORDER BY {number}")]
        rejected: list[Rejected] = []
        waiting = [numbers]
        while waiting:
            keys = waiting.pop()
            run, bounds = f"{which} AND {number} BETWEEN {MARK} AND {MARK}", (keys[0], keys[-1])
            refusal = self._refusal(session, change, run, bounds)
            if refusal is None:
                continue
            if len(keys) > 1:
                half = len(keys) // 2
                waiting += [keys[half:], keys[:half]]
                continue
            why = " ".join(str(refusal).split())
            rows = session.run(f"SELECT {names} FROM {net} WHERE {run}", bounds)
            rejected += [Rejected(dict(zip(self.columns, row)), sign, why) for row in rows]
        return rejected

    def _refusal(
        self, session: SqlSession, change: _Change, which: str, parameters: tuple[Any, ...] = ()
    ) -> Exception | None:
        """Apply net effects to the table.  If one is refused, change nothing and return the error."""
        try:
            with session.attempt():
                change(session, which, parameters)
        except Exception as error:
            if not is_about_a_row(error):
                raise
            return error
        return None

    def _number_keys(self, session: SqlSession) -> None:
        """Number the keys of the net effects.

        A number identifies a key of any type.  A value that was read doesn't: PostgreSQL's 0.1 of type REAL is read as
        a float that isn't equal to it.
        """
        net, number = self.dialect.quoted(self.net), self._o("number")
        if session.run(f"SELECT 1 FROM {net} WHERE {number} > 0"):
            return
        own = [self._o(name) for name in _NET if name != "number"]
        names = ", ".join([self._names(self.columns), *own])
        rank = f"DENSE_RANK() OVER (ORDER BY {self._names(self.key)})"
        session.run(f"INSERT INTO {net} ({names}, {number}) SELECT {names}, {rank} FROM {net}")
        session.run(f"DELETE FROM {net} WHERE {number} = 0")
        if self.dialect.has_transactional_definitions:
            index = self.dialect.quoted(self.net.rpartition(".")[2] + "_number")
            session.run(f"CREATE INDEX {index} ON {net} ({number})")

    def _find_net_effect(self, session: SqlSession) -> None:
        o, q = self._o, self.dialect.quoted
        names, key = self._names(self.columns), self._names(self.key)
        added, retracted = f"{o('sign')} > 0", f"{o('sign')} < 0"
        sums = (
            f"SELECT {names}, SUM({o('sign')}) AS {o('net')}, "
            f"SUM(CASE WHEN {retracted} THEN 1 ELSE 0 END) AS {o('retractions')}, "
            f"MIN(CASE WHEN {added} THEN {o('window')} END) AS {o('first')}, "
            f"MAX(CASE WHEN {added} THEN {o('window')} END) AS {o('last')}, "
            f"MAX(CASE WHEN {added} THEN {o('order')} END) AS {o('order')} "
            f"FROM {q(self.staged)} WHERE {o('refused')} IS NULL GROUP BY {names}"
        )
        is_left = f"CASE WHEN {o('net')} > 0 THEN"
        of_key = f"OVER (PARTITION BY {key})"
        place = f"ORDER BY {is_left} {o('order')} ELSE '' END DESC"
        session.run(f"DELETE FROM {q(self.net)}")
        session.run(
            f"INSERT INTO {q(self.net)} ({names}, {', '.join(self._own(_NET))}) "
            f"SELECT {names}, {o('net')}, SUM({is_left} {o('net')} ELSE 0 END) {of_key}, "
            f"SUM({is_left} 1 ELSE 0 END) {of_key}, SUM({o('retractions')}) {of_key}, "
            f"MIN({is_left} {o('first')} END) {of_key}, MAX({is_left} {o('last')} END) {of_key}, "
            f"RANK() OVER (PARTITION BY {key} {place}), 0, 0 FROM ({sums}) sums"
        )

    def _leave_out_ambiguous_keys(self, session: SqlSession) -> list[Rejected]:
        """Remove the rows of each key that would have several, and return them."""
        o = self._o
        retracting = "1 = 1" if self.retracting else f"{o('retractions')} > 0"
        ambiguous = f"({o('left')} > 1 AND {retracting})"
        if not self.latest:
            ambiguous += f" OR ({o('kinds')} > 1 AND {o('first')} <> {o('last')})"
        net, number = self.dialect.quoted(self.net), o("number")
        left = f"FROM {net} WHERE {o('net')} > 0"
        several = (
            f"{left} AND NOT ({ambiguous}) AND {o('place')} = 1 GROUP BY {self._names(self.key)} HAVING COUNT(*) > 1"
        )
        found = session.run(f"SELECT 1 {left} AND ({ambiguous})") or session.run(f"SELECT 1 {several}")
        if not found:
            return []
        self._number_keys(session)
        numbers = session.run(f"SELECT DISTINCT {number} {left} AND ({ambiguous})")
        numbers += session.run(f"SELECT MIN({number}) {several}")
        rejected = []
        for of_key in numbers:
            rows = session.run(
                f"SELECT {self._names(self.columns)}, {o('net')}, {o('left')}, {o('first')}, {o('last')} "
                f"{left} AND {number} = {MARK} ORDER BY {o('place')}",
                of_key,
            )
            why = self._ambiguous(rows[:2])
            rejected += [Rejected(dict(zip(self.columns, row)), +1, why) for row in rows for _ in range(row[-4])]
            session.run(f"DELETE {left} AND {number} = {MARK}", of_key)
            # The rows that they replace are deleted all the same.
            session.run(f"UPDATE {net} SET {o('left')} = 0 WHERE {number} = {MARK}", of_key)
        return rejected

    def _ambiguous(self, rows: list[Any]) -> str:
        *_values, _net, left, first, last = rows[0]
        key = {name: value for name, value in zip(self.columns, rows[0]) if name in self.key}
        shown = " and ".join(f"{dict(zip(self.columns, row))} ({row[-4]} times)" for row in rows)
        windows = f", of windows from {first} to {last}" if first != last else ""
        return (
            f"the key is not unique: {left} rows are left for {key}{windows}, such as {shown}. "
            "Add what distinguishes them to the key (with_window=True adds columns of the window)"
            + (", or keep the latest of them by latest=True" if not self.retracting else "")
            + ", or count equal rows in a count_column"
        )

    def _find_retracted_rows(self, session: SqlSession) -> None:
        o, q = self._o, self.dialect.quoted
        table, net = q(self.table), q(self.net)
        same = [f"{table}.{q(name)} = {net}.{q(name)}" for name in self.key]
        as_jsonb = session.json_columns(self.table, "json")
        for name in self.columns:
            if name not in self.key:
                ours, theirs = f"{net}.{q(name)}", f"{table}.{q(name)}" + "::jsonb" * (name in as_jsonb)
                same.append(f"({theirs} = {ours} OR ({theirs} IS NULL AND {ours} IS NULL))")
        session.run(
            f"UPDATE {net} SET {o('found')} = 1 WHERE {o('net')} < 0 AND {o('left')} = 0 "
            f"AND EXISTS (SELECT 1 FROM {table} WHERE {' AND '.join(same)})"
        )

    def _add_counts(self, session: SqlSession) -> list[Rejected]:
        o, q = self._o, self.dialect.quoted
        assert self.count_column is not None
        table, net = q(self.table), q(self.net)
        same = " AND ".join(f"{table}.{q(name)} = {net}.{q(name)}" for name in self.key)
        session.run(f"DELETE FROM {net} WHERE {o('net')} = 0")
        session.run(
            f"UPDATE {net} SET {o('net')} = {o('net')} + "
            f"COALESCE((SELECT {table}.{q(self.count_column)} FROM {table} WHERE {same}), 0)"
        )
        below = f"FROM {net} WHERE {o('net')} < 0"
        found = session.run(f"SELECT {self._names(self.columns)}, {o('net')} {below}")
        if found:
            session.run(f"DELETE {below}")
        why = (
            "it is retracted more often than it was added: its {!r} would be {}. Another program changed the table, or "
        )
        why += "it holds fewer rows than the pipeline wrote"
        return [Rejected(dict(zip(self.columns, row)), -1, why.format(self.count_column, row[-1])) for row in found]

    def _delete(self, session: SqlSession, which: str, parameters: tuple[Any, ...] = ()) -> None:
        key = self._names(self.key)
        compared = f"({key})" if len(self.key) > 1 else key
        session.run(
            f"DELETE FROM {self.dialect.quoted(self.table)} WHERE {compared} IN "
            f"(SELECT {key} FROM {self.dialect.quoted(self.net)} WHERE {which})",
            parameters,
        )

    def _upsert(self, session: SqlSession, which: str, parameters: tuple[Any, ...] = ()) -> None:
        q = self.dialect.quoted
        columns, values = [q(name) for name in self.columns], [q(name) for name in self.columns]
        if self.count_column is not None:
            columns.append(q(self.count_column))
            values.append(self._o("net"))
        if not self.dialect.has_upsert:
            self._delete(session, which, parameters)
        insert = (
            f"INSERT INTO {q(self.table)} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {q(self.net)} "
            f"WHERE {which}"
        )
        if self.dialect.has_upsert:
            key = set(map(q, self.key))
            new = [f"{column} = excluded.{column}" for column in columns if column not in key]
            insert += f" ON CONFLICT ({self._names(self.key)}) DO "
            insert += f"UPDATE SET {', '.join(new)}" if new else "NOTHING"
        session.run(insert, parameters)

    def _names(self, columns: tuple[str, ...]) -> str:
        return ", ".join(map(self.dialect.quoted, columns))

    def _o(self, column: str) -> str:
        """Return the quoted name of a staging column."""
        return self.dialect.quoted(PREFIX + column)

    def _own(self, columns: Any) -> list[str]:
        return [self._o(column) for column in columns]
