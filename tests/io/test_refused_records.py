"""Records that a sink's target refuses: found before a commit is decided, or moved aside by it."""

from __future__ import annotations

import json
import math
import pathlib
from typing import Any

import attrs
import pytest
import redis

from penstock.io import WriteToRedis, WriteToRedisStream
from penstock.io.files.sinks.dynamic_write import WriteToFiles
from penstock.io.files.text import TextFormat
from penstock.io.files.write import FileSink
from penstock.io.sql.database import SqlSession
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import RejectedRecordError, SinkError
from penstock.sdk.sink import LabelledSink
from penstock.sdk.transaction_series import digest_of_sink

DEAD_LETTERS = "_penstock_dead_letters"


def letters(database: Any) -> list[Any]:
    """Return the dead letters with their signs."""
    rows = database.run(f"SELECT record, sign FROM {database.schema}{DEAD_LETTERS}")
    return sorted(((json.loads(record), sign) for record, sign in rows), key=repr)


def staged(transactions: Any, sink: Any, name: str, *bundles: Bundle) -> list[Any]:
    """The tokens of a transaction of one worker."""
    sink.prepare(name)
    tokens: list[Any] = transactions.stage(sink, name, bundles)
    return tokens


# --- Tables


def test_what_a_table_refuses_is_found_before_the_commit_and_nothing_changes(database: Any, transactions: Any) -> None:
    """By the database itself, since only it knows its constraints: here another column is unique."""
    database.run(f"CREATE TABLE {database.schema}words (word VARCHAR(9) PRIMARY KEY, n INTEGER UNIQUE)")
    sink = database.sink()
    tokens = staged(transactions, sink, "1", Bundle([("ann", 1), ("bob", 2), ("cid", 2)]))

    with pytest.raises(
        RejectedRecordError, match="save/words: table '.*words' in .*: it refuses .*(?i:unique)"
    ) as error:
        sink.precommit({"1": tokens})
    assert error.value.record in ("{'word': 'bob', 'n': 2}", "{'word': 'cid', 'n': 2}")
    assert [] == database.rows()

    database.run(f"CREATE TABLE {database.schema}others (word VARCHAR(9) PRIMARY KEY, n INTEGER)")
    other = database.sink("others")
    tokens = staged(transactions, other, "1", Bundle([("ann", 1)]))
    other.precommit({"1": tokens})
    assert [] == database.rows("others")
    other.commit("1", tokens)
    other.precommit({"1": tokens})
    assert [("ann", 1)] == database.rows("others")


def test_transactions_are_precommitted_one_on_top_of_the_other(database: Any, transactions: Any) -> None:
    """The second takes back what only the first has added."""
    sink = database.sink(key=None, count_column="copies")
    first = staged(transactions, sink, "00000001-ab", Bundle([("ann", 1)]))
    second = staged(transactions, sink, "00000002-ab", Bundle([("ann", 1)], signs=-1))

    sink.precommit({"00000001-ab": first, "00000002-ab": second})
    with pytest.raises(RejectedRecordError, match="refuses the retraction of {'word': 'ann', 'n': 1}"):
        sink.precommit({"00000002-ab": second})


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_a_value_that_a_column_refuses_is_refused_while_it_is_staged(database: Any, transactions: Any) -> None:
    """SQLite keeps a NaN as NULL.  A row that is taken back is one that the table has, so nothing is asked of it."""
    database.run(f"CREATE TABLE {database.schema}words (word VARCHAR(9) PRIMARY KEY, n REAL NOT NULL)")
    value = math.nan if not database.schema else None
    sink = database.sink(columns=["word", "n"])
    with pytest.raises(RejectedRecordError, match=r"the row {'word': 'ann', 'n': (nan|None)} doesn't fit: "):
        staged(transactions, sink, "1", Bundle([("bob", 1.0), ("ann", value)]))
    staged(transactions, sink, "2", Bundle([("ann", value)], signs=-1))


