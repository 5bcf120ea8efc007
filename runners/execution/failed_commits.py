"""Notes of commits that have failed after their checkpoint was complete, kept among the checkpoints.

`penstock checkpoints rollback DIR` reads the note, so that it knows which sinks have published already.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import attrs

from ...sdk.errors import CorruptSnapshotError, SnapshotError
from ...sdk.redaction import redacted
from .commit_errors import DEAD_LETTERS, explain
from .disk import Disk
from .manifest import Checkpoint, sealed, unsealed

_logger = logging.getLogger(__name__)

# The name of the note's file, and the format that is in it.
NOTE = "failed-commit"
_FORMAT = "penstock failed commit"

# In a checkpoint's metadata, the epoch of the previous one; None for the first.
PREVIOUS = "previous"


@attrs.frozen
class FailedCommit:
    """A commit that has failed when it was decided already.

    Attributes:
      manifest: the name of the checkpoint's manifest.
      sink: the label of the sink that failed.
      error: what it said.
      published: the labels of the sinks that have published what they staged.
    """

    manifest: str
    sink: str
    error: str
    published: tuple[str, ...]

    def write(self, disk: Disk, directory: str) -> None:
        """Note it among the checkpoints; raises `SnapshotError`."""
        try:
            disk.write_atomically(f"{directory}/{NOTE}", sealed(_FORMAT, self))
        except OSError as error:
            raise SnapshotError(f"{directory}/{NOTE} can't be written: {error}") from error

    @staticmethod
    def read(disk: Disk, directory: str) -> FailedCommit | None:
        """Return the last failed commit that was written there, or None."""
        path = f"{directory}/{NOTE}"
        try:
            return unsealed(path, disk.read(path), _FORMAT, FailedCommit)
        except FileNotFoundError:
            return None
        except CorruptSnapshotError as error:
            _logger.warning("%s; continuing without it", error)
            return None


def commit_failed(
    error: Exception, disk: Disk, directory: str, checkpoint: Checkpoint, sink: str, published: Sequence[str]
) -> None:
    """Note that the commit of a checkpoint has failed, and have the error say what can be done."""
    note = FailedCommit(str(checkpoint.name()), sink, redacted(str(error)), tuple(published))
    try:
        note.write(disk, directory)
    except SnapshotError as failure:
        _logger.warning("%s", failure)
    explain(
        error,
        f"{directory}: checkpoint {checkpoint.epoch} is complete, and can't be published: ",
        "Every start tries this again. If the target can't be fixed: `penstock checkpoints rollback "
        f"{directory}` returns to the previous checkpoint, from which a fixed pipeline reads the same input again; "
        f"or {DEAD_LETTERS}",
    )


def commit_succeeded(disk: Disk, directory: str) -> None:
    """Remove the note of a commit that has failed before."""
    path = f"{directory}/{NOTE}"
    if disk.exists(path):
        disk.remove(path)
