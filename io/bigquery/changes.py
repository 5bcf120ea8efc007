"""The sink of changes: rows that are replaced and deleted by their primary key (BigQuery's change data capture).

Changes are part of a checkpoint until it is complete.  A commit appends the net change of each key to the table's
default stream, with `_CHANGE_TYPE`.  A commit that is repeated sends the same changes again, before those of the next
one: the table is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from ...sdk.elements.bundle import Bundle, expanded
from ...sdk.errors import SinkError
from ...sdk.sink import SinkContext, SinkSpec
from ..sinks.message_sink import MessageSink
from ..sinks.net_changes import NetChanges
from .client import TableName
from .rows import DELETE, UPSERT
from .sinks import prepared
from .streams import RowStream
from .tables import Tables, Target

_TYPE, _SEQUENCE = "_CHANGE_TYPE", "_CHANGE_SEQUENCE_NUMBER"

_encode = msgspec.msgpack.Encoder(order="sorted").encode
_decode = msgspec.msgpack.Decoder().decode


class _Change(msgspec.Struct, array_like=True, frozen=True):
    """A row that is added or taken back."""

    key: bytes
    row: bytes
    sign: int
    version: int


class ChangeSink(MessageSink["Changes"]):
    """Changes of tables; see `WriteToBigQuery`."""

    spec = SinkSpec(accepts_retractions=True)

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.written = target

    def target(self) -> str | None:
        return str(self.written.table) if self.written.table else "tables of BigQuery"

    def open_for(self, label: str) -> Changes:
        return Changes(Tables(label, self.written))

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        return {"table": self.target(), "primary_key": ", ".join(self.written.key)}

    def prepare(self, context: SinkContext) -> None:
        prepared(context, self.opened(context).tables)

    def close(self) -> None:
        """Disconnect."""
        for changes in self._opened.values():
            changes.tables.close()


class Changes:
    """The tables as one transform changes them."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def messages(self, bundle: Bundle) -> Iterable[tuple[Any, ...]]:
        """Return the changes of a bundle's elements: table, row, kind, sequence number, sign and version."""
        n = len(bundle)
        rows = zip(bundle.values, expanded(bundle.signs, n), expanded(bundle.timestamps, n))
        for (destination, fields, kind, sequence), sign, micros in rows:
            self._check_key(destination, fields)
            yield destination, fields, kind, sequence, sign, micros

    def _check_key(self, destination: str, fields: Mapping[str, Any]) -> None:
        for name in self.tables.target.key:
            if name not in fields:
                table = self.tables.at(destination)
                raise SinkError(
                    f"{self.tables.label}: column {name!r} is part of the primary key of {table}, and is NULL"
                )

    def publish(self, messages: Iterable[tuple[Any, ...]], transaction: str) -> None:
        """Append changes to the default streams of their tables."""
        destinations = sorted({message[1] for message in messages})
        for destination in destinations:
            self._publish(destination, [message[2:] for message in messages if message[1] == destination])

    def _publish(self, destination: str, changes: Sequence[tuple[Any, ...]]) -> None:
        tables = self.tables
        table = tables.at(destination)
        columns = tables.columns(table) or ()
        # Given ones have their order; others are netted.
        given = [change for change in changes if change[1] is not None]
        self._append(table, columns, (_TYPE,), self._netted([change for change in changes if change[1] is None]))
        for has_number, found in groupby(given, lambda change: change[2] is not None):
            self._append(table, columns, (_TYPE, _SEQUENCE) if has_number else (_TYPE,), map(_with_kind, found))

    def _append(
        self, table: TableName, columns: Sequence[Any], pseudocolumns: Sequence[str], rows: Iterable[dict[str, Any]]
    ) -> None:
        stream = RowStream(self.tables, table, columns, pseudocolumns, is_default=True)
        for row in rows:
            stream.add_fields(row)
        stream.finish()

    def _netted(self, changes: Sequence[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
        """Yield the net change of each key."""
        key = itemgetter(*self.tables.target.key)
        signed = [
            _Change(_encode(key(fields)), _encode(fields), sign, version) for fields, _, _, sign, version in changes
        ]
        net = NetChanges(
            signed, _Change, lambda change: (change.key, change.row), lambda change: len(change.key) + len(change.row)
        )
        for values in net:
            last = values[0]
            kind = UPSERT if last.count > 0 else DELETE
            yield {**_decode(last.change.row), _TYPE: kind}


def _with_kind(change: Sequence[Any]) -> dict[str, Any]:
    fields, kind, number = change[:3]
    return {**fields, _TYPE: kind, **({} if number is None else {_SEQUENCE: number})}
