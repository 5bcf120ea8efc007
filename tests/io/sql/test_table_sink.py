"""A table holds what the signed rows come to, in whatever order they came."""

import datetime
import decimal
import sqlite3

import numpy
import pytest

import penstock as beam
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import SinkError
from penstock.triggers.pane import PaneInfo, PaneInfoTiming
from penstock.windowing.windows import IntervalWindow

MINUTE = (IntervalWindow(0, 60),)
NEXT_MINUTE = (IntervalWindow(60, 120),)
EARLY = PaneInfo(True, False, PaneInfoTiming.EARLY, 0, -1)
ON_TIME = PaneInfo(False, False, PaneInfoTiming.ON_TIME, 1, 0)
LATE = PaneInfo(False, True, PaneInfoTiming.LATE, 2, 1)


def signed(*changes):
    """A bundle of (sign, word, n)."""
    return Bundle([(word, n) for _, word, n in changes], signs=[sign for sign, _, _ in changes])


# --- What signed rows come to


def test_a_row_is_inserted_updated_and_deleted(database, transactions):
    """Each in a transaction of its own."""
    sink = database.sink()
    transactions.write(sink, Bundle([("ann", 1), ("bob", 1)]), transaction="1")
    assert [("ann", 1), ("bob", 1)] == database.rows()
    transactions.write(sink, signed((-1, "ann", 1), (+1, "ann", 2)), transaction="2")
    assert [("ann", 2), ("bob", 1)] == database.rows()
    transactions.write(sink, signed((-1, "bob", 1)), transaction="3")
    assert [("ann", 2)] == database.rows()


def test_the_order_of_a_retraction_and_what_replaces_it_does_not_matter(database, transactions):
    """Within a bundle, or from one unit to the other."""
    sink = database.sink()
    transactions.write(sink, Bundle([("ann", 1), ("bob", 1)]), transaction="1")
    sink.prepare("2")
    units = [[signed((+1, "ann", 3), (+1, "bob", 2))], [signed((-1, "bob", 1))], [signed((-1, "ann", 1))]]
    sink.commit("2", transactions.stage(sink, "2", *units))
    assert [("ann", 3), ("bob", 2)] == database.rows()


def test_what_was_corrected_several_times_is_what_is_left(database, transactions):
    """A value that came, went, and came again."""
    changes = [(+1, "ann", 1), (-1, "ann", 1), (+1, "ann", 2), (-1, "ann", 2), (+1, "ann", 1)]
    transactions.write(database.sink(), signed(*reversed(changes)))
    assert [("ann", 1)] == database.rows()


def test_a_retraction_of_something_else_than_the_stored_row_deletes_nothing(database, transactions):
    """The key has moved on: its row is another by now; None equals None only."""
    sink = database.sink()
    transactions.write(sink, Bundle([("ann", 2), ("bob", None), ("cid", 1), ("dan", None)]), transaction="1")
    gone = signed((-1, "ann", 1), (-1, "bob", 7), (-1, "cid", None), (-1, "dan", None), (-1, "eve", 1))
    transactions.write(sink, gone, transaction="2")
    assert [("ann", 2), ("bob", None), ("cid", 1)] == database.rows()


def test_two_rows_left_for_a_key_are_an_error_that_says_so(database, transactions):
    """And the table is what it was."""
    sink = database.sink()
    transactions.write(sink, Bundle([("ann", 1)]), transaction="1")
    with pytest.raises(
        SinkError,
        match=r"save/words: table '.*words' in .* can't be committed to: it refuses .*: the key is not unique",
    ) as e:
        transactions.write(sink, signed((-1, "ann", 1), (+1, "ann", 2), (+1, "ann", 3)), transaction="2")
    assert "2 rows are left for {'word': 'ann'}, such as {'word': 'ann', 'n': " in str(e.value)
    assert [("ann", 1)] == database.rows()
    sink.abort("2")
    assert ["_penstock_transactions", "words"] == database.tables()


