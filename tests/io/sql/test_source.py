"""Tables that are polled: SQLite, a real PostgreSQL, and one that nothing is known of."""

import functools
import sqlite3

import pytest
from support.pipelines.unbounded_readers import check_replay, elements, polled

import penstock as beam
from penstock.io import ReadFromSQL
from penstock.io.watermark_estimators import MonotonicWatermarkEstimator
from penstock.sdk.errors import SourceError
from penstock.windowing import Timestamp


class Orders:
    """A table of orders, numbered in the order in which they come."""

    def __init__(self, database, connect):
        self.database = database
        self.connect = connect
        self.table = f"{database.schema}orders"
        database.run(f"CREATE TABLE {self.table} (id INTEGER, item TEXT)")

    def add(self, *items):
        for item in items:
            columns = f"(SELECT coalesce(max(id), 0) + 1 FROM {self.table}), '{item}'"
            self.database.run(f"INSERT INTO {self.table} SELECT {columns}")

    def source(self, **options):
        named = {"table": self.table} if "query" not in options else {}
        dialect = self.database.database.dialect
        made = ReadFromSQL(
            self.connect,
            **({"poll_interval": 0, "increasing_column": "id"} | named | options),
            dialect=dialect,
        )
        return made.source

    def reader(self, **options):
        return self.source(**options).open("all", None)


@pytest.fixture
def orders(database, request, tmp_path):
    plain = functools.partial(sqlite3.connect, tmp_path / "test.db")
    if database.schema:
        import psycopg

        plain = functools.partial(psycopg.connect, request.getfixturevalue("postgresql").dsn)
    return Orders(database, plain)


def items(rows):
    return [row.item for row in rows]


def test_rows_come_in_the_order_of_the_column_and_those_that_are_added_later(orders):
    """As rows with the names of the columns; each once."""
    orders.add("tea", "milk")
    (partition,) = orders.source().partitions()
    reader = orders.source().open(partition, None)

    assert [beam.Row(id=1, item="tea"), beam.Row(id=2, item="milk")] == polled(reader, 0)
    assert [] == polled(reader, 0)
    orders.add('100% "sugar" ?')
    assert ['100% "sugar" ?'] == items(polled(reader, 0))
    reader.close()


def test_rows_are_read_again_from_any_offset_and_in_micro_batches(orders):
    """A batch ends where it was planned to, also when more was added since."""
    orders.add("a", "b", "c", "d", "e")
    made = orders.source()
    assert ["a", "b", "c", "d", "e"] == items(check_replay(made, "all", 0))

    end = made.open("all", None).admit(2, None, Timestamp(0))
    orders.add("f")
    (batch,) = made.open("all", None).read_to(end, Timestamp(0))
    assert ["a", "b"] == items(batch.values)


def test_a_query_can_stand_for_a_table(orders):
    """The query selects rows and columns; percent signs and question marks have no special meaning."""
    orders.add("tea", "milk", "toast", "t?")
    reader = orders.reader(
        query=f"SELECT id * 10 AS number, item FROM {orders.table} WHERE item LIKE 't%' AND item <> '?'",
        increasing_column="number",
    )

    assert [(10, "tea"), (30, "toast"), (40, "t?")] == [tuple(row) for row in polled(reader, 0, 2)]


def test_a_table_that_gave_all_it_had_is_left_alone_for_the_interval(orders):
    """And asked again at once if it may have more."""
    orders.add("a", "b", "c")
    reader = orders.reader(poll_interval=10)

    assert ["a", "b"] == items(reader.poll(2, Timestamp(0)).values)
    assert ["c"] == items(reader.poll(2, Timestamp(0)).values)
    orders.add("d")
    assert None is reader.poll(2, Timestamp(9.9))
    assert ["d"] == items(reader.poll(2, Timestamp(10)).values)


