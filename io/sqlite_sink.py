"""WriteToSQLite: a table in a file, corrected by retractions; needs nothing installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..sdk.redaction import redacted
from ..windowing.duration import DurationTypes, seconds_of_span
from .files.filesystem import AnyPath, path_string
from .sql_database import SqliteFile, check_path
from .sql_sink import WriteToTable
from .table_rows import Columns
from .table_sink import TableSink


class WriteToSQLite(WriteToTable):
    """A row for each key, in a table of an SQLite database.

    Args:
      path: the database's file, on the host that the workers run on too; made when it isn't
        there.
      timeout: how many seconds to wait while another process is writing to it.

    The other arguments, and what retractions do, are `TableSink`'s.  A column needs no type
    here.  The table changes in one transaction when the whole pipeline has succeeded; who
    reads it meanwhile sees it as it was.

    Raises `SinkError` before anything runs if the file is no database, or the table isn't
    one that these rows fit into.

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
        row: Callable[[Any], Any] | None = None,
        with_window: bool = False,
        latest: bool = False,
        count_column: str | None = None,
        create: bool = True,
        timeout: DurationTypes = 60.0,
    ) -> None:
        file = path_string(path)
        check_path(file, type(self).__name__)
        if "://" in file:
            raise ValueError(
                f"{type(self).__name__}: expected the path of a local file, got the URL {redacted(file)!r}; "
                "WriteToSQL takes URLs"
            )
        if file == ":memory:" or not file:
            raise ValueError(
                f"{type(self).__name__}: expected the path of a local file, got {file!r}; "
                "a database in memory is seen by nobody but whoever writes it"
            )
        super().__init__(
            TableSink(
                SqliteFile(file, seconds_of_span(timeout)),
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