def test_where_rows_are_retracted_the_same_row_twice_is_one_too_many(database, transactions):
    """Once one of them is retracted, the other would have to stay."""
    twice = Bundle([("ann", 1)] * 2)
    with pytest.raises(SinkError, match=r"2 rows are left for {'word': 'ann'}, such as .* \(2 times\)"):
        transactions.write(database.sink(retracting=True), twice, transaction="1")
    transactions.write(database.sink(label="other"), twice, transaction="2")
    assert [("ann", 1)] == database.rows()


def test_equal_rows_are_counted_where_there_is_a_column_for_it(database, transactions):
    """All columns are the key; the row goes when its count is 0, and can't go below."""
    sink = database.sink(key=None, count_column="copies")
    transactions.write(sink, Bundle([("ann", 1), ("ann", 1), ("ann", 2)]), transaction="1")
    assert [("ann", 1, 2), ("ann", 2, 1)] == database.rows()
    changes = [(-1, "ann", 1), (-1, "ann", 2), (+1, "bob", 1), (+1, "cid", 1), (-1, "cid", 1)]
    transactions.write(sink, signed(*changes), transaction="2")
    assert [("ann", 1, 1), ("bob", 1, 1)] == database.rows()
    with pytest.raises(
        SinkError, match="the retraction of {'word': 'bob', 'n': 1}: it is retracted more often than it was added"
    ):
        transactions.write(sink, signed((-1, "bob", 1), (-1, "bob", 1)), transaction="3")
    assert [("ann", 1, 1), ("bob", 1, 1)] == database.rows()


# --- Panes and windows


def test_without_retractions_the_latest_pane_of_a_window_wins(database, transactions):
    """As in ACCUMULATING mode, where each pane replaces the one before; wherever it was written."""
    panes = [Bundle([("ann", n)], 0, MINUTE, pane) for n, pane in [(3, LATE), (1, EARLY), (2, ON_TIME)]]
    sink = database.sink()
    sink.prepare("1")
    sink.commit("1", transactions.stage(sink, "1", *([pane] for pane in panes)))
    assert [("ann", 3)] == database.rows()


def test_rows_of_one_pane_or_of_several_windows_need_more_of_a_key(database, transactions):
    """Nothing tells which of them is meant; unless the latest is asked for."""
    sink = database.sink()
    with pytest.raises(SinkError, match="the key is not unique: 2 rows are left for {'word': 'ann'}, such as"):
        transactions.write(sink, Bundle([("ann", 1), ("ann", 2)], [5, 7]), transaction="1")
    windows = Bundle([("ann", 3), ("ann", 2)], 0, [NEXT_MINUTE, MINUTE], [EARLY, LATE])
    with pytest.raises(SinkError, match=r"of windows from \[0.0, 60.0\) to \[60.0, 120.0\), such as"):
        transactions.write(sink, windows, transaction="2")
    latest = database.sink(latest=True)
    transactions.write(latest, windows, transaction="3")
    transactions.write(latest, Bundle([("bob", 2), ("bob", 1)], [7, 5]), transaction="4")
    assert [("ann", 3), ("bob", 2)] == database.rows()
    with pytest.raises(SinkError, match="key is not unique"):
        transactions.write(latest, Bundle([("bob", 2), ("bob", 1)], 7), transaction="5")


def test_window_timestamp_and_pane_can_be_columns_and_part_of_the_key(database, transactions):
    """A row for each window, and a retraction of the pane that is retracted."""
    sink = database.sink(key=["word", "window_start"], with_window=True)
    transactions.write(
        sink,
        Bundle([("ann", 1)], 5_000_000, MINUTE + NEXT_MINUTE, EARLY),
        Bundle([("ann", 1)], 5_000_000, MINUTE, EARLY, -1),
        Bundle([("ann", 2)], 7_000_000, MINUTE, ON_TIME),
    )
    expected = [
        ("ann", 1, 60_000_000, 120_000_000, 5_000_000, 0, "EARLY"),
        ("ann", 2, 0, 60_000_000, 7_000_000, 1, "ON_TIME"),
    ]
    assert expected == database.rows()


