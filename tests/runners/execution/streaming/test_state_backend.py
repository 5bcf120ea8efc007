"""State backend: a task has no more in memory than it may, also while a snapshot is read or written."""

from __future__ import annotations

import errno
import os
import pathlib
import re
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from support.pipelines.recording import Recording

import penstock as beam
from penstock.runners.execution.checkpoints.manifest import PartReference
from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.clock import Clock
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.shuffle.partitioner import owner
from penstock.runners.execution.streaming.snapshot import Restored, snapshot
from penstock.runners.execution.streaming.snapshot_chunks import RUNS, WINDOWS, Origin, chunks_of, records_of
from penstock.runners.execution.streaming.state_settings import StateSettings
from penstock.runners.execution.streaming.tables import StoredTables
from penstock.runners.execution.streaming.task_program import TaskProgram
from penstock.runners.execution.windows.snapshots import state_of
from penstock.sdk.coders.key_encoding import key_groups
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import CorruptSnapshotError
from penstock.sdk.metrics import MetricsContainer
from penstock.sdk.userstate import BagStateSpec
from penstock.testing import TestStream
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark
from penstock.windowing import IntervalWindow

LIMIT = 100_000
KEYS = 2_000


class Remember(beam.DoFn):
    """Keeps what comes."""

    BAG = BagStateSpec("bag")

    def process(self, element: Any, bag: Any = beam.DoFn.StateParam(BAG)) -> None:
        bag.add(element[1])


class Task:
    """The second half of a pipeline of one grouping and one stateful ParDo, with so much memory.

    Args:
      is_uniform: whether the keys of a window differ in their accumulators only.
    """

    def __init__(self, name: str = "", is_uniform: bool = True) -> None:
        p = beam.Pipeline()
        trigger = AfterWatermark(early=None if is_uniform else AfterCount(1_000))
        windows = beam.WindowInto(
            beam.window.FixedWindows(10), trigger=trigger, accumulation_mode=AccumulationMode.ACCUMULATING
        )
        pairs = p | TestStream().add_elements([("a", 1)]) | windows
        pairs | f"sum{name}" >> beam.CombinePerKey(sum) | beam.io.Write(Recording())
        pairs | f"remember{name}" >> beam.ParDo(Remember()) | "write" >> beam.io.Write(Recording())
        graph = cut(fuse(p.graph(), lambda *_: False), 1, by_level=True)
        self.task = graph.tasks[1]
        self.execution = TaskProgram(
            graph.plan, self.task, Clock(0), MetricsContainer(), Counts(), "t", state=StateSettings(LIMIT)
        )
        assert self.execution.backend is not None
        self.backend = self.execution.backend

    def take(self, keys: range) -> None:
        """A bundle on each edge."""
        for start in range(keys.start, keys.stop, 100):
            for edge in self.task.inputs:
                pairs = [(f"key {n}", n) for n in range(start, min(start + 100, keys.stop))]
                self.execution.receiver(edge)(Bundle(pairs, 5_000_000, (IntervalWindow(0, 10),)))
                self.backend.spill_excess()

    @property
    def keyed(self) -> Any:
        (keyed,) = self.execution.keyed.values()
        return keyed.executor

    def in_memory(self) -> int:
        """How many windows and cells."""
        (grouping,), (keyed,) = self.execution.groupings.values(), self.execution.keyed.values()
        assert grouping.windows is not None
        return len(grouping.windows.table) + len(keyed.executor.state)

    def records(self) -> Iterator[bytes]:
        """The records of a savepoint."""
        self.backend.remeasure()
        yield from records_of(snapshot(self.execution, True))
        for chunk in self.backend.whole_chunks():
            yield from records_of([chunk])

    def contents(self) -> list[Any]:
        """The state, with the parts of windows merged."""
        found: list[tuple[str, str, str]] = []
        sums = Counter[tuple[str, Any, str]]()
        for chunk in chunks_of(self.records()):
            for record in () if chunk.group is None else chunk.data:
                if chunk.kind in (WINDOWS, RUNS):
                    (row,) = record.states
                    sums[chunk.label, record.window, repr(record.key)] += state_of(record.key, row).accumulator
                else:
                    found.append((chunk.kind, chunk.label, repr(record)))
        found += ((label, repr(window), f"{key}: {value}") for (label, window, key), value in sums.items())
        return sorted(found)

    def part(
        self, store: SnapshotStore, epoch: int, base: PartReference | None, after: PartReference | None = None
    ) -> PartReference:
        """The part of a checkpoint of this epoch, with changes of the base, and of the tables only what is new."""
        store.begin(epoch)
        self.backend.remeasure()
        chunks = snapshot(self.execution, base is None)
        spilled, tables = self.backend.snapshot(base is None)
        assert tables is not None
        part = store.write_part(
            epoch, "part", records_of([*spilled, *chunks]), base, tables.after(base if after is None else after)
        )
        store.commit(epoch, [part])
        return part

    def compact(self, store: SnapshotStore, epoch: int) -> None:
        """Write a part, so that RocksDB has nothing to compact before the next ones."""
        self.part(store, epoch, None)
        self.backend._database.rocksdb.compact_range(None, None)

    @property
    def labels(self) -> frozenset[str]:
        return frozenset({*self.execution.groupings, *self.execution.keyed})

    def restore(self, store: SnapshotStore, part: PartReference, parallelism: int = 1, *others: Any) -> Restored:
        """From the part of such a task, and parts of others with the labels of their steps."""
        restored = Restored(0, parallelism, backend=self.backend)
        for each, labels in (*others, (part, self.labels)):
            files = [chunks_of(records) for _, records in store.read_part(each)]
            restored.add(files, 0, 1, StoredTables(store, each, Origin("here"), labels) if each.tables else None)
        restored.into(self.execution)
        return restored


