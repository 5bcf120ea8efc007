"""WriteToSQLite and WriteToSQL in pipelines: runners, retractions, URLs and their passwords."""

import logging
import pickle
import sqlite3
import sys
import traceback

import pytest

import penstock as beam
from penstock.io.sql.database import SqlAlchemyUrl
from penstock.sdk.errors import MissingExtraError, SinkError, UserCodeError
from penstock.testing import TestPipeline, TestStream
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import GlobalWindows, TimestampedValue

WORDS = ["to", "be", "or", "not", "to", "be"]
COUNTS = [("be", 2), ("not", 1), ("or", 1), ("to", 2)]
COLUMNS = {"word": str, "n": int}


def rows_of(path, table="words"):
    """Return the rows of an SQLite table, in order."""
    connection = sqlite3.connect(path)
    try:
        return sorted(connection.execute(f"SELECT * FROM {table}").fetchall())
    finally:
        connection.close()


def tables_of(path):
    """The names of all tables of SQLite."""
    return sorted(name for (name,) in rows_of(path, "(SELECT name FROM sqlite_master WHERE type = 'table')"))


def rows_of_server(server, sql):
    """Return the rows of a PostgreSQL query, in order."""
    import psycopg

    with psycopg.connect(server.dsn) as connection:
        return sorted(connection.execute(sql).fetchall())


def run_on_server(server, sql):
    """Run a statement that returns no rows."""
    import psycopg

    with psycopg.connect(server.dsn) as connection:
        connection.execute(sql)


def test_every_runner_writes_the_same_table(make_pipeline, tmp_path):
    """From as many workers as there are, twice; afterwards nothing is left but the table and the record."""
    path = tmp_path / "out.db"
    for _ in range(2):
        with make_pipeline() as p:
            counts = p | beam.Create(WORDS) | beam.combiners.Count.PerElement()
            _ = counts | beam.io.WriteToSQLite(path, "words", key="word", columns=["word", "n"])
        assert COUNTS == rows_of(path)
    assert ["_penstock_transactions", "words"] == tables_of(path)


def test_every_runner_writes_into_postgresql(make_pipeline, runner_name, postgresql):
    """By a URL, from its workers."""
    table = f"words_of_{runner_name.replace('-', '_')}"
    with make_pipeline() as p:
        counts = p | beam.Create(WORDS) | beam.combiners.Count.PerElement()
        _ = counts | "save" >> beam.io.WriteToSQL(postgresql.url, table, key="word", columns=COLUMNS)
    assert COUNTS == rows_of_server(postgresql, f"SELECT * FROM {table}")
    left = "SELECT tablename FROM pg_tables WHERE tablename LIKE '\\_penstock\\_staged%' AND schemaname = 'public'"
    assert [] == rows_of_server(postgresql, left)


@pytest.mark.parametrize("kind", ["jsonb", "json"])
def test_dicts_and_lists_are_written_as_json(postgresql, kind):
    """A string is JSON already, as psycopg's own wrapper is; None is no JSON."""
    from psycopg.types.json import Jsonb

    table = f"documents_{kind}"
    run_on_server(postgresql, f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, doc {kind}, tags TEXT[])")
    documents = [{"a": [1, None, {"b": "\u00e9'"}]}, ["x", 2], (1, 2), 1.5, True, '{"text": 1}', Jsonb([3]), None, {}]
    for _ in range(2):
        with TestPipeline() as p:
            rows = [{"id": n, "doc": doc, "tags": ["t"]} for n, doc in enumerate(documents)]
            _ = p | beam.Create(rows) | beam.io.WriteToSQL(postgresql.url, table, key="id")
    expected = [{"a": [1, None, {"b": "\u00e9'"}]}, ["x", 2], [1, 2], 1.5, True, {"text": 1}, [3], None, {}]
    found = rows_of_server(postgresql, f"SELECT * FROM {table}")
    assert [(n, doc, ["t"]) for n, doc in enumerate(expected)] == found


@pytest.mark.parametrize("kind", ["jsonb", "json"])
def test_a_row_with_json_is_retracted(postgresql, kind):
    """Equal documents are one row, whatever the order of their keys."""
    table = f"retracted_{kind}"
    run_on_server(postgresql, f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, doc {kind} NOT NULL)")
    windows = beam.WindowInto(GlobalWindows(), Repeatedly(AfterCount(1)), AccumulationMode.RETRACTING)
    stream = TestStream().add_elements([(1, "a")]).add_elements([(1, "b")]).advance_watermark_to_infinity()
    with TestPipeline() as p:
        groups = p | stream | windows | beam.GroupByKey()
        documents = groups | beam.MapTuple(
            lambda key, values: (len(list(values)), {"key": key, "values": sorted(values)})
        )
        _ = documents | beam.io.WriteToSQL(postgresql.url, table, key="id", columns={"id": int, "doc": dict})
    assert [(2, {"key": 1, "values": ["a", "b"]})] == rows_of_server(postgresql, f"SELECT * FROM {table}")


