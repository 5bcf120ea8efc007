"""The reader of checkpoints: lists them, verifies them, and reads their parts.

It may be called at any time, while other processes write (`store.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from ....sdk.errors import CorruptSnapshotError, SnapshotError
from .catalog import (
    FILES,
    Found,
    Recovery,
    damage_of,
    found_checkpoints,
    newest_complete,
    path_of,
    reading,
    records_of,
    trusted,
)
from .files import SnapshotKind, fetch_table
from .manifest import Checkpoint, PartReference, TableReference
from .storage import Disk, side_by_side


class SnapshotReader:
    """A directory of checkpoints.

    Args:
      disk: the directory's disk; see `disk_of`.
      directory: its path, without a slash at the end.
      allow_untrusted: read checkpoints even if other users could write there.

    Attributes:
      disk, directory, allow_untrusted: as given.

    All methods raise `SnapshotError` where the disk fails, and `UntrustedSnapshotError` instead of returning data that
    other users could have written.
    """

    def __init__(self, disk: Disk, directory: str, *, allow_untrusted: bool = False) -> None:
        self.disk = disk
        self.directory = directory
        self.allow_untrusted = allow_untrusted

    def found(self) -> list[Found]:
        """Return every manifest, the newest first, with damaged ones and replaced savepoints."""
        with reading(self.directory):
            return found_checkpoints(self.disk, self.directory, self.disk.list(self.directory))

    def checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoints and savepoints with undamaged manifests, the newest first.

        Their other files are not read.
        """
        return [each.checkpoint for each in self.found() if each.checkpoint is not None and not each.replaced]

    def open(self, epoch: int) -> Checkpoint:
        """Return a checkpoint, or a savepoint, after verifying all of its files.

        Raises `CorruptSnapshotError` for the first damaged file, and `SnapshotError` if there is no such epoch.
        """
        found = self.found()
        # An epoch that was committed again precedes a savepoint that it replaced.
        for each in sorted(found, key=lambda f: f.replaced):
            if each.name.epoch == epoch:
                if damage := self.damage_of(each):
                    raise damage
                assert each.checkpoint is not None
                self._require_trusted(each.checkpoint)
                return each.checkpoint
        have = ", ".join(str(each.name.epoch) for each in found) or "none"
        raise SnapshotError(f"{self.directory}: no checkpoint of epoch {epoch}; there are: {have}")

    def select(self, epoch: int | None = None) -> Checkpoint:
        """Return the checkpoint or savepoint of an epoch, or the newest with an undamaged manifest.

        Its files are not read; `read_part` verifies each record.  Raises `SnapshotError` if there is none, and
        `UntrustedSnapshotError` if other users could have written it.
        """
        found = [each for each in self.found() if epoch is not None or not each.replaced]
        # An epoch that was committed again precedes a savepoint that it replaced.
        for each in sorted(found, key=lambda f: f.replaced):
            if epoch == each.name.epoch and each.damage is not None:
                raise each.damage
            if each.checkpoint is not None and epoch in (None, each.name.epoch):
                self._require_trusted(each.checkpoint)
                return each.checkpoint
        if epoch is None:
            raise SnapshotError(f"{self.directory}: no checkpoints")
        have = ", ".join(str(each.name.epoch) for each in found) or "none"
        raise SnapshotError(f"{self.directory}: no checkpoint of epoch {epoch}; there are: {have}")

    def newest_complete(self) -> Recovery:
        """Return the newest checkpoint or savepoint that can be restored, after verifying all of its files.

        Skipped epochs are returned with the reasons, and logged as warnings.  Raises `CorruptSnapshotError` if all
        committed checkpoints are damaged: only the user decides to start from the beginning.
        """
        with reading(self.directory):
            recovery = newest_complete(self.disk, self.directory)
        if recovery.checkpoint is not None:
            self._require_trusted(recovery.checkpoint)
        return recovery

    def damage_of(self, found: Found) -> CorruptSnapshotError | None:
        """Return the damage of a checkpoint, after reading every file of it; None if there is none."""
        return damage_of(self.disk, self.directory, found)

    def read_part(self, part: PartReference) -> Iterator[tuple[SnapshotKind, Iterator[bytes]]]:
        """Yield the files of a part, the full one first: each with its kind, and its records, to be read in order.

        Every record is verified; `CorruptSnapshotError` may be raised after some of them, if the file has changed since
        `open` or `newest_complete` read it.
        """
        for file in part.files:
            path = path_of(self.directory, file)
            if not self.allow_untrusted and self.disk.exists(path):
                trusted(self.disk, path)
            yield file.kind, records_of(self.disk, self.directory, file)

    def fetch_tables(self, part: PartReference, directory: str, verifies: bool = True) -> None:
        """Create the tables of a part in an empty directory of the local disk, under their names in RocksDB.

        Args:
          verifies: whether to read all of them.  RocksDB itself verifies each block that it reads.

        Raises `CorruptSnapshotError` for one that is missing, or damaged if that is verified.
        """

        def fetch(table: TableReference) -> None:
            path = path_of(self.directory, table.file)
            with reading(path):
                if not self.allow_untrusted and self.disk.exists(path):
                    trusted(self.disk, path)
                fetch_table(self.disk, path, f"{directory}/{table.name}", table.file, verifies)

        side_by_side(self.disk, fetch, part.tables)

    def _require_trusted(self, checkpoint: Checkpoint | None = None) -> None:
        if self.allow_untrusted:
            return
        paths = [self.directory, f"{self.directory}/{FILES}"]
        if checkpoint is not None:
            paths.append(f"{self.directory}/{checkpoint.name()}")
            paths += [path_of(self.directory, file) for file in checkpoint.files()]
        with reading(self.directory):
            trusted(self.disk, *paths)