def test_columns_of_the_window_are_found_in_a_table_that_has_them(database, transactions):
    """In whatever order; its other columns are the elements'."""
    times = "event_timestamp BIGINT, window_end BIGINT, window_start BIGINT, pane_timing TEXT, pane_index INTEGER"
    database.run(f"CREATE TABLE {database.schema}words (pane INTEGER, {times}, word VARCHAR(9) PRIMARY KEY)")
    sink = database.sink(columns=[], with_window=True)
    transactions.write(sink, Bundle([{"word": "ann", "pane": 9}], 5, MINUTE, LATE))
    assert [(9, 5, 60_000_000, 0, "LATE", 2, "ann")] == database.rows()


# --- Rows


def test_elements_can_be_records_or_pairs_or_whatever_a_function_makes_rows_of(database, transactions):
    """The pair's parts are values, tuples or records, as the columns ask for."""
    columns = {"word": str, "n": int, "share": float}
    elements = [
        {"share": 0.5, "n": 1, "word": "ann"},
        beam.Row(word="bob", n=2, share=1),
        ("cid", (3, 0.25)),
        ("dan", {"n": 4, "share": None}),
    ]
    transactions.write(database.sink("a", columns=columns), Bundle(elements))
    assert [("ann", 1, 0.5), ("bob", 2, 1.0), ("cid", 3, 0.25), ("dan", 4, None)] == database.rows("a")
    by_two = database.sink("b", key=["word", "n"], columns=columns)
    transactions.write(by_two, Bundle([(("ann", 1), 0.5), ({"word": "bob", "n": 2}, 0.5)]))
    assert [("ann", 1, 0.5), ("bob", 2, 0.5)] == database.rows("b")
    made = database.sink("c", row=lambda word: (word, len(word)))
    transactions.write(made, Bundle(["ann"]))
    transactions.write(database.sink("c", row=lambda word: {"n": 0, "word": word}), Bundle(["bob"]), transaction="2")
    assert [("ann", 3), ("bob", 0)] == database.rows("c")


def test_a_column_keeps_the_values_of_its_type(database, transactions):
    """As the database has them: SQLite has text for dates; no NumPy scalar is left."""
    columns = {
        "word": str, "data": bytes, "yes": bool, "at": datetime.datetime, "on_day": datetime.date,
        "exact": decimal.Decimal, "big": int, "other": "VARCHAR(9)",
    }  # fmt: skip
    if database.database.dialect == "other":
        columns["data"] = "BYTEA"
    at = datetime.datetime(2015, 8, 31, 12, 30, tzinfo=datetime.UTC)
    row = ("ann", b"\0\xff", True, at, at.date(), decimal.Decimal("1.10"), 2**62, "x")
    names = list(columns)
    transactions.write(database.sink(columns=columns), Bundle([dict(zip(names, row))]), transaction="1")
    retraction = Bundle([dict(zip(names, (*row[:6], numpy.int64(2**62), "x")))], signs=-1)
    [found] = database.rows()
    if database.schema:
        assert row[:3] + row[4:] == found[:3] + found[4:]
        assert row[3] == (found[3] if found[3].tzinfo else found[3].replace(tzinfo=datetime.UTC))
    else:
        assert ("ann", b"\0\xff", 1, "2015-08-31T12:30:00+00:00", "2015-08-31", "1.10", 2**62, "x") == found
    transactions.write(database.sink(columns=columns), retraction, transaction="2")
    assert [] == database.rows()


def test_other_columns_of_a_row_stay_as_they_are(database, transactions):
    """Where the database can insert or update in one; elsewhere the row is a new one."""
    database.run(
        f"CREATE TABLE {database.schema}words (word VARCHAR(9) PRIMARY KEY, n INTEGER, seen INTEGER DEFAULT 1)"
    )
    sink = database.sink()
    transactions.write(sink, Bundle([("ann", 1)]), transaction="1")
    database.run(f"UPDATE {database.schema}words SET seen = 5")
    transactions.write(sink, signed((-1, "ann", 1), (+1, "ann", 2)), transaction="2")
    assert [("ann", 2, 1 if database.database.dialect == "other" else 5)] == database.rows()


