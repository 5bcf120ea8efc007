"""Checkpoints: written in parts, committed as one, restored whole, by their owner alone."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pathlib
import pickle
import uuid
from concurrent.futures import ProcessPoolExecutor
from random import Random
from typing import Any

import pytest
from support.execution.snapshot_stores import commit, contents, epochs, file_of, files, owned, simulated_store

from penstock.runners.execution.checkpoints.manifest import CheckpointKind
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.storage import FsspecDisk, LocalDisk, disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.sdk.errors import SnapshotError, StaleWriterError, UncertainCommitError

SAVEPOINT = CheckpointKind.SAVEPOINT


@pytest.fixture(params=["local", "memory", "simulated"])
def store(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> SnapshotStore:
    """A store on each kind of disk; not taken over yet."""
    if request.param == "simulated":
        return simulated_store()
    directory = f"{tmp_path}/store" if request.param == "local" else f"memory://{uuid.uuid4().hex}/store"
    return SnapshotStore(disk_of(directory), directory)


# --- Writing and restoring


def test_what_was_committed_is_restored(store: SnapshotStore) -> None:
    """Full parts, a delta, a part that has not changed, and metadata."""
    store.take_over()
    store.begin(1)
    a, b = store.write_part(1, "a", [b"1", b"2"]), store.write_part(1, "b", [b"same"])
    store.commit(1, [b, a], {"offsets": [1, 2]})
    store.begin(2)
    committed = store.commit(2, [store.write_part(2, "a", [b"3"], base=a), b], {"offsets": [3, None], "x": 0.5})

    reader = SnapshotStore(store.disk, store.directory)
    recovery = reader.newest_complete()
    assert (committed, ()) == (recovery.checkpoint, recovery.skipped)
    assert {"offsets": [3, None], "x": 0.5} == committed.metadata
    assert {"a": [("full", [b"1", b"2"]), ("delta", [b"3"])], "b": [("full", [b"same"])]} == contents(reader, committed)
    assert {"a": [("full", [b"1", b"2"])], "b": [("full", [b"same"])]} == contents(reader, reader.open(1))
    assert 3 == len(files(reader))


def test_without_checkpoints_there_is_nothing_to_restore(store: SnapshotStore) -> None:
    """In a directory that isn't there, too, and nothing is made by looking."""
    recovery = store.newest_complete()

    assert (None, ()) == (recovery.checkpoint, recovery.skipped)
    assert [] == store.checkpoints()
    with pytest.raises(SnapshotError, match="no checkpoint of epoch 1; there are: none"):
        store.open(1)
    assert not os.path.exists(store.directory)


def test_nothing_of_a_checkpoint_is_found_before_its_commit(store: SnapshotStore) -> None:
    """A restart reports that it was skipped."""
    store.take_over()
    commit(store, 1)
    store.begin(2)
    store.write_part(2, "part", [b""])

    recovery = store.newest_complete()
    assert recovery.checkpoint is not None
    assert [1] == epochs(store)
    assert (1, [(2, "no manifest: it was never committed, or its manifest was removed")]) == (
        recovery.checkpoint.epoch,
        [(each.epoch, each.reason) for each in recovery.skipped],
    )


def test_an_aborted_checkpoint_leaves_nothing(store: SnapshotStore) -> None:
    """And the next one is fine."""
    store.take_over()
    commit(store, 1)
    before = files(store)
    store.begin(2)
    store.write_part(2, "part", [b""])
    store.abort(2)

    assert before == files(store)
    commit(store, 3)
    assert [3, 1] == epochs(store)


def test_a_part_that_is_late_for_its_aborted_checkpoint_is_removed_with_the_next_commit() -> None:
    """A straggler's, which has not heard of the abort."""
    store = owned()
    store.begin(1)
    store.abort(1)
    store.write_part(1, "part", [b"late"])
    commit(store, 2)

    assert [file_of(store, 2)] == [f"dir/files/{name}" for name in files(store)]


def test_several_checkpoints_may_be_under_way() -> None:
    """A commit doesn't remove what the next one has written already, nor the files that it depends on."""
    store = owned(retain=1)
    store.begin(1)
    base = store.write_part(1, "a", [b"1"])
    store.commit(1, [base])
    store.begin(2)
    store.begin(3)
    third = store.write_part(3, "a", [b"3"], base=base)
    store.commit(2, [store.write_part(2, "a", [b"2"])])
    committed = store.commit(3, [third])

    assert {"a": [("full", [b"1"]), ("delta", [b"3"])]} == contents(store, committed)
    assert [3] == epochs(store)
    assert 2 == len(files(store))


