"""ReadFromSQL: the rows of a table as they are added."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...sdk.elements.row import Row
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.sources.event_time_reader import EventTimeReader, EventTimes
from ...sdk.sources.unbounded import UnboundedSource
from ...sdk.watermark_estimators import EstimatorTypes
from ...transforms.read import Read
from ...windowing.duration import micros_of_span
from ...windowing.timestamp import Timestamp
from ..files.filesystem import AnyPath
from .database import SqliteFile, SqlSession, database_of
from .dialect import MARK
from .named_table import NamedTable


class SqlSource(UnboundedSource[Row]):
    """Rows in the order of an increasing column.  The offset is the column's value in the last row.

    Args:
      relation: the table or the query, with its database.
      table, query: one of them.
      column: the increasing column.
      poll_interval: microseconds between two queries, once all rows are read.
      times: the event times of rows.
    """

    def __init__(
        self,
        relation: NamedTable,
        table: str | None,
        query: str | None,
        column: str,
        poll_interval: int,
        times: EventTimes,
    ) -> None:
        self.relation = relation
        self.table = table
        self.query = query
        self.column = column
        self.poll_interval = poll_interval
        self.times = times

    def partitions(self) -> Sequence[str]:
        self._check()
        return ["all"]

    def identity(self) -> Mapping[str, Any]:
        return {
            "database": self.relation.shown,
            "table": self.table,
            "query": self.query,
            "increasing_column": self.column,
        }

    def open(self, partition: str, offset: Any | None) -> SqlReader:
        return SqlReader(self, None if offset is None else offset[0])

    def statement(self, session: SqlSession, after: bool, until: bool, limit: int) -> str:
        """Return the query for the next rows, with a parameter for each of `after` and `until`."""
        dialect = session.dialect
        column = dialect.quoted(self.column)
        relation = dialect.quoted(self.table) if self.table is not None else f"({self.query}) AS polled"
        where = f"{column} IS NOT NULL" + f" AND {column} > {MARK}" * after + f" AND {column} <= {MARK}" * until
        limited = f" LIMIT {limit}" if dialect.name in ("sqlite", "postgresql", "mysql", "mariadb") else ""
        return f"SELECT * FROM {relation} WHERE {where} ORDER BY {column}{limited}"

    def _check(self) -> None:
        database = self.relation.database
        path = database.path if isinstance(database, SqliteFile) else None
        if path is not None and not os.path.exists(path):
            # SQLite would create an empty file.
            raise self.relation.error("can't be read: there is no such file")
        with self.relation.explained("can't be read"), database.session() as session:
            columns, _rows = session.select(self.statement(session, False, False, 1), (), 0)
        if self.column not in columns:
            raise self.relation.error(f"can't be read: expected a column {self.column!r}, found {', '.join(columns)}")


class SqlReader(EventTimeReader[Row]):
    """Reader that queries the rows after the last one."""

    def __init__(self, source: SqlSource, last: Any) -> None:
        super().__init__(source.times)
        self.source = source
        self._last = last
        self._session: SqlSession | None = None
        self._outage = source.relation.outage()
        self._next_look: int | None = None

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[Row], list[int] | int | None]:
        if self.end is None and self._next_look is not None and now.micros < self._next_look:
            return [], None
        source = self.source
        with source.relation.explained("can't be read"):
            selected = self._outage.poll(lambda: self._select(max_elements), self.close, waits=self.end is not None)
        if selected is None:
            return [], None
        columns, rows = selected
        self._next_look = None if len(rows) == max_elements else now.micros + source.poll_interval
        if not rows:
            return [], None
        index = columns.index(source.column)
        self._check_that_it_grows([row[index] for row in rows])
        self._last = rows[-1][index]
        return [Row(**dict(zip(columns, row))) for row in rows], None

    def _select(self, limit: int) -> tuple[list[str], list[Any]]:
        """Return the names of the columns, and the next rows."""
        source = self.source
        end = None if self.end is None else self.end[0]
        if self._session is None:
            database = source.relation.database
            self._session = SqlSession(database.connect(), database.dialect)
        parameters = [value for value in (self._last, end) if value is not None]
        statement = source.statement(self._session, self._last is not None, end is not None, limit)
        return self._session.select(statement, parameters, limit)

    def offset(self) -> tuple[Any] | None:
        return None if self._last is None else (self._last,)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _check_that_it_grows(self, values: list[Any]) -> None:
        before = self._last
        for value in values:
            if value == before:
                raise self.source.relation.error(
                    f"can't be read: expected each row to have a greater {self.source.column!r} than the one before, "
                    f"found two with {value!r}, of which one might be missed; use a column that is unique, such as "
                    "an identity or a sequence"
                )
            before = value


class ReadFromSQL(PTransform):
    """A `Row` for each present and future row of a table.

    Returns a `PCollection[Row]`.

    The table is queried every `poll_interval` seconds for rows with a greater value in `increasing_column` than the
    last row.  So rows must become visible in the order of that column: a row is missed if its transaction commits after
    that of a greater value.  Use one writer at a time, or a query that leaves out rows younger than the longest
    transaction.
    Changes and deletions of rows that were read have no effect.  Rows without a value in the column are never read.

    Args:
      connection: a URL of SQLAlchemy; a picklable function without arguments that returns a new DB-API connection; or
        the path of an SQLite database.
      table: its name, with or without a schema; or else
      query: a SELECT whose rows are read instead.
      increasing_column: a column with a greater value in each new row.
      timestamp_fn: returns a row's event time; see `EventTimes`, also for `watermark_estimator` and `idle_after`.
        Without it the event time of a row is the time of reading.
      dialect: see `WriteToSQL`.

    Raises `MissingExtraError` while the pipeline is built if the driver isn't installed, and
    `SourceError` when the run starts if the table or column doesn't exist, or the database doesn't answer; a running
    stream waits for a database that doesn't answer, without end.  Two rows with the same value in the column
    are an error once both are read.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> (p | beam.io.ReadFromSQL("shop.db", "orders", increasing_column="id")).is_bounded
    False
    """

    def __init__(
        self,
        connection: AnyPath | Callable[[], Any],
        table: str | None = None,
        query: str | None = None,
        *,
        increasing_column: str,
        poll_interval: float = 1.0,
        timestamp_fn: Callable[[Row], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
        dialect: str | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if (table is None) == (query is None):
            raise ValueError(f"{name}: expected a table or a query, got {'neither' if table is None else 'both'}")
        if micros_of_span(poll_interval) < 0:
            raise ValueError(f"{name}: poll_interval must be 0 seconds or more, got {poll_interval!r}")
        times = EventTimes.of(name, timestamp_fn, watermark_estimator, idle_after)
        what = "the query" if table is None else f"table {table!r}"
        relation = NamedTable(name, database_of(name, connection, dialect), what)
        self.source = SqlSource(relation, table, query, increasing_column, micros_of_span(poll_interval), times)

    def expand(self, pbegin: PBegin) -> PCollection[Row]:
        source = copy.copy(self.source)
        source.relation = source.relation.labelled(pbegin.pipeline.full_label)
        rows: PCollection[Row] = pbegin | Read(source).with_output_types(Row)
        return rows
