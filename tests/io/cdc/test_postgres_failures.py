"""What a server or its settings lack is refused with what to do; a lost server is waited for."""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import sqlite3
import tempfile
import time
import traceback
import urllib.request
from collections.abc import Iterator
from typing import Any

import attrs
import psycopg
import pytest
from servers.postgresql import PASSWORD, PostgreSQL, Standby
from support.io.postgres_tables import Tables, poll, read_all, signed
from support.programs.running_program import wait_until

import penstock as beam
from penstock.io import ReadFromPostgresChanges
from penstock.io.cdc import postgres_slot, postgres_source
from penstock.io.connections import waiting
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.drawing.drawing import mime_bundle
from penstock.sdk.errors import SourceError
from penstock.windowing import Timestamp

# Seconds: `OUTAGE=60 pytest tests/io/cdc -k lost_server` loses the server of a stream for a minute.
OUTAGE = float(os.environ.get("OUTAGE", "0.3"))

# When the pipeline is built


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"url": "postgresql://ann:secret@h:port/"},
            "expected a URL such as 'postgresql://user:password@host/database'",
        ),
        ({"url": "nosuch=1 password=secret"}, "got one that libpq can't read"),
        ({"slot": "Orders"}, "slot 'Orders' can't be the name of one: PostgreSQL takes lower-case letters"),
        ({"slot": ""}, "expected the name of a slot"),
        ({"table": []}, "expected the name of a table, or several different names"),
        ({"table": ["a", "a"]}, "expected the name of a table, or several different names"),
        ({"poll_interval": 0}, "poll_interval must be more than 0 seconds"),
        ({"type": {"other": None}}, "type has 'other', which is none of the tables orders"),
        ({"type": int}, "rows can't have the type int"),
        ({"timestamp_fn": max}, "with a timestamp_fn give a watermark_estimator too"),
    ],
)
def test_wrong_arguments_are_refused_when_the_transform_is_made(arguments: dict[str, Any], message: str) -> None:
    """Without a server, and without a password in the message."""
    given: dict[str, Any] = {"url": "postgresql://h/db", "table": "orders", "slot": "s"} | arguments
    with pytest.raises((ValueError, TypeError), match=f"ReadFromPostgresChanges: .*{message}") as raised:
        ReadFromPostgresChanges(**given)
    assert "secret" not in "".join(traceback.format_exception(raised.value))


# When the run starts


@pytest.mark.parametrize(
    ("statements", "options", "message"),
    [
        ([], {"table": "nosuch"}, "there is no table '.*nosuch'"),
        (
            ["CREATE VIEW v AS SELECT * FROM orders"],
            {"table": "v"},
            "'.*v' is not a plain table; views have no changes",
        ),
        (
            ["CREATE TABLE nokey (id int)", "ALTER TABLE nokey REPLICA IDENTITY FULL"],
            {"table": "nokey"},
            "table '.*nokey' has no primary key, in whose order its snapshot is read; add one, or .* snapshot=False",
        ),
        (
            ["ALTER TABLE orders REPLICA IDENTITY DEFAULT"],
            {},
            r'the former rows, which are to be retracted; run ALTER TABLE "cdc\d+"."orders" REPLICA IDENTITY FULL',
        ),
        (["CREATE PUBLICATION {slot}"], {}, r'is not in publication .*; run ALTER PUBLICATION "{slot}" ADD TABLE'),
        (
            ["CREATE PUBLICATION {slot} FOR TABLE orders WITH (publish = 'insert')"],
            {},
            r"leaves out some kinds of changes; run ALTER PUBLICATION .* SET \(publish = 'insert, update, delete",
        ),
        (
            ["CREATE PUBLICATION {slot} FOR TABLE orders WHERE (id > 3)"],
            {},
            "publication '{slot}' has only some rows or columns of table '.*orders'; publish it whole",
        ),
        (
            ["SELECT pg_create_logical_replication_slot('{slot}', 'test_decoding')"],
            {},
            "slot '{slot}' has the plugin 'test_decoding', expected 'pgoutput'; name another slot",
        ),
        (
            ["SELECT pg_create_physical_replication_slot('{slot}')"],
            {},
            "slot '{slot}' has the plugin None, expected 'pgoutput'",
        ),
    ],
)
def test_tables_that_cannot_be_read_are_refused_before_the_run(
    tables: Tables, statements: list[str], options: dict[str, Any], message: str
) -> None:
    """By the whole label of the transform, with what to run."""
    tables.make()
    for statement in statements:
        tables.run(statement.format(slot=tables.slot))
    p = beam.Pipeline(options=PipelineOptions(max_restarts=0))
    _ = p | "Orders" >> tables.read(**options)
    with pytest.raises(SourceError, match="Orders: .*" + message.replace("{slot}", tables.slot)):
        p.run().wait_until_finish()


