"""`WriteToSQL` and `WriteToSQLite`: tables with one row for each key, corrected by retractions.

`WriteToSQLite` writes into a file, and needs no further package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

from ...sdk.pvalue import PCollection
from ...sdk.redaction import redacted
from ...windowing.duration import DurationTypes, seconds_of_span
from ..files.filesystem import AnyPath, path_string
from ..sinks.write_into import WriteInto
from .database import SqlAlchemyUrl, SqlDatabase, SqliteFile, check_path, database_of
from .rows import Columns
from .table_sink import TableSink


class TableArguments(TypedDict, total=False):
    """Named arguments that the transforms pass on to `TableSink`."""

    row: Callable[[Any], Any] | None
    with_window: bool
    latest: bool
    count_column: str | None
    create: bool


class WriteToTable(WriteInto):
    """Base class of the transforms that write into a table."""

    def __init__(
        self,
        database: SqlDatabase,
        table: str,
        key: str | Sequence[str] | None,
        columns: Columns | None,
        **arguments: Unpack[TableArguments],
    ) -> None:
        name, known = type(self).__name__, TableArguments.__annotations__
        for unknown in sorted(arguments.keys() - known.keys()):
            raise TypeError(f"{name}: got the unknown argument {unknown!r}; expected some of {', '.join(known)}")
        super().__init__(TableSink(database, table, key, columns, transform=name, **arguments))

    def sink_for(self, pcoll: PCollection[Any]) -> TableSink:
        sink: TableSink = super().sink_for(pcoll)
        sink.retracting = sink.retracting or bool(pcoll.retracted_by)
        return sink


class WriteToSQL(WriteToTable):
    """A row for each key, in a table of a database given by a URL or a function.

    Takes a `PCollection[T]` of records, or of pairs of a key and a value.

    Args:
      connection: a URL of SQLAlchemy, such as 'postgresql://user:password@host/database'; or a picklable function
        without arguments that returns a new DB-API connection whose rows are tuples.
      dialect: 'sqlite', 'postgresql', ...; needed for a function if the class of its connections doesn't tell.

    `TableSink` explains the other arguments and the effect of retractions.  The table changes in one transaction of the
    database once the whole pipeline has succeeded.  Tested with PostgreSQL and SQLite; another database needs window
    functions, and is written to by DELETE and INSERT.

    Raises `MissingExtraError` while the pipeline is built if SQLAlchemy or the driver isn't
    installed (the extras `sql` and `postgres`), and `SinkError` before the run starts if the database can't be reached
    or the table doesn't fit these rows.

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
        dialect: str | None = None,
        **arguments: Unpack[TableArguments],
    ) -> None:
        name = type(self).__name__
        is_url = isinstance(connection, str)
        database = SqlAlchemyUrl(connection, name) if is_url else database_of(name, connection, dialect)
        super().__init__(database, table, key, columns, **arguments)


class WriteToSQLite(WriteToTable):
    """A row for each key, in a table of an SQLite database.

    Takes a `PCollection[T]` of records, or of pairs of a key and a value.

    Args:
      path: the database's file, on the host of the workers.  It is created if it doesn't exist.
      timeout: seconds to wait for another process that is writing to it.

    `TableSink` explains the other arguments and the effect of retractions.  Columns need no types.  The table changes
    in one transaction once the whole pipeline has succeeded; until then readers see its former content.

    Raises `SinkError` before the run starts if the file is no database, or the table doesn't fit these rows.

    >>> import penstock as beam
    >>> import pathlib, sqlite3, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "words.db")
    >>> with beam.Pipeline() as p:
    ...     words = p | beam.Create(["to", "be", "to"]) | beam.combiners.Count.PerElement()
    ...     _ = words | beam.io.WriteToSQLite(path, "words", key="word", columns=["word", "n"])
    >>> sqlite3.connect(path).execute("SELECT * FROM words ORDER BY word").fetchall()
    [('be', 1), ('to', 2)]
    """

    def __init__(
        self,
        path: AnyPath,
        table: str,
        key: str | Sequence[str] | None = None,
        columns: Columns | None = None,
        *,
        timeout: DurationTypes = 60.0,
        **arguments: Unpack[TableArguments],
    ) -> None:
        file = path_string(path)
        check_path(file, type(self).__name__)
        if "://" in file:
            raise ValueError(
                f"{type(self).__name__}: expected the path of a local file, got the URL {redacted(file)!r}; "
                "WriteToSQL takes URLs"
            )
        super().__init__(SqliteFile(file, seconds_of_span(timeout)), table, key, columns, **arguments)
