"""The checkpoints of a directory: finds the valid ones, and verifies their files.

It only reads, and unpickles nothing: records are bytes.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ....frozen import frozen
from ....sdk.errors import CheckpointMismatchError, CorruptSnapshotError, SnapshotError, UntrustedSnapshotError
from ....sdk.redaction import logger_of
from ....sdk.user_code.error_text import text_or_class
from .fencing import not_void
from .files import FileReference, SnapshotKind, read_snapshot_file, verify_snapshot_file
from .manifest import Checkpoint, CheckpointKind, ManifestName, decode_checkpoint, origin_of
from .storage import Disk

_logger = logger_of(__name__)

# The directory of the snapshot files, in the store's.
FILES = "files"


@frozen
class Found:
    """A manifest of the directory.

    Attributes:
      name: its name, which has the epoch.
      checkpoint: its content; None if it is damaged.
      damage: the damage; None if there is none.
      replaced: True if a later owner restored an earlier checkpoint and committed that epoch, or an earlier one, again.
    """

    name: ManifestName
    checkpoint: Checkpoint | None
    damage: CorruptSnapshotError | None = None
    replaced: bool = False


@frozen
class Skipped:
    """An epoch that can't be restored, with the reason.

    Attributes:
      was_committed: True if its manifest exists; without one it is unknown.
    """

    epoch: int
    reason: str
    was_committed: bool = True


@frozen
class Recovery:
    """The checkpoint to restore.

    Attributes:
      checkpoint: the newest one without damaged files; None if none was ever committed.
      skipped: newer epochs, the newest first.
    """

    checkpoint: Checkpoint | None
    skipped: tuple[Skipped, ...] = ()


def found_checkpoints(
    disk: Disk, directory: str, names: Iterable[str], known: dict[ManifestName, Checkpoint] | None = None
) -> list[Found]:
    """Return the manifests among these names, the newest first, without those of zombies.

    A later owner may have restored an earlier checkpoint, because the newest ones were damaged.  When it has committed
    an epoch, that epoch and later ones of earlier owners are obsolete: only savepoints among them are listed, as
    replaced.

    Args:
      known: checkpoints that have been read already; those read now are added.
    """
    known = {} if known is None else known
    found = []
    last: int | None = None
    for name in sorted(not_void(disk, directory, names), key=lambda n: (n.generation, n.epoch), reverse=True):
        replaced = last is not None and name.epoch >= last
        if replaced and name.kind is CheckpointKind.CHECKPOINT:
            continue
        try:
            if name not in known:
                known[name] = _read_manifest(disk, f"{directory}/{name}", name)
            found.append(Found(name, known[name], replaced=replaced))
        except CorruptSnapshotError as error:
            found.append(Found(name, None, error, replaced))
        if not replaced:
            last = name.epoch
    return found


def _read_manifest(disk: Disk, path: str, name: ManifestName) -> Checkpoint:
    with reading(path):
        try:
            checkpoint = decode_checkpoint(path, disk.read(path))
        except FileNotFoundError:
            raise CorruptSnapshotError(path, "no such file", f"the manifest of epoch {name.epoch}") from None
    if checkpoint.name() != name:
        raise CorruptSnapshotError(path, f"the manifest of {checkpoint.name()}", f"that of {name}")
    return checkpoint


def verify(disk: Disk, directory: str, checkpoint: Checkpoint) -> None:
    """Read every file of a checkpoint; raise `CorruptSnapshotError` for the first damaged one."""
    for file in checkpoint.files():
        path = path_of(directory, file)
        with reading(path):
            verify_snapshot_file(disk, path, file)


def records_of(disk: Disk, directory: str, file: FileReference) -> Iterator[bytes]:
    """Yield the records of one file, each verified."""
    path = path_of(directory, file)
    with reading(path):
        yield from read_snapshot_file(disk, path, file)


def damage_of(disk: Disk, directory: str, found: Found) -> CorruptSnapshotError | None:
    """Return the damage of a checkpoint, after reading every file of it; None if there is none."""
    if found.checkpoint is None:
        return found.damage
    try:
        verify(disk, directory, found.checkpoint)
    except CorruptSnapshotError as error:
        return error
    return None


def newest_complete(disk: Disk, directory: str) -> Recovery:
    """Return the newest undamaged checkpoint, and the epochs skipped for it; see `SnapshotStore`."""
    found = [each for each in found_checkpoints(disk, directory, disk.list(directory)) if not each.replaced]
    skipped = []
    whole: Found | None = None
    for each in found:
        damage = damage_of(disk, directory, each)
        if damage is None:
            whole = each
            break
        skipped.append(Skipped(each.name.epoch, str(damage)))
    if whole is None and skipped:
        reasons = "; ".join(f"epoch {skip.epoch}: {skip.reason}" for skip in skipped)
        raise CorruptSnapshotError(directory, f"no undamaged checkpoint ({reasons})", "one that can be restored")
    if whole is None and (deltas := _deltas(disk, directory)):
        raise CorruptSnapshotError(
            f"{directory}/{FILES}/{deltas[-1]}",
            "a delta, and no manifest of any checkpoint",
            "the manifest of the checkpoint it depends on, which was committed; restore that file, or give another "
            "directory to start from the beginning",
        )
    skipped[:0] = [
        Skipped(epoch, "no manifest: it was never committed, or its manifest was removed", was_committed=False)
        for epoch in _without_manifest(disk, directory, found, whole)
    ]
    for skip in skipped:
        _logger.warning("%s: epoch %d is skipped: %s", directory, skip.epoch, skip.reason)
    return Recovery(None if whole is None else whole.checkpoint, tuple(skipped))


def _without_manifest(disk: Disk, directory: str, found: list[Found], whole: Found | None) -> list[int]:
    """Return the epochs, newest first, that have files and no manifest, and would be newer than the restored one."""
    have = {(each.name.generation, each.name.epoch) for each in found}
    after = ("", -1) if whole is None else (whole.name.generation, whole.name.epoch)
    origins = filter(None, map(origin_of, disk.list(f"{directory}/{FILES}")))
    missing = {(generation, epoch) for epoch, generation in origins} - have
    return sorted({epoch for generation, epoch in missing if (generation, epoch) > after}, reverse=True)


def _deltas(disk: Disk, directory: str) -> list[str]:
    """Return the delta files: each depends on a committed checkpoint."""
    names = disk.list(f"{directory}/{FILES}")
    return [name for name in names if origin_of(name) is not None and name.endswith(f".{SnapshotKind.DELTA.value}")]


def path_of(directory: str, file: FileReference) -> str:
    """Return the path of a snapshot file."""
    return f"{directory}/{FILES}/{file.file}"


def trusted(disk: Disk, *paths: str) -> None:
    """Raise `UntrustedSnapshotError` for the first path that other users could have written."""
    for path in paths:
        if reason := disk.why_untrusted(path):
            raise UntrustedSnapshotError(
                f"{path}: reading a checkpoint unpickles it, which runs the code in it, but {reason}. Expected a "
                "directory that only this user can write to: chown or chmod it (go-w), or, if all users that can write "
                "there are trusted, give --allow_untrusted_checkpoints (or allow_untrusted=True to a SnapshotStore)"
            )


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Distinguish a file that the disk has lost, which is damage, from a disk that can't be reached."""
    try:
        yield
    except NotADirectoryError as error:
        raise CorruptSnapshotError(path, "a file", "a directory of checkpoints") from error
    except OSError as error:
        if error.errno in (errno.EIO, errno.EISDIR):
            raise CorruptSnapshotError(
                path, f"an error of the disk ({text_or_class(error)})", "a readable file"
            ) from error
        raise SnapshotError(f"{path} can't be read: {text_or_class(error)}") from error


# --- Directories with logs of productions

# The file that names the owner of the logs, in their directory.
OWNER = "productions.json"


def refuse_productions(disk: Disk, directory: str) -> None:
    """Raise `CheckpointMismatchError` for a directory with logs of productions."""
    if disk.exists(f"{directory}/{OWNER}"):
        raise CheckpointMismatchError(
            f"{directory} has logs of productions, of --runner=local with --delivery=strong or weak; continue with "
            "that, or give another --checkpoint_dir"
        )