@pytest.fixture
def ann(tables: Tables) -> Iterator[str]:
    """The URL for a role that may do nothing."""
    tables.run("CREATE ROLE ann LOGIN PASSWORD 'secret'")
    try:
        yield f"postgresql://ann:secret@127.0.0.1:{tables.server.port}/postgres"
    finally:
        tables.run("DROP OWNED BY ann; DROP ROLE ann")


def test_what_a_role_may_not_do_is_said_step_by_step(tables: Tables, ann: str) -> None:
    """Until it may do what is needed."""
    tables.make(rows=1)
    needed = [
        ("role 'ann' may not read slots; run ALTER ROLE \"ann\" REPLICATION", "ALTER ROLE ann REPLICATION"),
        ("there is no table|permission denied for schema", f"GRANT USAGE ON SCHEMA {tables.schema} TO ann"),
        ("the role may not read table '.*orders'; GRANT SELECT ON", "GRANT SELECT ON orders TO ann"),
        ("the publication can't be made by CREATE PUBLICATION .* FOR TABLE .*: permission denied", ""),
    ]
    for message, statement in needed:
        with pytest.raises(SourceError, match=message) as raised:
            tables.open(url=ann)
        assert "secret" not in "".join(traceback.format_exception(raised.value))
        if statement:
            tables.run(statement)
    tables.run(f"CREATE PUBLICATION {tables.slot} FOR TABLE orders")
    assert [(+1, 1, 10)] == signed(read_all(tables.open(url=ann)))


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("well", "tap", "password authentication failed .*; are the user and the password right?"),
        ("/postgres", "/nosuch", 'database "nosuch" does not exist'),
    ],
)
def test_a_server_that_refuses_is_not_waited_for(
    tables: Tables, old: str, new: str, message: str, bounded: bool
) -> None:
    """Whatever the password is, it isn't repeated."""
    tables.make()
    url = tables.server.url.replace(old, new)
    p = beam.Pipeline(options=PipelineOptions(max_restarts=0))
    _ = p | tables.read(url=url, bounded=bounded)
    began = time.monotonic()
    with pytest.raises(SourceError, match=message) as raised:
        p.run().wait_until_finish()
    assert time.monotonic() - began < 15
    text = "".join(traceback.format_exception(raised.value))
    assert [] == [part for part in (PASSWORD, "drawn%3A", "@tap", "@well") if part in text]


@pytest.mark.parametrize("bounded", [False, True])
def test_a_server_that_does_not_answer_is_an_error_when_the_run_starts(
    monkeypatch: pytest.MonkeyPatch, bounded: bool
) -> None:
    """After a while."""
    monkeypatch.setattr(postgres_source, "REACHED_WITHIN", 0.3)
    p = beam.Pipeline(options=PipelineOptions(max_restarts=0))
    url = "postgresql://ann:secret@127.0.0.1:1/shop"
    _ = p | "Orders" >> ReadFromPostgresChanges(url, "orders", "s", bounded=bounded)
    message = r"Orders: the server doesn't answer \(database 'shop' at 127.0.0.1:1\): .*refused"
    with pytest.raises(SourceError, match=message) as raised:
        p.run().wait_until_finish()
    assert "secret" not in "".join(traceback.format_exception(raised.value))


def test_a_server_without_logical_decoding_is_refused(own_server: PostgreSQL) -> None:
    """With the settings that it needs; a bounded read needs none."""
    port = own_server.port
    own_server.stop()
    own_server.settings["wal_level"] = "replica"
    own_server.start(port)
    try:
        tables = Tables(own_server)
        tables.make(rows=1)
        with pytest.raises(
            SourceError, match="wal_level is 'replica'; run ALTER SYSTEM SET wal_level = 'logical', and"
        ):
            tables.open()
        tables.clean_up()
    finally:
        own_server.stop()
        own_server.settings["wal_level"] = "logical"
        own_server.start(port)