def test_with_dead_letters_a_commit_moves_aside_what_is_refused_and_publishes_the_rest(
    database: Any, transactions: Any
) -> None:
    """Rows that break a constraint, and all rows of a key that has several; however often it commits."""
    database.run(f"CREATE TABLE {database.schema}words (word VARCHAR(9) PRIMARY KEY, n INTEGER CHECK (n < 10))")
    sink = attrs.evolve(database.sink(), dead_letters=True)
    transactions.write(sink, Bundle([("cid", 1), ("dan", 1)]), transaction="0")
    changes = [("ann", 1), ("bob", 11), ("cid", 1), ("cid", 2), ("cid", 3), ("dan", 1), ("dan", 12)]
    tokens = staged(transactions, sink, "1", Bundle(changes, signs=[1, 1, -1, 1, 1, -1, 1]))

    sink.precommit({"1": tokens})
    for _ in range(2):
        sink.commit("1", tokens)

    assert [("ann", 1), ("dan", 1)] == database.rows()
    refused = [{"word": "bob", "n": 11}, {"word": "cid", "n": 2}, {"word": "cid", "n": 3}, {"word": "dan", "n": 12}]
    assert sorted([(record, 1) for record in refused], key=repr) == letters(database)


def test_what_was_staged_before_is_moved_aside_by_a_start_with_dead_letters(database: Any, transactions: Any) -> None:
    """The table may have got a constraint since: then the commit fails, naming the record, until it may move it."""
    sink = database.sink()
    tokens = staged(transactions, sink, "1", Bundle([("ann", 1), ("bob", 11)]))
    sink.precommit({"1": tokens})
    database.run(f"CREATE UNIQUE INDEX one_eleven ON {database.schema}words (n)")
    database.run(f"INSERT INTO {database.schema}words VALUES ('eve', 11)")

    with pytest.raises(RejectedRecordError, match=r"it refuses {'word': 'bob', 'n': 11}: "):
        sink.commit("1", tokens)
    attrs.evolve(sink, dead_letters=True).commit("1", tokens)

    assert [("ann", 1), ("eve", 11)] == database.rows()
    assert [({"word": "bob", "n": 11}, 1)] == letters(database)


def test_constraints_that_wait_for_the_end_of_a_transaction_are_found_too(postgresql: Any, request: Any) -> None:
    """PostgreSQL checks a deferred foreign key at COMMIT, where a rehearsal never comes to."""
    from .conftest import Transactions, database_of

    database = database_of(request, None, "postgresql")
    database.run(f"CREATE TABLE {database.schema}people (name TEXT PRIMARY KEY)")
    foreign = f"REFERENCES {database.schema}people (name) DEFERRABLE INITIALLY DEFERRED"
    database.run(f"CREATE TABLE {database.schema}words (word TEXT PRIMARY KEY {foreign}, n INTEGER)")
    database.run(f"INSERT INTO {database.schema}people VALUES ('ann')")
    sink, transactions = database.sink(), Transactions()
    tokens = staged(transactions, sink, "1", Bundle([("ann", 1), ("bob", 2)]))

    with pytest.raises(RejectedRecordError, match="it refuses {'word': 'bob', 'n': 2}: .*foreign key"):
        sink.precommit({"1": tokens})
    attrs.evolve(sink, dead_letters=True).commit("1", tokens)
    assert [("ann", 1)] == database.rows()


@pytest.mark.parametrize(("kind", "column", "value"), [(int, "BIGINT", 2**70), (str, "TEXT", "\ud800")])
def test_with_dead_letters_a_value_that_can_not_be_staged_is_moved_aside(
    database: Any, transactions: Any, kind: type, column: str, value: Any
) -> None:
    """The driver, or the staging table, refuses it; what was taken back in the same transaction is no letter."""
    check_that_it_is_moved_aside(database, transactions, kind, column, value)


def test_with_dead_letters_a_text_with_nul_is_moved_aside(postgresql: Any, request: Any) -> None:
    """PostgreSQL refuses it; SQLite doesn't."""
    from .conftest import Transactions, database_of

    database = database_of(request, None, "postgresql")
    check_that_it_is_moved_aside(database, Transactions(), str, "TEXT", "a\0b")


def check_that_it_is_moved_aside(database: Any, transactions: Any, kind: type, column: str, value: Any) -> None:
    database.run(f"CREATE TABLE {database.schema}words (word VARCHAR(9) PRIMARY KEY, n {column})")
    sink = attrs.evolve(database.sink(columns={"word": str, "n": kind}), dead_letters=True)
    changes = [("ann", kind(1)), ("bob", value), ("cid", value), ("cid", value), ("dan", value)]
    tokens = staged(transactions, sink, "1", Bundle(changes, signs=[1, 1, 1, -1, -1]))

    sink.precommit({"1": tokens})
    for _ in range(2):
        sink.commit("1", tokens)

    assert [("ann", kind(1))] == database.rows()
    assert [({"word": "bob", "n": value}, 1), ({"word": "dan", "n": value}, -1)] == letters(database)