def test_names_may_be_anything(database, transactions):
    """Quotes, percent signs, question marks, spaces, words of SQL."""
    columns = {'a "b" 100%?': str, "select": int, ":p1": int}
    sink = database.sink('or"der 5%', key='a "b" 100%?', columns=columns)
    transactions.write(sink, Bundle([("ann%s?", (1, 2))]), transaction="1")
    transactions.write(sink, Bundle([("ann%s?", (1, 2)), ("bob", (3, 4))], signs=[-1, 1]), transaction="2")
    assert [("bob", 3, 4)] == database.rows('"or""der 5%"')


# --- Errors


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ("ann", r"expected records \(dicts, Rows, named tuples, dataclasses\) or \(key, value\) pairs, got 'ann'"),
        ({"word": "ann"}, "expected a row with the columns 'word', 'n', but {'word': 'ann'} has no 'n'"),
        ({"word": "ann", "n": 1, "m": 2}, ".* has 'm', which is no column; name the columns to write in `columns`"),
        (("ann", "x"), r"column 'n' is for int, got 'x' of type str in \('ann', 'x'\)"),
        (("ann", True), "column 'n' is for int, got True of type bool"),
        ((None, 1), r"column 'word' is part of the key and can't be None, as in \(None, 1\)"),
        (("ann", 2**63), r"the row {'word': 'ann', 'n': 9223372036854775808} doesn't fit: "),
    ],
)
def test_an_element_that_is_no_row_of_the_table_is_an_error_that_shows_it(database, transactions, element, message):
    """With transform, table and what was expected."""
    with pytest.raises(SinkError, match=r"^save/words: table '.*words' in .* can't be written: " + message):
        transactions.write(database.sink(), Bundle([("bob", 1), element]))


def test_what_is_wrong_with_the_table_shows_before_anything_runs(database):
    """When the sink is prepared."""
    with pytest.raises(
        SinkError, match="save/words: table '.*words' in .* can't be written to: there is no such table"
    ):
        database.sink(create=False).prepare("1")
    with pytest.raises(SinkError, match="name its columns in `columns` to have it made"):
        database.sink(columns=[]).prepare("1")
    with pytest.raises(SinkError, match=r"column 'n' has no type to make one .* columns={'n': str}"):
        database.sink(columns={"word": str, "n": list}).prepare("1")
    database.run(f"CREATE TABLE {database.schema}words (word VARCHAR(9), m INTEGER)")
    with pytest.raises(SinkError, match="it has the columns 'word', 'm', but not 'n'"):
        database.sink().prepare("1")
    if database.database.dialect != "other":
        with pytest.raises(SinkError, match=r"give it a primary key or a unique constraint on \(word\)"):
            database.sink(columns=["word", "m"]).prepare("1")
    assert "words" in database.tables()


def test_a_constraint_that_a_row_breaks_fails_the_transaction_as_a_whole(database, transactions):
    """Naming the table and the constraint; PostgreSQL says it while the row is staged."""
    database.run(f"CREATE TABLE {database.schema}words (word VARCHAR(9) PRIMARY KEY, n INTEGER CHECK (n < 10))")
    refused = "save/words: table '.*words' in .* can't be (committed to|written): .*(?i:check).*"
    with pytest.raises(SinkError, match=refused):
        transactions.write(database.sink(), Bundle([("ann", 1), ("bob", 11)]))
    assert [] == database.rows()


def test_a_database_locked_by_another_writer_is_an_error_after_a_while(sqlite, transactions):
    """Naming the file and what can be done."""
    sink = sqlite.sink()
    sink.prepare("1")
    other = sqlite3.connect(sqlite.database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    message = (
        "save/words: table 'words' in '.*test.db' can't be written: database is locked; another process is writing"
    )
    with pytest.raises(SinkError, match=message):
        transactions.stage(sink, "1", [Bundle([("ann", 1)])])
    other.close()


def test_a_file_that_is_no_database_is_an_error(tmp_path, sqlite):
    """And one in a directory that isn't there."""
    (tmp_path / "test.db").write_text("Dear diary, " * 100)
    with pytest.raises(SinkError, match="can't be written to: file is not a database"):
        sqlite.sink().prepare("1")
    sqlite.database.path = str(tmp_path / "none" / "test.db")
    with pytest.raises(SinkError, match="can't be written to: unable to open database file"):
        sqlite.sink().prepare("1")