# While it runs


def test_a_slot_that_was_dropped_is_an_error(tables: Tables) -> None:
    """While it is read, and when reading is resumed."""
    tables.make(rows=1)
    reader = tables.open()
    read_all(reader)
    tables.run("SELECT pg_drop_replication_slot(%s)", [tables.slot])
    tables.run("INSERT INTO orders VALUES (2, 20)")
    for each in (reader, tables.open(offset=reader.offset())):
        with pytest.raises(SourceError, match="slot '.*' doesn't exist; was it dropped, or has the server failed over"):
            read_all(each)


def test_a_slot_that_another_program_advances_is_an_error(tables: Tables) -> None:
    """While it is read, and when reading is resumed from a checkpoint."""
    tables.make(rows=1)
    reader = tables.open()
    read_all(reader)
    tables.run("INSERT INTO orders VALUES (2, 20)")
    tables.run("SELECT pg_replication_slot_advance(%s, pg_current_wal_flush_lsn())", [tables.slot])
    for each in (reader, tables.open(offset=reader.offset())):
        with pytest.raises(SourceError, match=r"was advanced to \w+/\w+, beyond \w+/\w+, up to which its changes were"):
            read_all(each)


def test_a_slot_of_another_database_is_an_error(tables: Tables) -> None:
    """Slots belong to databases, though their names don't."""
    tables.make(rows=1)
    tables.open().close()
    tables.run("CREATE DATABASE other")
    other = PostgreSQL.url.fget(tables.server).replace("/postgres", "/other")  # type: ignore[attr-defined]
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {tables.schema}")
        connection.execute(f"CREATE TABLE {tables.schema}.orders (id int PRIMARY KEY)")
        connection.execute(f"ALTER TABLE {tables.schema}.orders REPLICA IDENTITY FULL")
    with pytest.raises(SourceError, match="slot '.*' belongs to database 'postgres'; name another slot, or that"):
        tables.open(url=other)
    tables.run("DROP DATABASE other WITH (FORCE)")


def test_another_server_and_one_that_is_behind_are_errors(tables: Tables) -> None:
    """As after a failover to a standby that lacks commits."""
    tables.make(rows=1)
    reader = tables.open()
    read_all(reader)
    offset = reader.offset()
    for changed, message in (
        ({"system": "7"}, r"the server isn't the one that was read: its system identifier is \d+, expected 7"),
        (
            {"lsn": offset.lsn + (1 << 40)},
            "the server's log ends at .* a failover to a standby that was behind has lost",
        ),
    ):
        with pytest.raises(SourceError, match=message):
            read_all(tables.open(offset=attrs.evolve(offset, **changed)))


def test_a_failover_is_logged_and_reading_goes_on(tables: Tables, caplog: pytest.LogCaptureFixture) -> None:
    """If the slot and all that was read are there."""
    tables.make(rows=1)
    reader = tables.open()
    read_all(reader)
    tables.run("INSERT INTO orders VALUES (2, 20)")
    again = tables.open(offset=attrs.evolve(reader.offset(), timeline="00000009"))
    assert [(+1, 2, 20)] == signed(read_all(again))
    assert "the server's timeline is 00000001, and was 00000009: it has failed over" in caplog.text
    assert "00000001" == again.offset().timeline


def test_changes_from_before_the_publication_are_an_error(tables: Tables) -> None:
    """The plugin can't read them."""
    tables.make(rows=1)
    tables.run(f"SELECT pg_create_logical_replication_slot('{tables.slot}', 'pgoutput')")
    tables.run("INSERT INTO orders VALUES (2, 20)")
    reader = tables.open(snapshot=False)
    with pytest.raises(SourceError, match="has changes from before publication '.*' was made, or after it was dropped"):
        read_all(reader)


