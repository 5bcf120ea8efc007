"""Rolling back the newest checkpoint, where its commit fails: the way out of a record that a sink refuses for good.

The checkpoint's manifest is removed, so that the next start goes on from the one before: it reads the same input
again, and removes what was staged since.  That is exactly once as long as no sink has published anything of the
checkpoint; the note that the failed commit has left says which sinks have.
"""

from __future__ import annotations

import attrs

from ....sdk.errors import SnapshotError
from ..checkpoints.store import SnapshotStore
from .checkpoint_commits import NOTE, PREVIOUS, FailedCommit


@attrs.frozen
class RolledBack:
    """The result of a rollback.

    Attributes:
      epoch: that of the checkpoint which is gone.
      previous: the epoch that the next start goes on from; None if it begins at the beginning.
    """

    epoch: int
    previous: int | None


def roll_back(store: SnapshotStore, allow_repeated_results: bool = False) -> RolledBack:
    """Remove the newest checkpoint, whose commit has failed.  A job that still runs there can't commit afterwards.

    Args:
      allow_repeated_results: also where sinks have published some of it, or may have.

    Raises `SnapshotError` where there is nothing to roll back, where results would come twice, and where the
    checkpoint before is gone.
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
            f"{store.directory}: checkpoint {epoch} is not the first, and the one before it is gone "
            "(--checkpoint_retention). Start the pipeline with --on_commit_error=dead_letter instead"
        )
    # A job that is still at work there must not write the manifest of the next one.
    store.take_over()
    paths = [f"{store.directory}/{name}" for name in (newest.name, NOTE)]
    try:
        store.disk.remove(*(path for path in paths if store.disk.exists(path)))
    except OSError as error:
        raise SnapshotError(f"{paths[0]} can't be removed: {error}") from error
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
            f"{note.sink} failed; after a rollback its results are published again: files and streams hold them twice, "
            "tables and keys get the same rows. To allow this, give --allow_repeated_results; or start the pipeline "
            "with --on_commit_error=dead_letter"
        )
