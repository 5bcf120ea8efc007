"""Staged rows of a worker: data files, and a rest that is part of its token.

A worker keeps rows until there are enough for a file.  What it has left when it stages is part of its token if it is
small, and the commit joins the rests of all workers: so many workers, and frequent checkpoints, make few small files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

# The size in bytes up to which a rest is part of the token.
INLINE_BYTES = 256 << 10

# The rows of a batch of a stream, which is what a reader holds of it.
_BATCH_ROWS = 20_000


class Staged(msgspec.Struct, array_like=True, frozen=True):
    """The token of a writer.

    Attributes:
      files: what the table format needs of each file.
      rest: rows in Arrow's IPC format.
      rows: the number of all rows.
    """

    files: list[Any]
    rest: bytes
    rows: int


def encoded(staged: Staged) -> bytes:
    """Return a token as bytes, which checkpoints contain."""
    return msgspec.msgpack.encode(staged)


def token_of(data: bytes) -> Staged:
    """Return the token of `encoded`."""
    return msgspec.msgpack.decode(data, type=Staged)


def stream_of(table: Any) -> bytes:
    """Return a `pyarrow.Table` in Arrow's IPC format."""
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=_BATCH_ROWS)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def table_of(stream: bytes) -> Any:
    """Return the `pyarrow.Table` of a stream in Arrow's IPC format."""
    import pyarrow

    return pyarrow.ipc.open_stream(stream).read_all()


def tables_of(file: Any) -> Iterator[Any]:
    """Yield the batches of a file in Arrow's IPC format, each as a `pyarrow.Table`."""
    import pyarrow

    with pyarrow.ipc.open_stream(file) as reader:
        for batch in reader:
            yield pyarrow.Table.from_batches([batch])


def joined(streams: Sequence[bytes], schema: Any) -> Any:
    """Return the rows of streams as one `pyarrow.Table` of a schema, which may have further columns."""
    import pyarrow

    return pyarrow.concat_tables([with_columns(table_of(stream), schema) for stream in streams])


def with_columns(table: Any, schema: Any) -> Any:
    """Return a table with the columns of a schema, in its order; new ones are null."""
    import pyarrow

    if table.schema.equals(schema):
        return table
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.schema.names
        else pyarrow.nulls(len(table), field.type)
        for field in schema
    ]
    return pyarrow.Table.from_arrays(columns, schema=schema)


class Buffer:
    """Rows of one worker, which are written to a file when there are enough.

    Args:
      size: the bytes of rows in memory for which a file is written.
      write: writes a `pyarrow.Table` to files, and returns what the table format needs of each.
    """

    def __init__(self, size: int, write: Callable[[Any], list[Any]]) -> None:
        self._size = size
        self._write = write
        self._tables: list[Any] = []
        self._bytes = 0
        self._rows = 0
        self._files: list[Any] = []

    def add(self, table: Any) -> None:
        """Add rows."""
        if not table.num_rows:
            return
        self._tables.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes
        if self._bytes >= self._size:
            self._flush()

    def token(self) -> bytes:
        """Return the token of all rows."""
        rest = b""
        if self._bytes > INLINE_BYTES:
            self._flush()
        if self._tables:
            rest = stream_of(self._joined())
        return encoded(Staged(self._files, rest, self._rows))

    def finish(self) -> list[Any]:
        """Write all rows to files, and return what the table format needs of each."""
        if self._tables:
            self._flush()
        return self._files

    def _flush(self) -> None:
        self._files += self._write(self._joined())
        self._tables, self._bytes = [], 0

    def _joined(self) -> Any:
        import pyarrow

        # Another writer may have added columns meanwhile.
        schema = self._tables[-1].schema
        return pyarrow.concat_tables([with_columns(table, schema) for table in self._tables]).combine_chunks()