def test_a_standby_is_waited_for_until_it_is_promoted(
    own: Tables, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Then reading goes on, if it has the slot; if it hasn't, that is said."""
    monkeypatch.setattr(waiting, "RETRIED_AFTER", 0.05)
    primary = own.server
    with tempfile.TemporaryDirectory(prefix="penstock-standby-") as directory:
        standby = Standby(pathlib.Path(directory), primary)
        port = primary.port
        try:
            standby.start()
            own.make(rows=1)
            reader = own.open()
            read_all(reader)
            own.run("UPDATE orders SET price = 11")
            # The primary then sends all that it has before it ends.
            streaming = "SELECT pid FROM pg_stat_replication WHERE state = 'streaming'"
            wait_until(lambda: own.run(streaming), "the standby follows the primary")
            own.connection.close()
            primary.stop()
            standby.stop()
            standby.copy_slot(own.slot)
            standby.start()
            again = own.open(offset=reader.offset(), url=standby.url)
            assert [] == read_all(again)
            assert "doesn't answer (it is a standby, which may be promoted); waiting for it" in caplog.text
            with psycopg.connect(standby.dsn, autocommit=True) as connection:
                connection.execute("SELECT pg_promote()")
                found: list[Any] = []
                wait_until(lambda: found.extend(poll(again)) or len(found) == 2, "the standby's changes are read")
                assert [(-1, 1, 10), (+1, 1, 11)] == signed(found)
                assert "it has failed over" in caplog.text
                again.close()
                connection.execute("SELECT pg_drop_replication_slot(%s)", [own.slot])
            with pytest.raises(SourceError, match="doesn't exist; was it dropped, or has the server failed over"):
                read_all(own.open(offset=again.offset(), url=standby.url))
        finally:
            standby.stop()
            primary.stop()
            primary.start(port)


def test_a_slot_in_use_is_waited_for_and_then_an_error(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the process that reads it."""
    tables.make(rows=1)
    reader = tables.open()
    read_all(reader)
    tables.run("INSERT INTO orders VALUES (2, 20)")
    replication = psycopg.connect(f"{tables.server.dsn} replication=database", autocommit=True)
    options = f"proto_version '1', publication_names '{tables.slot}'"
    replication.pgconn.exec_(f"START_REPLICATION SLOT {tables.slot} LOGICAL 0/0 ({options})".encode())
    assert [] == read_all(reader)
    reader.acknowledge(attrs.evolve(reader.offset(), lsn=reader.offset().lsn + 8))
    monkeypatch.setattr(postgres_source, "IN_USE_WITHIN", 0)
    monkeypatch.setattr(postgres_slot, "IN_USE_WITHIN", 0)
    for read in (lambda: read_all(reader), tables.open):
        with pytest.raises(SourceError, match=r"is in use: another program reads it; stop that.*active for PID \d+"):
            read()
    monkeypatch.undo()
    replication.close()
    while not (found := read_all(reader)):
        time.sleep(0.01)
    assert [(+1, 2, 20)] == signed(found)


@pytest.fixture
def own(own_server: PostgreSQL) -> Iterator[Tables]:
    """Tables on a server that the test stops and starts."""
    made = Tables(own_server)
    try:
        yield made
    finally:
        made.clean_up()


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("in_snapshot", [True, False])
def test_a_lost_server_is_waited_for(
    own: Tables, end: str, in_snapshot: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so once, and once more when it goes on; nothing is lost or doubled."""
    monkeypatch.setattr(waiting, "RETRIED_AFTER", 0.05)
    own.make(rows=4)
    reader = own.open()
    found = poll(reader, 2) if in_snapshot else read_all(reader)
    own.run("UPDATE orders SET price = 11 WHERE id = 1")
    own.connection.close()
    port = own.server.port
    getattr(own.server, end)()
    for _ in range(3):
        assert None is reader.poll(2, Timestamp(10**6))
        reader.acknowledge(reader.offset())
        time.sleep(0.06)
    own.server.start(port)
    own.run("INSERT INTO orders VALUES (5, 50)")
    deadline = time.monotonic() + 60
    while len(found) < 7 and time.monotonic() < deadline:
        found += poll(reader, 2)
    rows = [(+1, i, i * 10) for i in range(1, 5)]
    assert [*rows, (-1, 1, 10), (+1, 1, 11), (+1, 5, 50)] == signed(found)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert ["doesn't answer", "answers again"] == [
        text for line in said for text in ("doesn't answer", "answers again") if text in line
    ]
    assert PASSWORD not in caplog.text


def test_a_stream_waits_for_a_lost_server(
    own: Tables, caplog: pytest.LogCaptureFixture, tmp_path: pathlib.Path
) -> None:
    """Without a restart; then each change is applied once."""
    own.make(rows=3)
    flags: dict[str, Any] = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_interval": 0.1, "max_restarts": 0}
    p = beam.Pipeline(options=PipelineOptions([], **flags))
    out = tmp_path / "out.db"
    _ = p | own.read() | beam.io.WriteToSQLite(out, "orders", "id", ["id", "price"])
    result = p.run()
    try:
        wait_until(lambda: len(rows_of(out)) == 3, "the rows are committed")
        own.run("UPDATE orders SET price = 11 WHERE id = 1")
        wait_until(lambda: (1, 11) in rows_of(out), "the change is committed")
        own.connection.close()
        port = own.server.port
        own.server.stop()
        try:
            wait_until(lambda: "doesn't answer" in caplog.text, "the loss was logged")
            time.sleep(OUTAGE)
        finally:
            own.server.start(port)
        own.run("DELETE FROM orders WHERE id = 2")
        own.run("INSERT INTO orders VALUES (4, 40)")
        wait_until(lambda: [(1, 11), (3, 30), (4, 40)] == sorted(rows_of(out)), "the other changes are committed")
    finally:
        result.cancel()
    assert ["doesn't answer", "answers again"] == [
        text for line in caplog.messages for text in ("doesn't answer", "answers again") if text in line
    ]


def test_a_slot_that_the_server_has_given_up_is_an_error(own: Tables) -> None:
    """Since it kept more of the log than the server may keep."""
    own.make(rows=1)
    reader = own.open()
    read_all(reader)
    own.run("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    own.run("SELECT pg_reload_conf()")
    try:
        for _ in range(4):
            own.run("CREATE TABLE filler AS SELECT repeat('x', 1000) FROM generate_series(1, 10000)")
            own.run("DROP TABLE filler")
            own.run("SELECT pg_switch_wal()")
        own.run("CHECKPOINT")
        own.run("INSERT INTO orders VALUES (2, 20)")
        for each in (reader, own.open(offset=reader.offset())):
            with pytest.raises(
                SourceError, match="is lost: the server has removed the log that it needs.*Drop it with"
            ):
                read_all(each)
    finally:
        own.run("ALTER SYSTEM RESET max_slot_wal_keep_size")
        own.run("SELECT pg_reload_conf()")


def rows_of(path: pathlib.Path) -> list[Any]:
    """The rows of a table of SQLite, which may be there.

    Before a checkpoint is complete, SQLite isn't called: workers are being forked, and would inherit its locks.
    """
    if not list(path.with_name("kept").glob("manifest-*")):
        return []
    with contextlib.closing(sqlite3.connect(path)) as database, contextlib.suppress(sqlite3.OperationalError):
        return list(database.execute("SELECT * FROM orders"))
    return []


def test_a_password_is_in_no_checkpoint_no_log_and_no_metric(
    tables: Tables, caplog: pytest.LogCaptureFixture, tmp_path: pathlib.Path
) -> None:
    """Of a stream; nor in what it shows of itself."""
    caplog.set_level(logging.DEBUG)
    tables.make(rows=3)
    flags: dict[str, Any] = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_interval": 0.05, "metrics_port": 0}
    p = beam.Pipeline(options=PipelineOptions([], parallelism=2, **flags))
    read = tables.read()
    _ = p | read | beam.io.WriteToSQLite(tmp_path / "out.db", "orders", "id", ["id", "price"])
    source = tables.source()
    shown = [repr(p), str(p.graph()), *mime_bundle(p.graph()).values(), str(read.display_data())]
    shown += [f"{one!r} {one}" for one in (read, source, source.reading, source.reading.server, source.identity())]
    result = p.run()
    try:
        wait_until(lambda: rows_of(tmp_path / "out.db"), "the rows are committed")
        with urllib.request.urlopen(result.metrics_url, timeout=30) as answer:
            shown += [answer.read().decode(), repr(result), str(result.metrics().query())]
    finally:
        result.cancel()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    text = "".join([*shown, caplog.text, *(f"{path}{path.read_bytes()!r}" for path in files)])
    assert [] == [part for part in (PASSWORD, "drawn%3A", "drawn:", "@well") if part in text]
