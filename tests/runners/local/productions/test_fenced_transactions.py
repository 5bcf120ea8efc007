"""The log of open transactions: only the newest owner writes it, and it has all transactions that were begun."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

import penstock as beam
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedCrash, SimulatedDisk
from penstock.runners.execution.plan.fusion import Plan, fuse
from penstock.runners.execution.sinks.committer import SinkCommitter
from penstock.runners.execution.sinks.errors import LogDecision
from penstock.runners.local.productions.fenced_transactions import FencedTransactions, open_transactions
from penstock.runners.local.simulation.graph import sinks_of, with_sinks
from penstock.runners.local.simulation.sink import CollectingSink
from penstock.sdk.errors import SnapshotError, StaleWriterError
from penstock.sdk.sink import SinkContext


class _NotedSink(CollectingSink):
    """Records which transactions were prepared, and which were aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared: list[str] = []
        self.aborted: list[str] = []

    def prepare(self, context: SinkContext) -> None:
        self.prepared.append(context.transaction)

    def abort(self, context: SinkContext) -> None:
        self.aborted.append(context.transaction)


def plan_with(sink: CollectingSink) -> Plan:
    """Return the plan of a pipeline with this sink."""
    p = beam.Pipeline()
    _ = p | beam.Create([1])
    graph = p.graph()
    return fuse(with_sinks(graph, dict.fromkeys(sinks_of(graph), sink)), lambda *_: False)


class Owner:
    """A job's committer, and its log of open transactions."""

    def __init__(self, plan: Plan, disk: SimulatedDisk) -> None:
        self.log = FencedTransactions(disk, "dir")
        self.committer = SinkCommitter(plan, self.log)

    def take_over(self, token: str) -> None:
        """Claim the log, and find what is open."""
        self.committer.recover(self.log.take_over(token))

    def begin(self, *names: str) -> None:
        """Begin some, for all sinks."""
        self.committer.begin_all(dict.fromkeys(names, self.committer.labels))

    def commit(self, name: str) -> tuple[str, ...]:
        """Commit one, for all sinks."""
        staged = {label: [(name, [])] for label in self.committer.labels}
        return self.committer.commit(staged, LogDecision.of("dir"))


def test_the_next_owner_finds_the_open_transactions() -> None:
    """In the order in which they began, without those that are known to be committed."""
    disk, plan = SimulatedDisk(Random(0)), plan_with(_NotedSink())
    first = Owner(plan, disk)
    first.take_over("aa")
    first.begin("one", "two", "three")
    first.commit("two")
    first.begin("four")

    second = Owner(plan, disk)
    second.take_over("bb")

    assert ("one", "three", "four") == second.committer.open


LATE: list[Callable[[Owner], object]] = [
    lambda zombie: zombie.begin("late"),
    lambda zombie: zombie.committer.abort(),
    lambda zombie: zombie.log.check(),
]


@pytest.mark.parametrize("late", LATE, ids=["begins", "aborts", "checks"])
def test_a_zombie_begins_nothing_and_its_successor_forgets_nothing(
    late: Callable[[Owner], object],
) -> None:
    """Its late writes are in a file of its own."""
    sink = _NotedSink()
    disk, plan = SimulatedDisk(Random(0)), plan_with(sink)
    zombie, successor = (Owner(plan, disk) for _ in range(2))
    zombie.take_over("aa")
    zombie.begin("in time")
    successor.take_over("bb")
    successor.begin("of the successor")

    with pytest.raises(StaleWriterError, match="dir/job: 00000002-bb has taken over from 00000001-aa"):
        late(zombie)

    assert ["in time", "of the successor"] == open_transactions(disk, "dir")
    assert (["in time", "of the successor"], []) == (sink.prepared, sink.aborted)


def test_the_next_owner_knows_prepared_transactions_after_any_crash() -> None:
    """Two hundred seeds: the process, or the machine, dies between any two steps of the disk; or a step fails."""
    deaths = 0
    for seed in range(200):
        random, sink = Random(seed), _NotedSink()
        disk, plan = SimulatedDisk(random, crashes=0.03), plan_with(sink)
        open_now: set[str] = set()
        for owner in range(4):
            try:
                owner_now = Owner(plan, disk)
                owner_now.take_over(f"{owner:02x}")
                assert open_now <= set(owner_now.committer.open)
                for number in range(random.randint(0, 4)):
                    owner_now.begin(f"{owner}-{number}")
                    open_now.add(f"{owner}-{number}")
                    if random.random() < 0.5:
                        open_now -= set(owner_now.commit(random.choice(sorted(open_now))))
            except SimulatedCrash:
                deaths += 1
                if random.random() < 0.5:
                    disk.crash()
    assert deaths > 100


def test_after_a_failed_write_the_names_are_written_again() -> None:
    """By the next attempt, in the same process."""
    disk, plan = SimulatedDisk(Random(0)), plan_with(_NotedSink())
    owner_now = Owner(plan, disk)
    owner_now.take_over("aa")
    disk.fault = 28
    with pytest.raises(SnapshotError, match="No space left"):
        owner_now.begin("one")
    disk.fault = None
    owner_now.begin("two")

    assert ["one", "two"] == open_transactions(disk, "dir")
