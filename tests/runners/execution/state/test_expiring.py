"""What has expired is removed, from memory and from disk, also if its key never comes again."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from support.execution.stateful_pardo import Work, at

import penstock as beam
from penstock.runners.execution.spilling.rocksdb import PORTION, SpillDatabase, SpilledEntries
from penstock.runners.execution.state.spilled_state import SpilledState
from penstock.sdk.userstate import BagStateSpec, ReadModifyWriteStateSpec, StateTtl, on_window_expiration

REAL_TIME = beam.TimeDomain.REAL_TIME
KEYS = 3_000


class Write(beam.DoFn):
    """Keeps values, and gives what it had."""

    LAST = ReadModifyWriteStateSpec("last", ttl=16)
    BAG = BagStateSpec("bag", ttl=StateTtl(160, REAL_TIME))

    def process(
        self, element: Any, last: Any = beam.DoFn.StateParam(LAST), bag: Any = beam.DoFn.StateParam(BAG)
    ) -> Iterator[Any]:
        yield last.read(), list(bag.read())
        last.write(element[1])
        bag.add(element[1])


@pytest.fixture(params=["memory", "disk"])
def work(request: pytest.FixtureRequest, database: SpillDatabase) -> Work:
    """With all state in memory, or on disk between bundles."""
    work = Work(Write())
    if request.param == "disk":
        database.rocksdb.delete_range(b"\x00", b"\x01")
        executor = work.executor
        entries = SpilledEntries(database, 0)
        executor.spilled = SpilledState(executor.state, "Write", entries, lambda: None, lambda keys: None)
    return work


def cells(work: Work) -> int:
    spilled = work.executor.spilled
    if spilled is not None:
        spilled.spill(1)
        assert 0 == len(work.executor.state)
        return sum(len(records) for _, records in spilled.records())
    return len(work.executor.state)


def test_keys_that_do_not_come_again_leave_nothing(work: Work) -> None:
    """Each state in its own time; a value and its time are two cells."""
    for start in range(0, KEYS, 500):
        work.process(*(at((key, "x"), key // 1_000) for key in range(start, start + 500)))
        cells(work)
    assert 4 * KEYS == cells(work)
    work.watermark(10).clock(100)
    assert 4 * KEYS == cells(work)
    work.watermark(19)
    assert 2 * KEYS == cells(work)
    work.clock(300)
    assert 0 == cells(work)


def test_a_value_that_was_written_again_stays(work: Work) -> None:
    """By its last time."""
    work.process(*(at((key, "x"), 0) for key in range(100)))
    cells(work)
    work.process(*(at((key, "y"), 12) for key in range(0, 100, 2)))
    cells(work)
    work.watermark(20)
    assert 2 * 100 + 2 * 50 == cells(work)
    work.process(*(at((key, "z"), 21) for key in range(4)))
    assert [("y", ["x", "y"]), (None, ["x"]), ("y", ["x", "y"]), (None, ["x"])] == work.taken()[-4:]


class Leases(beam.DoFn):
    """Has a state of a name that could be taken for the time of the other."""

    LEASE = ReadModifyWriteStateSpec("lease", ttl=10)
    EXPIRES = ReadModifyWriteStateSpec("lease expires")

    def process(
        self, element: Any, lease: Any = beam.DoFn.StateParam(LEASE), expires: Any = beam.DoFn.StateParam(EXPIRES)
    ) -> Iterator[Any]:
        yield lease.read(), expires.read()
        lease.write(element[1])
        expires.write("never")


def test_users_may_call_their_states_as_they_like() -> None:
    """Also where nothing expires."""
    work = Work(Leases(), tracking=True)
    work.process(at(("a", "x"), 0))
    state = pickle.loads(pickle.dumps(work.executor.state.snapshot()))
    other = Work(Leases())
    other.executor.restore(state, [])
    other.process(at(("a", "y"), 5)).process(at(("a", "z"), 30))
    assert [("x", "never"), (None, "never")] == other.taken()


class AtTheEnd(beam.DoFn):
    """Gives what a key had, when its window is over."""

    BAG = BagStateSpec("bag")

    def process(self, element: Any, bag: Any = beam.DoFn.StateParam(BAG)) -> None:
        bag.add(element[1])

    @on_window_expiration
    def over(self, key: Any = beam.DoFn.KeyParam, bag: Any = beam.DoFn.StateParam(BAG)) -> Iterator[Any]:
        yield key, bag.read()


@pytest.mark.parametrize("dofn", [AtTheEnd(), Write()])
def test_a_window_that_expires_is_not_loaded_at_once(dofn: beam.DoFn, database: SpillDatabase) -> None:
    """Nor at all, if nobody asks for what it has."""
    database.rocksdb.delete_range(b"\x00", b"\x01")
    work = Work(dofn, beam.window.FixedWindows(10))
    executor = work.executor
    spilled = executor.spilled = SpilledState(
        executor.state, "AtTheEnd", SpilledEntries(database, 0), lambda: None, lambda keys: None
    )
    for start in range(0, KEYS, 500):
        work.process(*(at((key, "x"), 10 * (key % 2)) for key in range(start, start + 500)))
        spilled.spill(1)
    work.taken()
    executor.watermark = 15_000_000
    most = 0
    while executor.fire_due(100):
        most = max(most, len(executor.state))
    assert most <= 2 * PORTION
    assert KEYS / 2 == spilled.number_spilled
    assert [(key, ["x"]) for key in range(0, KEYS, 2)] * isinstance(dofn, AtTheEnd) == sorted(work.taken())
    work.watermark(30)
    assert (0, 0) == (spilled.number_spilled, len(executor.state))


def test_restored_state_expires(work: Work) -> None:
    """With the times that it had; and not any more, if its spec has no time to live."""
    work.process(*(at((key, "x"), 0) for key in range(10)))
    spilled = work.executor.spilled
    state = work.executor.state.snapshot()
    if spilled is not None:
        spilled.spill(1)
        state += [change for _, records in spilled.records() for change in records]
    state = pickle.loads(pickle.dumps(state))

    other = Work(Write())
    other.executor.restore(state, [])
    other.watermark(10)
    other.process(at((1, "y"), 10))
    assert [("x", ["x"])] == other.taken()
    assert 2 * 20 == len(other.executor.state)
    other.watermark(18)
    assert 2 * 10 + 2 == len(other.executor.state)
    other.watermark(18 + 10)
    assert 2 * 10 == len(other.executor.state)

    class Keep(beam.DoFn):
        LAST = ReadModifyWriteStateSpec("last")

        def process(self, element: Any, last: Any = beam.DoFn.StateParam(LAST)) -> Iterator[Any]:
            yield last.read()

    kept = Work(Keep())
    kept.executor.restore([change for change in state if "last" in change[2]], [])
    kept.watermark(1_000).process(at((1, "z"), 2_000))
    assert ["x"] == kept.taken()
    assert 10 == len(kept.executor.state)
