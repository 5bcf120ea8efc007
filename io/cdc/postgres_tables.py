"""Tables of PostgreSQL: their columns and keys from the catalog, and their rows from texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...frozen import frozen
from ...persistence import stored_as
from .pgoutput import UNCHANGED, Relation, Values
from .postgres_server import PostgresServer


@stored_as("postgres-table", 1)
@frozen
class Table:
    """A table as it was when its reading began.  Its rows have these columns until the reading ends.

    Attributes:
      name: with its schema.
      oid: its object id, which it keeps when it is renamed.
      columns: names and types (object ids), in their order.
      key: the columns of the primary key, with the names of their types.
    """

    name: str
    oid: int
    columns: tuple[tuple[str, int], ...]
    key: tuple[tuple[str, str], ...]

    @property
    def quoted(self) -> str:
        """The name in SQL."""
        return ".".join(map(quoted, self.name.split(".", 1)))


def quoted(name: str) -> str:
    """Return a name in SQL.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


_COLUMNS = """
    SELECT a.attname, a.atttypid::int8, format_type(a.atttypid, -1),
        coalesce(array_position(i.indkey::int2[], a.attnum), -1)
    FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum
"""


def tables_of(server: PostgresServer, connection: Any, names: Sequence[str], with_keys: bool) -> tuple[Table, ...]:
    """Return the tables of these names.

    Args:
      with_keys: whether each needs a primary key.

    Raises `SourceError` for a missing table, one that isn't a plain table, or one that the role can't read.
    """
    found = []
    for name in names:
        table = _table(server, connection, name)
        if with_keys and not table.key:
            raise server.error(
                f"table {table.name!r} has no primary key, in whose order its snapshot is read; add one, or read its "
                "changes only, with snapshot=False"
            )
        found.append(table)
    return tuple(found)


def _table(server: PostgresServer, connection: Any, name: str) -> Table:
    quoted_name = ".".join(map(quoted, name.split(".", 1)))
    row = connection.execute(
        "SELECT c.oid::int8, n.nspname || '.' || c.relname, c.relkind, has_table_privilege(c.oid, 'SELECT') "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)",
        (quoted_name,),
    ).fetchone()
    if row is None:
        raise server.error(f"there is no table {name!r}")
    oid, full_name, kind, is_readable = row
    if kind not in ("r", b"r"):
        raise server.error(
            f"{full_name!r} is not a plain table; views have no changes, and of a partitioned table name the partitions"
        )
    if not is_readable:
        raise server.error(f"the role may not read table {full_name!r}; GRANT SELECT ON {quoted_name} to it")
    columns = connection.execute(_COLUMNS, (oid,)).fetchall()
    of_key = sorted((index, column, kind) for column, _, kind, index in columns if index >= 0)
    return Table(
        full_name, oid, tuple((column, type_oid) for column, type_oid, *_ in columns), tuple(key[1:] for key in of_key)
    )


def check_identities(server: PostgresServer, connection: Any, tables: Sequence[Table]) -> None:
    """Raise `SourceError` for tables whose former rows aren't logged."""
    oids = [table.oid for table in tables]
    sql = "SELECT oid::int8 FROM pg_class WHERE oid = ANY(%s::oid[]) AND relreplident <> 'f'"
    wrong = {oid for (oid,) in connection.execute(sql, (oids,))}
    if wrong:
        raise server.error(identity_needed([table for table in tables if table.oid in wrong]))


def identity_needed(tables: Sequence[Table]) -> str:
    """Return the text of the error for tables whose former rows aren't logged."""
    statements = "; ".join(f"ALTER TABLE {table.quoted} REPLICA IDENTITY FULL" for table in tables)
    names = ", ".join(repr(table.name) for table in tables)
    what = f"updates and deletes of {names} are logged without the former rows"
    return f"{what}, which are to be retracted; run {statements}"


class RowReader:
    """Rows of a table from the texts of its values.

    Args:
      make: returns an element for a dict of fields.
    """

    def __init__(
        self, server: PostgresServer, connection: Any, table: Table, make: Callable[[dict[str, Any]], Any]
    ) -> None:
        from psycopg import pq
        from psycopg.adapt import Transformer

        self.server = server
        self.table = table
        self._make = make
        transformer = Transformer(connection)
        loaders = [transformer.get_loader(oid, pq.Format.TEXT) for _, oid in table.columns]
        self._loads = [(name, loader.load) for (name, _), loader in zip(table.columns, loaders, strict=True)]
        # Where the values of these columns are in a message; None if they are where the table has them.
        self._indices: list[int] | None = None
        self.key_indices = [[name for name, _ in table.columns].index(name) for name, _ in table.key]

    def follow(self, relation: Relation) -> None:
        """Take values as a changed table has them.  Raises `SourceError` for a change that rows can't follow."""
        indices = {name: index for index, (name, _) in enumerate(relation.columns)}
        types = dict(relation.columns)
        for name, oid in self.table.columns:
            if types.get(name) != oid:
                change = "changed its type" if name in types else "was dropped or renamed"
                raise self.server.error(
                    f"column {name!r} of table {self.table.name!r} {change} while the table was read, so that earlier "
                    "rows can't be retracted; begin again, with a new slot and without the checkpoint"
                )
        self._indices = [indices[name] for name, _ in self.table.columns]

    def values(self, values: Values) -> Values:
        """Return the values of the columns, in their order."""
        return values if self._indices is None else [values[index] for index in self._indices]

    def row(self, values: Values) -> Any:
        """Return a row from the texts of its columns."""
        fields = {}
        try:
            for (name, load), text in zip(self._loads, values, strict=True):
                fields[name] = None if text is None else load(text)
        except Exception as error:
            raise self.server.error(
                f"a value of column {name!r} of table {self.table.name!r} can't be read", error
            ) from None
        try:
            return self._make(fields)
        except (ValueError, TypeError) as error:
            raise self.server.error(
                f"a row of table {self.table.name!r} is not of the declared type: {error}"
            ) from error

    def key(self, values: Values) -> tuple[str, ...]:
        """Return the texts of the primary key."""
        return tuple(bytes(values[index]).decode() for index in self.key_indices)


def completed(new: Values, old: Values | None) -> Values:
    """Return the values of an updated row, the unchanged ones of which may be those of the former row only."""
    if old is None or all(value is not UNCHANGED for value in new):
        return new
    return [former if value is UNCHANGED else value for value, former in zip(new, old, strict=True)]
