"""Checkpoints on disks that fail, lose and change what was written, and that others can write to."""

from __future__ import annotations

import errno
import logging
import os
import pathlib
import uuid
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from support.execution.snapshot_stores import commit, contents, epochs, file_of, files, manifest_of, owned

from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.storage import FsspecDisk, LocalDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.sdk.errors import CorruptSnapshotError, SnapshotError, UncertainCommitError, UntrustedSnapshotError

# --- Faults of the disk


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_fails_that_checkpoint_only(number: int) -> None:
    """While a part is written, or the manifest."""
    disk = SimulatedDisk(Random(0))
    store = owned(disk)
    commit(store, 1)
    store.begin(2)
    disk.fault = number
    with pytest.raises(SnapshotError, match=rf"dir: writing the part 'part' of epoch 2 failed: \[Errno {number}\]"):
        store.write_part(2, "part", [b""])
    disk.fault = None
    part = store.write_part(2, "part", [b"of 2"])
    disk.fault = number
    with pytest.raises(SnapshotError, match=rf"epoch 2 is not committed, because manifest-.*: .*{number}"):
        store.commit(2, [part])
    # Aborting removes files, which the disk refuses as well.
    store.abort(2)
    assert [1] == epochs(store)
    disk.fault = None
    commit(store, 3)

    assert [3, 1] == epochs(store)
    assert 2 == len(files(store))


def test_taking_over_on_a_read_only_disk_names_the_directory() -> None:
    """And the errno."""
    disk = SimulatedDisk(Random(0))
    disk.fault = errno.EROFS

    with pytest.raises(SnapshotError, match=r"dir: claiming the checkpoints failed: .*Read-only file system"):
        owned(disk)


def test_a_commit_that_may_have_happened_is_called_that() -> None:
    """The manifest has its name, and then the directory can't be synced: only a restart can tell."""

    class Unsynced(SimulatedDisk):
        broken = False

        def write_atomically(self, path: str, content: Any) -> None:
            super().write_atomically(path, content)
            if self.broken and "manifest" in path:
                raise OSError(errno.EIO, "can't sync", path)

    disk = Unsynced(Random(0))
    store = owned(disk)
    disk.broken = True
    with pytest.raises(UncertainCommitError, match="it is not known whether epoch 1 was committed: .*can't sync"):
        commit(store, 1)
    with pytest.raises(UncertainCommitError):
        store.abort(1)

    assert {"part": [("full", [b"of 1"])]} == contents(store, owned(disk).newest_complete().checkpoint)


def test_a_failed_put_to_an_object_store_may_have_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that timed out may be carried out later."""
    from fsspec.implementations.memory import MemoryFileSystem

    directory = f"memory://{uuid.uuid4().hex}"
    store = SnapshotStore(FsspecDisk(), directory)
    store.take_over()
    store.begin(1)

    def time_out(*_arguments: Any, **_named: Any) -> None:
        raise TimeoutError("no answer")

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", time_out)
    with pytest.raises(UncertainCommitError, match="no answer"):
        store.commit(1, [])


DAMAGES: dict[str, tuple[Callable[[SimulatedDisk, SnapshotStore], str], str]] = {}


def damage(found: str) -> Callable[[Callable[[SimulatedDisk, str], None]], None]:
    """Register what happens to a file of the newest checkpoint, and what is said of it."""

    def register(happens: Callable[[SimulatedDisk, str], None]) -> None:
        name = happens.__name__
        path = manifest_of if "manifest" in name else file_of

        def damage(disk: SimulatedDisk, store: SnapshotStore) -> str:
            happens(disk, where := path(store, 3))
            return where

        DAMAGES[name] = damage, found

    return register


@damage("found")
def a_flipped_bit_in_a_file(disk: SimulatedDisk, path: str) -> None:
    disk.flip_bit(path)


@damage("found its end after")
def a_truncated_file(disk: SimulatedDisk, path: str) -> None:
    disk.truncate(path)


@damage("found no such file, expected a full snapshot of 1 record")
def a_missing_file(disk: SimulatedDisk, path: str) -> None:
    disk.lose(path)


@damage("found")
def a_flipped_bit_in_a_manifest(disk: SimulatedDisk, path: str) -> None:
    disk.flip_bit(path)


@damage("found")
def a_truncated_manifest(disk: SimulatedDisk, path: str) -> None:
    disk.truncate(path)


@damage("found the first line b''")
def an_empty_manifest(disk: SimulatedDisk, path: str) -> None:
    disk.write_atomically(path, b"")


@pytest.mark.parametrize("name", DAMAGES)
def test_fallen_back_from_is(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Named, logged, and never in part restored: the checkpoint before is, whole."""
    disk = SimulatedDisk(Random(5))
    store = owned(disk)
    for epoch in (1, 2, 3):
        commit(store, epoch)
    happens, found = DAMAGES[name]
    path = happens(disk, store)

    with caplog.at_level(logging.WARNING):
        recovery = owned(disk).newest_complete()

    assert {"part": [("full", [b"of 2"])]} == contents(store, recovery.checkpoint)
    (skipped,) = recovery.skipped
    assert 3 == skipped.epoch
    assert skipped.reason.startswith(f"{path}: {found}")
    assert f"dir: epoch 3 is skipped: {skipped.reason}" in caplog.text
    with pytest.raises(CorruptSnapshotError) as raised:
        store.open(3)
    assert (path, skipped.reason) == (raised.value.file, str(raised.value))


