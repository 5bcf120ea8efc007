"""Rows into streams of the Storage Write API.

A PENDING stream's rows are durable when they are acknowledged, and in the table when the stream is committed.  Each
append has its offset, so that one whose answer is lost can be sent again.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from ...sdk.coders.coder import shortened
from ...sdk.errors import RejectedRecordError, SinkError
from ..connections.waiting import Busy
from .client import TableName, exceptions
from .schemas import Column
from .tables import Tables

# The bytes of rows of a request, which may have ten million; and the requests that aren't acknowledged.
_REQUEST_BYTES = 1 << 20
_MOST_BYTES = 9_500_000
_UNANSWERED = 8

# Of a table's name with a decorator.
PARTITIONS = "{} names a partition, which the Storage Write API doesn't write to; use FILE_LOADS, or name the table"

# How long a connection may be quiet, in seconds.
_QUIET = 600.0

# Codes of gRPC.
_OK, _ALREADY_EXISTS = 0, 6
_LATER = frozenset({1, 4, 8, 10, 13, 14})


def _types() -> Any:
    return import_module("google.cloud.bigquery_storage_v1").types


class RowStream:
    """A stream of a table, of one worker.

    Args:
      pseudocolumns: columns of text besides those of the table.
      is_default: appends to the table's default stream: rows are in the table when they are acknowledged, and an append
        whose answer is lost is repeated.  Otherwise a PENDING stream is made for the first row.
      into: the table whose stream it is, if that is another one, with the same columns.

    Attributes:
      name: the stream's; "" if there is none yet.
      rows: how many are appended.
    """

    def __init__(
        self,
        tables: Tables,
        table: TableName,
        columns: Sequence[Column],
        pseudocolumns: Sequence[str] = (),
        is_default: bool = False,
        into: TableName | None = None,
    ) -> None:
        if table.is_partition:
            raise SinkError(f"{tables.label}: {PARTITIONS.format(table)}")
        self._tables = tables
        self._table = table
        self._into = into or table
        self._is_default = is_default
        self._descriptor, self._message = tables.message_class(table, columns, pseudocolumns)
        self._waiting: list[bytes] = []
        self._bytes = 0
        # What is sent and not acknowledged: the offsets of requests, and their rows.
        self._unanswered: deque[tuple[int, list[bytes]]] = deque()
        self._requests: queue.SimpleQueue[Any] | None = None
        self._answers: Any = None
        self.name = f"{table.path}/streams/_default" if is_default else ""
        self.rows = 0

    def add_fields(self, fields: Mapping[str, Any]) -> None:
        """Append a row, which `Rows.as_fields` has made."""
        self.add(self._message(**fields).SerializeToString())

    def add(self, row: bytes) -> None:
        """Append a row, as the bytes of its message."""
        if len(row) > _MOST_BYTES:
            raise SinkError(
                f"{self._tables.label}: a row of {len(row):,} bytes for table {self._table}; the Storage Write API "
                f"permits {_MOST_BYTES:,}. It is {shortened(str(self._message.FromString(row)), 100)}"
            )
        if self._bytes + len(row) > _REQUEST_BYTES and self._waiting:
            self._send()
        self._waiting.append(row)
        self._bytes += len(row)

    def finish(self) -> None:
        """Wait until all rows are acknowledged, and end the stream."""
        if self._waiting:
            self._send()
        while self._unanswered:
            self._take_answer()
        self.close()
        if self._is_default or not self.name:
            return

        def finalized() -> int:
            answer = self._tables.write_client.finalize_write_stream(name=self.name, retry=None, timeout=60.0)
            return int(answer.row_count)

        found = self._tables.reached(self._table, "can't be written to", finalized)
        if found != self.rows:
            raise SinkError(f"{self._tables.label}: BigQuery's {self.name} has {found} rows of {self.rows}")

    def close(self) -> None:
        """Disconnect.  A stream that isn't committed vanishes by itself."""
        requests, self._requests, self._answers = self._requests, None, None
        if requests is not None:
            requests.put(None)

    def _send(self) -> None:
        rows, self._waiting, self._bytes = self._waiting, [], 0
        if not self.name:
            self.name = self._tables.reached(self._table, "can't be written to", self._made)
        self._unanswered.append((self.rows, rows))
        self.rows += len(rows)
        if self._requests is not None:
            self._requests.put(self._request(*self._unanswered[-1]))
        while len(self._unanswered) > _UNANSWERED or self._requests is None:
            self._take_answer()

    def _made(self) -> str:
        types = _types()
        stream = types.WriteStream(type_=types.WriteStream.Type.PENDING)
        try:
            made = self._tables.write_client.create_write_stream(
                parent=self._into.path, write_stream=stream, retry=None, timeout=60.0
            )
        except exceptions().NotFound as error:
            # A new table isn't known everywhere at once.
            raise Busy(str(error)) from error
        return str(made.name)

    def _request(self, offset: int, rows: list[bytes], is_first: bool = False) -> Any:
        # The client's classes look at each row.
        kind = _types().AppendRowsRequest
        request = kind.pb()(write_stream=self.name)
        request.proto_rows.rows.serialized_rows.extend(rows)
        if is_first:
            request.proto_rows.writer_schema.proto_descriptor.CopyFrom(self._descriptor)
        if not self._is_default:
            request.offset.value = offset
        return kind.wrap(request)

    def _connect(self) -> None:
        requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for number, each in enumerate(self._unanswered):
            requests.put(self._request(*each, is_first=not number))
        metadata = (("x-goog-request-params", f"write_stream={self.name}"),)
        self._answers = self._tables.write_client.append_rows(
            _until_none(requests), retry=None, timeout=_QUIET, metadata=metadata
        )
        self._requests = requests

    def _take_answer(self) -> None:
        """Wait for the next acknowledgement; connect again, and send what isn't acknowledged, while it is lost."""
        self._tables.reached(self._table, "can't be written to", self._next_answer)

    def _next_answer(self) -> None:
        if self._requests is None:
            self._connect()
        try:
            answer = next(self._answers)
        except StopIteration:
            self.close()
            raise ConnectionError("the stream's connection has ended") from None
        except BaseException:
            self.close()
            raise
        code, said = answer.error.code, answer.error.message
        if code in (_OK, _ALREADY_EXISTS):
            self._unanswered.popleft()
            return
        self.close()
        if code in _LATER:
            raise ConnectionError(said)
        if answer.row_errors:
            first = answer.row_errors[0]
            row = self._message.FromString(self._unanswered[0][1][first.index])
            error = RejectedRecordError(
                f"{self._tables.label}: BigQuery's {self._table} refuses {shortened(str(row), 200)}: {first.message}"
            )
            error.record = shortened(str(row), 200)
            raise error
        raise SinkError(f"{self._tables.label}: BigQuery's {self._table} can't be written to: {said}")


def _until_none(requests: queue.SimpleQueue[Any]) -> Iterator[Any]:
    while (request := requests.get()) is not None:
        yield request
