"""PostgresRows: the rows that tables have, as a bounded source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...sdk.elements.bundle import Bundle
from ...sdk.sources.bounded import BoundedSource
from ...windowing.timestamp import Timestamp
from .postgres_server import psycopg_of
from .postgres_source import Reading
from .postgres_tables import RowReader, quoted, tables_of
from .row_change import RowChange

# Rows that are fetched together.
_FETCHED = 10_000


class PostgresRows(BoundedSource[RowChange]):
    """The rows that tables have when they are read, in one transaction: one split."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def identity(self) -> Mapping[str, Any]:
        return {"database": self.reading.server.database, "tables": list(self.reading.tables)}

    def split(self, desired_splits: int) -> Sequence[int]:
        with self._connected() as connection:
            tables_of(self.reading.server, connection, self.reading.tables, with_keys=False)
        return [0]

    def read_bundles(self, split: int) -> Iterator[Bundle]:
        reading = self.reading
        with self._connected() as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            sql = "SELECT (extract(epoch FROM now()) * 1000000)::int8"
            (micros,) = connection.execute(sql).fetchone()
            tables = tables_of(reading.server, connection, reading.tables, with_keys=False)
            for number, reader in enumerate(reading.readers(connection, tables)):
                for rows in _all_rows(connection, reader):
                    values = [RowChange(+1, row, table=number) for row in rows]
                    times: Any = micros
                    if reading.times.timestamp_fn is not None:
                        times = [Timestamp.of(reading.times.timestamp_fn(value)).micros for value in values]
                    yield Bundle(values, times)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        server = self.reading.server
        try:
            with server.explained("the tables can't be read"):
                connection = server.connect()
                try:
                    yield connection
                finally:
                    connection.close()
        except psycopg_of(server.transform).Error as error:
            raise server.error("the server doesn't answer", error) from None


def _all_rows(connection: Any, reader: RowReader) -> Iterator[list[Any]]:
    """Yield the rows of a table in parts."""
    table = reader.table
    names = ", ".join(quoted(name) for name, _ in table.columns)
    connection.execute(f"DECLARE penstock_rows NO SCROLL CURSOR FOR SELECT {names} FROM ONLY {table.quoted}")
    columns = range(len(table.columns))
    while True:
        result = connection.execute(f"FETCH FORWARD {_FETCHED} FROM penstock_rows").pgresult
        if not result.ntuples:
            break
        yield [reader.row([result.get_value(row, column) for column in columns]) for row in range(result.ntuples)]
    connection.execute("CLOSE penstock_rows")
