"""ReadFromPostgresChanges, on a real server: the rows of tables, and then each change of them once."""

from __future__ import annotations

import datetime
import decimal
import pickle
import random
import sqlite3
import threading
import time
import uuid
from collections import Counter
from contextlib import closing, suppress
from typing import Any, NamedTuple

import pytest
from support.io.postgres_tables import Tables, poll, read_all, signed
from support.pipelines.recording import Recording
from support.programs.running_program import wait_until

import penstock as beam
from penstock.io.cdc import postgres_source
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import SourceError, UnsupportedError
from penstock.testing import assert_that, equal_to
from penstock.windowing import Timestamp

# The snapshot and the changes


def test_rows_come_first_and_then_their_changes(tables: Tables) -> None:
    """An update retracts the former row and adds the new one."""
    tables.make(rows=2)
    reader = tables.open()
    assert [(+1, 1, 10), (+1, 2, 20)] == signed(read_all(reader))
    tables.run("INSERT INTO orders VALUES (3, 30)")
    tables.run("UPDATE orders SET price = 11 WHERE id = 1")
    tables.run("DELETE FROM orders WHERE id = 2")
    changes = [(+1, 3, 30), (-1, 1, 10), (+1, 1, 11), (-1, 2, 20)]
    assert changes == signed(read_all(reader))
    assert [] == read_all(reader)


def test_values_have_the_types_of_their_columns(tables: Tables) -> None:
    """The same in the snapshot and in changes; null is None."""
    tables.run("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    columns = {
        "id": ("bigint PRIMARY KEY", 1),
        "flag": ("boolean", True),
        "small": ("smallint", -1),
        "real": ("real", 1.5),
        "double": ("double precision", 0.1),
        "number": ("numeric(20, 4)", decimal.Decimal("12345678901234.5678")),
        "short": ("varchar(10)", "ann"),
        "fixed": ("char(3)", "a  "),
        "raw": ("bytea", b"\x00\xff\\"),
        "day": ("date", datetime.date(2024, 2, 29)),
        "hour": ("time", datetime.time(1, 2, 3, 4)),
        "at": ("timestamp", datetime.datetime(2024, 2, 29, 1, 2, 3, 4)),
        "zoned": ("timestamptz", datetime.datetime(2024, 2, 29, 1, 2, 3, 4, datetime.UTC)),
        "span": ("interval", datetime.timedelta(days=1, seconds=5)),
        "one": ("uuid", uuid.UUID(int=7)),
        "doc": ("jsonb", {"a": [1, None]}),
        "numbers": ("int[]", [1, None, 3]),
        "names": ("text[]", ["a,b", 'c"d', "ä"]),
        "feeling": ("mood", "happy"),
        "nothing": ("text", None),
    }
    tables.make("things", ", ".join(f'"{name}" {kind}' for name, (kind, _) in columns.items()))
    from psycopg.types.json import Jsonb

    values = [Jsonb(value) if name == "doc" else value for name, (_, value) in columns.items()]
    insert = f"INSERT INTO things VALUES ({', '.join(['%s'] * len(values))})"
    tables.run(insert, values)
    reader = tables.open("things")
    (_, snapshot, _), *_rest = read_all(reader)
    tables.run(insert, [2, *values[1:]])
    ((_, change, _),) = read_all(reader)
    expected = {name: value for name, (_, value) in columns.items()}
    assert expected == snapshot.as_dict()
    assert expected | {"id": 2} == change.as_dict()
    assert [type(value) for value in expected.values()] == [type(value) for value in change]


class Order(NamedTuple):
    id: int
    price: int | None


def test_rows_of_a_declared_type_leave_other_columns_out(tables: Tables) -> None:
    """A value that doesn't fit is an error that names the column."""
    tables.make(columns="id int PRIMARY KEY, price int, note text")
    tables.run("INSERT INTO orders VALUES (1, 10, 'a'), (2, NULL, 'b')")
    assert [Order(1, 10), Order(2, None)] == [row for _, row, _ in read_all(tables.open(type=Order))]

    class Wrong(NamedTuple):
        id: int
        note: int

    with pytest.raises(SourceError, match=r"a row of table .* is not of the declared type: .*`\$.note`"):
        read_all(tables.open(type=Wrong))