def test_a_part_that_two_attempts_wrote_is_that_of_the_reference(store: SnapshotStore) -> None:
    """A task that was retried or speculated writes a file of its own; the other one is removed."""
    store.take_over()
    store.begin(1)
    lost, kept = (store.write_part(1, "part", [content]) for content in (b"lost", b"kept"))
    assert lost.files[0].file != kept.files[0].file

    assert {"part": [("full", [b"kept"])]} == contents(store, store.commit(1, [kept]))
    assert [kept.files[0].file] == files(store)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_write_parts(method: str, tmp_path: pathlib.Path) -> None:
    """With a copy of the store, and send back the references."""
    store = SnapshotStore(LocalDisk(), f"{tmp_path}/store")
    store.take_over()
    store.begin(1)
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        # A spawned process can't import a test file; it can import this.
        writes = [pool.submit(SnapshotStore.write_part, store, 1, f"part {n}", [b"%d" % n]) for n in range(8)]
        references = [write.result() for write in writes]

    assert {f"part {number}": [("full", [b"%d" % number])] for number in range(8)} == contents(
        store, store.commit(1, references)
    )


def test_a_reference_and_a_store_are_small_when_pickled() -> None:
    """They travel with every task."""
    directory = f"memory://{uuid.uuid4().hex}"
    store = SnapshotStore(FsspecDisk(), directory)
    store.take_over()
    for epoch in range(1, 20):
        commit(store, epoch)
    store.begin(20)

    reference = pickle.loads(pickle.dumps(store)).write_part(20, "part", [b"x" * 100_000])
    assert 1000 > len(pickle.dumps(reference))
    assert 1000 > len(pickle.dumps(store))
    store.commit(20, [pickle.loads(pickle.dumps(reference))])


# --- Calls that are refused


def test_what_was_not_begun_is_refused() -> None:
    """Or has been ended, or goes backwards."""
    store = owned()
    commit(store, 5)
    for wrong in (lambda: store.commit(6, []), lambda: store.abort(6), lambda: store.commit(5, [])):
        with pytest.raises(SnapshotError, match=r"epoch \d has not begun; in progress: none"):
            wrong()
    with pytest.raises(SnapshotError, match="epoch 5 can't begin after epoch 5; epochs go up"):
        store.begin(5)
    store.begin(6)
    store.begin(7)
    store.commit(7, [])
    with pytest.raises(SnapshotError, match="epoch 6 can't be committed after epoch 7; abort it"):
        store.commit(6, [])
    store.abort(6)

    assert [7, 5] == epochs(store)


def test_two_parts_of_one_name_are_refused() -> None:
    """A reference to the name would be ambiguous."""
    store = owned()
    store.begin(1)
    references = [store.write_part(1, "a", []), store.write_part(1, "b", []), store.write_part(1, "a", [])]

    with pytest.raises(SnapshotError, match="dir: epoch 1 has two parts 'a', expected one"):
        store.commit(1, references)


def test_a_delta_on_an_aborted_checkpoint_is_refused() -> None:
    """Its file is gone."""
    store = owned()
    store.begin(1)
    base = store.write_part(1, "a", [])
    store.abort(1)
    store.begin(2)
    delta = store.write_part(2, "a", [], base=base)

    with pytest.raises(SnapshotError, match=r"'a' of epoch 2 depends on 000000000001-.*full, which is missing"):
        store.commit(2, [delta])
    assert [] == epochs(store)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"a": (1, 2)}, "changes when written as JSON"),
        ({"a": {1: 2}}, "changes when written as JSON"),
        ({"a": float("nan")}, "changes when written as JSON"),
        ({"a": object()}, "is not JSON: "),
        ({"a": "\ud800"}, "is not JSON: "),
    ],
)
def test_metadata_that_would_not_come_back_is_refused(metadata: dict[str, Any], message: str) -> None:
    """Rather than changed silently."""
    store = owned()
    store.begin(1)

    with pytest.raises(SnapshotError, match=message):
        store.commit(1, [], metadata)
    store.commit(1, [], {"a": [1, {"2": None}]})


def test_a_store_that_was_not_taken_over_writes_nothing() -> None:
    """Reading is for everyone."""
    store = simulated_store()
    for wrong in (lambda: store.begin(1), lambda: store.write_part(1, "a", []), store.sweep):
        with pytest.raises(SnapshotError, match=r"dir: expected take_over\(\) before anything is written"):
            wrong()