def test_a_missing_manifest_is_named_and_fallen_back_from() -> None:
    """Its files are still there."""
    disk = SimulatedDisk(Random(0))
    store = owned(disk)
    for epoch in (1, 2, 3):
        commit(store, epoch)
    disk.lose(manifest_of(store, 3))

    recovery = owned(disk).newest_complete()

    assert {"part": [("full", [b"of 2"])]} == contents(store, recovery.checkpoint)
    assert [(3, "no manifest: it was never committed, or its manifest was removed")] == [
        (each.epoch, each.reason) for each in recovery.skipped
    ]


def test_every_flipped_bit_of_a_manifest_is_noticed() -> None:
    """All of them."""
    disk = SimulatedDisk(Random(0))
    store = owned(disk)
    commit(store, 1)
    path = manifest_of(store, 1)
    content = disk.read(path)
    for bit in range(len(content) * 8):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        disk.write_atomically(path, bytes(flipped))
        with pytest.raises(CorruptSnapshotError, match="found no undamaged checkpoint"):
            store.newest_complete()


def test_a_manifest_under_another_name_is_noticed() -> None:
    """Such as a copied file."""
    disk = SimulatedDisk(Random(0))
    store = owned(disk)
    first, second = commit(store, 1), commit(store, 2)
    disk.write_atomically(f"dir/{second.name()}", disk.read(f"dir/{first.name()}"))

    recovery = store.newest_complete()
    assert first == recovery.checkpoint
    assert "found the manifest of manifest-000000000001" in recovery.skipped[0].reason


def test_if_nothing_is_whole_the_job_does_not_silently_begin_anew() -> None:
    """Each is named, with its reason."""
    disk = SimulatedDisk(Random(0))
    store = owned(disk)
    for epoch in (1, 2):
        commit(store, epoch)
        disk.lose(file_of(store, epoch))

    with pytest.raises(CorruptSnapshotError, match=r"^dir: found no undamaged checkpoint \(epoch 2: .*; epoch 1: "):
        store.newest_complete()


def test_if_no_manifest_is_left_a_delta_tells_that_there_was_one() -> None:
    """The run began anew, and all that sinks had published came a second time."""
    disk = SimulatedDisk(Random(0))
    store = owned(disk)
    first = commit(store, 1)
    store.begin(2)
    store.commit(2, [store.write_part(2, "part", [b"of 2"], base=first.part("part"))])
    for epoch in (1, 2):
        disk.lose(manifest_of(store, epoch))

    for _ in range(2):
        with pytest.raises(
            CorruptSnapshotError, match=r"^dir/files/0.*2-.*\.delta: found a delta, and no manifest of any"
        ):
            owned(disk).newest_complete()


