"""LatestSequencedRows: the latest row of each key, of changes that come in any order.

Several workers read parts of a bounded input, so later changes of a key may come first.  The database's own sequence
tells which change is later: the position in its log, or the time of the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...frozen import frozen
from ...persistence import stored_as
from ...sdk.coders.coder import shortened
from ...sdk.dofn.dofn import DoFn
from ...sdk.errors import SourceError
from ...sdk.userstate import ReadModifyWriteStateSpec, on_window_expiration
from .row_change import RowChange, RowsByKey

# A place in a database's log, with the name of its kind; places of one kind can be compared.
Sequence = tuple[str, tuple[Any, ...]]

# The fields of `source` with the place in the log, by the kind of place: of PostgreSQL, SQL Server, Oracle and MySQL.
_PLACES: tuple[tuple[str, ...], ...] = (
    ("lsn",),
    ("change_lsn", "event_serial_no"),
    ("scn",),
    ("file", "pos", "row"),
)
_TIMES = ("ts_ns", "ts_us", "ts_ms")


@stored_as("sequenced-change", 1)
@frozen
class SequencedChange:
    """A change with its place in the order of all changes.

    Attributes:
      change: the change, whose row is a dict of fields.
      sequence: its place in the database's log; None if the envelope has none.
      reader, number: the worker that has read it, and how many changes it had read then.
    """

    change: RowChange
    sequence: Sequence | None
    reader: bytes
    number: int


def sequence_of(source: Mapping[str, Any]) -> Sequence | None:
    """Return the place of a change in its database's log, given the `source` of its envelope; None without one.

    >>> sequence_of({"lsn": 33, "ts_ms": 5}), sequence_of({"file": "binlog.9", "pos": 4, "row": 0}), sequence_of({})
    (('lsn', (33,)), ('file', (8, 'binlog.9', 4, 0)), None)
    """
    for names in _PLACES:
        first = source.get(names[0])
        if first is not None:
            return names[0], tuple(part for name in names for part in _ordered(source.get(name)))
    for name in _TIMES:
        if source.get(name):
            return name, (int(source[name]),)
    return None


def _ordered(part: Any) -> tuple[Any, ...]:
    """Return a part of a place in the order of its database: numbers as text, and of files the longer name last."""
    if part is None:
        return (0,)
    if isinstance(part, str):
        return (int(part),) if part.isdecimal() else (len(part), part)
    return (part,)


@stored_as("latest-sequenced-row", 1)
@frozen
class LatestSequencedRow:
    """The latest row of a key.

    Attributes:
      newest: the change that it is of; one without a row is a delete.
      row: the row; None after a delete.
      filled: the fields that the newest change didn't have, with the earlier change that has their value, or None if
        none has come yet.
    """

    newest: SequencedChange
    row: dict[str, Any] | None
    filled: dict[str, SequencedChange | None]

    @property
    def shown(self) -> dict[str, Any] | None:
        """The row that is an element: none until all of its fields are known."""
        return None if None in self.filled.values() else self.row


class LatestSequencedRows(RowsByKey):
    """The latest row of each key, in any order of its changes.

    Elements are pairs of a key and a `SequencedChange`.
    """

    LATEST = ReadModifyWriteStateSpec("latest")

    def process(self, keyed: tuple[Any, SequencedChange], latest: Any = DoFn.StateParam(LATEST)) -> Iterator[Any]:
        key, change = keyed
        before: LatestSequencedRow | None = latest.read()
        after = _begun(change, before) if before is None or self._is_later(key, change, before.newest) else None
        if after is None:
            assert before is not None
            after = self._completed(key, before, change)
        if after == before:
            return
        latest.write(after)
        yield from self.outputs(change.change, None if before is None else before.shown, after.shown)

    @on_window_expiration
    def check(self, latest: Any = DoFn.StateParam(LATEST), key: Any = DoFn.KeyParam) -> None:
        """Raise `SourceError` for a key whose latest row is not known as a whole."""
        last: LatestSequencedRow | None = latest.read()
        if last is not None and last.shown is None and last.row is not None:
            names = ", ".join(repr(name) for name, known in last.filled.items() if known is None)
            raise SourceError(
                f"expected an earlier row of the key {shortened(key)}, with the unchanged {names} of "
                f"{shortened(last.row)}, found none; begin with a snapshot of the table"
            )

    def _completed(self, key: Any, latest: LatestSequencedRow, change: SequencedChange) -> LatestSequencedRow:
        """Return the latest row with those values of an earlier change that it doesn't have, or has from before it."""
        earlier, row = change.change, latest.row
        if row is None or earlier.sign < 0:
            return latest
        filled, row = dict(latest.filled), dict(row)
        for name, known in latest.filled.items():
            has_it = name in earlier.row and name not in earlier.missing
            if has_it and (known is None or self._is_later(key, change, known)):
                filled[name], row[name] = change, earlier.row[name]
        return LatestSequencedRow(latest.newest, row, filled)

    def _is_later(self, key: Any, change: SequencedChange, other: SequencedChange) -> bool:
        """Return True if a change is later than another one of the key; of equal ones the one that comes last.

        Raises `SourceError` if that can't be known.
        """
        one, two = change.sequence, other.sequence
        if one is not None and two is not None and one[0] == two[0] and one[1] != two[1]:
            return bool(one[1] > two[1])
        if change.reader == other.reader:
            return change.number >= other.number
        if one is not None and one == two and (one[0] not in _TIMES or change.change == other.change):
            # Debezium has sent it twice.
            return True
        raise SourceError(
            f"two changes of the key {shortened(key)} were read by different workers, and have nothing "
            "in their 'source' that says which is later (lsn, scn, file and pos, or different times): "
            f"{shortened(other.change.row)} and {shortened(change.change.row)}; run it with --parallelism=1, or give "
            "the input as a file that isn't split, such as a compressed one"
        )


def _begun(change: SequencedChange, before: LatestSequencedRow | None) -> LatestSequencedRow:
    """Return the latest row after a change that is later than all before it."""
    if change.change.sign < 0:
        return LatestSequencedRow(change, None, {})
    row, filled = dict(change.change.row), {}
    for name in change.change.missing:
        known = None
        if before is not None and before.row is not None and before.filled.get(name, before.newest) is not None:
            known = before.filled.get(name, before.newest)
            row[name] = before.row[name]
        filled[name] = known
    return LatestSequencedRow(change, row, filled)
