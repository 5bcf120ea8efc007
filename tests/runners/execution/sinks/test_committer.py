"""Two-phase commit of a pipeline's sinks: which transactions are committed, in which order, and which are aborted."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as beam
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.plan.fusion import Plan, fuse
from penstock.runners.execution.sinks.checkpoint_commits import FailedCommit, ManifestDecision, OpenTransactionsFile
from penstock.runners.execution.sinks.committer import SinkCommitter
from penstock.runners.execution.sinks.errors import END_OF_RUN
from penstock.runners.execution.sinks.rollback import roll_back
from penstock.runners.local.simulation.graph import sinks_of, with_sinks
from penstock.runners.local.simulation.sink import CollectingSink
from penstock.sdk.errors import SinkError, SnapshotError, UserCodeError
from penstock.sdk.options import PipelineOptions
from penstock.sdk.sink import SinkContext


class RecordingSink(CollectingSink):
    """Says what it was told, and fails where it is to.

    Attributes:
      error: raised by a call of a method in `fails_at`, such as "commit", or "commit run-2".
    """

    def __init__(self, *fails_at: str, error: Exception | None = None) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []
        self.fails_to_abort = False
        self.fails_at = fails_at
        self.error = error or SinkError("the disk is full")

    def prepare(self, context: SinkContext) -> None:
        self._fail("prepare")

    def precommit(self, staged: Mapping[SinkContext, Sequence[Any]]) -> None:
        self._fail("precommit")

    def commit(self, context: SinkContext, staged: object) -> None:
        self.calls.append(("commit", context.transaction))
        self._fail("commit", f"commit {context.transaction}")

    def _fail(self, *names: str) -> None:
        if set(names) & set(self.fails_at):
            raise self.error

    def abort(self, context: SinkContext) -> None:
        self.calls.append(("abort", context.transaction))
        if self.fails_to_abort:
            raise OSError(errno.EIO, "no answer")


def plan_with(*sinks: RecordingSink) -> Plan:
    """One PCollection, written into each of them."""
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([1])
    for i, _ in enumerate(sinks):
        _ = numbers | f"{i}" >> beam.Map(lambda n: n)
    graph = pipeline.graph()
    return fuse(with_sinks(graph, dict(zip(sinks_of(graph), sinks, strict=True))), lambda *_: False)


def test_transactions_are_committed_in_the_order_in_which_they_began() -> None:
    """A later one may take back what is in an earlier one; whichever subtask, or sink, tells of it first."""
    first, second = RecordingSink(), RecordingSink()
    transactions = SinkCommitter(plan_with(first, second))
    for name in ("run-9", "run-10"):
        transactions.begin(name)
    one, two = transactions.labels

    committed = transactions.commit({one: [("run-10", "a"), ("run-9", "b")], two: [("run-9", "c")]}, END_OF_RUN)

    assert ("run-9", "run-10") == committed
    assert [("commit", "run-9"), ("commit", "run-10")] == first.calls == second.calls


def test_a_transaction_that_could_not_be_removed_is_remembered() -> None:
    """In a later run, too; or what was staged would stay for ever."""
    disk, sink = SimulatedDisk(Random(0)), RecordingSink()
    transactions = SinkCommitter(plan_with(sink), OpenTransactionsFile(disk, "dir"))
    transactions.begin("run-1")
    sink.fails_to_abort = True
    transactions.abort()

    later = SinkCommitter(plan_with(sink), OpenTransactionsFile(disk, "dir"))
    later.recover(OpenTransactionsFile(disk, "dir").read())
    assert ("run-1",) == later.open
    sink.fails_to_abort = False
    later.abort()
    assert ([("abort", "run-1")] * 2, ()) == (sink.calls, later.open)


def test_what_was_committed_before_is_not_in_the_next_checkpoint() -> None:
    """A subtask may tell of it again, if an unaligned barrier comes before the news of the commit do."""
    transactions = SinkCommitter(plan_with(RecordingSink()))
    for name in ("run-1", "run-2"):
        transactions.begin(name)
    (label,) = transactions.labels
    transactions.commit({label: [("run-1", "a")]}, END_OF_RUN)

    assert [("run-2", "b")] == transactions.still_open([("run-1", "a"), ("run-2", "b")])


def test_a_transaction_that_can_not_be_written_down_does_not_begin() -> None:
    """The error is one of ours, from which a checkpoint, or an attempt, can fail alone."""
    disk = SimulatedDisk(Random(0))
    disk.fault = errno.ENOSPC

    with pytest.raises(SnapshotError, match="dir/transactions can't be written: .*No space left"):
        SinkCommitter(plan_with(RecordingSink()), OpenTransactionsFile(disk, "dir")).begin("run-1")


@pytest.mark.parametrize("damage", ["empty", "half", "flipped"])
def test_damaged_names_of_open_transactions_are_named_and_gone_on_without(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of them counted; and a run that can't even be started again was the end of all checkpoints."""
    disk = SimulatedDisk(Random(0))
    SinkCommitter(plan_with(RecordingSink()), OpenTransactionsFile(disk, "dir")).begin("run-1")
    content = disk.read("dir/transactions")
    flipped = bytes([*content[:-6], content[-6] ^ 1, *content[-5:]])
    disk.write_atomically("dir/transactions", {"empty": b"", "half": content[:-4], "flipped": flipped}[damage])

    later = SinkCommitter(plan_with(RecordingSink()), OpenTransactionsFile(disk, "dir"))
    later.recover(OpenTransactionsFile(disk, "dir").read())

    (message,) = caplog.messages
    assert message.startswith("dir/transactions: found ")
    assert () == later.open
    later.begin("run-2")
    again = SinkCommitter(plan_with(RecordingSink()), OpenTransactionsFile(disk, "dir"))
    again.recover(OpenTransactionsFile(disk, "dir").read())
    assert ("run-2",) == again.open