def test_a_snapshot_is_of_one_moment_whatever_changes_while_it_is_read(tables: Tables) -> None:
    """Each part has the rows that the table had where the slot begins, whenever and by whichever reader it is read."""
    choose = random.Random(5)
    tables.make(columns='name text COLLATE "C", part int, price int, PRIMARY KEY (name, part)')
    names = ["a", "B", "ä", "a b", "%", "", "zz"]
    tables.run("INSERT INTO orders SELECT n, i, i FROM unnest(%s::text[]) n, generate_series(1, 9) i", [names])
    expected = sorted((+1, *row) for row in tables.run("SELECT * FROM orders"))
    reader = tables.open()
    first = reader.offset()

    def change() -> None:
        name, part = choose.choice(names), choose.randrange(1, 15)
        tables.run(
            choose.choice(
                [
                    "INSERT INTO orders VALUES (%s, %s, 99) ON CONFLICT (name, part) DO UPDATE SET price = 98",
                    "UPDATE orders SET price = price + 1 WHERE (name, part) = (%s, %s)",
                    "UPDATE orders SET part = part + 100 WHERE (name, part) = (%s, %s)",
                    "DELETE FROM orders WHERE (name, part) = (%s, %s)",
                ]
            ),
            (name, part),
        )

    parts, offsets = [], [first]
    while reader.offset().table is not None:
        for _ in range(6):
            change()
        if choose.random() < 0.3:
            reader.close()
            reader = tables.open(offset=pickle.loads(pickle.dumps(reader.offset())))
        parts.append(poll(reader, 7))
        offsets.append(reader.offset())
    is_snapshot = [offset.commit == 0 and offset.lsn == first.lsn for offset in offsets[1:]]
    snapshot = [element for part, of_snapshot in zip(parts, is_snapshot) if of_snapshot for element in part]
    assert expected == sorted(signed(snapshot))
    # Behind it are all changes, so that what is left is what the table has.
    changes = [element for part, of_snapshot in zip(parts, is_snapshot) if not of_snapshot for element in part]
    changes += read_all(reader)
    left: dict[Any, int] = {}
    for sign, *row in signed(snapshot) + signed(changes):
        left[tuple(row)] = left.get(tuple(row), 0) + sign
    assert sorted(tables.run("SELECT * FROM orders")) == sorted(row for row, count in left.items() if count)
    assert {0, 1} >= set(left.values())
    # A micro-batch reads a part again.
    for start, end, part in zip(offsets, offsets[1:], parts):
        executor = tables.open(offset=start)
        batch = [change for bundle in executor.read_to(end, Timestamp(0)) for change in bundle.values]
        assert [element[:2] for element in part] == [(change.sign, change.row) for change in batch]
        executor.close()


def test_a_snapshot_leaves_out_what_a_long_transaction_commits_later(tables: Tables) -> None:
    """And has what was committed before, by whichever transaction."""
    import psycopg

    tables.make(rows=2)
    options = f"-c search_path={tables.schema} -c synchronous_commit=on"
    reader = tables.open()
    with psycopg.connect(tables.server.dsn, options=options) as other:
        other.execute("UPDATE orders SET price = 77 WHERE id = 1")
        assert [(+1, 1, 10)] == signed(poll(reader, 1))
        other.commit()
    assert [(+1, 2, 20), (-1, 1, 10), (+1, 1, 77)] == signed(read_all(reader))


