"""A connection to a database that is lost at any step of a transaction: it is made again, and each row counts once."""

import itertools
import logging
import time

import psycopg
import pytest
from servers.crashing_connections import Fuse

from penstock.io.connections import waiting
from penstock.io.connections.lost_connections import is_lost_connection
from penstock.io.sql.database import SqlConnector
from penstock.io.sql.table_sink import TableSink
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import SinkError
from penstock.sdk.sink import LabelledSink


class Loss(Fuse):
    """Loses the connection at the n-th step, just before it, or with its answer."""

    def around(self, step):
        self.steps -= 1
        if self.steps == 0:
            if self.after:
                step()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return step()


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize(("after", "each"), [(False, 4), (True, 1)], ids=["before", "after"])
def test_each_row_is_written_once(database, transactions, after, each, monkeypatch, caplog):
    """Staged rows included, and rows that replace others; the log says so twice.

    Before a step is what was after the one before it, which the client knows to be done.
    """
    monkeypatch.setattr(waiting, "FuzzedExponentialIntervals", lambda *_, **__: itertools.repeat(0.0))
    sink = database.sink()
    transactions.write(sink, Bundle([("ann", 0)]), transaction="0")
    for count, number in enumerate(itertools.count(1, each), 1):
        database.connector.fuse = loss = Loss(number, after)
        change = Bundle([("ann", count - 1), ("ann", count), (f"bob{count}", 1)], signs=[-1, +1, +1])
        caplog.clear()
        transactions.write(sink, change, transaction=str(number))
        database.connector.fuse = Fuse()
        assert sorted([("ann", count), *((f"bob{n}", 1) for n in range(1, count + 1))]) == sorted(database.rows())
        if loss.steps > 0:
            break
        said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert ["doesn't answer", "answers again"] == [
            text for line in said for text in ("doesn't answer", "answers again") if text in line
        ]
    assert number > 30


def test_a_database_that_was_never_reached_is_an_error_at_once():
    def connect():
        raise psycopg.OperationalError("connection refused")

    table = TableSink(SqlConnector(connect, "postgresql"), "words", "word", {"word": str})
    sink = LabelledSink(table, "save")
    began = time.monotonic()
    with pytest.raises(SinkError, match="save: table 'words' in .* can't be written to: connection refused"):
        sink.prepare("1")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (psycopg.errors.AdminShutdown(), True),
        (psycopg.OperationalError("the connection is closed"), True),
        (psycopg.OperationalError('FATAL:  password authentication failed for user "ann"'), False),
        (psycopg.errors.UniqueViolation(), False),
        (ConnectionResetError("reset"), True),
    ],
)
def test_errors_of_lost_connections_are_told_from_others(error, expected):
    assert expected == is_lost_connection(error)
