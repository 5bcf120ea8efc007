"""A table sink commits in two phases: whatever crashes or comes twice, a transaction is in the table whole or not."""

import contextlib
import itertools

import pytest
from servers.crashing_connections import Fuse, PowerLoss

from penstock.io.sql.staging import STAGE_ROWS
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import SinkError

BOOKKEEPING = "_penstock_transactions"


def test_nothing_is_visible_before_the_commit_and_nothing_is_left_after_it(database, transactions):
    """But the transaction's id."""
    sink = database.sink()
    sink.prepare("run/1")
    tokens = transactions.stage(sink, "run/1", [Bundle([("ann", 1)])], [])
    assert [] == database.rows()
    sink.commit("run/1", tokens)
    assert [("ann", 1)] == database.rows()
    assert [BOOKKEEPING, "words"] == database.tables()
    noted = database.run(f"SELECT transaction_id, transform, table_name FROM {database.schema}{BOOKKEEPING}")
    assert [("run/1", "save/words", f"{database.schema}words")] == noted


def test_committing_twice_changes_nothing(database, transactions):
    """With any changes to the table meanwhile, and also if the first answer was lost."""
    sink = database.sink()
    sink.prepare("1")
    tokens = transactions.stage(sink, "1", [Bundle([("ann", 1)])])
    sink.commit("1", tokens)
    database.run(f"UPDATE {database.schema}words SET n = 7")
    sink.commit("1", tokens)
    assert [("ann", 7)] == database.rows()


def test_of_a_series_of_transactions_the_last_one_is_noted_and_stands_for_those_before(database, transactions):
    """The bookkeeping doesn't grow with commits; other series and other sinks are left alone."""
    sink = database.sink()
    committed = {}
    for name in ("00000001-ab", "00000001-cd", "00000002-ab", "run", "00000010-ab", "00000001-ab-1"):
        sink.prepare(name)
        committed[name] = transactions.stage(sink, name, [Bundle([("ann", len(committed))])])
        sink.commit(name, committed[name])
    noted = database.run(f"SELECT transaction_id FROM {database.schema}{BOOKKEEPING} ORDER BY transaction_id")
    assert ["00000001-ab-1", "00000001-cd", "00000010-ab", "run"] == [name for (name,) in noted]
    for name, tokens in committed.items():
        sink.commit(name, tokens)
    assert [("ann", 5)] == database.rows()
    with pytest.raises(SinkError, match="its staged rows are missing"):
        sink.commit("00000011-ab", committed["run"])


def test_what_a_retried_worker_staged_before_is_left_out(database, transactions):
    """Only accepted tokens count, though units may have the same name."""
    sink = database.sink()
    sink.prepare("1")
    failed, accepted = [transactions.stage(sink, "1", [Bundle([("ann", n)])]) for n in (1, 2)]
    assert failed != accepted
    sink.commit("1", accepted)
    assert [("ann", 2)] == database.rows()


def test_aborting_leaves_nothing_and_stops_zombie_writers(database, transactions):
    """Any number of aborts."""
    sink = database.sink()
    sink.prepare("1")
    tokens = transactions.stage(sink, "1", [Bundle([("ann", 1)])])
    zombie = sink.sink.open_writer(sink.context("1", "2"))
    zombie.write(Bundle([("ann", 2)]))
    sink.abort("1")
    sink.abort("1")
    assert [BOOKKEEPING, "words"] == database.tables()
    with pytest.raises(SinkError, match="save/words: table '.*words' in .* can't be written: .*_penstock_staged_"):
        zombie.stage()
    with pytest.raises(SinkError, match="transaction '1' isn't prepared"):
        sink.sink.open_writer(sink.context("1", "3")).write(Bundle([("ann", 1)]))
    with pytest.raises(SinkError, match="its staged rows are missing"):
        sink.commit("1", tokens)