def test_a_snapshot_waits_for_transactions_that_are_older_than_the_slot(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so, and doesn't block: their commits may be before the slot or behind it."""
    import psycopg

    monkeypatch.setattr(postgres_source, "_SAID_AFTER", 0)
    tables.make(rows=2)
    tables.open().close()
    options = f"-c search_path={tables.schema} -c synchronous_commit=on"
    with psycopg.connect(tables.server.dsn, options=options) as other:
        other.execute("UPDATE orders SET price = 77 WHERE id = 1")
        reader = tables.open()
        assert [[], [], []] == [poll(reader) for _ in range(3)]
    assert [(+1, 1, 10), (+1, 2, 20), (-1, 1, 10), (+1, 1, 77)] == signed(read_all(reader))
    assert 1 == caplog.text.count("transactions are open that were begun before the slot; waiting for their end")


STATEMENTS = [
    "INSERT INTO orders VALUES (%s, 1) ON CONFLICT (id) DO UPDATE SET price = orders.price + 1",
    "UPDATE orders SET price = price + 1 WHERE id = %s",
    "DELETE FROM orders WHERE id = %s",
    "UPDATE orders SET id = id + 100 WHERE id = %s",
]


def write(tables: Tables, seed: int, is_over: threading.Event) -> None:
    """Commit random transactions, durably or not; those that collide are rolled back."""
    import psycopg

    choose = random.Random(seed)
    with psycopg.connect(tables.server.dsn, autocommit=True) as connection:
        connection.execute(f"SET search_path = {tables.schema}")
        connection.execute(f"SET synchronous_commit = {'on' if seed % 2 else 'off'}")
        while not is_over.is_set():
            with suppress(psycopg.Error), connection.transaction():
                for _ in range(choose.randrange(1, 4)):
                    connection.execute(choose.choice(STATEMENTS), (choose.randrange(100),))


@pytest.mark.parametrize("seed", [1, 2])
def test_rows_and_changes_add_up_to_the_table_while_others_write(tables: Tables, seed: int) -> None:
    """From the first look at the slot on; and no row is retracted that isn't there."""
    tables.make(rows=60)
    is_over, choose = threading.Event(), random.Random(seed)
    writers = [threading.Thread(target=write, args=(tables, 10 * seed + n, is_over)) for n in range(3)]
    for writer in writers:
        writer.start()
    left: Counter[Any] = Counter()
    try:
        time.sleep(0.1)
        reader = tables.open()
        until = time.monotonic() + 0.5
        while time.monotonic() < until or reader.offset().table is not None:
            for sign, *row in signed(poll(reader, choose.choice([7, 50, 1000]))):
                left[tuple(row)] += sign
                assert left[tuple(row)] in (0, 1)
            if choose.random() < 0.1:
                reader.close()
                reader = tables.open(offset=reader.offset())
    finally:
        is_over.set()
        for writer in writers:
            writer.join()
    # A commit that makes those before it durable.
    tables.run("INSERT INTO orders VALUES (-1, 0)")
    wait_until(lambda: poll_into(left, reader) or left[-1, 0], "the last commit is read")
    assert sorted(tables.run("SELECT * FROM orders")) == sorted(row for row, count in left.items() if count)


def poll_into(left: Counter[Any], reader: Any) -> None:
    """Add the next elements to the rows that are left."""
    for sign, *row in signed(poll(reader)):
        left[tuple(row)] += sign


# Transactions


def test_a_transaction_is_in_one_bundle_unless_it_is_larger(tables: Tables) -> None:
    """Then it is cut, and resumed where it was cut."""
    tables.make()
    reader = tables.open()
    read_all(reader)
    for first, last in ((1, 3), (4, 6), (7, 16)):
        tables.run(f"INSERT INTO orders SELECT i, i FROM generate_series({first}, {last}) i")
    sizes, offsets = [], [reader.offset()]
    whole = []
    while found := poll(reader, 4):
        sizes.append(len(found))
        offsets.append(reader.offset())
        whole.append(found)
    assert [3, 3, 4, 4, 2] == sizes
    assert list(range(1, 17)) == [row.id for part in whole for _, row, _ in part]
    for place, offset in enumerate(offsets):
        again = tables.open(offset=pickle.loads(pickle.dumps(offset)))
        assert [element for part in whole[place:] for element in part] == read_all(again, 5)
        assert offsets[-1] == again.offset()
    for start, end, part in zip(offsets, offsets[1:], whole):
        executor = tables.open(offset=start)
        batch = [change for bundle in executor.read_to(end, Timestamp(0)) for change in bundle.values]
        assert [row for _, row, _ in part] == [change.row for change in batch]
        assert end == executor.offset()


def test_interleaved_transactions_come_in_the_order_of_their_commits(tables: Tables) -> None:
    """Those that are rolled back don't come; parts that were rolled back to a savepoint don't, either."""
    import psycopg

    tables.make(rows=1)
    reader = tables.open()
    read_all(reader)
    options = f"-c search_path={tables.schema} -c synchronous_commit=on"
    with (
        psycopg.connect(tables.server.dsn, options=options) as first,
        psycopg.connect(tables.server.dsn, options=options) as second,
    ):
        first.execute("INSERT INTO orders VALUES (2, 20)")
        second.execute("INSERT INTO orders VALUES (3, 30)")
        second.execute("SAVEPOINT a")
        second.execute("INSERT INTO orders VALUES (4, 40)")
        second.execute("ROLLBACK TO SAVEPOINT a")
        first.execute("INSERT INTO orders VALUES (5, 50)")
        second.commit()
        assert [(+1, 3, 30)] == signed(read_all(reader))
        first.commit()
        second.execute("DELETE FROM orders")
        second.rollback()
    assert [(+1, 2, 20), (+1, 5, 50)] == signed(read_all(reader))


def test_many_changes_are_decoded_in_several_steps(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the slot stays where it is until a checkpoint is durable."""
    monkeypatch.setattr(postgres_source, "_TOGETHER", 5)
    tables.make()
    reader = tables.open()
    read_all(reader)
    for id in range(40):
        tables.run("INSERT INTO orders VALUES (%s, 0)", (id,))
    tables.run("INSERT INTO orders SELECT i, 0 FROM generate_series(40, 99) i")
    assert list(range(100)) == [row.id for _, row, _ in read_all(reader, 7)]


def test_the_changes_of_several_tables_are_in_the_order_of_the_commits(tables: Tables) -> None:
    """Each knows its table."""
    tables.make(rows=1)
    tables.make("customers", "name text PRIMARY KEY")
    reader = tables.open(["orders", "customers"])
    read_all(reader)
    with tables.connection.transaction():
        tables.run("INSERT INTO customers VALUES ('ann')")
        tables.run("DELETE FROM orders")
        tables.run("DELETE FROM customers")
    bundle = reader.poll(100, Timestamp(10**6))
    assert bundle is not None
    assert [(1, +1), (0, -1), (1, -1)] == [(change.table, change.sign) for change in bundle.values]


def test_an_unchanged_long_value_is_the_former_one(tables: Tables) -> None:
    """The log of an update leaves it out."""
    text = "".join(random.Random(1).choices("abcdefghij", k=20_000))
    tables.make(columns="id int PRIMARY KEY, text text, n int")
    tables.run("ALTER TABLE orders ALTER COLUMN text SET STORAGE EXTERNAL")
    tables.run("INSERT INTO orders VALUES (1, %s, 1)", (text,))
    reader = tables.open()
    read_all(reader)
    tables.run("UPDATE orders SET n = 2")
    assert [(-1, 1, text, 1), (+1, 1, text, 2)] == signed(read_all(reader))


def test_changes_only_begin_where_the_slot_is(tables: Tables) -> None:
    """With snapshot=False; a table needs no primary key then."""
    tables.make(columns="id int, price int", rows=3)
    options = {"snapshot": False}
    tables.open(**options).close()
    tables.run("DELETE FROM orders WHERE id = 2")
    assert [(-1, 2, 20)] == signed(read_all(tables.open(**options)))


# Times


def test_the_event_time_is_that_of_the_commit_and_the_watermark_follows(tables: Tables) -> None:
    """Without changes it follows the server's clock, two seconds behind."""
    tables.make(rows=1)
    before = time.time()
    reader = tables.open()
    ((_, _, of_snapshot),) = read_all(reader)
    with tables.connection.transaction():
        tables.run("INSERT INTO orders VALUES (2, 0), (3, 0)")
        tables.run("SELECT pg_sleep(0.05)")
    tables.run("INSERT INTO orders VALUES (4, 0)")
    times = [micros for _, _, micros in read_all(reader)]
    assert before * 1e6 <= of_snapshot < times[0] == times[1] < times[2] <= time.time() * 1e6
    assert times[2] == reader.watermark(Timestamp(0))
    reader._quiet_until = times[2] + 5
    assert times[2] + 5 == reader.watermark(Timestamp(0))


def test_the_event_time_may_be_the_rows_own(tables: Tables) -> None:
    """Then a row is retracted at the time at which it was added."""
    from penstock.sdk.watermark_estimators import BoundedOutOfOrdernessWatermarkEstimator

    tables.make(rows=1)
    estimator = BoundedOutOfOrdernessWatermarkEstimator(5)
    reader = tables.open(timestamp_fn=lambda row: row.price, watermark_estimator=estimator)
    tables.run("UPDATE orders SET price = 70")
    assert [10_000_000, 10_000_000, 70_000_000] == [micros for _, _, micros in read_all(reader)]


# Changed tables


def test_a_new_column_is_left_out_until_reading_begins_again(tables: Tables) -> None:
    """Rows that were read don't have it, and must be retracted as they were."""
    tables.make(rows=1)
    reader = tables.open()
    read_all(reader)
    tables.run("ALTER TABLE orders ADD COLUMN note text DEFAULT 'none'")
    tables.run("UPDATE orders SET price = 11")
    tables.run("ALTER TABLE orders RENAME TO renamed")
    tables.run("INSERT INTO renamed VALUES (2, 20, 'a')")
    assert [(-1, 1, 10), (+1, 1, 11), (+1, 2, 20)] == signed(read_all(reader))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ALTER TABLE orders DROP COLUMN price", "column 'price' of table '.*orders' was dropped or renamed while"),
        ("ALTER TABLE orders RENAME COLUMN price TO cost", "column 'price' of table '.*orders' was dropped or renamed"),
        ("ALTER TABLE orders ALTER COLUMN price TYPE text", "column 'price' of table '.*orders' changed its type"),
        ("TRUNCATE orders", "'.*orders' was truncated, and the log doesn't have the rows"),
        ("ALTER TABLE orders REPLICA IDENTITY DEFAULT", r"run ALTER TABLE .* REPLICA IDENTITY FULL, and begin again"),
        ("ALTER PUBLICATION {slot} DROP TABLE orders", r"is not in publication '.*', or was dropped; run ALTER"),
        ("DROP TABLE orders; CREATE TABLE orders (id int)", "is not in publication '.*', or was dropped"),
    ],
)
def test_a_change_of_a_table_that_rows_cannot_follow_is_an_error(tables: Tables, statement: str, message: str) -> None:
    """Which says what to do."""
    tables.make(rows=2)
    reader = tables.open()
    read_all(reader)
    tables.run(statement.format(slot=tables.slot))
    if "TRUNCATE" not in statement:
        tables.run("UPDATE orders SET id = 5 WHERE id = 2")
    with pytest.raises(SourceError, match=message):
        read_all(reader)


