"""Snapshots that forked children, or a thread, write."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.execution.step_clocks import ShortSteps

import penstock as beam
from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.plan.execution_graph import SubtaskId, whole
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.streaming.snapshot_chunks import STATE, WINDOWS
from penstock.runners.local.channels.channel import Channel
from penstock.runners.local.channels.messages import Barrier
from penstock.runners.local.workers.protocol import Acknowledged, Declined, Inject
from penstock.runners.local.workers.slot import Slot, Start
from penstock.runners.local.workers.snapshot_writer import LARGE, ForkedWriters, WriterThread, restored_from
from penstock.sdk.elements.bundle import BUNDLE_SIZE
from penstock.sdk.userstate import ReadModifyWriteStateSpec

ONLY = SubtaskId(0, 0)


@pytest.fixture(autouse=True)
def _forks_beside_threads_of_earlier_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside threads that clients and libraries have left in this process, otherwise nothing forks."""
    monkeypatch.setattr(ForkedWriters, "may_fork", lambda writers: True)


def results_of(work: Any) -> list[Any]:
    """Return the results that are reported of a child's work."""
    children, results = ForkedWriters(), []
    children.begin("one", work, lambda result, why: results.append((result, why)))
    children.finish()
    return results


def test_the_result_of_a_child_is_reported() -> None:
    """Of any size."""
    assert [("x" * 1_000_000, None)] == results_of(lambda: "x" * 1_000_000)


def test_the_reason_why_a_child_has_failed_is_reported() -> None:
    """As the text of the exception."""
    assert [(None, "the disk is full")] == results_of(lambda: exec("raise OSError('the disk is full')"))


def test_the_death_of_a_child_is_reported() -> None:
    """With its exit status."""
    assert [(None, "the process that was writing it exited with status -9")] == results_of(
        lambda: os.kill(os.getpid(), signal.SIGKILL)
    )


def test_a_second_child_of_an_owner_replaces_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of the first is not reported, and no process is left."""
    children, fork = [], os.fork

    def recorded() -> int:
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", recorded)
    writers, reported = ForkedWriters(), []
    writers.begin("one", signal.pause, lambda written, why: reported.append((written, why)))
    writers.begin("one", lambda: "second", lambda written, why: reported.append((written, why)))
    writers.finish()
    assert 2 == len(children)
    for child in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)
    assert [("second", None)] == reported


# A thread of a library in C is like the last one: Python knows nothing of it.
THREADS = """
import _thread, threading
from penstock.runners.local.workers.snapshot_writer import ForkedWriters

ended = threading.Event()
may_fork = ForkedWriters().may_fork
print(may_fork())
threading.Thread(target=ended.wait, name="penstock watch", daemon=True).start()
print(may_fork())
START
print(may_fork())
"""


@pytest.mark.parametrize(
    "start",
    [
        "threading.Thread(target=ended.wait, name='of the user', daemon=True).start()",
        "_thread.start_new_thread(threading.Event().wait, ())",
    ],
)
def test_there_are_no_children_where_others_have_threads(start: str) -> None:
    """Such a thread may hold a lock at the fork, which the child could never acquire."""
    command = [sys.executable, "-c", THREADS.replace("START", start)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (["True", "True", "False"], "") == (done.stdout.split(), done.stderr)


class Count(beam.DoFn):
    """Keeps how often a key has come."""

    COUNT = ReadModifyWriteStateSpec("count")

    def process(self, element: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> None:
        count.write((count.read() or 0) + element[1])


def slot_of(store: SnapshotStore, reports: list[Any], values: list[Any]) -> Slot:
    """One subtask that sums and counts in whole bundles, and writers."""
    step_clock = ShortSteps(BUNDLE_SIZE)
    step_clock.are_over = False
    pipeline = beam.Pipeline()
    pairs = pipeline | beam.Create(values)
    _ = pairs | "Sum" >> beam.CombinePerKey(sum)
    _ = pairs | "Count" >> beam.ParDo(Count())
    plan = fuse(pipeline.graph(), lambda *_: False)
    start = Start(store, None, "t-1", "t", step_clock=step_clock)
    slot = Slot(whole(plan), [ONLY], start, Channel, reports.append, lambda: 0)
    slot.write_in_background()
    slot.start()
    return slot


def test_a_snapshot_of_a_child_is_the_state_at_the_barrier(tmp_path: Path) -> None:
    """Records processed during the write aren't in it; they are in the changes after it."""
    store = SnapshotStore(disk_of(tmp_path), str(tmp_path))
    store.take_over()
    reports: list[Any] = []
    # In one bundle each.
    slot = slot_of(store, reports, [(key, 1) for key in range(16_384)] + [(key, 10) for key in range(16_384)])
    slot.step(ONLY)
    found = []
    for epoch in (1, 2):
        store.begin(epoch)
        slot.obey(Inject(Barrier(epoch, is_whole=epoch == 1, epoch=epoch)))
        assert slot.is_writing
        slot.step(ONLY)
        slot._writer._children.finish()
        (acknowledged,) = [report for _, report in reports if isinstance(report, (Acknowledged, Declined))]
        reports.clear()
        assert isinstance(acknowledged, Acknowledged)
        assert acknowledged.part is not None
        assert {"Sum", "Count"} <= set(acknowledged.labels)
        parts = {acknowledged.part.name: {"subtask": 0, "of": 1, "labels": []}}
        checkpoint = store.commit(epoch, [acknowledged.part], {"parts": parts})
        restored = restored_from(store, checkpoint, ONLY, 1)
        counts = {key: value for _, key, _, _, value in restored._chained["Count", STATE]}
        sums = {record.key: record.states[0][7] for record in restored._chained["Sum", WINDOWS]}
        found.append([set(counts.values()), len(counts), set(sums.values()), len(sums)])
    assert [[{1}, 16_384, {1}, 16_384], [{11}, 16_384, {11}, 16_384]] == found