# --- Owners


def test_a_stale_owner_commits_nothing(store: SnapshotStore) -> None:
    """A zombie, whose successor has begun."""
    store.take_over()
    commit(store, 1)
    store.begin(2)
    part = store.write_part(2, "part", [b"zombie"])
    successor = SnapshotStore(store.disk, store.directory)
    successor.take_over()

    with pytest.raises(StaleWriterError, match=r"epoch 2 can't be committed: this is owner 00000001-\w+, and 000"):
        store.commit(2, [part])
    for late in (lambda: store.begin(3), store.sweep):
        with pytest.raises(StaleWriterError):
            late()
    assert [1] == epochs(successor)
    commit(successor, 2)
    assert {"part": [("full", [b"of 2"])]} == contents(successor, successor.newest_complete().checkpoint)


def test_a_directory_that_was_removed_is_told() -> None:
    """The run ends: another start would begin again."""
    store = simulated_store()
    store.take_over()
    for name in store.disk.list(store.directory):
        store.disk.remove(f"{store.directory}/{name}")
    with pytest.raises(StaleWriterError, match=r"dir: found nothing of this run, whose owner is 00000001-\w+; the dir"):
        store.begin(1)


def test_a_file_is_no_directory_of_checkpoints(tmp_path: pathlib.Path) -> None:
    """It stays as it is."""
    file = tmp_path / "file"
    file.write_text("text")
    with pytest.raises(SnapshotError, match=r"file: found a file, expected a directory of checkpoints"):
        SnapshotStore(LocalDisk(), str(file)).newest_complete()
    assert "text" == file.read_text()


def fenced_while_committing(moment: str) -> tuple[SnapshotStore, SnapshotStore, Exception | None]:
    """An owner whose successor takes over while it commits epoch 2: before or after its manifest is written."""

    class Interrupted(SimulatedDisk):
        def write_atomically(self, path: str, content: Any) -> None:
            ours = "manifest-000000000002-00000001-" in path
            if ours and moment == "before":
                successor.take_over()
            super().write_atomically(path, content)
            if ours and moment == "after":
                successor.take_over()

    disk = Interrupted(Random(0))
    store = simulated_store(disk)
    successor = SnapshotStore(disk, "dir")
    store.take_over()
    commit(store, 1)
    try:
        commit(store, 2)
    except SnapshotError as error:
        return store, successor, error
    return store, successor, None


def test_a_manifest_written_after_a_successor_has_looked_is_void() -> None:
    """The zombie passed its check in time, and was then held up."""
    _, successor, error = fenced_while_committing("before")

    assert isinstance(error, StaleWriterError)
    assert [1] == epochs(successor)
    commit(successor, 2)
    assert {"part": [("full", [b"of 2"])]} == contents(successor, successor.newest_complete().checkpoint)
    # The void manifest is gone, and its file.
    assert 2 == len(files(successor))
    assert 2 == len([name for name in successor.disk.list("dir") if name.startswith("manifest-")])


def test_a_manifest_written_before_a_successor_looked_is_found_by_it() -> None:
    """The zombie can't know, and is told to end; its successor goes on from there."""
    _, successor, error = fenced_while_committing("after")

    assert isinstance(error, StaleWriterError)
    assert [2, 1] == epochs(successor)


def test_two_that_take_over_at_the_same_time_do_not_both_own_the_store() -> None:
    """They take the same number, each before it sees the other."""
    successors: list[SnapshotStore] = []

    class Interrupted(SimulatedDisk):
        def write_atomically(self, path: str, content: Any) -> None:
            if "generation-00000002-b" in path and not successors:
                successors.append(SnapshotStore(self, "dir", token=lambda: "c"))
                successors[0].take_over()
            super().write_atomically(path, content)

    disk = Interrupted(Random(0))
    first = SnapshotStore(disk, "dir", token=lambda: "a")
    first.take_over()
    second = SnapshotStore(disk, "dir", token=lambda: "b")

    assert "00000003-b" == second.take_over()
    with pytest.raises(StaleWriterError):
        successors[0].begin(1)
    second.begin(1)


def test_only_the_last_owner_leaves_a_claim(store: SnapshotStore) -> None:
    """After any number of restarts."""
    for _ in range(5):
        store.take_over()

    assert ["generation-00000005"] == [name.rpartition("-")[0] for name in store.disk.list(store.directory)]


