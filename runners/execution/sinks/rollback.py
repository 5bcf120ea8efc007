"""Rollback of the newest checkpoint, whose commit fails: the way out of a record that a sink always refuses.

The checkpoint's manifest is removed, so that the next start resumes from the one before: it reads the same input again,
and removes the output staged since.  Results are exactly once as long as no sink has published any output of the
checkpoint; the note of the failed commit says which sinks have.
"""

from __future__ import annotations

from ....frozen import frozen
from ....sdk.errors import SnapshotError
from ....sdk.user_code.error_text import text_or_class
from ..checkpoints.store import SnapshotStore
from .checkpoint_commits import NOTE, PREVIOUS, FailedCommit


@frozen
class RolledBack:
    """The result of a rollback.

    Attributes:
      epoch: the removed checkpoint's.
      previous: the epoch that the next start resumes from; None if it starts from the beginning.
    """

    epoch: int
    previous: int | None


def roll_back(store: SnapshotStore, allow_repeated_results: bool = False) -> RolledBack:
    """Remove the newest checkpoint, whose commit has failed.  A job that still runs there can't commit afterwards.

    Args:
      allow_repeated_results: roll back even if sinks have published some of it, or may have.

    Raises `SnapshotError` where there is no checkpoint to roll back, where results would be repeated, and where the
    checkpoint before has been removed.
    """
    found = [each for each in store.found() if not each.replaced]
    if not found:
        raise SnapshotError(f"{store.directory}: no checkpoints")
    newest = found[0]
    epoch = newest.name.epoch
    if newest.checkpoint is None:
        raise SnapshotError(
            f"{store.directory}: checkpoint {epoch} is damaged; the next start skips it: {newest.damage}"
        )
    if not allow_repeated_results:
        _must_be_unpublished(store, str(newest.name), epoch)
    previous = found[1].name.epoch if len(found) > 1 else None
    if previous is None and newest.checkpoint.metadata.get(PREVIOUS, epoch) is not None:
        raise SnapshotError(
            f"{store.directory}: checkpoint {epoch} is not the first, and the one before it was removed "
            "(--checkpoint_retention). Start the pipeline with --on_commit_error=dead_letter instead"
        )
    # A job that still runs there must not write the next manifest.
    store.take_over()
    paths = [f"{store.directory}/{name}" for name in (newest.name, NOTE)]
    try:
        store.disk.remove(*(path for path in paths if store.disk.exists(path)))
    except OSError as error:
        raise SnapshotError(f"{paths[0]} can't be removed: {text_or_class(error)}") from error
    store.sweep()
    return RolledBack(epoch, previous)


def _must_be_unpublished(store: SnapshotStore, manifest: str, epoch: int) -> None:
    note = FailedCommit.read(store.disk, store.directory)
    if note is None or note.manifest != manifest:
        raise SnapshotError(
            f"{store.directory}: no commit of checkpoint {epoch} is known to have failed, so its results may be "
            "published; after a rollback they would be published again. To allow this, give --allow_repeated_results"
        )
    if note.published:
        raise SnapshotError(
            f"{store.directory}: {', '.join(note.published)} has published checkpoint {epoch}, or a part of it, before "
            f"{note.sink} failed, or a process may have that was killed; after a rollback its results are published "
            "again: files and streams hold them twice, tables and keys get the same rows. To allow this, give "
            "--allow_repeated_results; or start the pipeline "
            "with --on_commit_error=dead_letter"
        )
