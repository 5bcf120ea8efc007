"""Stores of checkpoints on a simulated disk; the content of each checkpoint names its epoch."""

from __future__ import annotations

from random import Random
from typing import Any

from penstock.runners.execution.checkpoints.manifest import Checkpoint, CheckpointKind
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore


def simulated_store(disk: SimulatedDisk | None = None, **options: Any) -> SnapshotStore:
    """Return a store whose random choices come from a seed."""
    random = Random(1)
    disk = SimulatedDisk(Random(0)) if disk is None else disk
    return SnapshotStore(disk, "dir", token=lambda: f"{random.getrandbits(64):016x}", now=lambda: 12.5, **options)


def owned(disk: SimulatedDisk | None = None, **options: Any) -> SnapshotStore:
    """Return a simulated store that has been taken over."""
    store = simulated_store(disk, **options)
    store.take_over()
    return store


def commit(store: SnapshotStore, epoch: int, kind: CheckpointKind = CheckpointKind.CHECKPOINT) -> Checkpoint:
    """Commit a checkpoint of one full part, whose content names the epoch."""
    store.begin(epoch)
    return store.commit(epoch, [store.write_part(epoch, "part", [b"of %d" % epoch])], kind=kind)


def contents(store: SnapshotStore, checkpoint: Checkpoint | None) -> dict[str, list[tuple[str, list[bytes]]]]:
    """Return the content of a checkpoint."""
    assert checkpoint is not None
    return {
        part.name: [(kind.value, list(records)) for kind, records in store.read_part(part)] for part in checkpoint.parts
    }


def epochs(store: SnapshotStore) -> list[int]:
    """Return the epochs of the checkpoints, the newest first."""
    return [checkpoint.epoch for checkpoint in store.checkpoints()]


def files(store: SnapshotStore) -> list[str]:
    """Return the names of the snapshot files."""
    return store.disk.list(f"{store.directory}/files")


def manifest_of(store: SnapshotStore, epoch: int) -> str:
    """Return the path of an epoch's manifest."""
    (name,) = (str(each.name) for each in store.found() if each.name.epoch == epoch)
    return f"{store.directory}/{name}"


def file_of(store: SnapshotStore, epoch: int) -> str:
    """Return the path of the only file that an epoch wrote."""
    (name,) = (name for name in files(store) if name.startswith(f"{epoch:012d}-"))
    return f"{store.directory}/files/{name}"