def test_an_empty_transaction_is_removed_when_it_has_no_writer_any_more() -> None:
    """The one that is written in stays open; where a sink can't remove one, the next call tries again."""
    sink = RecordingSink()
    transactions = SinkCommitter(plan_with(sink))
    for name in ("run-1", "run-2", "run-3"):
        transactions.begin(name)
    sink.fails_to_abort = True
    transactions.close_before("run-2")
    assert ("run-1", "run-2", "run-3") == transactions.open

    sink.fails_to_abort = False
    transactions.close_before("run-3")
    assert ("run-3",) == transactions.open
    assert [("abort", "run-1")] * 2 + [("abort", "run-2")] == sink.calls


def test_a_run_publishes_all_sinks_or_aborts_those_that_have_not_published() -> None:
    """A sink without results commits too: it makes its table, or its empty file."""
    first, second, third = RecordingSink(), RecordingSink("commit"), RecordingSink()
    committer = SinkCommitter(plan_with(first, second, third))
    committer.begin("run")
    with pytest.raises(SinkError, match="the disk is full"):
        committer.publish("run", {committer.labels[1]: ["token"]})
    committer.abort()

    assert [("commit", "run")] == first.calls
    assert [("commit", "run"), ("abort", "run")] == second.calls
    assert [("abort", "run")] == third.calls
    assert () == committer.open


def test_nothing_is_committed_if_one_sink_refuses_a_record_before() -> None:
    """All sinks precommit before the first one commits."""
    first, second = RecordingSink(), RecordingSink("precommit")
    committer = SinkCommitter(plan_with(first, second))
    committer.begin("run")
    with pytest.raises(SinkError):
        committer.publish("run", {label: ["token"] for label in committer.labels})

    assert ([], []) == (first.calls, second.calls)


def test_an_abort_goes_on_behind_a_sink_that_fails() -> None:
    """The error that ended the run is the one to report, so none of an abort's is raised."""
    first, second = RecordingSink(), RecordingSink()
    first.fails_to_abort = True
    committer = SinkCommitter(plan_with(first, second))
    committer.begin("run")
    committer.abort()

    assert [("abort", "run")] == first.calls == second.calls
    assert ("run",) == committer.open


