"""SqlDialect: the differences between databases in SQL."""

from __future__ import annotations

import datetime
import decimal
import sys
from collections.abc import Sequence
from typing import Any

from ...frozen import frozen

# The parameter mark in statements for all drivers: a character that no name can have.
MARK = "\0"

# The column types of Python's types in a table that a sink creates.
_STANDARD_TYPES: dict[Any, str] = {
    str: "TEXT",
    int: "BIGINT",
    float: "DOUBLE PRECISION",
    bool: "BOOLEAN",
    bytes: "BLOB",
    datetime.datetime: "TIMESTAMP",
    datetime.date: "DATE",
    decimal.Decimal: "NUMERIC",
}
_SQLITE_TYPES = _STANDARD_TYPES | {
    int: "INTEGER",
    float: "REAL",
    datetime.datetime: "TEXT",
    datetime.date: "TEXT",
    decimal.Decimal: "TEXT",
}
_POSTGRESQL_TYPES = _STANDARD_TYPES | {bytes: "BYTEA", datetime.datetime: "TIMESTAMP WITH TIME ZONE", dict: "JSONB"}

# The dialect of each DB-API module.
_DIALECTS_OF_MODULES = {
    "sqlite3": "sqlite",
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "pg8000": "postgresql",
    "pymysql": "mysql",
    "MySQLdb": "mysql",
}


@frozen
class SqlDialect:
    """The SQL of one database.

    Attributes:
      name: SQLAlchemy's name, such as 'sqlite', 'postgresql', 'mysql'.
      paramstyle: the mark of a parameter (PEP 249).

    >>> SqlDialect("postgresql", "format").with_marks(f'INSERT INTO "10%" VALUES ({MARK}, {MARK})')
    'INSERT INTO "10%%" VALUES (%s, %s)'
    """

    name: str
    paramstyle: str = "qmark"

    @property
    def has_upsert(self) -> bool:
        """Whether INSERT accepts ON CONFLICT.  Otherwise a row is deleted and inserted again."""
        return self.name in ("sqlite", "postgresql")

    @property
    def has_transactional_definitions(self) -> bool:
        """Whether tables and indexes can be created within a transaction without ending it."""
        return self.name in ("sqlite", "postgresql")

    @property
    def needs_types(self) -> bool:
        """Whether a column needs a type."""
        return self.name != "sqlite"

    @property
    def name_type(self) -> str:
        """The type of a column of names, which may be a key."""
        return "TEXT" if self.has_upsert else "VARCHAR(255)"

    def quoted(self, name: str) -> str:
        """Return the quoted name of a column, or of a table with or without its schema."""
        quote = "`" if self.name in ("mysql", "mariadb") else '"'
        return ".".join(quote + part.replace(quote, quote * 2) + quote for part in name.split("."))

    def column_type(self, kind: Any) -> str | None:
        """Return the column type of a Python type.  Names of SQL types are unchanged.

        >>> SqlDialect("sqlite").column_type(int), SqlDialect("sqlite").column_type("VARCHAR(7)")
        ('INTEGER', 'VARCHAR(7)')
        """
        if isinstance(kind, str):
            return kind
        types = {"sqlite": _SQLITE_TYPES, "postgresql": _POSTGRESQL_TYPES}.get(self.name, _STANDARD_TYPES)
        return types.get(kind)

    def with_marks(self, sql: str) -> str:
        """Return a statement with the driver's parameter marks in place of `MARK`."""
        if self.paramstyle == "qmark":
            return sql.replace(MARK, "?")
        if self.paramstyle in ("format", "pyformat"):
            return sql.replace("%", "%%").replace(MARK, "%s")
        first, *rest = sql.split(MARK)
        mark = ":" if self.paramstyle == "numeric" else ":p"
        return first + "".join(f"{mark}{number}{part}" for number, part in enumerate(rest, 1))

    def parameters(self, values: Sequence[Any]) -> Any:
        """Return the values in the driver's form."""
        if self.paramstyle == "named":
            return {f"p{number}": value for number, value in enumerate(values, 1)}
        return values

    def adapted(self, value: Any) -> Any:
        """Return a value in the driver's form: NumPy's scalars as Python's; for SQLite, dates as text."""
        if hasattr(value, "dtype") and hasattr(value, "item"):
            value = value.item()
        if self.name == "sqlite":
            if isinstance(value, (datetime.date, datetime.time)):
                return value.isoformat()
            if isinstance(value, decimal.Decimal):
                return str(value)
        return value

    def one_at_a_time(self, table: str) -> list[str]:
        """Return statements that keep other transactions from writing to the table.  Readers aren't blocked."""
        if self.name == "postgresql":
            return [f"LOCK TABLE {self.quoted(table)} IN SHARE ROW EXCLUSIVE MODE"]
        return []

    def all_constraints_now(self) -> list[str]:
        """Return statements that make each statement check constraints that are deferred to the transaction's end."""
        return ["SET CONSTRAINTS ALL IMMEDIATE"] if self.name == "postgresql" else []

    def one_definition_at_a_time(self) -> list[str]:
        """Return statements that keep other transactions from creating the same tables."""
        if self.name == "postgresql":
            return ["SELECT pg_advisory_xact_lock(7236286223)"]
        return []


def dialect_of(connection: Any, name: str | None = None) -> SqlDialect:
    """Return the dialect of a DB-API connection, by the module of its class or of a base class.

    >>> import sqlite3
    >>> dialect_of(sqlite3.connect(":memory:"))
    SqlDialect(name='sqlite', paramstyle='qmark')
    """
    for kind in type(connection).__mro__:
        module = kind.__module__.partition(".")[0]
        paramstyle = getattr(sys.modules.get(module), "paramstyle", None)
        if paramstyle is not None:
            return SqlDialect(name or _DIALECTS_OF_MODULES.get(module, module), paramstyle)
    return SqlDialect(name or "unknown")


def is_about_a_row(error: BaseException) -> bool:
    """Return True if a database refuses a row's values, by type, constraint or trigger."""
    # PostgreSQL's classes of errors.  'P0001' is the code of RAISE EXCEPTION.
    state = str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or "")
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return state[:2] in ("22", "23") or state == "P0001" or not kinds.isdisjoint({"IntegrityError", "DataError"})


def is_database_error(error: BaseException) -> bool:
    """Return whether an error is one of PEP 249, raised by any driver."""
    return any(kind.__name__ in ("Error", "InterfaceError", "DatabaseError") for kind in type(error).__mro__)
