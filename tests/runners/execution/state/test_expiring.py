"""What has expired is removed, from memory and from disk, also if its key never comes again."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from support.execution.stateful_pardo import Work, at
from support.pipelines.recording import Recording

import penstock as beam
from penstock.runners.execution.clock import Clock
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.spilling.rocksdb import PORTION, SpillDatabase, SpilledEntries
from penstock.runners.execution.spilling.spilled_step import SpillContext
from penstock.runners.execution.state.expiring import ExpiringColumn, ExpiryTimes, expiring_state, expiry_column
from penstock.runners.execution.state.keyed_state import KeyedState
from penstock.runners.execution.state.spilled_state import SpilledState
from penstock.runners.execution.streaming.task_program import TaskProgram
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.metrics import MetricsContainer
from penstock.sdk.userstate import BagStateSpec, ReadModifyWriteStateSpec, StateTtl, on_window_expiration
from penstock.testing import TestStream
from penstock.windowing import GLOBAL_WINDOW

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
        executor.spilled = SpilledState(executor.state, SpillContext("Write", entries))
    return work


def cells(work: Work) -> int:
    """How many cells are left, in memory and on disk, when what has expired is removed."""
    executor, spilled = work.executor, work.executor.spilled
    while executor.drop_expired():
        pass
    if spilled is None:
        return len(executor.state)
    spilled.spill(1)
    assert 0 == len(executor.state)
    names = [name for _, records in spilled.records() for _, _, name, *_ in records]
    return sum(expiring_state(name) is None for name in names)


def test_keys_that_do_not_come_again_leave_nothing(work: Work) -> None:
    """Each state in its own time."""
    for start in range(0, KEYS, 500):
        work.process(*(at((key, "x"), key // 1_000) for key in range(start, start + 500)))
        cells(work)
    assert 2 * KEYS == cells(work)
    work.watermark(10).clock(100)
    assert 2 * KEYS == cells(work)
    work.watermark(19)
    assert KEYS == cells(work)
    work.clock(300)
    assert 0 == cells(work)


def test_a_value_that_was_written_again_stays(work: Work) -> None:
    """By its last time."""
    work.process(*(at((key, "x"), 0) for key in range(100)))
    cells(work)
    work.process(*(at((key, "y"), 12) for key in range(0, 100, 2)))
    cells(work)
    work.watermark(20)
    assert 100 + 50 == cells(work)
    work.process(*(at((key, "z"), 21) for key in range(4)))
    assert [("y", ["x", "y"]), (None, ["x"]), ("y", ["x", "y"]), (None, ["x"])] == work.taken()[-4:]


def test_state_that_was_restored_with_changes_expires() -> None:
    """All keys that the full snapshot has are gone in the changes."""
    work = Work(Write(), tracking=True)
    work.process(*(at((f"old {n}", "x"), 0) for n in range(10)))
    files = [work.executor.state.snapshot()]
    work.watermark(40).clock(400)
    work.process(*(at((f"new {n}", "y"), 41) for n in range(10)))
    assert 20 == cells(work)
    files.append(work.executor.state.changes())

    other = Work(Write(), tracking=True)
    other.executor.restore([change for file in pickle.loads(pickle.dumps(files)) for change in file], [])
    assert 20 == cells(other)
    other.process(at(("new 1", "z"), 60))
    assert [(None, ["y"])] == other.taken()
    other.watermark(100).clock(1_000)
    assert 0 == cells(other)


def test_keys_on_disk_take_no_memory(database: SpillDatabase) -> None:
    """Nor do the ranges of time in which they expire."""
    state = KeyedState(True, {"last": StateTtl(3_600)})
    column, times = state.column("w", "last"), state.column("w", expiry_column("last", StateTtl(3_600)))
    assert isinstance(column, ExpiringColumn)
    assert isinstance(times, ExpiryTimes)
    for key in range(100):
        column.begin_call(key, 0)
        column.put(key, "x")
    taken = state.take_out("w", range(100))
    assert [] == times.expired(10**12, 1_000)
    for key, values in enumerate(taken):
        state.put_back("w", key, values)
    assert list(range(100)) == times.expired(10**12, 1_000)


def test_as_much_is_removed_as_comes() -> None:
    """Of bundles that are larger than what is removed at a time."""
    work = Work(Write())
    for number in range(8):
        time = 40 * number
        work.watermark(time).clock(10 * time).process(
            *(at((key, "x"), time) for key in range(number * 9_000, (number + 1) * 9_000))
        )
        work.taken()
    assert len(work.executor.state) < 2 * 3 * 9_000


def test_what_has_expired_is_removed_although_no_timer_is_due() -> None:
    """When the watermark or the clock moves."""
    p = beam.Pipeline()
    pairs = p | TestStream().add_elements([("a", 1)])
    pairs | "Write" >> beam.ParDo(Write()) | "To" >> beam.io.Write(Recording())
    graph = cut(fuse(p.graph(), lambda *_: False), 1, by_level=True)
    clock = Clock(0)
    execution = TaskProgram(graph.plan, graph.tasks[1], clock, MetricsContainer(), Counts(), "t")
    (edge,) = execution.task.inputs
    execution.receiver(edge)(Bundle([(key, "x") for key in range(KEYS)], 0, (GLOBAL_WINDOW,)))
    assert {"Write": 2 * KEYS} == execution.kept()
    execution.move_edge(edge, 20_000_000)
    execution.propagate()
    assert {"Write": KEYS} == execution.kept()
    clock.now = 300_000_000
    execution.pass_time()
    assert {"Write": 0} == execution.kept()


def test_times_of_another_domain_mean_nothing() -> None:
    """A value is kept until it is written again then; so it is where it didn't expire before."""
    work = Work(Write(), tracking=True)
    work.process(at(("a", "x"), 0))
    state = work.executor.state.snapshot()
    other = KeyedState(True, {"last": StateTtl(16, REAL_TIME), "bag": StateTtl(160, REAL_TIME)})
    other.restore(state)
    other.processing_time = 100_000_000
    column = other.column(GLOBAL_WINDOW, "last")
    assert isinstance(column, ExpiringColumn)
    column.begin_call("a", 0)
    assert "x" == column.values["a"]


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
    spilled = executor.spilled = SpilledState(executor.state, SpillContext("AtTheEnd", SpilledEntries(database, 0)))
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
    assert 20 == cells(other)
    other.watermark(18)
    assert 10 + 1 == cells(other)
    other.watermark(18 + 10)
    assert 10 == cells(other)

    class Keep(beam.DoFn):
        LAST = ReadModifyWriteStateSpec("last")

        def process(self, element: Any, last: Any = beam.DoFn.StateParam(LAST)) -> Iterator[Any]:
            yield last.read()

    kept = Work(Keep())
    kept.executor.restore([change for change in state if "last" in change[2]], [])
    kept.watermark(1_000).process(at((1, "z"), 2_000))
    assert ["x"] == kept.taken()
    assert 10 == len(kept.executor.state)