def test_no_transaction_stays_open_between_polls(orders):
    """The table can be changed, and dropped, while it is polled."""
    orders.add("a")
    reader = orders.reader()
    polled(reader, 0)
    orders.database.run(f"DROP TABLE {orders.table}")

    with pytest.raises(SourceError, match="ReadFromSQL: table '.*orders' in .* can't be read: .*orders"):
        reader.poll(1, Timestamp(0))


def test_a_column_that_does_not_grow_is_an_error_when_it_is_noticed(orders):
    """Within a poll, and from one to the next there is nothing greater to see."""
    orders.add("a", "b")
    orders.database.run(f"UPDATE {orders.table} SET id = 7")

    with pytest.raises(SourceError, match="greater 'id' than the one before, found two with 7"):
        orders.reader().poll(5, Timestamp(0))


def test_rows_without_a_value_are_not_read(orders):
    """There is nowhere to put them."""
    orders.add("a")
    orders.database.run(f"INSERT INTO {orders.table} VALUES (NULL, 'b')")

    assert ["a"] == items(polled(orders.reader(), 0))


def test_rows_may_have_event_times(orders):
    """From a column, say, with a watermark made of them."""
    orders.add("a", "b")
    provider = MonotonicWatermarkEstimator.default_provider()
    reader = orders.reader(timestamp_fn=lambda row: row.id * 10, watermark_estimator=provider)

    assert [10_000_000, 20_000_000] == [micros for _, micros in elements(reader.poll(5, Timestamp(100)))]
    assert 20_000_000 == reader.watermark(Timestamp(100))


def test_a_table_or_a_column_that_is_not_there_is_an_error_when_the_run_starts(orders):
    """Naming what there is."""
    with pytest.raises(
        SourceError, match="expected a column 'number', found id, item|number.* does not exist|no such column"
    ):
        orders.source(increasing_column="number").partitions()
    with pytest.raises(SourceError, match="table 'nothing' in .* can't be read"):
        orders.source(table="nothing").partitions()


def test_a_file_of_sqlite_is_named_by_its_path_and_is_not_made(tmp_path):
    """One that isn't there is an error."""
    path = tmp_path / "shop.db"
    with pytest.raises(SourceError, match="shop.db' can't be read: there is no such file"):
        ReadFromSQL(path, "orders", increasing_column="id").source.partitions()
    assert not path.exists()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
    connection.execute("INSERT INTO orders (item) VALUES ('tea')")
    connection.commit()
    made = ReadFromSQL(path, "orders", increasing_column="id").source

    assert ["tea"] == items(polled(made.open(made.partitions()[0], None), 0))
    # The reader doesn't lock out writers.
    connection.execute("INSERT INTO orders (item) VALUES ('milk')")
    connection.commit()
    connection.close()


def test_a_database_is_named_by_its_url_and_its_password_is_kept(postgresql):
    """In errors."""
    made = ReadFromSQL(postgresql.url, "nothing", increasing_column="id").source
    with pytest.raises(SourceError) as error:
        made.partitions()

    assert "nothing" in str(error.value)
    assert "well" not in str(error.value)


def test_what_can_not_be_read_is_said_while_the_pipeline_is_built(tmp_path):
    """A connection in place of what makes one, neither table nor query, and both."""
    with pytest.raises(TypeError, match="did you forget the lambda"):
        ReadFromSQL(sqlite3.connect(":memory:"), "orders", increasing_column="id")
    with pytest.raises(ValueError, match="expected a table or a query, got neither"):
        ReadFromSQL(tmp_path, increasing_column="id")
    with pytest.raises(ValueError, match="expected a table or a query, got both"):
        ReadFromSQL(tmp_path, "a", "SELECT 1", increasing_column="id")
    with pytest.raises(ValueError, match="poll_interval"):
        ReadFromSQL(tmp_path, "a", increasing_column="id", poll_interval=-1)
    assert not (beam.Pipeline() | ReadFromSQL(tmp_path, "a", increasing_column="id")).is_bounded
