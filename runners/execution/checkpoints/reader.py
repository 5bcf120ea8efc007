"""Checkpoints on a disk, as they are read: what there is, whether it is whole, and the parts of one.

Whoever reads may do so at any time, while others write.  How they write is in `store.py`.
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
from .files import SnapshotKind
from .manifest import Checkpoint, PartReference
from .storage import Disk


class SnapshotReader:
    """A directory of checkpoints.

    Args:
      disk: where the directory is; see `disk_of`.
      directory: its path, without a slash at the end.
      allow_untrusted: read checkpoints even if other users could write there.

    Attributes:
      disk, directory, allow_untrusted: as given.

    All methods raise `SnapshotError` where the disk fails, and `UntrustedSnapshotError` instead of giving out
    what other users could have written.
    """

    def __init__(self, disk: Disk, directory: str, *, allow_untrusted: bool = False) -> None:
        self.disk = disk
        self.directory = directory
        self.allow_untrusted = allow_untrusted

    def found(self) -> list[Found]:
        """Every manifest, the newest first, damaged ones and replaced savepoints too."""
        with reading(self.directory):
            return found_checkpoints(self.disk, self.directory, self.disk.list(self.directory))

    def checkpoints(self) -> list[Checkpoint]:
        """The checkpoints and savepoints whose manifests are whole, the newest first; their files aren't read."""
        return [each.checkpoint for each in self.found() if each.checkpoint is not None and not each.replaced]

    def open(self, epoch: int) -> Checkpoint:
        """A checkpoint, or a savepoint, all of whose files have been read and are as they were written.

        Raises `CorruptSnapshotError` for the first that isn't, and `SnapshotError` if there is no such epoch.
        """
        found = self.found()
        # An epoch that was committed again comes before a savepoint that it replaced.
        for each in sorted(found, key=lambda f: f.replaced):
            if each.name.epoch == epoch:
                if damage := self.damage_of(each):
                    raise damage
                assert each.checkpoint is not None
                self._require_trusted(each.checkpoint)
                return each.checkpoint
        have = ", ".join(str(each.name.epoch) for each in found) or "none"
        raise SnapshotError(f"{self.directory}: no checkpoint of epoch {epoch}; there are: {have}")

    def newest_complete(self) -> Recovery:
        """The newest checkpoint or savepoint that can be restored, after every file of it has been read.

        What had to be skipped for it is returned with the reasons, and logged as warnings.  Nothing of a
        damaged checkpoint is given out.  Raises `CorruptSnapshotError` if something was committed and nothing of
        that is whole: to begin anew is for the user to decide.
        """
        with reading(self.directory):
            recovery = newest_complete(self.disk, self.directory)
        if recovery.checkpoint is not None:
            self._require_trusted(recovery.checkpoint)
        return recovery

    def damage_of(self, found: Found) -> CorruptSnapshotError | None:
        """What is wrong with a checkpoint, after every file of it has been read; None if nothing is."""
        return damage_of(self.disk, self.directory, found)

    def read_part(self, part: PartReference) -> Iterator[tuple[SnapshotKind, Iterator[bytes]]]:
        """The files of a part, the full one first: of each its kind, and its records, which are to be read in order.

        Every record is verified before it is given out; `CorruptSnapshotError` may be raised after some of them, if
        the file has changed since `open` or `newest_complete` read it.
        """
        for file in part.files:
            path = path_of(self.directory, file)
            if not self.allow_untrusted and self.disk.exists(path):
                trusted(self.disk, path)
            yield file.kind, records_of(self.disk, self.directory, file)

    def _require_trusted(self, checkpoint: Checkpoint | None = None) -> None:
        if self.allow_untrusted:
            return
        paths = [self.directory, f"{self.directory}/{FILES}"]
        if checkpoint is not None:
            paths.append(f"{self.directory}/{checkpoint.name()}")
            paths += [path_of(self.directory, file) for file in checkpoint.files()]
        with reading(self.directory):
            trusted(self.disk, *paths)