def test_a_column_of_dicts_is_made_for_json(postgresql):
    """What is no JSON is refused with its column."""
    write = beam.io.WriteToSQL(postgresql.url, "made_for_json", key="id", columns={"id": int, "doc": dict})
    with TestPipeline() as p:
        _ = p | beam.Create([(1, {"a": 1})]) | write
    assert [(1, {"a": 1})] == rows_of_server(postgresql, "SELECT * FROM made_for_json")
    for doc, message in [
        ({"a": {1}}, "column 'doc' is for JSON, got .*: Object of type set"),
        ([1], "is for dict, got"),
    ]:
        with pytest.raises(SinkError, match=message), TestPipeline() as p:
            _ = p | beam.Create([(1, doc)]) | write


def test_what_a_later_grouping_takes_back_is_gone_from_the_table(tmp_path):
    """How many words occur so often, while the words come in: each moves from one class to the next."""
    classes = {"times": int, "words": int}
    with TestPipeline() as p:
        stream = TestStream()
        for second, word in enumerate(WORDS):
            stream = stream.add_elements([TimestampedValue(word, second)])
        words = p | stream.advance_watermark_to_infinity() | as_they_come()
        counts = words | "count" >> beam.combiners.Count.PerElement()
        by_count = counts | beam.Map(lambda pair: pair[1]) | "classes" >> beam.combiners.Count.PerElement()
        _ = by_count | beam.io.WriteToSQLite(tmp_path / "out.db", "classes", key="times", columns=classes)
        _ = counts | "words" >> beam.io.WriteToSQLite(tmp_path / "out.db", "words", key="word", columns=COLUMNS)
    assert [(1, 2), (2, 2)] == rows_of(tmp_path / "out.db", "classes")
    assert COUNTS == rows_of(tmp_path / "out.db")


def as_they_come():
    """A pane for each element, which takes back the one before."""
    trigger = Repeatedly(AfterCount(1))
    return beam.WindowInto(GlobalWindows(), trigger=trigger, accumulation_mode=AccumulationMode.RETRACTING)


def test_a_pipeline_that_fails_changes_nothing_and_leaves_nothing(make_pipeline, tmp_path):
    """Neither rows nor tables of its own, whether an element, a row or another sink is at fault."""
    path = tmp_path / "out.db"
    p = make_pipeline()
    numbers = p | beam.Create([("a", 1), ("b", 0)])
    _ = numbers | beam.io.WriteToSQLite(path, "words", key="word", columns=COLUMNS)
    _ = numbers | beam.Map(lambda pair: 1 // pair[1]) | beam.io.WriteToText(tmp_path / "text")
    with pytest.raises(ZeroDivisionError):
        p.run()
    assert [] == rows_of(path)
    assert ["_penstock_transactions", "words"] == tables_of(path)


def test_errors_name_the_transform_once(tmp_path):
    """By its full label, whether the runner or the sink finds it."""
    p = TestPipeline()
    sink = beam.io.WriteToSQLite(tmp_path / "out.db", "words", key="word", columns=COLUMNS)
    _ = p | beam.Create([("a", "b")]) | "save/words" >> sink
    with pytest.raises(SinkError) as e:
        p.run()
    start = f"save/words: table 'words' in '{tmp_path}/out.db' can't be written: column 'n' is for int, got 'b'"
    assert str(e.value).startswith(start)
    assert "save/words" == e.value.transform


def test_what_the_users_function_raises_is_the_users_error(tmp_path):
    """Of the class that it raised."""
    p = TestPipeline()
    sink = beam.io.WriteToSQLite(tmp_path / "out.db", "t", key="word", columns=COLUMNS, row=lambda word: word.no_such)
    _ = p | beam.Create(["a"]) | sink
    with pytest.raises(AttributeError, match="no_such") as e:
        p.run()
    assert isinstance(e.value, UserCodeError)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("t",), {"columns": COLUMNS}, "table 't' needs a key"),
        (("t", "m"), {"columns": COLUMNS}, "the key m of table 't' is not all in the columns word, n: m is missing"),
        (("",), {"key": "word"}, "expected the name of a table, got ''"),
        (("t",), {"columns": COLUMNS, "count_column": "n"}, "count_column 'n' is one of the columns already"),
        (("t", "word"), {"columns": COLUMNS, "count_column": "c"}, "with a count_column all columns are the key"),
        (("t", "word"), {"row": 7}, "row must be a function from an element to a record, got 7"),
        (("t", "word"), {"count": "n"}, "got the unknown argument 'count'; expected some of row, with_window, latest"),
    ],
)
def test_arguments_that_make_no_sense_are_errors_at_once(tmp_path, arguments, options, message):
    """While the pipeline is built."""
    with pytest.raises((ValueError, TypeError), match=f"WriteToSQLite: .*{message}"):
        beam.io.WriteToSQLite(tmp_path / "out.db", *arguments, **options)