@pytest.fixture
def tasks() -> Iterator[list[Task]]:
    tasks = [Task(), Task()]
    yield tasks
    for task in tasks:
        task.execution.close_backend()


def test_there_is_never_more_in_memory_than_there_may_be(tasks: list[Task]) -> None:
    """While keys come, while a savepoint is written, and while it is read."""
    one, other = tasks
    one.take(range(KEYS))
    few = one.in_memory()
    assert 0 < few < KEYS / 4
    assert [KEYS, KEYS] == list(one.execution.kept().values())

    file: list[bytes] = []
    for record in one.records():
        file.append(record)
        assert few >= one.in_memory()

    restored = Restored(0, 1, backend=other.backend)
    restored.add([chunks_of(file)], 0, 1)
    assert 2 * few > other.in_memory()
    restored.into(other.execution)
    other.backend.remeasure()
    assert 2 * few > other.in_memory()
    assert one.contents() == other.contents()


@pytest.fixture(params=["local disk", "another file system", "object store"])
def store(tmp_path: pathlib.Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SnapshotStore:
    if request.param == "another file system":
        monkeypatch.setattr(os, "link", raises_exdev)
    url = f"memory://{uuid.uuid4().hex}" if request.param == "object store" else str(tmp_path / "checkpoints")
    store = SnapshotStore(disk_of(url), url)
    store.take_over()
    return store


def raises_exdev(*paths: str) -> None:
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def test_a_checkpoint_has_what_is_in_memory_and_links_to_the_rest(tasks: list[Task], store: SnapshotStore) -> None:
    """What has changed is written, and little more; it becomes another task's state without being read."""
    one, other = tasks
    one.take(range(KEYS))
    few = one.in_memory()
    one.compact(store, 0)
    full = one.part(store, 1, None)
    one.take(range(10, 20))
    changed = one.part(store, 2, full)
    shared = {each for each in changed.tables if each.name.endswith(".sst")} & set(full.tables)
    assert sum(table.file.length for table in shared) > 3 * changed.files[1].length
    assert full.tables != changed.tables

    restored = other.restore(store, changed)
    assert restored.is_base
    assert 0 < other.in_memory() < 2 * few
    known = one.contents()
    assert known == other.contents()
    # The first own checkpoint has the files that it began with.
    again = other.part(store, 3, None, after=changed)
    sst = {each for each in changed.tables if each.name.endswith(".sst")}
    assert sst & set(again.tables)

    other.take(range(0, KEYS, 3))
    one.take(range(0, KEYS, 3))
    assert known != one.contents() == other.contents()


def test_a_smaller_part_of_the_keys_is_taken_over(tasks: list[Task], store: SnapshotStore) -> None:
    """Those of the subtask's key groups, and no others."""
    one, other = tasks
    one.take(range(KEYS))
    part = one.part(store, 0, None)
    assert not other.restore(store, part, parallelism=2).is_base
    wanted = {
        repr(f"key {n}")
        for n, group in enumerate(key_groups([f"key {n}" for n in range(KEYS)]))
        if owner(group, 2) == 0
    }
    assert KEYS / 3 < len(wanted) < KEYS * 2 / 3
    mine = [
        entry
        for entry in one.contents()
        if any(key in entry[2] for key in re.findall(r"'key [0-9]+'", entry[2]) if key in wanted)
    ]
    assert mine == other.contents()


def test_windows_beyond_memory_stay_together_after_a_restart(tasks: list[Task], store: SnapshotStore) -> None:
    """With cells in memory and on disk: a state for each key would take minutes, and the memory of many cells."""
    one, other = tasks
    one.take(range(KEYS))
    one.take(range(40))
    assert one.in_memory()
    other.restore(store, one.part(store, 0, None))
    (grouping,) = other.execution.groupings.values()
    assert grouping.windows is not None
    table = grouping.windows.table
    assert [] == table.states()
    assert 0 < table.number_uniform < KEYS / 4
    assert one.contents() == other.contents()


def test_a_window_on_disk_that_has_fired_does_not_fire_again(tasks: list[Task], store: SnapshotStore) -> None:
    """Although the full snapshot of its chain has cells of it, from before it was spilled."""
    one, other = tasks
    one.take(range(40))
    one.backend.remeasure()
    store.begin(0)
    full = store.write_part(0, "part", records_of(snapshot(one.execution, True)))
    store.commit(0, [full])
    one.take(range(40, KEYS))
    (before,), (after,) = one.execution.groupings.values(), other.execution.groupings.values()
    # It is complete, and expires a microsecond later.
    assert KEYS == before.windows.advance_watermark(10_000_000)
    fired = before.windows.taken()
    assert fired is not None
    assert KEYS == len(fired)
    other.restore(store, one.part(store, 1, full))
    # A late element: the keys of its group get states.
    other.take(range(1))
    after.windows.due.fire()
    after.windows.advance_watermark(10_000_001)
    late = after.windows.taken()
    assert late is not None
    assert ["key 0"] == [key for key, _ in late.values]
    assert 0 == other.execution.kept()["sum"]


def test_windows_on_disk_that_were_due_are_fired(tasks: list[Task], store: SnapshotStore) -> None:
    """The barrier has come between two of them; there may be no watermark any more."""
    one, other = Task(is_uniform=False), Task(is_uniform=False)
    one.take(range(KEYS))
    (before,), (after,) = one.execution.groupings.values(), other.execution.groupings.values()
    assert before.windows is not None
    before.windows.set_clocks((20_000_000, *before.windows.clocks()[1:]))
    part = one.part(store, 0, None)
    other.restore(store, part)
    assert after.windows is not None
    # None are in memory.
    for state in after.windows.table.all():
        after.windows.table.let_go(state)
    after.windows.table.times.forget_stale()
    assert not after.windows.due.is_due
    after.windows.due.look_at_restored()
    assert after.windows.due.is_due


def test_each_task_begins_with_its_own_database(store: SnapshotStore) -> None:
    """Not with that of another whose part comes first, and no two databases are called the same."""
    one, other, after = Task("1"), Task("2"), Task("2")
    one.take(range(KEYS))
    other.take(range(KEYS, 2 * KEYS))
    other.compact(store, 0)
    parts = one.part(store, 1, None), other.part(store, 2, None)
    assert after.restore(store, parts[1], 1, (parts[0], one.labels)).is_base
    again = after.part(store, 3, None, after=parts[1])
    sorted_files = {each for each in again.tables if each.name.endswith(".sst")}
    assert sorted_files & set(parts[1].tables)
    assert 3 == len({parts[0].database, parts[1].database, again.database})
    for task in (one, other, after):
        task.execution.close_backend()


def test_a_task_reads_nothing_of_other_tasks(tasks: list[Task], store: SnapshotStore) -> None:
    """A task without state, or one of which no step is in the tables."""
    one, _ = tasks
    one.take(range(KEYS))
    part = one.part(store, 0, None)
    stored = StoredTables(store, part, Origin("here"), one.labels)
    assert not stored.may_have(frozenset())
    assert not stored.may_have(frozenset({"elsewhere"}))
    assert StoredTables(store, part, Origin("here")).may_have(frozenset({"elsewhere"}))

    other = Task("elsewhere")
    restored = Restored(0, 1, backend=other.backend)
    restored.add([], 0, 1, stored)
    restored.into(other.execution)
    assert {} == other.backend.spilled
    assert 0 == other.in_memory()
    other.execution.close_backend()


def test_a_checkpoint_without_tables_may_come_in_between(tasks: list[Task], store: SnapshotStore) -> None:
    """Files of an earlier one may be removed then, although the database still has them."""
    one, other = tasks
    one.take(range(KEYS))
    part = one.part(store, 0, None)
    other.restore(store, part)
    # All is in memory.
    (grouping,) = other.execution.groupings.values()
    assert grouping.windows is not None
    assert other.keyed.spilled is not None
    grouping.windows.table.separate_all()
    grouping.windows.table.spilled.load_all()
    while other.keyed.spilled.load_some(IntervalWindow(0, 10)):
        pass
    assert {} == other.backend.spilled
    store.begin(1)
    without = store.write_part(1, "part", records_of(snapshot(other.execution, True)))
    store.commit(1, [without])
    other.backend.spill_excess()
    assert other.backend.spilled
    again = other.part(store, 2, None, after=without)
    assert not {each.file for each in part.tables} & {each.file for each in again.tables}


def test_another_database_has_other_files_of_the_same_names(tasks: list[Task], store: SnapshotStore) -> None:
    """A task whose memory was exhausted by the restore has copied the entries."""
    one, other = tasks
    one.take(range(KEYS))
    part = one.part(store, 0, None)
    other.take(range(KEYS, 2 * KEYS))
    assert other.backend.spilled
    other.restore(store, part)
    copied = other.part(store, 1, part)
    assert {table.name for table in part.tables} & {table.name for table in copied.tables}
    assert not {table.file.file for table in part.tables} & {table.file.file for table in copied.tables}
    assert copied.database != part.database


@pytest.mark.parametrize("store", ["local disk"], indirect=True)
def test_a_damaged_table_is_found_before_it_is_used(tasks: list[Task], store: SnapshotStore) -> None:
    one, other = tasks
    one.take(range(KEYS))
    part = one.part(store, 0, None)
    table = next(table for table in part.tables if table.name.endswith(".sst"))
    path = pathlib.Path(store.directory, "files", table.file.file)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    path.write_bytes(content)

    with pytest.raises(CorruptSnapshotError, match=rf"{table.file.file}: found a table of .* bytes, checksum"):
        store.newest_complete()
    with pytest.raises(CorruptSnapshotError, match=table.file.file):
        other.restore(store, part)
    path.unlink()
    with pytest.raises(CorruptSnapshotError, match="no such file"):
        store.newest_complete()


def test_the_least_recently_used_entries_are_spilled_first() -> None:
    """The newest entries stay in memory."""
    task = Task(is_uniform=False)
    task.take(range(KEYS))
    task.take(range(5))
    (grouping,) = task.execution.groupings.values()
    assert grouping.windows is not None
    here = {state.key for state in grouping.windows.table.all()}
    assert {f"key {n}" for n in range(5)} <= here
    assert "key 1000" not in here