def test_a_truncate_during_a_snapshot_is_an_error(tables: Tables) -> None:
    """Its rows can't be read any more."""
    tables.make(rows=2)
    reader = tables.open()
    tables.run("TRUNCATE orders")
    with pytest.raises(SourceError, match="was truncated"):
        read_all(reader)


# Checkpoints


def test_the_slot_is_advanced_when_a_checkpoint_is_durable(tables: Tables) -> None:
    """Not before; and also if the tables are quiet while others change."""

    def confirmed() -> str:
        return tables.run("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s", [tables.slot])[
            0
        ][0]

    tables.make(rows=1)
    reader = tables.open()
    began = confirmed()
    read_all(reader)
    tables.run("INSERT INTO orders VALUES (2, 20)")
    read_all(reader)
    offset = reader.offset()
    assert began == confirmed()
    reader.acknowledge(offset)
    advanced = confirmed()
    assert began < advanced
    tables.run("CREATE TABLE others AS SELECT repeat('x', 1000) FROM generate_series(1, 17000)")
    read_all(reader)
    assert offset.lsn + (1 << 24) < reader.offset().lsn
    reader.acknowledge(reader.offset())
    assert advanced < confirmed()
    tables.run("INSERT INTO orders VALUES (3, 30)")
    assert [(+1, 3, 30)] == signed(read_all(tables.open(offset=reader.offset())))


