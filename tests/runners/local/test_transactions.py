"""Which of a run's transactions are committed, in which order, and which are removed."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

import penstock as beam
from penstock.runners.execution.fusion import Plan, fuse
from penstock.runners.execution.simulated_disk import SimulatedDisk
from penstock.runners.local.simulated_graph import sinks_of, with_sinks
from penstock.runners.local.simulated_sink import CollectingSink
from penstock.runners.local.transactions import Transactions
from penstock.sdk.errors import SnapshotError
from penstock.sdk.options import PipelineOptions


class RecordingSink(CollectingSink):
    """Says what it was told, and fails where it is to."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []
        self.fails_to_abort = False

    def commit(self, transaction: str, staged: object) -> None:
        self.calls.append(("commit", transaction))

    def abort(self, transaction: str) -> None:
        self.calls.append(("abort", transaction))
        if self.fails_to_abort:
            raise OSError(errno.EIO, "no answer")


def plan_with(*sinks: RecordingSink) -> Plan:
    """One PCollection, written into each of them."""
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([1])
    for i, _ in enumerate(sinks):
        _ = numbers | f"{i}" >> beam.Map(lambda n: n)
    graph = pipeline.graph()
    return fuse(with_sinks(graph, dict(zip(sinks_of(graph), sinks, strict=True))), lambda _: False)


def test_transactions_are_committed_in_the_order_in_which_they_began() -> None:
    """A later one may take back what is in an earlier one; whichever subtask, or sink, tells of it first."""
    first, second = RecordingSink(), RecordingSink()
    transactions = Transactions(plan_with(first, second), None, "")
    for name in ("run-9", "run-10"):
        transactions.begin(name)
    one, two = transactions.labels

    committed = transactions.commit({one: [("run-10", "a"), ("run-9", "b")], two: [("run-9", "c")]})

    assert ("run-9", "run-10") == committed
    assert [("commit", "run-9"), ("commit", "run-10")] == first.calls == second.calls


def test_a_transaction_that_could_not_be_removed_is_remembered() -> None:
    """In a later run, too; or what was staged would stay for ever."""
    disk, sink = SimulatedDisk(Random(0)), RecordingSink()
    transactions = Transactions(plan_with(sink), disk, "dir")
    transactions.begin("run-1")
    sink.fails_to_abort = True
    transactions.abort()

    later = Transactions(plan_with(sink), disk, "dir")
    later.recall()
    assert ("run-1",) == later.open
    sink.fails_to_abort = False
    later.abort()
    assert ([("abort", "run-1")] * 2, ()) == (sink.calls, later.open)


def test_what_was_committed_before_is_not_in_the_next_checkpoint() -> None:
    """A subtask may tell of it again, if an unaligned barrier comes before the news of the commit do."""
    transactions = Transactions(plan_with(RecordingSink()), None, "")
    for name in ("run-1", "run-2"):
        transactions.begin(name)
    (label,) = transactions.labels
    transactions.commit({label: [("run-1", "a")]})

    assert [("run-2", "b")] == transactions.still_open([("run-1", "a"), ("run-2", "b")])


def test_a_transaction_that_can_not_be_written_down_does_not_begin() -> None:
    """The error is one of ours, from which a checkpoint, or an attempt, can fail alone."""
    disk = SimulatedDisk(Random(0))
    disk.fault = errno.ENOSPC

    with pytest.raises(SnapshotError, match="dir/transactions can't be written: .*No space left"):
        Transactions(plan_with(RecordingSink()), disk, "dir").begin("run-1")


@pytest.mark.parametrize("damage", ["empty", "half", "flipped"])
def test_damaged_names_of_open_transactions_are_named_and_gone_on_without(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of them counted; and a run that can't even be started again was the end of all checkpoints."""
    disk = SimulatedDisk(Random(0))
    Transactions(plan_with(RecordingSink()), disk, "dir").begin("run-1")
    content = disk.read("dir/transactions")
    flipped = bytes([*content[:-6], content[-6] ^ 1, *content[-5:]])
    disk.write_atomically("dir/transactions", {"empty": b"", "half": content[:-4], "flipped": flipped}[damage])

    later = Transactions(plan_with(RecordingSink()), disk, "dir")
    later.recall()

    (message,) = caplog.messages
    assert message.startswith("dir/transactions: found ")
    assert () == later.open
    later.begin("run-2")
    again = Transactions(plan_with(RecordingSink()), disk, "dir")
    again.recall()
    assert ("run-2",) == again.open


def test_what_nothing_was_staged_in_is_removed_when_nobody_writes_in_it_any_more() -> None:
    """The one that is written in stays open; where a sink can't remove one, the next call tries again."""
    sink = RecordingSink()
    transactions = Transactions(plan_with(sink), None, "")
    for name in ("run-1", "run-2", "run-3"):
        transactions.begin(name)
    sink.fails_to_abort = True
    transactions.close_before("run-2")
    assert ("run-1", "run-2", "run-3") == transactions.open

    sink.fails_to_abort = False
    transactions.close_before("run-3")
    assert ("run-3",) == transactions.open
    assert [("abort", "run-1")] * 2 + [("abort", "run-2")] == sink.calls


class CountingOpen(CollectingSink):
    """Counts how many transactions are open at once, and how many there were.

    Attributes:
      most: how many there were at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.prepared: set[str] = set()
        self.over: set[str] = set()
        self.most = 0

    def prepare(self, transaction: str) -> None:
        self.prepared.add(transaction)
        self.most = max(self.most, len(self.prepared - self.over))

    def abort(self, transaction: str) -> None:
        self.over.add(transaction)


def test_a_stream_that_writes_nothing_leaves_no_transactions_behind(tmp_path: Path) -> None:
    """Or a sink would have a table, or a directory, for each checkpoint of an idle night."""
    sink = CountingOpen()
    flags = [f"--checkpoint_dir={tmp_path}", "--checkpoint_interval=0.01", "--parallelism=2", "--workers=1"]
    with beam.Pipeline("local", options=PipelineOptions(flags)) as p:
        numbers = p | beam.io.GenerateSequence(0, stop=200, elements_per_period=1, period=0.01)
        _ = numbers | beam.Filter(lambda n: n < 0) | beam.io.Write(sink)

    assert len(sink.prepared) > 5
    assert sink.most <= 2
