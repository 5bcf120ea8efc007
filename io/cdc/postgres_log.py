"""ChangeLog: the changes that a server has decoded, from a position on; Offset: a position."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import attrs

from ...frozen import frozen
from ...persistence import stored_as
from .pgoutput import Begin, Change, Commit, Message, Relation, Truncate, is_change, message_of
from .postgres_slot import Peeked, Position, ReplicationSlot
from .postgres_snapshot import Key, missing_former_row, truncated
from .postgres_tables import RowReader, Table, completed
from .row_change import RowChange


@stored_as("postgres-changes-offset", 1)
@frozen
class Offset:
    """A position in a snapshot, or in the changes behind it.

    Attributes:
      system: the server's system identifier, which its standbys share.
      timeline: the server's timeline, which a failover changes.
      tables: the tables, as they were when reading began.
      begun: the id of the first transaction that was begun after reading began.
      lsn: the position in the log before which all commits were read; during a snapshot, that whose rows it has.
      micros: the event time of the last element.
      table: the index of the table that the snapshot is at; None behind the snapshot.
      key: the last key of that table that was read.
      commit: the position of the commit that was read in part; 0 for none.
      count: how many changes of it were read.
    """

    system: str
    timeline: str
    tables: tuple[Table, ...]
    begun: int
    lsn: int
    micros: int
    table: int | None = None
    key: Key | None = None
    commit: int = 0
    count: int = 0

    @property
    def position(self) -> tuple[int, int]:
        """The position in the changes, as that of a step."""
        return max(self.lsn, self.commit), self.count


class Step(NamedTuple):
    """A change, or the end of a transaction, and the position after it."""

    change: RowChange | None
    lsn: int
    commit: int
    number: int
    micros: int

    def offset(self, before: Offset) -> Offset:
        return attrs.evolve(before, lsn=self.lsn, commit=self.commit, count=self.number, micros=self.micros)

    @property
    def position(self) -> tuple[int, int]:
        """The position in the changes, by which steps are ordered."""
        return max(self.lsn, self.commit), self.number


class ChangeLog:
    """Changes that the server has decoded, from a position on.

    Attributes:
      upto: the position in the log up to which commits are among them.
      micros: the server's time before it decoded them.
    """

    def __init__(
        self, slot: ReplicationSlot, readers: Sequence[RowReader], peeked: Peeked, start: Offset, position: Position
    ) -> None:
        self.upto = position.flushed
        self.micros = position.micros
        self._slot = slot
        self._readers = {reader.table.oid: (number, reader) for number, reader in enumerate(readers)}
        self._peeked = peeked
        self._messages = peeked.messages()
        self._start = start
        self._ahead: deque[Step] = deque()
        # The position after the last step, and the transaction that was begun; None for one that was read before.
        self._last = Step(None, start.lsn, start.commit, start.count, start.micros)
        self._begun: Begin | None = None
        self._count = 0

    @property
    def has_more(self) -> bool:
        """Whether there are steps that weren't taken."""
        return bool(self._ahead)

    @property
    def number(self) -> int:
        """How many messages were read."""
        return self._peeked.number

    @property
    def is_whole(self) -> bool:
        """Whether these are all changes up to `upto`, once they are taken."""
        return self._peeked.is_whole

    def take(self, limit: int, end: tuple[int, int] | None) -> list[Step]:
        """Return steps with at most `limit` changes: whole transactions, or a part of one that is larger.

        Args:
          end: the position behind which none is taken.
        """
        taken = whole = changes = 0
        while taken < len(self._ahead) or self._pull():
            step = self._ahead[taken]
            if end is not None and step.position > end:
                break
            if step.change is not None:
                if changes == limit:
                    break
                changes += 1
            taken += 1
            if step.change is None:
                whole = taken
        return [self._ahead.popleft() for _ in range(whole or taken)]

    def _pull(self) -> bool:
        """Add the steps of the next messages.  Returns False if there are no more."""
        for data in self._messages:
            if self._begun is None and is_change(data):
                continue
            steps = self._steps(message_of(data))
            if steps:
                self._ahead.extend(steps)
                return True
        return False

    def _steps(self, message: Message) -> list[Step]:
        if isinstance(message, Begin):
            self._begun = message if message.commit >= self._start.lsn else None
            self._count = 0
        elif isinstance(message, Relation):
            if message.oid in self._readers:
                self._readers[message.oid][1].follow(message)
        elif self._begun is None:
            return []
        elif isinstance(message, Change):
            if message.oid in self._readers:
                return self._changed(message, self._begun)
        elif isinstance(message, Commit):
            micros = self._micros_of(self._begun) if self._count else self._last.micros
            self._last = Step(None, message.end, 0, 0, micros)
            return [self._last]
        elif isinstance(message, Truncate):
            tables = [self._readers[oid][1].table for oid in message.oids if oid in self._readers]
            if tables:
                raise truncated(self._slot, tables)
        return []

    def _changed(self, change: Change, begun: Begin) -> list[Step]:
        number, reader = self._readers[change.oid]
        old = None if change.old is None else reader.values(change.old)
        new = None if change.new is None else reader.values(change.new)
        if old is None and change.kind != "I":
            raise missing_former_row(reader)
        steps = []
        for sign, values in ((-1, old), (+1, new)):
            if values is None:
                continue
            self._count += 1
            if begun.commit == self._start.commit and self._count <= self._start.count:
                continue
            row = reader.row(values if sign < 0 else completed(values, old))
            micros = self._micros_of(begun)
            self._last = Step(RowChange(sign, row, table=number), self._last.lsn, begun.commit, self._count, micros)
            steps.append(self._last)
        return steps

    def _micros_of(self, begun: Begin) -> int:
        """Return the event time of a transaction."""
        return max(begun.micros, self._last.micros)
