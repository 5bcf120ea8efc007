"""WriteToSQL: a table of any SQL database, corrected by retractions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..sdk.pvalue import PCollection
from .sql_database import SqlAlchemyUrl, SqlConnector, SqlDatabase
from .table_rows import Columns
from .table_sink import TableSink
from .write_into import WriteInto


class WriteToTable(WriteInto):
    """What all transforms that write into tables are."""

    def sink_for(self, pcoll: PCollection[Any]) -> TableSink:
        sink: TableSink = super().sink_for(pcoll)
        sink.retracting = sink.retracting or bool(pcoll.retracted_by)
        return sink


class WriteToSQL(WriteToTable):
    """A row for each key, in a table of a database that a URL or a function leads to.

    Args:
      connection: a URL as SQLAlchemy reads it, such as
        'postgresql://user:password@host/database'; or a function without arguments that
        gives a new DB-API connection whose rows are tuples, which has to be picklable.
      dialect: 'sqlite', 'postgresql', ...; for a function whose connections don't tell by
        their class.

    The other arguments, and what retractions do, are `TableSink`'s.  The table changes in
    one transaction of the database when the whole pipeline has succeeded.  Tried with
    PostgreSQL and SQLite; another database needs window functions, and is written to by
    DELETE and INSERT.

    Raises `MissingExtraError` while the pipeline is built if SQLAlchemy or the driver isn't
    installed (the extras `sql` and `postgres`); and `SinkError` before anything runs if the
    database can't be reached, or the table isn't one that these rows fit into.

    >>> import penstock as beam
    >>> import functools, pathlib, sqlite3, tempfile
    >>> connect = functools.partial(sqlite3.connect, pathlib.Path(tempfile.mkdtemp(), "words.db"))
    >>> with beam.Pipeline() as p:
    ...     words = p | beam.Create(["to", "be", "to"]) | beam.combiners.Count.PerElement()
    ...     _ = words | beam.io.WriteToSQL(connect, "words", key="word", columns={"word": str, "n": int})
    >>> connect().execute("SELECT * FROM words ORDER BY word").fetchall()
    [('be', 1), ('to', 2)]
    """

    def __init__(
        self,
        connection: str | Callable[[], Any],
        table: str,
        key: str | Sequence[str] | None = None,
        columns: Columns | None = None,
        *,
        row: Callable[[Any], Any] | None = None,
        with_window: bool = False,
        latest: bool = False,
        count_column: str | None = None,
        create: bool = True,
        dialect: str | None = None,
    ) -> None:
        database: SqlDatabase
        # A connection of SQLite can be called too.
        if callable(connection) and not hasattr(connection, "cursor"):
            database = SqlConnector(connection, dialect)
        elif isinstance(connection, str):
            database = SqlAlchemyUrl(connection, type(self).__name__)
        else:
            raise TypeError(
                f"{type(self).__name__}: expected a database's URL, or a function that connects to it, "
                f"got a {type(connection).__name__}; did you forget the lambda?"
            )
        super().__init__(
            TableSink(
                database,
                table,
                key,
                columns,
                row=row,
                with_window=with_window,
                latest=latest,
                count_column=count_column,
                create=create,
                transform=type(self).__name__,
            )
        )
