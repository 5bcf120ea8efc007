"""Messages of pgoutput, PostgreSQL's own plugin for logical decoding (protocol version 1).

The format is that of PostgreSQL's manual, "Logical Replication Message Formats".
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

from ...frozen import frozen

# Microseconds from 1970 to 2000, where PostgreSQL's times begin.
_EPOCH = 946_684_800_000_000


class _Unchanged:
    """A long value that an update didn't change, and that isn't in the log."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Any = _Unchanged()

# The values of a row as text, in the order of the columns: bytes, None for null, or UNCHANGED.
Values: TypeAlias = list[Any]


@frozen
class Begin:
    """The begin of a committed transaction.

    Attributes:
      commit: the position of its commit record in the log.
      micros: the time of its commit.
      xid: the lower 32 bits of its id.
    """

    commit: int
    micros: int
    xid: int


@frozen
class Commit:
    """The end of a transaction; `end` is the position after its commit record."""

    end: int


@frozen
class Relation:
    """A table as it is from here on.

    Attributes:
      columns: names and types (object ids), by position.
    """

    oid: int
    name: str
    columns: tuple[tuple[str, int], ...]


@frozen
class Change:
    """An inserted, updated or deleted row.

    Attributes:
      kind: 'I', 'U' or 'D'.
      old: the whole former row, if it is in the log; None otherwise.
      new: the new row; None for a delete.
    """

    kind: str
    oid: int
    old: Values | None
    new: Values | None


@frozen
class Truncate:
    """Tables of which all rows are removed."""

    oids: tuple[int, ...]


Message: TypeAlias = Begin | Commit | Relation | Change | Truncate | None


def is_change(data: bytes) -> bool:
    """Return whether a message is a `Change`, without reading it."""
    return data[0] in _CHANGES


_CHANGES = b"IUD"


def message_of(data: bytes) -> Message:
    """Return a message; None for one that changes no row.  Raises `ValueError` for a message of an unknown kind.

    >>> message_of(bytes.fromhex("4200000000015064780003042d8d9f3d2a000002d8"))
    Begin(commit=22045816, micros=1795703426194730, xid=728)
    """
    kind = data[:1]
    if kind == b"I":
        (oid,) = _OID.unpack_from(data, 1)
        return Change("I", oid, None, _values(data, 6)[0])
    if kind == b"U":
        return _update(data)
    if kind == b"D":
        (oid,) = _OID.unpack_from(data, 1)
        return Change("D", oid, _values(data, 6)[0] if data[5:6] == b"O" else None, None)
    if kind == b"B":
        commit, micros, xid = _BEGIN.unpack_from(data, 1)
        return Begin(commit, micros + _EPOCH, xid)
    if kind == b"C":
        return Commit(_COMMIT.unpack_from(data, 2)[1])
    if kind == b"R":
        return _relation(data)
    if kind == b"T":
        (number,) = _OID.unpack_from(data, 1)
        return Truncate(struct.unpack_from(f">{number}I", data, 6))
    if kind in (b"O", b"Y", b"M"):
        return None
    raise ValueError(f"pgoutput sent a message of the unknown kind {kind!r}")


_OID = struct.Struct(">I")
_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">QQq")
_COLUMN = struct.Struct(">Ii")
_NUMBER = struct.Struct(">H")


def _update(data: bytes) -> Change:
    (oid,) = _OID.unpack_from(data, 1)
    old, offset = None, 5
    if data[5:6] in (b"K", b"O"):
        values, offset = _values(data, 6)
        old = values if data[5:6] == b"O" else None
    return Change("U", oid, old, _values(data, offset + 1)[0])


def _values(data: bytes, offset: int) -> tuple[Values, int]:
    """Return the values of a row, and the position after them."""
    (number,) = _NUMBER.unpack_from(data, offset)
    offset += 2
    values: Values = []
    for _ in range(number):
        kind = data[offset]
        offset += 1
        if kind == 0x74:  # t: text
            (length,) = _OID.unpack_from(data, offset)
            offset += 4 + length
            values.append(data[offset - length : offset])
        else:  # n or u
            values.append(None if kind == 0x6E else UNCHANGED)
    return values, offset


def _relation(data: bytes) -> Relation:
    (oid,) = _OID.unpack_from(data, 1)
    schema, offset = _text(data, 5)
    name, offset = _text(data, offset)
    (number,) = _NUMBER.unpack_from(data, offset + 1)
    offset += 3
    columns = []
    for _ in range(number):
        column, offset = _text(data, offset + 1)
        columns.append((column, _COLUMN.unpack_from(data, offset)[0]))
        offset += _COLUMN.size
    return Relation(oid, f"{schema or 'pg_catalog'}.{name}", tuple(columns))


def _text(data: bytes, offset: int) -> tuple[str, int]:
    end = data.index(0, offset)
    return data[offset:end].decode(), end + 1