def test_an_owner_that_went_back_replaces_what_came_after() -> None:
    """Epoch 3 was damaged: the next owner restores 2, and writes another 3, to which nothing of the old one belongs."""
    disk = SimulatedDisk(Random(0))
    store = owned(disk)
    for epoch in (1, 2, 3):
        commit(store, epoch)
    commit(store, 4, SAVEPOINT)
    disk.flip_bit(file_of(store, 3))
    disk.flip_bit(file_of(store, 4))

    store = owned(disk)
    restored = store.newest_complete().checkpoint
    assert restored is not None
    assert 2 == restored.epoch
    # Still there until something takes their place.
    assert [4, 3, 2, 1] == epochs(store)
    commit(store, 3)
    assert [3, 2, 1] == epochs(store)
    assert [(3, False), (4, True), (2, False), (1, False)] == [
        (each.name.epoch, each.replaced) for each in store.found()
    ]


# --- Retention


def test_the_newest_checkpoints_are_kept_and_every_savepoint(store: SnapshotStore) -> None:
    """Three, unless said otherwise; files of others go."""
    store.take_over()
    for epoch in range(1, 8):
        commit(store, epoch, SAVEPOINT if epoch == 2 else CheckpointKind.CHECKPOINT)

    assert [7, 6, 5, 2] == epochs(store)
    assert ["000000000002", "000000000005", "000000000006", "000000000007"] == [name[:12] for name in files(store)]
    assert SAVEPOINT is store.open(2).kind


def test_files_that_kept_deltas_stand_on_are_kept() -> None:
    """Of any age; they are removed with the last checkpoint that needs them."""
    store = owned(retain=1)
    store.begin(1)
    part = store.write_part(1, "a", [b"1"])
    store.commit(1, [part])
    for epoch in (2, 3):
        store.begin(epoch)
        part = store.write_part(epoch, "a", [b"%d" % epoch], base=part)
        store.commit(epoch, [part])

    assert [3] == epochs(store)
    assert {"a": [("full", [b"1"]), ("delta", [b"2"]), ("delta", [b"3"])]} == contents(store, store.open(3))
    commit(store, 4)
    assert [4] == epochs(store)
    assert 1 == len(files(store))


def test_a_sweep_removes_what_crashed_owners_have_left() -> None:
    """Parts without a manifest, and files that were being written; what isn't a snapshot is left alone."""
    disk = SimulatedDisk(Random(0))
    store = owned(disk)
    kept = commit(store, 1)
    store.begin(2)
    orphan = store.write_part(2, "part", [b"orphan"]).files[0].file
    half = f"{orphan[:-8]}00.full.0badcafe.unfinished"
    for name in (f"files/{half}", "files/notes.txt", f"{kept.name()}.0badcafe.unfinished", "notes.txt"):
        disk.write_atomically(f"dir/{name}", b"half")
    store = owned(disk)

    assert sorted([orphan, half]) == store.sweep()
    assert [file.file for file in kept.files()] + ["notes.txt"] == files(store)
    assert [] == [name for name in disk.list("dir") if name.endswith(".unfinished")]
    assert disk.exists("dir/notes.txt")
    assert {"part": [("full", [b"of 1"])]} == contents(store, store.newest_complete().checkpoint)


def test_a_checkpoint_is_committed_even_if_old_ones_cannot_be_removed(caplog: pytest.LogCaptureFixture) -> None:
    """They go another time."""

    class Sticky(SimulatedDisk):
        sticky = False

        def remove(self, *paths: str) -> None:
            if self.sticky and paths:
                raise PermissionError(errno.EACCES, "not now", paths[0])
            super().remove(*paths)

    disk = Sticky(Random(0))
    store = owned(disk, retain=1)
    commit(store, 1)
    disk.sticky = True
    commit(store, 2)

    assert [2, 1] == epochs(store)
    assert "dir: old checkpoints can't be removed now, and stay" in caplog.text
    disk.sticky = False
    commit(store, 3)
    assert [3] == epochs(store)


@pytest.mark.parametrize("seed", range(8))
def test_a_checkpoint_that_was_found_survives_a_power_failure(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commit had failed at the last step; sinks publish by what was found."""
    disk = SimulatedDisk(Random(seed))
    store = SnapshotStore(disk, "kept")
    store.take_over()
    store.begin(1)
    part = store.write_part(1, "part", [b"x"])

    def fails() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as failing:
        failing.setattr(disk, "_sync_names", fails)
        with pytest.raises(UncertainCommitError):
            store.commit(1, [part])
    found = store.newest_complete().checkpoint
    assert found is not None
    disk.crash()
    assert found == SnapshotStore(disk, "kept").newest_complete().checkpoint
