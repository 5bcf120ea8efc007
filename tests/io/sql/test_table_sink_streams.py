"""Any stream of changes: what each key's row was, one after the other, split into transactions, units and bundles."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servers.crashing_connections import Fuse, PowerLoss

from penstock.io.sql.changes import staging_table
from penstock.sdk.elements.bundle import Bundle

VALUES = st.none() | st.integers(0, 2)
HISTORIES = st.dictionaries(st.sampled_from(["ann", "bob", "cid"]), st.lists(VALUES | st.just("gone"), max_size=6))


def signed(changes):
    """A bundle of (sign, word, n)."""
    return Bundle([(word, n) for _, word, n in changes], signs=[sign for sign, _, _ in changes])


def steps_of(history):
    """The changes that lead from each row to the next, as one step each."""
    steps, stored = [], "gone"
    for value in history:
        steps.append([(sign, v) for sign, v in ((-1, stored), (+1, value)) if v != "gone"])
        stored = value
    return steps


@st.composite
def transactions_of_changes(draw):
    """Lists of changes in any order, each with the rows that the table has to hold after it."""
    histories = draw(HISTORIES)
    count = draw(st.integers(1, 3))
    batches = [[] for _ in range(count)]
    rows = [{} for _ in range(count)]
    for word, history in histories.items():
        times = sorted(draw(st.lists(st.integers(0, count - 1), min_size=len(history), max_size=len(history))))
        for time, step, value in zip(times, steps_of(history), history):
            batches[time] += [(sign, word, v) for sign, v in step]
            for later in rows[time:]:
                later[word] = value
    for batch in batches:
        # Of rows that the table doesn't have.
        batch += [(-1, word, 9) for word in draw(st.lists(st.sampled_from(["ann", "bob"]), max_size=1))]
    expected = [sorted(((w, v) for w, v in r.items() if v != "gone"), key=repr) for r in rows]
    return [(draw(st.permutations(batch)), after) for batch, after in zip(batches, expected)]


def units_of(draw, changes):
    """Changes dealt out to units and their bundles."""
    units = [[[]] for _ in range(draw(st.integers(1, 3), label="units"))]
    for change in changes:
        unit = units[draw(st.integers(0, len(units) - 1))]
        if draw(st.booleans()):
            unit.append([])
        unit[-1].append(change)
    return [[signed(changes) for changes in unit] for unit in units]


def until_it_succeeds(database, draw, action):
    """Do something, crashing some times on the way."""
    while True:
        crash = draw(st.none() | st.tuples(st.integers(1, 25), st.booleans()), label="crash")
        database.connector.fuse = Fuse(*crash) if crash else Fuse()
        try:
            return action()
        except PowerLoss:
            continue
        finally:
            database.connector.fuse = Fuse()
            database.connector.lose_connections()


def tables_of(database):
    """With their schema."""
    return [database.schema + name for name in database.tables()]


def check_any_stream(database, transactions, data, batches):
    """The table is what the rows come to after each transaction."""
    sink = database.sink(database.new_table(), label="save/words", retracting=data.draw(st.booleans()))
    table = sink.sink.table.removeprefix(database.schema)
    for number, (changes, expected) in enumerate(batches):
        transaction = f"run/{number}"
        until_it_succeeds(database, data.draw, lambda: sink.prepare(transaction))
        tokens = []
        for unit in units_of(data.draw, changes):
            if data.draw(st.booleans(), label="attempt that isn't accepted"):
                transactions.stage(sink, transaction, unit)
            tokens += until_it_succeeds(database, data.draw, lambda: transactions.stage(sink, transaction, unit))
        until_it_succeeds(database, data.draw, lambda: sink.commit(transaction, tokens))
        assert expected == database.rows(table)
        if data.draw(st.booleans(), label="again"):
            sink.commit(transaction, tokens)
            assert expected == database.rows(table)
        assert staging_table(sink.sink.table, sink.label, transaction) not in tables_of(database)
    database.run(f"DROP TABLE {sink.sink.table}")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), batches=transactions_of_changes())
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_sqlite_holds_the_net_rows_of_any_stream_of_changes(database, transactions, data, batches):
    """In any order and split within a transaction, replayed, with crashes between any two steps."""
    check_any_stream(database, transactions, data, batches)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), batches=transactions_of_changes())
@pytest.mark.parametrize("database", ["postgresql", "other"], indirect=True)
def test_postgresql_holds_the_net_rows_of_any_stream_of_changes(database, transactions, data, batches):
    """The same."""
    check_any_stream(database, transactions, data, batches)
