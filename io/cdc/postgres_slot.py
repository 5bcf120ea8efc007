"""ReplicationSlot: a logical replication slot and its publication: made, checked, read and advanced by SQL."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ...frozen import frozen
from .postgres_server import PostgresServer, psycopg_of
from .postgres_tables import Table, quoted

_logger = logging.getLogger(__name__)

T = TypeVar("T")

# How long another reader of the slot is waited for, in seconds.
IN_USE_WITHIN = 20.0

# Messages that are fetched together.
_FETCHED = 1_000


@frozen
class Position:
    """The state of a server and of the slot.

    Attributes:
      confirmed: the place in the log that the slot was advanced to.
      flushed: the end of the durable log.
      micros: the server's time.
    """

    confirmed: int
    flushed: int
    micros: int


def lsn_text(lsn: int) -> str:
    """Return a place in the log as PostgreSQL writes it.

    >>> lsn_text(0x1_0000_00ff)
    '1/FF'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


_LSN = "({} - '0/0'::pg_lsn)::int8"


class ReplicationSlot:
    """A slot with the plugin pgoutput, and a publication of tables.

    Args:
      name, publication: of the slot and of the publication.
    """

    def __init__(self, server: PostgresServer, name: str, publication: str) -> None:
        self.server = server
        self.name = name
        self.publication = publication

    def __str__(self) -> str:
        return f"slot {self.name!r}"

    # Before reading

    def check_server(self, connection: Any) -> None:
        """Raise `SourceError` for a server without logical decoding, or a role that may not replicate."""
        if connection.execute("SELECT pg_is_in_recovery()").fetchone()[0]:
            raise self.server.error(f"{self} can't be made on a standby; give the URL of the primary")
        (level,) = connection.execute("SHOW wal_level").fetchone()
        if level != "logical":
            raise self.server.error(
                f"changes aren't logged: wal_level is {level!r}; run ALTER SYSTEM SET wal_level = 'logical', and "
                "restart the server"
            )
        sql = "SELECT rolreplication OR rolsuper, rolname FROM pg_roles WHERE rolname = current_user"
        may_replicate, role = connection.execute(sql).fetchone()
        if not may_replicate:
            raise self.server.error(f"role {role!r} may not read slots; run ALTER ROLE {quoted(role)} REPLICATION")

    def make_publication(self, connection: Any, tables: Sequence[Table]) -> None:
        """Make the publication, if it doesn't exist, and check that it has all changes of the tables."""
        sql = "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = %s"
        found = connection.execute(sql, (self.publication,)).fetchone()
        listed = ", ".join(table.quoted for table in tables)
        if found is None:
            statement = f"CREATE PUBLICATION {quoted(self.publication)} FOR TABLE {listed}"
            with self.server.explained(f"the publication can't be made by {statement}"):
                connection.execute(statement)
        elif not found[0]:
            raise self.server.error(
                f"publication {self.publication!r} leaves out some kinds of changes; run ALTER PUBLICATION "
                f"{quoted(self.publication)} SET (publish = 'insert, update, delete, truncate')"
            )
        self.check_published(connection, tables)

    def check_published(self, connection: Any, tables: Sequence[Table]) -> None:
        """Raise `SourceError` for tables that the publication doesn't have, or has in part."""
        sql = "SELECT relid::int8 FROM pg_get_publication_tables(%s)"
        with self.server.explained(f"publication {self.publication!r} can't be used"):
            published = {oid for (oid,) in connection.execute(sql, (self.publication,))}
        for table in tables:
            if table.oid not in published:
                raise self.server.error(
                    f"table {table.name!r} is not in publication {self.publication!r}, or was dropped; run ALTER "
                    f"PUBLICATION {quoted(self.publication)} ADD TABLE {table.quoted}, and begin again without the "
                    "checkpoint"
                )
        if connection.info.server_version >= 150000:
            sql = (
                "SELECT r.prrelid::int8 FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid "
                "WHERE p.pubname = %s AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)"
            )
            partly = {oid for (oid,) in connection.execute(sql, (self.publication,))}
            for table in tables:
                if table.oid in partly:
                    raise self.server.error(
                        f"publication {self.publication!r} has only some rows or columns of table {table.name!r}; "
                        "publish it whole, and filter in the pipeline"
                    )

    def start(self, connection: Any, from_now: bool) -> Position:
        """Return where reading begins: where a new slot begins, or one that exists.

        Args:
          from_now: advances a slot that exists to the end of the log.
        """
        psycopg = psycopg_of(self.server.transform)
        if self._row(connection) is None:
            with self.server.explained(f"{self} can't be made"):
                try:
                    sql = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')"
                    connection.execute(sql, (self.name,))
                except psycopg.errors.DuplicateObject:
                    _logger.debug("%s was made meanwhile", self)
            return self.position(connection)
        position = self.position(connection)
        if from_now and position.confirmed < position.flushed:
            self.waiting_for_readers(lambda: self.advance(connection, position.flushed))
            position = self.position(connection)
        return position

    def drop(self, connection: Any) -> None:
        """Remove the slot and the publication, if they exist."""
        sql = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
        connection.execute(sql, (self.name,))
        connection.execute(f"DROP PUBLICATION IF EXISTS {quoted(self.publication)}")

    # While reading

    def position(self, connection: Any) -> Position:
        """Return the state of the server and of the slot.  Raises `SourceError` for a slot that can't be read."""
        row = self._row(connection)
        if row is None:
            raise self.server.error(
                f"{self} doesn't exist; was it dropped, or has the server failed over to a standby without it? The "
                "changes since the checkpoint are gone: begin again without the checkpoint"
            )
        plugin, database, is_ours, wal_status, confirmed, flushed, micros = row
        if plugin != "pgoutput":
            raise self.server.error(f"{self} has the plugin {plugin!r}, expected 'pgoutput'; name another slot")
        if not is_ours:
            raise self.server.error(f"{self} belongs to database {database!r}; name another slot, or that database")
        if wal_status == "lost":
            raise self.lost()
        return Position(confirmed, flushed, micros)

    def lost(self) -> Exception:
        """Return the error for a slot that the server has invalidated."""
        return self.server.error(
            f"{self} is lost: the server has removed the log that it needs, since it was read too slowly "
            "(max_slot_wal_keep_size). Drop it with pg_drop_replication_slot, and begin again without the checkpoint"
        )

    def _row(self, connection: Any) -> Any:
        return connection.execute(
            "SELECT plugin, database, database = current_database(), wal_status, "
            f"{_LSN.format('confirmed_flush_lsn')}, {_LSN.format('pg_current_wal_flush_lsn()')}, "
            "(extract(epoch FROM clock_timestamp()) * 1000000)::int8 FROM pg_replication_slots WHERE slot_name = %s",
            (self.name,),
        ).fetchone()

    def check_not_ahead(self, position: Position, lsn: int) -> None:
        """Raise `SourceError` if the slot was advanced beyond what was read."""
        if position.confirmed > lsn:
            raise self.server.error(
                f"{self} was advanced to {lsn_text(position.confirmed)}, beyond {lsn_text(lsn)}, up to which its "
                "changes were read: those between are gone. Another program reads the slot, or an older checkpoint was "
                "restored; give each pipeline a slot of its own, and begin again without the checkpoint"
            )

    def advance(self, connection: Any, lsn: int) -> None:
        """Let the server forget the changes before a place in the log."""
        connection.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", (self.name, lsn_text(lsn)))

    def waiting_for_readers(self, call: Callable[[], T]) -> T:
        """Return a call's result; while another process reads the slot, call again for a while."""
        psycopg = psycopg_of(self.server.transform)
        until = time.monotonic() + IN_USE_WITHIN
        while True:
            try:
                return call()
            except psycopg.errors.ObjectInUse as error:
                if time.monotonic() > until:
                    raise self.in_use(error) from None
            time.sleep(0.1)

    def in_use(self, error: Any) -> Exception:
        """Return the error for a slot that another process reads."""
        what = f"{self} is in use: another program reads it; stop that, or name another slot"
        return self.server.error(what, error)

    def peek(self, connection: Any, upto: int, limit: int | None) -> Peeked:
        """Return the messages of committed transactions from the slot's position on, which stays.

        Args:
          upto: a place in the log, to which transactions are returned at least.
          limit: a number of messages after which no other transaction begins; None for no limit.
        """
        psycopg = psycopg_of(self.server.transform)
        options = ["proto_version", "1", "publication_names", quoted(self.publication)]
        arguments = psycopg.sql.SQL(", ").join(map(psycopg.sql.Literal, [self.name, lsn_text(upto), limit, *options]))
        # Held by the server, so that no transaction stays open, and a long result isn't in this process' memory.
        statement = psycopg.sql.SQL(
            "DECLARE penstock_changes NO SCROLL CURSOR WITH HOLD FOR "
            "SELECT data FROM pg_logical_slot_peek_binary_changes({})"
        )
        with self.server.explained(f"{self} can't be read"):
            connection.execute("CLOSE ALL")
            try:
                connection.execute(statement.format(arguments))
            except psycopg.errors.ObjectNotInPrerequisiteState:
                # Raises the right error for a slot that was lost.
                self.position(connection)
                raise
            except psycopg.errors.UndefinedObject as error:
                if f'publication "{self.publication}"' not in str(error):
                    raise
                raise self.server.error(
                    f"{self} has changes from before publication {self.publication!r} was made, or after it was "
                    "dropped; make the publication, drop the slot with pg_drop_replication_slot, and begin again "
                    "without the checkpoint"
                ) from None
        return Peeked(connection, limit)


class Peeked:
    """Messages that a server has decoded.

    Attributes:
      number: how many were read.
    """

    def __init__(self, connection: Any, limit: int | None) -> None:
        self._connection = connection
        self._limit = limit
        self.number = 0

    def messages(self) -> Iterator[bytes]:
        """Yield the messages, for `message_of`."""
        with self._connection.cursor(binary=True) as cursor:
            while rows := cursor.execute(f"FETCH FORWARD {_FETCHED} FROM penstock_changes").fetchall():
                for (data,) in rows:
                    self.number += 1
                    yield data

    @property
    def is_whole(self) -> bool:
        """Whether these are all messages that there were."""
        return self._limit is None or self.number < self._limit