def test_a_slot_that_exists_is_advanced_when_reading_begins_without_a_checkpoint(tables: Tables) -> None:
    """The rows of the snapshot have the changes before."""
    tables.make(rows=2)
    read_all(tables.open())
    tables.run("UPDATE orders SET price = 11 WHERE id = 1")
    assert [(+1, 1, 11), (+1, 2, 20)] == signed(read_all(tables.open()))


# Pipelines


def test_the_rows_that_there_are_on_each_runner(tables: Tables, make_pipeline: Any) -> None:
    """A bounded read needs no slot, and no log of former rows."""
    tables.run("CREATE TABLE orders (id int, price int)")
    tables.run("INSERT INTO orders SELECT i, i * 10 FROM generate_series(1, 5) i")
    with make_pipeline() as p:
        rows = p | tables.read(bounded=True) | beam.Map(lambda row: (row.id, row.price))
        assert_that(rows, equal_to([(i, i * 10) for i in range(1, 6)]))
    assert [] == tables.run("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", [tables.slot])


def test_on_a_batch_runner_the_read_is_bounded(tables: Tables) -> None:
    """As it says in the graph."""
    from penstock.runners.spark import SparkBatchRunner

    assert (beam.Pipeline(SparkBatchRunner(None)) | tables.read()).is_bounded
    assert not (beam.Pipeline("local") | tables.read()).is_bounded