@pytest.mark.parametrize("fails_at", ["prepare", "precommit", "commit"])
def test_an_error_of_a_sink_names_it(fails_at: str) -> None:
    """A user's own exception stays what it is."""
    committer = SinkCommitter(plan_with(RecordingSink(fails_at, error=ValueError("no such table"))))
    (label,) = committer.labels

    def run() -> None:
        committer.begin("run")
        committer.publish("run", {label: ["token"]})

    with pytest.raises(ValueError, match="no such table") as caught:
        run()
    error: Any = caught.value
    assert (True, label) == (isinstance(error, UserCodeError), error.transform)


def test_a_commit_that_fails_in_its_second_transaction_has_published_a_part() -> None:
    """A rollback would publish the first one again, so it is refused."""
    disk = SimulatedDisk(Random(0))
    store = SnapshotStore(disk, "dir")
    store.take_over()
    store.begin(1)
    store.commit(1, [], {"previous": None})
    committer = SinkCommitter(plan_with(RecordingSink("commit run-2")), OpenTransactionsFile(disk, "dir"))
    for name in ("run-1", "run-2"):
        committer.begin(name)
    (label,) = committer.labels
    with pytest.raises(SinkError, match="dir: checkpoint 1 is complete, and can't be published: .*the disk is full"):
        committer.commit({label: [("run-1", "a"), ("run-2", "b")]}, ManifestDecision.of_checkpoint(store, 1))

    note = FailedCommit.read(disk, "dir")
    assert note is not None
    assert (label, (label,)) == (note.sink, note.published)
    with pytest.raises(SnapshotError, match="has published checkpoint 1, or a part of it"):
        roll_back(store)


def test_what_a_killed_process_may_have_published_is_not_rolled_back() -> None:
    """Until a process has failed whose predecessors have all told what they have published."""
    disk = SimulatedDisk(Random(0))
    store = SnapshotStore(disk, "dir")
    store.take_over()
    store.begin(1)
    store.commit(1, [], {"previous": None})
    SinkCommitter(plan_with(CollectingSink()), OpenTransactionsFile(disk, "dir")).begin("run-1")

    def failed(recovers: bool) -> tuple[str, ...]:
        file = OpenTransactionsFile(disk, "dir")
        committer = SinkCommitter(plan_with(RecordingSink("commit run-1")), file)
        committer.recover(file.read()) if recovers else committer.begin("run-1")
        (label,) = committer.labels
        with pytest.raises(SinkError):
            committer.commit({label: [("run-1", "a")]}, ManifestDecision.of_checkpoint(store, 1))
        note = FailedCommit.read(disk, "dir")
        assert note is not None
        return note.published

    # The first process was killed; nobody knows what it had published then, nor later.
    (label,) = failed(True)
    assert (label,) == failed(True)
    with pytest.raises(SnapshotError, match=f"{label} has published checkpoint 1, .*, or a process may have"):
        roll_back(store)
    # One that has begun the transaction knows, and so do those after it, unless one of them is killed.
    assert () == failed(False)
    assert () == failed(True)
    ManifestDecision.of_checkpoint(store, 1).published_before([label])
    assert (label,) == failed(True)
    assert () == failed(False)
    assert 1 == roll_back(store).epoch


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

    def prepare(self, context: SinkContext) -> None:
        self.prepared.add(context.transaction)
        self.most = max(self.most, len(self.prepared - self.over))

    def abort(self, context: SinkContext) -> None:
        self.over.add(context.transaction)


def test_a_stream_that_writes_nothing_leaves_no_transactions_behind(tmp_path: Path) -> None:
    """Or a sink would have a table, or a directory, for each checkpoint of an idle night."""
    sink = CountingOpen()
    flags = [f"--checkpoint_dir={tmp_path}", "--checkpoint_interval=0.01", "--parallelism=2", "--workers=1"]
    with beam.Pipeline("local", options=PipelineOptions(flags)) as p:
        numbers = p | beam.io.GenerateSequence(0, stop=200, elements_per_period=1, period=0.01)
        _ = numbers | beam.Filter(lambda n: n < 0) | beam.io.Write(sink)

    assert len(sink.prepared) > 5
    assert sink.most <= 2
