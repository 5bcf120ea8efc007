"""The plan of the batch that runs next, written down before it does: a small file beside the manifests.

There is one at a time: the plan of batch n + 1 replaces that of n, which has been committed by then.
"""

from __future__ import annotations

import base64

import attrs

from ...sdk.errors import SnapshotError, UntrustedSnapshotError
from ...sdk.serialization import local_modules_by_value
from ..execution.checkpoints.manifest import sealed, unsealed
from ..execution.checkpoints.store import SnapshotStore, fresh_token
from .planned_batch import PlannedBatch

PLANNED = "planned"


@attrs.frozen
class _Written:
    name: str
    batch: str


class WriteAhead:
    """Writes and reads plans.

    Attributes:
      name: in the names of transactions: of two runs with other checkpoints no transaction is the same.
    """

    def __init__(self, store: SnapshotStore) -> None:
        self.name = fresh_token()
        self._store = store
        self._path = f"{store.directory}/{PLANNED}"

    def write(self, batch: PlannedBatch) -> None:
        """Write a batch down.  Raises `SnapshotError` where the disk fails."""
        with local_modules_by_value():
            data = base64.b64encode(batch.record()).decode()
        try:
            self._store.disk.write_atomically(self._path, sealed("penstock plan", _Written(self.name, data)))
        except OSError as error:
            raise SnapshotError(f"{self._path} can't be written: {error}") from error

    def read(self) -> PlannedBatch | None:
        """The batch that was planned last; None if none was.

        Raises `CorruptSnapshotError` if it isn't as it was written, `UntrustedSnapshotError` if somebody else
        could have written it.
        """
        disk = self._store.disk
        if not disk.exists(self._path):
            return None
        if not self._store.allow_untrusted and (why := disk.why_untrusted(self._path)):
            raise UntrustedSnapshotError(f"{self._path} isn't read, because {why}")
        written = unsealed(self._path, disk.read(self._path), "penstock plan", _Written)
        return PlannedBatch.of_record(base64.b64decode(written.batch), self._path)