def test_a_small_snapshot_is_written_without_a_child(tmp_path: Path) -> None:
    """A fork would take longer; a thread waits for the disk."""
    store = SnapshotStore(disk_of(tmp_path), str(tmp_path))
    store.take_over()
    reports: list[Any] = []
    slot = slot_of(store, reports, [(key, 1) for key in range(LARGE // 4)])
    slot.step(ONLY)
    store.begin(1)
    slot.obey(Inject(Barrier(1, epoch=1)))
    assert slot.is_writing
    assert not slot._writer._children.is_busy
    slot._writer._thread.finish()
    assert [Acknowledged] == [type(report) for _, report in reports]
    assert not slot.is_writing


def test_a_small_snapshot_is_the_state_at_the_barrier(tmp_path: Path) -> None:
    """Though it is written when more has come."""
    store = SnapshotStore(disk_of(tmp_path), str(tmp_path))
    store.take_over()
    reports: list[Any] = []
    slot = slot_of(store, reports, [(key, 1) for key in range(8)] * BUNDLE_SIZE)
    slot.step(ONLY)
    store.begin(1)
    slot.obey(Inject(Barrier(1, epoch=1)))
    slot.step(ONLY)
    slot._writer._thread.finish()
    ((_, acknowledged),) = [each for each in reports if isinstance(each[1], Acknowledged)]
    parts = {acknowledged.part.name: {"subtask": 0, "of": 1, "labels": []}}
    checkpoint = store.commit(1, [acknowledged.part], {"parts": parts})
    restored = restored_from(store, checkpoint, ONLY, 1)
    counts = {key: value for _, key, _, _, value in restored._chained["Count", STATE]}
    assert dict.fromkeys(range(8), BUNDLE_SIZE // 8) == counts


def test_a_disk_that_fails_while_processing_goes_on_fails_the_checkpoint_alone(tmp_path: Path) -> None:
    """With the reason."""
    store = SnapshotStore(disk_of(tmp_path), str(tmp_path))
    store.take_over()
    reports: list[Any] = []
    slot = slot_of(store, reports, [(1, 1)])
    slot.step(ONLY)
    store.begin(1)
    shutil.rmtree(tmp_path)
    slot.obey(Inject(Barrier(1, epoch=1)))
    slot._writer._thread.finish()
    (declined,) = [report for _, report in reports if isinstance(report, (Acknowledged, Declined))]
    assert isinstance(declined, Declined)
    assert "writing the part" in declined.why


def test_what_had_changed_is_let_go_faster_than_a_bundle_changes_it(tmp_path: Path) -> None:
    """Or that of every snapshot would wait behind that of the next, and memory grow with each."""
    store = SnapshotStore(disk_of(tmp_path), str(tmp_path))
    store.take_over()
    slot = slot_of(store, [], [(key, 1) for key in range(2)])
    slot._writer._forgotten += [dict.fromkeys(range(4 * BUNDLE_SIZE)) for _ in range(3)]
    slot._writer.has_pending = True
    before = sum(map(len, slot._writer._forgotten))
    slot.tick()
    let_go = before - sum(map(len, slot._writer._forgotten))
    assert 3 * BUNDLE_SIZE < let_go
    for _ in range(3 * 4):
        slot.tick()
    assert [] == slot._writer._forgotten


def test_the_thread_works_in_order_and_results_are_reported_in_the_polling_thread() -> None:
    """Reports need no lock."""
    thread, reported = WriterThread(), list[tuple[Any, str]]()
    for number in range(20):
        thread.begin(lambda number=number: number, lambda n, _: reported.append((n, threading.current_thread().name)))
    assert thread.is_busy
    thread.finish()
    name = threading.current_thread().name
    assert [(number, name) for number in range(20)] == reported
    assert not thread.is_busy


def test_an_error_in_the_thread_is_reported_and_the_next_work_is_done() -> None:
    """A full disk may have room again."""
    thread, reported = WriterThread(), list[Any]()

    def fail() -> None:
        raise OSError("no space left")

    thread.begin(fail, lambda result, error: reported.append(str(error)))
    thread.begin(lambda: 7, lambda result, error: reported.append(result))
    thread.finish()
    assert ["no space left", 7] == reported


def test_no_thread_stays_when_there_is_nothing_to_write() -> None:
    """The process can fork."""
    thread = WriterThread()
    thread.begin(lambda: None, lambda result, error: None)
    thread.finish()
    assert "penstock snapshots" not in [each.name for each in threading.enumerate()]


@pytest.mark.parametrize("begun", [0, 1, 3])
def test_abandoned_work_is_not_begun_and_not_reported(begun: int) -> None:
    """The work in progress ends, and is not reported either."""
    thread, goes_on, done, reported = WriterThread(), threading.Event(), list[int](), list[Any]()
    for number in range(begun):

        def work(number: int = number) -> None:
            goes_on.wait(60)
            done.append(number)

        thread.begin(work, lambda result, error: reported.append(result))
    giving_up = threading.Thread(target=thread.abandon)
    giving_up.start()
    while thread._todo:
        pass
    goes_on.set()
    giving_up.join()
    thread.poll()
    assert ([], False) == (reported, thread.is_busy)
    assert len(done) <= 1