def test_a_sink_that_only_appends_is_refused_when_the_pipeline_is_built(tables: Tables) -> None:
    """By the names of both transforms."""
    rows = beam.Pipeline() | tables.read()
    with pytest.raises(UnsupportedError, match="only appends, but ReadFromPostgresChanges/Sign may retract"):
        _ = rows | beam.io.WriteToText("out")


def test_a_stream_of_two_tables_resumes_from_its_checkpoint(tables: Tables, tmp_path: Any) -> None:
    """Each change counts once, those while it didn't run included."""

    def run(until: int) -> list[Any]:
        sink = Recording()
        options = PipelineOptions([], checkpoint_dir=str(tmp_path), checkpoint_interval=0.05)
        p = beam.Pipeline("local", options=options)
        found = p | tables.read(["orders", "customers"])
        orders = found[f"{tables.schema}.orders"] | beam.Map(lambda row: row.id)
        customers = found[f"{tables.schema}.customers"] | beam.Map(lambda row: row.name)
        _ = (orders, customers) | beam.Flatten() | beam.io.Write(sink)
        result = p.run()
        for _ in range(200):
            if len(sink.changes) >= until:
                break
            result.wait_until_finish(50)
        result.cancel()
        return sink.signed()

    tables.make(rows=2)
    tables.make("customers", "name text PRIMARY KEY")
    tables.run("INSERT INTO customers VALUES ('ann')")
    assert {(+1, 1), (+1, 2), (+1, "ann")} == {*run(3)}
    tables.run("DELETE FROM orders WHERE id = 1")
    tables.run("UPDATE customers SET name = 'bob'")
    assert Counter([(+1, "bob"), (-1, 1), (-1, "ann")]) == Counter(run(3))


def test_a_stream_in_micro_batches_resumes_from_its_checkpoint(tables: Tables, spark: Any, tmp_path: Any) -> None:
    """Snapshot and changes, read by other processes than the driver's."""
    from penstock.runners.spark import SparkMicroBatchRunner

    def run() -> list[Any]:
        options = PipelineOptions([], checkpoint_dir=str(tmp_path / "kept"), available_now=True)
        p = beam.Pipeline(SparkMicroBatchRunner(spark_session=spark), options=options)
        _ = p | tables.read(type=Order) | beam.io.WriteToSQLite(tmp_path / "out.db", "orders", "id", ["id", "price"])
        p.run().wait_until_finish()
        with closing(sqlite3.connect(tmp_path / "out.db")) as database:
            return sorted(database.execute("SELECT * FROM orders"))

    tables.make(rows=3)
    assert [(1, 10), (2, 20), (3, 30)] == run()
    tables.run("UPDATE orders SET price = 11 WHERE id = 1")
    tables.run("DELETE FROM orders WHERE id = 2")
    assert [(1, 11), (3, 30)] == run()