def test_a_database_is_a_file_or_a_url_or_a_function(tmp_path):
    """And nothing else."""
    with pytest.raises(ValueError, match="expected the path of a local file, got ':memory:'"):
        beam.io.WriteToSQLite(":memory:", "t", key="word")
    with pytest.raises(TypeError, match="got a Connection; did you forget the lambda?"):
        beam.io.WriteToSQL(sqlite3.connect(tmp_path / "out.db"), "t", key="word")
    with TestPipeline() as p:
        words = p | beam.Create(COUNTS)
        _ = words | "a" >> beam.io.WriteToSQL(f"sqlite:///{tmp_path}/a.db", "words", key="word", columns=COLUMNS)
        connect = lambda: sqlite3.connect(tmp_path / "b.db")
        _ = words | "b" >> beam.io.WriteToSQL(connect, "words", key="word", columns=COLUMNS)
    assert COUNTS == rows_of(tmp_path / "a.db") == rows_of(tmp_path / "b.db")


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch):
    """SQLAlchemy, or the driver that the URL asks for."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"needs the package 'psycopg': pip install 'penstock\[postgres\]'"):
        beam.io.WriteToSQL("postgresql://me:secret@host/db", "t", key="word")
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(MissingExtraError, match=r"WriteToSQL needs the package 'sqlalchemy': .*penstock\[sql\]"):
        beam.io.WriteToSQL("postgresql://host/db", "t", key="word")


@pytest.mark.parametrize("url", ["postgresql://me:secret@host:port/db", "secret", "nosuch://me:secret@host/db"])
def test_a_url_that_cannot_be_read_is_an_error_without_it(url):
    """It may hold a password."""
    with pytest.raises(ValueError, match="WriteToSQL: ") as e:
        beam.io.WriteToSQL(url, "t", key="word")
    assert "secret" not in "".join(traceback.format_exception(e.value))


def test_passwords_are_shown_nowhere(postgresql, caplog):
    """Neither by what the transform says of itself, nor by errors, their causes or logs."""
    caplog.set_level(logging.DEBUG)
    password = "drawn:from/the@well"
    written = ["well", "drawn%3Afrom"]
    wrong = postgresql.url.replace("well", "tap-and-well")
    elsewhere = postgresql.url.replace(str(postgresql.port), "1") + "?sslmode=disable&sslpassword=well"
    for url in (wrong, elsewhere):
        transform = beam.io.WriteToSQL(url, "words", key="word", columns=COLUMNS)
        p = TestPipeline()
        _ = p | beam.Create(COUNTS) | "save" >> transform
        with pytest.raises(SinkError, match="save: table 'words' in 'postgresql.*//[*]{3}@127.0.0.1:.*' can't be") as e:
            p.run()
        sink = transform.sink
        shown = [repr(transform), repr(sink), repr(sink.database), str(transform.display_data()), caplog.text]
        shown += traceback.format_exception(e.value)
        # The source lines of this test are part of the traceback.
        text = "".join(shown).replace(__file__, "")
        assert password not in text
        assert [] == [part for part in written if part in text]
        assert sink.database._url == pickle.loads(pickle.dumps(sink.database))._url


def test_a_connection_by_url_has_the_password(postgresql):
    """Hidden is not lost."""
    connection = SqlAlchemyUrl(postgresql.url, "here").connect()
    assert (1,) == connection.execute("SELECT 1").fetchone()
    connection.close()


def test_columns_as_pairs_are_refused_in_words():
    """They were an error of `str.join`."""
    with pytest.raises(TypeError, match=r"WriteToSQLite: expected columns as names, or as a mapping .* got \('word', "):
        beam.io.WriteToSQLite("out.db", "t", "word", [("word", str), ("n", int)])