def test_files_of_a_first_checkpoint_that_was_never_committed_are_no_damage() -> None:
    """A job that died while writing its first checkpoint starts from the beginning."""
    disk = SimulatedDisk(Random(0))
    store = owned(disk)
    store.begin(1)
    store.write_part(1, "part", [b"of 1"])

    recovery = owned(disk).newest_complete()

    assert (None, [1]) == (recovery.checkpoint, [each.epoch for each in recovery.skipped])


def test_a_sector_that_cannot_be_read_is_damage_and_a_disk_that_cannot_be_reached_is_not() -> None:
    """One falls back after the first and not after the second, which may be over in a minute."""

    class Unreadable(SimulatedDisk):
        number = 0

        def open(self, path: str) -> Any:
            if self.number and "000000000002-" in path:
                raise OSError(self.number, os.strerror(self.number), path)
            return super().open(path)

    disk = Unreadable(Random(0))
    store = owned(disk)
    commit(store, 1)
    commit(store, 2)

    disk.number = errno.EIO
    recovery = store.newest_complete()
    assert recovery.checkpoint is not None
    assert 1 == recovery.checkpoint.epoch
    assert "an error of the disk" in recovery.skipped[0].reason
    for number in (errno.EACCES, errno.ETIMEDOUT):
        disk.number = number
        with pytest.raises(SnapshotError, match="can't be read: ") as raised:
            store.newest_complete()
        assert not isinstance(raised.value, CorruptSnapshotError)


def test_no_file_is_removed_while_a_kept_manifest_is_damaged(caplog: pytest.LogCaptureFixture) -> None:
    """It could be one of its own.  With enough whole ones after it, it goes."""
    disk = SimulatedDisk(Random(0))
    store = owned(disk, retain=2)
    commit(store, 1)
    commit(store, 2)
    disk.flip_bit(manifest_of(store, 2))
    store = owned(disk, retain=2)
    commit(store, 3)

    assert ["000000000001", "000000000002", "000000000003"] == [name[:12] for name in files(store)]
    assert "no snapshot file is removed while this is damaged: dir/manifest-000000000002" in caplog.text
    commit(store, 4)
    assert ["000000000003", "000000000004"] == [name[:12] for name in files(store)]


def test_a_damaged_claim_does_not_stop_the_next_owner(caplog: pytest.LogCaptureFixture) -> None:
    """It is said."""
    disk = SimulatedDisk(Random(0))
    store = owned(disk)
    commit(store, 1)
    (claim,) = (name for name in disk.list("dir") if name.startswith("generation-"))
    disk.truncate(f"dir/{claim}")

    assert [1] == epochs(owned(disk))
    assert f"dir/{claim}: found" in caplog.text


# --- Trust


def test_checkpoints_that_others_could_have_written_are_not_read(tmp_path: pathlib.Path) -> None:
    """Reading them unpickles them; to look at them is fine, and one may insist."""
    store = SnapshotStore(LocalDisk(), f"{tmp_path}/store")
    store.take_over()
    commit(store, 1)
    part = store.checkpoints()[0].part("part")
    for path, mode in [("", 0o770), ("/files", 0o702), (f"/files/{part.files[0].file}", 0o620)]:
        before = os.stat(f"{tmp_path}/store{path}").st_mode
        os.chmod(f"{tmp_path}/store{path}", mode)
        for refused in (store.newest_complete, lambda: store.open(1)):
            with pytest.raises(UntrustedSnapshotError, match=rf"/store{path}: .*its mode is {mode:04o}.*chmod"):
                refused()
        assert [1] == epochs(store)
        trusting = SnapshotStore(LocalDisk(), f"{tmp_path}/store", allow_untrusted=True)
        assert {"part": [("full", [b"of 1"])]} == contents(trusting, trusting.newest_complete().checkpoint)
        os.chmod(f"{tmp_path}/store{path}", before)

    os.chmod(f"{tmp_path}/store", 0o777)
    with pytest.raises(UntrustedSnapshotError):
        store.take_over()
