"""PostgresSource: the snapshot and the changes of tables as an unbounded source."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from ...frozen import frozen
from ...sdk.claims import Claim, Claimant
from ...sdk.redaction import logger_of
from ...sdk.sources.event_time_reader import EventTimeReader, EventTimes
from ...sdk.sources.unbounded import UnboundedSource
from ...windowing.timestamp import Timestamp
from ..connections.lost_connections import is_lost_connection
from .postgres_log import ChangeLog, Offset
from .postgres_server import PostgresServer, psycopg_of
from .postgres_slot import IN_USE_WITHIN, ReplicationSlot, lsn_text
from .postgres_snapshot import TableSnapshot, earlier_ended
from .postgres_tables import RowReader, Table, check_identities, tables_of
from .row_change import RowChange

_logger = logger_of(__name__)

# How long a server is waited for before a run starts, in seconds.
REACHED_WITHIN = 20.0

# How long open transactions are waited for without saying so, in seconds.
_SAID_AFTER = 5.0

# A commit is in the log at most so many microseconds after its time, so far as an idle source's watermark knows.
_COMMIT_TAKES = 2_000_000

# Messages that are decoded together, at least.
_TOGETHER = 20_000

# Bytes of the log without changes of the tables after which the slot is advanced.
_SILENT = 1 << 24


@frozen
class Reading:
    """What is read.

    Attributes:
      tables: the names of the tables, in the order in which they are numbered.
      makers: functions from fields to rows, by table.
      times: event times and the watermark.
      follows: whether the watermark follows the commits.
      poll_interval: microseconds between two looks for new changes.
      snapshot: whether the rows that tables have are read before their changes.
    """

    slot: ReplicationSlot
    tables: tuple[str, ...]
    makers: tuple[Callable[[dict[str, Any]], Any], ...]
    times: EventTimes
    follows: bool
    poll_interval: int
    snapshot: bool

    @property
    def server(self) -> PostgresServer:
        return self.slot.server

    def readers(self, connection: Any, tables: Sequence[Table]) -> list[RowReader]:
        """Return the readers of rows of tables."""
        return [
            RowReader(self.server, connection, table, make) for table, make in zip(tables, self.makers, strict=True)
        ]


class PostgresSource(UnboundedSource[RowChange], Claimant):
    """The rows and changes of tables, by a replication slot, which is the only partition."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def claims(self) -> Sequence[Claim]:
        slot, server = self.reading.slot, self.reading.server
        what = f"it reads the replication {slot} of {server.server}"
        advice = "a slot gives each change once; give one of them another slot, or read all tables by one transform"
        return [Claim(what, advice, ("postgresql", server.identity, slot.name))]

    def partitions(self) -> Sequence[str]:
        return [self.reading.slot.name]

    def identity(self) -> Mapping[str, Any]:
        reading = self.reading
        return {
            "database": reading.server.database,
            "slot": reading.slot.name,
            "publication": reading.slot.publication,
            "tables": list(reading.tables),
        }

    def open(self, partition: str, offset: Offset | None) -> PostgresReader:
        return PostgresReader(self.reading, self._first() if offset is None else offset)

    def _first(self) -> Offset:
        """Return the position where reading begins, and make the slot.  Waits for the server for a while."""
        server, until = self.reading.server, time.monotonic() + REACHED_WITHIN
        while True:
            try:
                with server.explained("the changes can't be read"):
                    connection = server.connect()
                    try:
                        return self._begin(connection)
                    finally:
                        connection.close()
            except psycopg_of(server.transform).Error as error:
                if time.monotonic() > until:
                    raise server.error("the server doesn't answer", error) from None
            time.sleep(0.2)

    def _begin(self, connection: Any) -> Offset:
        reading, slot = self.reading, self.reading.slot
        slot.check_server(connection)
        tables = tables_of(reading.server, connection, reading.tables, with_keys=reading.snapshot)
        check_identities(reading.server, connection, tables)
        slot.make_publication(connection, tables)
        position = slot.start(connection, from_now=reading.snapshot)
        system, timeline = _identity_of(connection)
        table = 0 if reading.snapshot else None
        # An id of its own: the end of a snapshot may be less than those of open transactions.
        (begun,) = connection.execute("SELECT pg_current_xact_id()::text::numeric::int8").fetchone()
        return Offset(system, timeline, tables, begun, position.confirmed, position.micros, table)


def _identity_of(connection: Any) -> tuple[str, str]:
    """Return the system identifier and the timeline of a server."""
    sql = "SELECT system_identifier::text, left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM pg_control_system()"
    system, timeline = connection.execute(sql).fetchone()
    return system, timeline