def test_staged_rows_that_are_gone_are_an_error(database, transactions):
    """Not a smaller result."""
    sink = database.sink()
    sink.prepare("1")
    [(unit, rows)] = transactions.stage(sink, "1", [Bundle([("ann", 1)])])
    with pytest.raises(SinkError, match="2 of 3 staged rows are gone"):
        sink.commit("1", [(unit, rows + 2)])
    sink.commit("1", [(unit, rows)])
    assert [("ann", 1)] == database.rows()


def test_a_worker_that_fails_removes_what_it_staged(database, transactions):
    """Many rows are staged in several steps, of which some were taken."""
    sink = database.sink()
    sink.prepare("1")
    writer = sink.sink.open_writer(sink.context("1", "1"))
    writer.write(Bundle([(str(n), n) for n in range(STAGE_ROWS + 1)]))
    [staged] = [name for name in database.tables() if "staged" in name]
    assert [(STAGE_ROWS,)] == database.run(f"SELECT COUNT(*) FROM {database.schema}{staged}")
    writer.discard()
    assert [(0,)] == database.run(f"SELECT COUNT(*) FROM {database.schema}{staged}")


def test_a_transaction_prepared_before_a_crash_keeps_what_was_staged(database, transactions):
    """Preparing it again changes nothing."""
    sink = database.sink()
    sink.prepare("1")
    tokens = transactions.stage(sink, "1", [Bundle([("ann", 1)])])
    sink.prepare("1")
    sink.commit("1", tokens)
    assert [("ann", 1)] == database.rows()


def test_readers_see_all_of_a_commit_or_nothing(database, transactions):
    """Asked between any two steps of it."""
    transactions.write(database.sink(), Bundle([("ann", 1), ("bob", 1)]), transaction="0")
    before = database.rows()
    after = [("ann", 2), ("cid", 1)]
    change = Bundle([("ann", 1), ("ann", 2), ("bob", 1), ("cid", 1)], signs=[-1, +1, -1, +1])
    sink = database.sink()
    sink.prepare("1")
    tokens = transactions.stage(sink, "1", [change])
    seen = []

    class Watching(Fuse):
        def around(self, step):
            database.connector.fuse = Fuse()
            seen.append(database.rows())
            return step()

    database.connector.fuse = Watching()
    sink.commit("1", tokens)
    database.connector.fuse = Fuse()
    assert [before, after] == [rows for i, rows in enumerate(seen) if i == 0 or rows != seen[i - 1]]


def test_a_crash_anywhere_in_a_commit_is_completed_by_committing_again(database, transactions):
    """Before each step; the last commit has fewer steps.

    What is there after a step is there before the next one, and after the last one another commit changes nothing.
    """
    change = Bundle([("ann", 1), ("ann", 2), ("bob", 1), ("cid", 1)], signs=[-1, +1, -1, +1])
    back = Bundle([("ann", 2), ("ann", 1), ("cid", 1), ("bob", 1)], signs=[-1, +1, -1, +1])
    transactions.write(database.sink(), Bundle([("ann", 1), ("bob", 1)]), transaction="0")
    for steps in itertools.count(1):
        sink, transaction = database.sink(), str(steps)
        sink.prepare(transaction)
        tokens = transactions.stage(sink, transaction, [change])
        transactions.stage(sink, transaction, [change])
        database.connector.fuse = fuse = Fuse(steps)
        with contextlib.suppress(PowerLoss):
            sink.commit(transaction, tokens)
        database.connector.fuse = Fuse()
        assert database.rows() in ([("ann", 1), ("bob", 1)], [("ann", 2), ("cid", 1)])
        sink.commit(transaction, tokens)
        assert [("ann", 2), ("cid", 1)] == database.rows()
        assert [BOOKKEEPING, "words"] == database.tables()
        if fuse.steps > 0:
            break
        transactions.write(sink, back, transaction=f"back from {steps}")
    assert steps > 20
