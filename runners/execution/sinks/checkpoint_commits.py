"""Commits that a manifest decides: the names of open transactions, and the note that a failed commit leaves.

Both are kept among the checkpoints.  `penstock checkpoints rollback DIR` reads the note, so that it knows which sinks
have published already.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ....frozen import frozen
from ....sdk.errors import CorruptSnapshotError, SnapshotError
from ....sdk.redaction import logger_of, redacted
from ....sdk.user_code.error_text import text_or_class
from ..checkpoints.manifest import sealed, unsealed
from ..checkpoints.storage import Disk
from ..checkpoints.store import SnapshotStore
from .committer import OpenTransactions
from .errors import DEAD_LETTERS, Decision, explain

_logger = logger_of(__name__)

# The name of the file of open transactions, and its format.
OPEN = "transactions"
_OPEN_FORMAT = "penstock open transactions"


class OpenTransactionsFile(OpenTransactions):
    """The file among the checkpoints that has the names of open transactions."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{OPEN}"

    def read(self) -> list[str] | None:
        """Return the transactions that an earlier run left open.

        Returns None if they aren't known.
        """
        if not self._disk.exists(self._path):
            return None
        try:
            return unsealed(self._path, self._disk.read(self._path), _OPEN_FORMAT, list[str])
        except CorruptSnapshotError as error:
            # The transactions of the restored checkpoint are committed all the same.
            _logger.warning(
                "%s; continuing without it: output that was staged, and never committed, stays at the sinks", error
            )
            return None

    def write(self, names: Sequence[str]) -> None:
        try:
            self._disk.write_atomically(self._path, sealed(_OPEN_FORMAT, names))
        except OSError as error:
            raise SnapshotError(f"{self._path} can't be written: {text_or_class(error)}") from error


@frozen
class ManifestDecision(Decision):
    """A manifest, which every start commits until that succeeds."""

    store: SnapshotStore
    epoch: int

    @classmethod
    def of_checkpoint(cls, store: SnapshotStore, epoch: int) -> ManifestDecision:
        """Return the decision of a stream's checkpoint."""
        return cls(
            f"{store.directory}: checkpoint {epoch} is not written",
            "Fix the pipeline and start it again: it resumes from the previous checkpoint",
            store,
            epoch,
        )

    @classmethod
    def of_last_checkpoint(cls, store: SnapshotStore, epoch: int) -> ManifestDecision:
        """Return the decision of the checkpoint that ends a bounded run."""
        return cls(
            f"{store.directory}: the last checkpoint, of epoch {epoch}, is not written",
            "Nothing is published yet: run the fixed pipeline with another --checkpoint_dir",
            store,
            epoch,
        )

    @classmethod
    def of_batch(cls, store: SnapshotStore, number: int) -> ManifestDecision:
        """Return the decision of a micro-batch."""
        return cls(
            f"{store.directory}: batch {number} is not committed",
            "Fix the pipeline and start it again: it resumes with this batch",
            store,
            number,
        )

    def published_before(self, sinks: Sequence[str]) -> tuple[str, ...]:
        store = self.store
        try:
            note = FailedCommit.read(store.disk, store.directory)
            if note is None or note.manifest not in self._manifests():
                return tuple(sinks)
            # Should this process be killed as well, each may have published something.
            attrs.evolve(note, published=tuple(sinks)).write(store.disk, store.directory)
        except SnapshotError as failure:
            _logger.warning("%s", failure)
            return tuple(sinks)
        return note.published

    def _manifests(self) -> list[str]:
        return [str(each.name()) for each in self.store.checkpoints() if each.epoch == self.epoch]

    def commit_failed(self, error: Exception, transaction: str, sink: str, published: Sequence[str]) -> None:
        store = self.store
        try:
            for manifest in self._manifests():
                note = FailedCommit(manifest, sink, redacted(text_or_class(error)), tuple(published))
                note.write(store.disk, store.directory)
        except SnapshotError as failure:
            _logger.warning("%s", failure)
        explain(
            error,
            f"{store.directory}: checkpoint {self.epoch} is complete, and can't be published: ",
            "Every start tries this again. If the target can't be fixed: `penstock checkpoints rollback "
            f"{store.directory}` returns to the previous checkpoint, from which a fixed pipeline reads the same input "
            f"again; or {DEAD_LETTERS}",
        )


# --- The note of a failed commit

# The name of the note's file, and its format.
NOTE = "failed-commit"
_NOTE_FORMAT = "penstock failed commit"

# In a checkpoint's metadata, the epoch of the previous one; None for the first.
PREVIOUS = "previous"


@frozen
class FailedCommit:
    """A commit that failed although it was decided.

    Attributes:
      manifest: the name of the checkpoint's manifest.
      sink: the label of the sink that failed.
      error: its message.
      published: the labels of the sinks that have published something of the checkpoint, or may have.
    """

    manifest: str
    sink: str
    error: str
    published: tuple[str, ...]

    def write(self, disk: Disk, directory: str) -> None:
        """Note it among the checkpoints; raises `SnapshotError`."""
        try:
            disk.write_atomically(f"{directory}/{NOTE}", sealed(_NOTE_FORMAT, self))
        except OSError as error:
            raise SnapshotError(f"{directory}/{NOTE} can't be written: {text_or_class(error)}") from error

    @staticmethod
    def read(disk: Disk, directory: str) -> FailedCommit | None:
        """Return the last failed commit that was written there, or None."""
        path = f"{directory}/{NOTE}"
        try:
            return unsealed(path, disk.read(path), _NOTE_FORMAT, FailedCommit)
        except FileNotFoundError:
            return None
        except CorruptSnapshotError as error:
            _logger.warning("%s; continuing without it", error)
            return None


def commit_succeeded(disk: Disk, directory: str) -> None:
    """Remove the note of a commit that has failed before."""
    path = f"{directory}/{NOTE}"
    if disk.exists(path):
        disk.remove(path)