class PostgresReader(EventTimeReader[RowChange]):
    """Reader of a snapshot, and of the changes behind it.  A lost server is waited for.

    Transactions are read in the order of their commits, each with one event time: that of its commit, or of an earlier
    one in that order if that is later.  Elements of a transaction are in one bundle, if it isn't larger than a bundle.
    """

    def __init__(self, reading: Reading, offset: Offset) -> None:
        super().__init__(reading.times)
        self._reading = reading
        self._slot = reading.slot
        self._server = reading.server
        self._offset = offset
        self._connection: Any = None
        self._readers: list[RowReader] = []
        self._snapshot: TableSnapshot | None = None
        self._log: ChangeLog | None = None
        self._outage = self._server.outage()
        # Before this, in microseconds, no new changes are looked for.
        self._look_at: int | None = None
        # The time up to which there are no more changes to read.
        self._quiet_until = 0
        self._confirmed = 0
        self._flushed = 0
        # The end of the log up to which all changes were read, and the number of messages that were read last.
        self._seen = 0
        self._read = 0
        self._in_use_since: float | None = None
        # Since when open transactions are waited for, and whether that was said.
        self._waits_since: float | None = None
        self._has_said = False

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[RowChange], list[int] | None]:
        psycopg = psycopg_of(self._server.transform)

        def elements() -> tuple[list[RowChange], list[int] | None]:
            with self._server.explained("the changes can't be read"):
                self._connect()
                return self._elements(max_elements, now)

        try:
            found = self._outage.poll(elements, self.close, waits=self.end is not None)
        except psycopg.Error as error:
            raise self._server.error("the server doesn't answer", error) from None
        return ([], None) if found is None else found

    def offset(self) -> Offset:
        return self._offset

    def watermark(self, now: Timestamp) -> int:
        known = super().watermark(now)
        if self._reading.follows:
            self._watermark = known = max(known, self._quiet_until)
        return known

    def backlog(self) -> int | None:
        """Return the bytes of the log behind the position."""
        return max(self._flushed - self._offset.lsn, 0) if self._flushed else None

    def acknowledge(self, offset: Any) -> None:
        if offset is None or self._connection is None or offset.lsn <= self._confirmed:
            return
        psycopg = psycopg_of(self._server.transform)
        try:
            self._slot.advance(self._connection, offset.lsn)
            self._confirmed = offset.lsn
        except psycopg.errors.ObjectInUse:
            # The next checkpoint advances it.
            _logger.debug("%s: %s is in use, and isn't advanced", self._server.transform, self._slot)
        except psycopg.Error as error:
            if not is_lost_connection(error):
                with self._server.explained(f"{self._slot} can't be advanced to {lsn_text(offset.lsn)}"):
                    self._slot.check_not_ahead(self._slot.position(self._connection), offset.lsn)
                    raise
            self.close()
            self._outage.lost(error)

    def close(self) -> None:
        for one in (self._snapshot, self._connection):
            if one is not None:
                one.close()
        self._snapshot = self._connection = self._log = None

    # The connection

    def _connect(self) -> None:
        if self._connection is not None:
            return
        connection = self._server.connect()
        try:
            if connection.execute("SELECT pg_is_in_recovery()").fetchone()[0]:
                raise psycopg_of(self._server.transform).OperationalError("it is a standby, which may be promoted")
            self._check(connection)
            self._readers = self._reading.readers(connection, self._offset.tables)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _check(self, connection: Any) -> None:
        """Raise `SourceError` for a server or slot that doesn't have the changes behind the position."""
        offset = self._offset
        system, timeline = _identity_of(connection)
        if system != offset.system:
            raise self._server.error(
                f"the server isn't the one that was read: its system identifier is {system}, expected {offset.system}; "
                "begin again without the checkpoint"
            )
        position = self._slot.position(connection)
        self._slot.check_not_ahead(position, offset.lsn)
        if position.flushed < offset.lsn:
            raise self._server.error(
                f"the server's log ends at {lsn_text(position.flushed)}, before {lsn_text(offset.lsn)}, up to which "
                "changes were read: a failover to a standby that was behind has lost commits. Begin again without the "
                "checkpoint"
            )
        if timeline != offset.timeline:
            _logger.warning(
                "%s: %s: the server's timeline is %s, and was %s: it has failed over. If the standby was behind, "
                "commits that were read may be lost",
                *(self._server.transform, self._slot, timeline, offset.timeline),
            )
            self._offset = attrs.evolve(offset, timeline=timeline)
        self._slot.check_published(connection, offset.tables)
        self._confirmed = position.confirmed

    # Elements

    def _elements(self, max_elements: int, now: Timestamp) -> tuple[list[RowChange], list[int] | None]:
        while self._offset.table is not None and self._offset != self.end:
            if self._snapshot is None and not self._can_begin():
                return [], None
            rows = self._rows(max_elements)
            if rows:
                return rows, [self._offset.micros] * len(rows)
        if self._snapshot is not None and self._offset.table is None:
            self._snapshot.close()
            self._snapshot = None
        return self._changes(max_elements, now)

    def _can_begin(self) -> bool:
        """Return whether a snapshot sees all commits before the slot.  Says so if it doesn't for a while."""
        while not earlier_ended(self._connection, self._offset.begun):
            if self._waits_since is None:
                self._waits_since = time.monotonic()
            elif not self._has_said and time.monotonic() - self._waits_since > _SAID_AFTER:
                self._has_said = True
                _logger.warning(
                    "%s: %s: transactions are open that were begun before the slot; waiting for their end before rows "
                    "are read",
                    *(self._server.transform, self._server.server),
                )
            if self.end is None:
                return False
            time.sleep(0.1)
        return True

    def _rows(self, limit: int) -> list[RowChange]:
        """Return rows of the snapshot, and follow the position."""
        number, end = self._offset.table, self.end
        assert number is not None
        if self._snapshot is None:
            connection = self._server.connect()
            try:
                self._snapshot = TableSnapshot(self._slot, connection, self._connection, self._readers)
            except BaseException:
                connection.close()
                raise
        is_at_end = end is not None and end.table == number
        rows, key = self._snapshot.read(number, self._offset.key, end.key if is_at_end else None, limit)
        changes = [RowChange(+1, row, table=number) for row in rows]
        if key is not None:
            self._offset = attrs.evolve(self._offset, key=key)
        elif is_at_end:
            self._offset = end
        else:
            following = number + 1 if number + 1 < len(self._readers) else None
            self._offset = attrs.evolve(self._offset, table=following, key=None)
        return changes

    def _changes(self, max_elements: int, now: Timestamp) -> tuple[list[RowChange], list[int] | None]:
        """Return changes, and follow the position; whole transactions, if they aren't too large."""
        while self._offset != self.end and (self._log is not None or self._look(now)):
            log = self._log
            assert log is not None
            steps = log.take(max_elements, None if self.end is None else self.end.position)
            if steps:
                self._offset = steps[-1].offset(self._offset)
                found = [step for step in steps if step.change is not None]
                if found:
                    return [step.change for step in found], [step.micros for step in found]  # type: ignore[misc]
            elif self.end is not None and (log.has_more or log.upto >= self.end.lsn):
                # No change is between the position and the end.
                self._offset = self.end
            else:
                self._end_log(log, now)
        return [], None

    def _look(self, now: Timestamp) -> bool:
        """Look for changes behind the position.  Returns False if there is none."""
        psycopg, connection = psycopg_of(self._server.transform), self._connection
        if self.end is None and self._look_at is not None and now.micros < self._look_at:
            return False
        position = self._slot.position(connection)
        self._flushed = position.flushed
        if self.end is None and position.flushed == self._seen:
            self._rest(position.micros, now)
            return False
        # Until the slot is advanced, the server decodes what was read once more.
        limit = _TOGETHER + (0 if position.confirmed >= self._offset.lsn else self._read)
        try:
            peeked = self._slot.peek(connection, position.flushed, limit)
        except psycopg.errors.ObjectInUse as error:
            self._wait_for_reader(error, now)
            return False
        self._in_use_since = None
        # What another reader has removed meanwhile isn't among the changes.
        self._slot.check_not_ahead(self._slot.position(connection), self._offset.lsn)
        self._slot.check_published(connection, self._offset.tables)
        self._log = ChangeLog(self._slot, self._readers, peeked, self._offset, position)
        return True

    def _wait_for_reader(self, error: BaseException, now: Timestamp) -> None:
        if self._in_use_since is None:
            self._in_use_since = time.monotonic()
        if time.monotonic() - self._in_use_since > IN_USE_WITHIN:
            raise self._slot.in_use(error)
        if self.end is not None:
            time.sleep(0.1)
        self._look_at = now.micros + self._reading.poll_interval

    def _end_log(self, log: ChangeLog, now: Timestamp) -> None:
        """Leave a log that was read to its end."""
        self._log = None
        self._read = log.number
        if not log.is_whole:
            return
        self._seen = log.upto
        if self.end is None:
            self._rest(log.micros, now)
            if self._offset.commit == 0 and log.upto - self._offset.lsn >= _SILENT:
                self._offset = attrs.evolve(self._offset, lsn=log.upto)

    def _rest(self, micros: int, now: Timestamp) -> None:
        """Note that there were no more changes at a time of the server's, and look again after a while."""
        self._quiet_until = micros - _COMMIT_TAKES
        self._look_at = now.micros + self._reading.poll_interval