def test_keys_that_are_read_as_another_type_are_told_apart(postgresql: Any, request: Any) -> None:
    """PostgreSQL's 0.1 of type REAL is read as a float that it isn't equal to; the others are published."""
    from .conftest import Transactions, database_of

    database = database_of(request, None, "postgresql")
    database.run(f"CREATE TABLE {database.schema}words (word REAL PRIMARY KEY, n INTEGER UNIQUE)")
    sink, transactions = database.sink(columns={"word": float, "n": int}), Transactions()
    rows = [(0.1, 1), (0.2, 2), (0.3, 2), (0.4, 4), (0.7, 7), (0.7, 8)]
    tokens = staged(transactions, sink, "1", Bundle(rows))

    with pytest.raises(
        RejectedRecordError, match=r"it refuses {'word': 0.7, 'n': 7} \(and 2 more\): the key is not unique"
    ):
        sink.precommit({"1": tokens})
    attrs.evolve(sink, dead_letters=True).commit("1", tokens)

    assert [(0.1, 1), (0.2, 2), (0.4, 4)] == database.rows()
    refused = [{"word": 0.3, "n": 2}, {"word": 0.7, "n": 7}, {"word": 0.7, "n": 8}]
    assert [(record, 1) for record in refused] == letters(database)


def test_a_refused_row_among_many_is_found_by_halving(
    database: Any, transactions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one they would take as many statements as there are rows, each of which looks through all rows."""
    database.run(f"CREATE TABLE {database.schema}words (word VARCHAR(9) PRIMARY KEY, n INTEGER UNIQUE)")
    sink = attrs.evolve(database.sink(), dead_letters=True)
    tokens = staged(transactions, sink, "1", Bundle([(f"w{n:03}", 7 if n == 600 else n) for n in range(1000)]))
    statements, run = [], SqlSession.run
    monkeypatch.setattr(SqlSession, "run", lambda self, sql, *rest: statements.append(sql) or run(self, sql, *rest))

    sink.commit("1", tokens)
    monkeypatch.undo()

    assert 999 == len(database.rows())
    assert [({"word": "w600", "n": 7}, 1)] == letters(database)
    assert len(statements) < 200


# --- Files


def files_below(directory: pathlib.Path) -> dict[str, str]:
    """The contents of all files, by path."""
    return {str(p.relative_to(directory)): p.read_text() for p in directory.rglob("*") if p.is_file()}


def moved_aside(directory: pathlib.Path) -> list[str]:
    """The contents of the files that were moved aside, without the notes."""
    letters = directory.glob(".*.penstock-dead-letters/*")
    return sorted(path.read_text() for path in letters if path.suffix != ".json")


def by_first_word(directory: pathlib.Path) -> Any:
    """A sink with a destination for each first word."""
    return LabelledSink(WriteToFiles(str(directory), destination=lambda line: line.split()[0]).sink, "WriteToFiles")


def test_two_files_of_one_name_are_found_before_the_commit(tmp_path: pathlib.Path, transactions: Any) -> None:
    """And with dead letters the second of them is moved aside, with a note."""
    sink = LabelledSink(
        WriteToFiles(str(tmp_path), lambda *_: "all.txt", destination=lambda line: line.split()[0]).sink, "WriteToFiles"
    )
    tokens = staged(transactions, sink, "1", Bundle(["ann 1", "bob 2"]))
    with pytest.raises(RejectedRecordError, match=r"file_naming gives 'all.txt' to more than one file"):
        sink.precommit({"1": tokens})

    moving = attrs.evolve(sink, dead_letters=True)
    for again in (moving, moving, sink):
        again.commit("1", tokens)

    name = f".files.penstock-dead-letters/1-{digest_of_sink(sink.label)[:8]}-{tokens[0][1].name}"
    found = files_below(tmp_path)
    assert {"all.txt", name, f"{name}.json"} == found.keys()
    assert ("ann 1\n", "bob 2\n") == (found["all.txt"], found[name])
    assert "all.txt" in json.loads(found[f"{name}.json"])["reason"]


@pytest.mark.parametrize("obstacle", ["a directory", "a file"])
def test_a_name_that_is_taken_is_found_before_the_commit(
    tmp_path: pathlib.Path, transactions: Any, obstacle: str
) -> None:
    """By a directory of that name, or by a file where a directory would be."""
    sink = LabelledSink(
        WriteToFiles(str(tmp_path), lambda *a: f"{a[-1]}/of.txt", destination=lambda line: line.split()[0]).sink,
        "WriteToFiles",
    )
    tokens = staged(transactions, sink, "1", Bundle(["ann 1", "bob 2"]))
    if obstacle == "a directory":
        (tmp_path / "bob/of.txt").mkdir(parents=True)
    else:
        (tmp_path / "bob").write_text("")

    with pytest.raises(RejectedRecordError, match=r"no file can be published as '.*/bob/of.txt': ") as error:
        sink.precommit({"1": tokens})
    assert "bob/of.txt" in str(error.value.record)
    attrs.evolve(sink, dead_letters=True).commit("1", tokens)

    assert "ann 1\n" == (tmp_path / "ann/of.txt").read_text()
    assert ["bob 2\n"] == [
        text for path, text in files_below(tmp_path).items() if "dead" in path and "json" not in path
    ]


def test_with_dead_letters_a_name_that_no_file_can_have_is_moved_aside(
    tmp_path: pathlib.Path, transactions: Any
) -> None:
    """Without them it is refused while its first element is written."""
    lines = Bundle(["ann 1", f"{'x' * 300} 2"])
    with pytest.raises(SinkError, match="File name too long"):
        staged(transactions, by_first_word(tmp_path), "1", lines)
    sink = attrs.evolve(by_first_word(tmp_path), dead_letters=True)
    tokens = staged(transactions, sink, "2", lines)
    sink.commit("2", tokens)

    found = files_below(tmp_path)
    assert "ann 1\n" == found["ann-00000-of-00001"]
    assert [f"{'x' * 300} 2\n"] == moved_aside(tmp_path)


def test_a_commit_that_finds_no_names_can_be_repeated(tmp_path: pathlib.Path, transactions: Any) -> None:
    """The staged files stay: they used to be removed, and no restart could publish them."""
    files = FileSink(tmp_path / "out", TextFormat(), shard_name_template="")
    files.num_shards = 0
    sink = LabelledSink(files, "FileSink")
    sink.prepare("1")
    tokens = transactions.stage(sink, "1", [Bundle(["a"])], [Bundle(["b"])])
    for attempt in (sink.precommit, lambda staged: sink.commit("1", staged["1"])):
        with pytest.raises(RejectedRecordError, match="2 workers wrote, but '.*/out' is one file"):
            attempt({"1": tokens})
    attrs.evolve(sink, dead_letters=True).commit("1", tokens)
    assert ["a\n", "b\n"] == sorted(text for path, text in files_below(tmp_path).items() if "json" not in path)


# --- Redis


def test_a_key_with_two_values_is_found_before_the_commit(redis_server: Any, transactions: Any) -> None:
    """And with dead letters both go into a list."""
    client = redis.Redis.from_url(redis_server.url)
    sink = LabelledSink(WriteToRedis(redis_server.url, "refused:").sink, "save")
    tokens = staged(transactions, sink, "1", Bundle([("ann", 1), ("bob", 2), ("bob", {"n": 3})]))
    with pytest.raises(RejectedRecordError, match="save: .*: it refuses .*'refused:bob' has two values") as e:
        sink.precommit({"1": tokens})
    assert "bob" in e.value.record
    with pytest.raises(RejectedRecordError):
        sink.commit("1", tokens)
    assert [] == client.keys("refused:*")

    for _ in range(2):
        attrs.evolve(sink, dead_letters=True).commit("1", tokens)
    assert ([b"refused:ann"], b"1") == (client.keys("refused:*"), client.get("refused:ann"))
    moved = [json.loads(each) for each in client.lrange(sink.sink.own("save", "dead_letters"), 0, -1)]
    values = [{"key": "refused:bob", "value": "2"}, {"key": "refused:bob", "value": {"n": "3"}}]
    assert values == sorted(moved, key=repr)
    client.flushdb()


def test_a_stream_whose_key_holds_something_else_by_now_loses_nothing(redis_server: Any, transactions: Any) -> None:
    """Redis goes on with a transaction of which one command fails, and the entries would be gone."""
    client = redis.Redis.from_url(redis_server.url)
    sink = LabelledSink(WriteToRedisStream(redis_server.url, "clicks").sink, "save")
    tokens = staged(transactions, sink, "1", Bundle([{"a": 1}]))
    client.set("clicks", "text")
    for attempt in (sink.precommit, lambda staged: sink.commit("1", staged["1"])):
        with pytest.raises(SinkError, match="stream 'clicks' can't be written: .*: it holds a string; expected"):
            attempt({"1": tokens})
    client.delete("clicks")
    sink.commit("1", tokens)
    assert [{b"a": b"1"}] == [fields for _, fields in client.xrange("clicks")]
    client.flushdb()
