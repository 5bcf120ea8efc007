"""The names of open transactions: only the newest job writes them, and what it finds there is all that was begun."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

import penstock as beam
from penstock.runners.execution.fusion import Plan, fuse
from penstock.runners.execution.simulated_disk import SimulatedCrash, SimulatedDisk
from penstock.runners.local.productions.fenced_transactions import FencedTransactions, open_transactions
from penstock.runners.local.simulated_graph import sinks_of, with_sinks
from penstock.runners.local.simulated_sink import CollectingSink
from penstock.sdk.errors import SnapshotError, StaleWriterError


class _NotedSink(CollectingSink):
    """Notes which transactions were prepared, and which were aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared: list[str] = []
        self.aborted: list[str] = []

    def prepare(self, transaction: str) -> None:
        self.prepared.append(transaction)

    def abort(self, transaction: str) -> None:
        self.aborted.append(transaction)


def plan_with(sink: CollectingSink) -> Plan:
    """Of a pipeline that writes into it."""
    p = beam.Pipeline()
    _ = p | beam.Create([1])
    graph = p.graph()
    return fuse(with_sinks(graph, dict.fromkeys(sinks_of(graph), sink)), lambda grouping: False)


def begun(transactions: FencedTransactions, *names: str) -> None:
    """Begin some, for all sinks."""
    transactions.begin_all({name: frozenset(transactions.labels) for name in names})


def test_the_next_owner_finds_what_is_open() -> None:
    """Not what was committed, once that is written down; in the order in which they began."""
    disk, plan = SimulatedDisk(Random(0)), plan_with(_NotedSink())
    first = FencedTransactions(plan, disk, "dir")
    first.take_over("aa")
    begun(first, "one", "two", "three")
    first.commit({label: [("two", [])] for label in first.labels})
    begun(first, "four")

    second = FencedTransactions(plan, disk, "dir")
    second.take_over("bb")

    assert ("one", "three", "four") == second.open


LATE: list[Callable[[FencedTransactions], object]] = [
    lambda zombie: begun(zombie, "late"),
    lambda zombie: zombie.abort(),
    lambda zombie: zombie.check(),
]


@pytest.mark.parametrize("late", LATE, ids=["begins", "aborts", "checks"])
def test_a_zombie_begins_nothing_and_its_successor_forgets_nothing(
    late: Callable[[FencedTransactions], object],
) -> None:
    """What it writes late stands in a file of its own."""
    sink = _NotedSink()
    disk, plan = SimulatedDisk(Random(0)), plan_with(sink)
    zombie, successor = (FencedTransactions(plan, disk, "dir") for _ in range(2))
    zombie.take_over("aa")
    begun(zombie, "in time")
    successor.take_over("bb")
    begun(successor, "of the successor")

    with pytest.raises(StaleWriterError, match="dir/job: 00000002-bb has taken over from 00000001-aa"):
        late(zombie)

    assert ["in time", "of the successor"] == open_transactions(disk, "dir")
    assert (["in time", "of the successor"], []) == (sink.prepared, sink.aborted)


def test_what_was_prepared_is_known_to_the_next_owner_whatever_crashes() -> None:
    """Two hundred seeds: the process, or the machine, dies between any two steps of the disk; or a step fails."""
    deaths = 0
    for seed in range(200):
        random, sink = Random(seed), _NotedSink()
        disk, plan = SimulatedDisk(random, crashes=0.03), plan_with(sink)
        open_now: set[str] = set()
        for owner in range(4):
            try:
                transactions = FencedTransactions(plan, disk, "dir")
                transactions.take_over(f"{owner:02x}")
                assert open_now <= set(transactions.open)
                for number in range(random.randint(0, 4)):
                    begun(transactions, f"{owner}-{number}")
                    open_now.add(f"{owner}-{number}")
                    if random.random() < 0.5:
                        open_now -= set(
                            transactions.commit(
                                {label: [(random.choice(sorted(open_now)), [])] for label in transactions.labels}
                            )
                        )
            except SimulatedCrash:
                deaths += 1
                if random.random() < 0.5:
                    disk.crash()
    assert deaths > 100


def test_after_a_write_that_failed_the_names_are_written_anew() -> None:
    """The job goes on with its next attempt, in the same process."""
    disk, plan = SimulatedDisk(Random(0)), plan_with(_NotedSink())
    transactions = FencedTransactions(plan, disk, "dir")
    transactions.take_over("aa")
    disk.fault = 28
    with pytest.raises(SnapshotError, match="No space left"):
        begun(transactions, "one")
    disk.fault = None
    begun(transactions, "two")

    assert ["one", "two"] == open_transactions(disk, "dir")
