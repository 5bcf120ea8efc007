"""The store of checkpoints: many processes write parts, and one commits; a checkpoint is restored whole or not at all.

>>> from random import Random
>>> from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
>>> store = SnapshotStore(SimulatedDisk(Random(0)), "checkpoints")
>>> _ = store.take_over()
>>> store.begin(1)
>>> full = store.write_part(1, "sum/0", [b"a=1", b"b=2"])
>>> _ = store.commit(1, [full], {"offset": 10})
>>> store.begin(2)
>>> longer = store.write_part(2, "sum/0", [b"b=3"], base=full)
>>> _ = store.commit(2, [longer], {"offset": 20})

Restoring:

>>> found = store.newest_complete().checkpoint
>>> found.epoch, found.metadata
(2, {'offset': 20})
>>> [(kind.value, list(records)) for kind, records in store.read_part(found.part("sum/0"))]
[('full', [b'a=1', b'b=2']), ('delta', [b'b=3'])]

The format of the files is described in docs/checkpoints.md.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs

from ....frozen import frozen
from ....sdk.errors import SnapshotError, StaleWriterError, UncertainCommitError
from ....sdk.redaction import logger_of
from ....sdk.user_code.error_text import text_or_class
from .catalog import FILES, Found, Recovery, found_checkpoints, reading
from .fencing import claim, newest_claim
from .files import SORTED, SnapshotKind, write_snapshot_file, write_table
from .manifest import (
    Checkpoint,
    CheckpointKind,
    Generation,
    ManifestName,
    PartReference,
    TableReference,
    encode_checkpoint,
    file_name,
    origin_of,
)
from .reader import SnapshotReader
from .retention import collect, kept_by_retention
from .storage import Disk, side_by_side

_logger = logger_of(__name__)


# What RocksDB has in its directory besides the database.
_NO_TABLES = frozenset({"LOG", "LOCK", "IDENTITY"})


@frozen
class Tables:
    """The files of a RocksDB as it was at a barrier.

    Attributes:
      directory: a directory of the local disk, with hard links to the files.
      database: which RocksDB it is.
      origin: the part whose tables it was opened with; None if it began empty.
      known: those that a committed checkpoint has, by name.
      links: the owner of the directory, which removes it when it is garbage collected.
    """

    directory: str
    database: str
    origin: PartReference | None = None
    known: Mapping[str, TableReference] = {}
    links: Any = None

    def names(self) -> list[str]:
        """Return the names of the files."""
        return sorted(name for name in os.listdir(self.directory) if name not in _NO_TABLES and name[-4:] != ".log")

    def after(self, part: PartReference | None) -> Tables:
        """Return the same files, without those to write that a part of the newest committed checkpoint has.

        Only in one RocksDB a name stands for one file: the part is of this, or this was opened with it.
        """
        if part is None or (part.database != self.database and part != self.origin):
            return self
        return attrs.evolve(self, known={each.name: each for each in part.tables if each.name.endswith(SORTED)})


def fresh_token() -> str:
    """Return sixteen unique hexadecimal digits, also in a forked process."""
    return secrets.token_hex(8)


class SnapshotStore(SnapshotReader):
    """A directory of checkpoints to write.

    One process at a time owns the store: it has called `take_over`, and calls `begin`, `commit`, `abort` and `sweep`,
    from one thread.  Copies of that object, forked or pickled, may call `write_part` in any number of processes at the
    same time.  Any process may call the methods of `SnapshotReader` at any time.

    Args:
      disk: the directory's disk; see `disk_of`.
      directory: its path, without a slash at the end.
      retain: the number of checkpoints to keep, at least 1; savepoints aren't counted and are always kept.
      allow_untrusted: read and write checkpoints even if other users could write there.
      token: returns unique hexadecimal digits.
      now: returns seconds since 1970.

    Attributes:
      disk, directory, allow_untrusted: as given.

    All methods raise `SnapshotError` where the disk fails, and `UntrustedSnapshotError` instead of reading or extending
    a directory that other users could have written.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        retain: int = 3,
        allow_untrusted: bool = False,
        token: Callable[[], str] = fresh_token,
        now: Callable[[], float] = time.time,
    ) -> None:
        if retain < 1:
            raise SnapshotError(f"{directory}: {retain} checkpoints to retain, expected at least 1")
        super().__init__(disk, directory, allow_untrusted=allow_untrusted)
        self._retain = retain
        self._token = token
        self._now = now
        self._generation: Generation | None = None
        # Every epoch that has begun and is neither committed nor aborted, with the checkpoints that its deltas may
        # depend on.
        self._open: dict[int, tuple[Checkpoint, ...]] = {}
        self._last_committed = -1
        # The epoch whose manifest may exist or not.
        self._in_doubt: int | None = None
        self._known: dict[ManifestName, Checkpoint] = {}

    def __getstate__(self) -> dict[str, Any]:
        # A copy writes parts only, and doesn't need the owner's state.
        return {**self.__dict__, "_known": {}, "_open": dict.fromkeys(self._open, ())}

    def has_written(self, part: PartReference) -> bool:
        """Return True if the present owner has written the newest file of a part."""
        origin = origin_of(part.files[-1].file)
        return origin is not None and origin[1] == self._generation

    def newest_complete(self) -> Recovery:
        """Return the newest checkpoint that can be restored, as `SnapshotReader` does, and make it durable first.

        A manifest whose directory could not be synced can be read now, but a power failure may remove it.  Sinks must
        not publish from such a checkpoint.
        """
        with reading(self.directory):
            if self.disk.list(self.directory):
                self.disk.sync(self.directory)
        return super().newest_complete()

    # Writing

    def age_of(self, checkpoint: Checkpoint) -> int:
        """Return the age of a checkpoint since its commit, in microseconds of the wall clock."""
        return int(self._now() * 1_000_000) - checkpoint.committed_at_micros

    def take_over(self) -> Generation:
        """Become the owner, so that earlier owners can't commit any more.  Creates the directory if it is missing.

        Several processes may call it at the same time; the last one wins.
        """
        with self._writing("claiming the checkpoints"):
            self.disk.make_directory(f"{self.directory}/{FILES}")
            self._require_trusted()
            self._generation = claim(self.disk, self.directory, self._token())
        self._open.clear()
        self._last_committed, self._in_doubt = -1, None
        return self._generation

    def begin(self, epoch: int) -> None:
        """Begin a checkpoint; several may be in progress at the same time.

        Epochs increase under one owner.  A new owner begins with the epoch after the one that it has restored, even if
        later ones had been committed: its first commit replaces them.
        """
        latest = max([self._last_committed, *self._open])
        if epoch <= latest:
            raise SnapshotError(f"{self.directory}: epoch {epoch} can't begin after epoch {latest}; epochs go up")
        live = (each.checkpoint for each in self._found(self._owned_names(epoch)))
        self._open[epoch] = tuple(checkpoint for checkpoint in live if checkpoint is not None)

    def write_part(
        self,
        epoch: int,
        name: str,
        payload: Iterable[bytes],
        base: PartReference | None = None,
        tables: Tables | None = None,
    ) -> PartReference:
        """Write a part of a checkpoint: all of it, or the changes since `base` was written.

        Any number of processes may call it at the same time, for one name too: every call writes a file of its own, and
        `commit` selects one by its reference.  It neither logs nor locks, so a forked child may call it.  A part
        without any changes isn't written: pass its last reference to `commit` again.

        Args:
          name: the name of the part, such as "task/subtask/key groups".
          payload: records, taken one at a time; a megabyte each is a good size.
          base: the reference of the part in a committed checkpoint.
          tables: the files of a RocksDB that belong to the part.
        """
        generation = self._owner()
        kind = SnapshotKind.FULL if base is None else SnapshotKind.DELTA
        file = file_name(epoch, generation, self._token(), kind)
        with self._writing(f"writing the part {name!r} of epoch {epoch}"):
            written = write_snapshot_file(self.disk, f"{self.directory}/{FILES}/{file}", kind, payload)
            own = () if tables is None else self._written_tables(epoch, tables)
        files = (written,) if base is None else (*base.files, written)
        return PartReference(name, files, own, "" if tables is None else tables.database)

    def _written_tables(self, epoch: int, tables: Tables) -> tuple[TableReference, ...]:
        """Write the tables that no committed checkpoint has; several at a time where each is a request to a server."""

        def write(name: str) -> TableReference:
            if name in tables.known:
                return tables.known[name]
            file = file_name(epoch, self._owner(), self._token(), SnapshotKind.TABLE)
            source = f"{tables.directory}/{name}"
            return TableReference(name, write_table(self.disk, f"{self.directory}/{FILES}/{file}", source))

        return tuple(side_by_side(self.disk, write, tables.names()))

    def commit(
        self,
        epoch: int,
        references: Iterable[PartReference],
        metadata: Mapping[str, Any] | None = None,
        kind: CheckpointKind = CheckpointKind.CHECKPOINT,
    ) -> Checkpoint:
        """Commit a checkpoint of the parts: it is restorable once this returns, and not before.

        Then the checkpoints beyond the retention are removed.

        Args:
          metadata: JSON: dictionaries, lists, strings, numbers, True, False and None.

        Raises:
          StaleWriterError: another process has taken over; this process must stop.
          UncertainCommitError: only a restart can tell whether it was committed.
          SnapshotError: it was not committed, and may be tried again, or aborted.
        """
        parts = tuple(sorted(references, key=lambda part: part.name))
        self._must_be_open(epoch)
        if epoch < self._last_committed:
            raise SnapshotError(
                f"{self.directory}: epoch {epoch} can't be committed after epoch {self._last_committed}; abort it"
            )
        self._must_be_there(epoch, parts)
        micros = int(self._now() * 1_000_000)
        checkpoint = Checkpoint(epoch, self._owner(), kind, micros, parts, dict(metadata or {}))
        self._write_manifest(checkpoint)
        try:
            names = self._owned_names(epoch)
        except StaleWriterError:
            raise
        except SnapshotError as error:
            raise self._uncertain(epoch, error) from error
        del self._open[epoch]
        self._last_committed = epoch
        self._known[checkpoint.name()] = checkpoint
        try:
            self._collect(names)
        except (OSError, SnapshotError) as error:
            _logger.warning("%s: old checkpoints can't be removed now, and stay: %s", self.directory, error)
        return checkpoint

    def is_open(self, epoch: int) -> bool:
        """Return True if a checkpoint has begun, and is neither committed nor aborted."""
        return epoch in self._open

    def abort(self, epoch: int) -> None:
        """Abort a checkpoint, and remove its files.

        A part that is still being written stays until another checkpoint is committed.
        """
        self._must_be_open(epoch)
        if self._in_doubt == epoch:
            raise self._uncertain(epoch, None)
        del self._open[epoch]
        files = f"{self.directory}/{FILES}"
        try:
            ours = [name for name in self.disk.list(files) if origin_of(name) == (epoch, self._generation)]
            self.disk.remove(*(f"{files}/{name}" for name in ours))
        except OSError as error:
            _logger.warning("%s: files of epoch %d can't be removed now, and stay: %s", self.directory, epoch, error)

    def sweep(self) -> list[str]:
        """Remove the files that crashed owners have left, and the checkpoints beyond the retention.

        Returns the names of the snapshot files removed.  It is called at the start, after the newest checkpoint has
        been found; each commit does the same.
        """
        with self._writing("sweeping"):
            return self._collect(self._owned_names(None))

    def _write_manifest(self, checkpoint: Checkpoint) -> None:
        content = encode_checkpoint(checkpoint)
        self._owned_names(checkpoint.epoch)
        path = f"{self.directory}/{checkpoint.name()}"
        try:
            self.disk.write_atomically(path, content)
        except OSError as error:
            # It must not be removed: a new owner may have found it already.
            if self.disk.late_writes or self._may_exist(path):
                raise self._uncertain(checkpoint.epoch, error) from error
            raise SnapshotError(
                f"{self.directory}: epoch {checkpoint.epoch} is not committed, because {checkpoint.name()} can't be "
                f"written: {text_or_class(error)}"
            ) from error

    def _may_exist(self, path: str) -> bool:
        try:
            return self.disk.exists(path)
        except OSError:
            return True

    def _uncertain(self, epoch: int, error: Exception | None) -> UncertainCommitError:
        self._in_doubt = epoch
        why = "" if error is None else f": {text_or_class(error)}"
        return UncertainCommitError(
            f"{self.directory}: it is not known whether epoch {epoch} was committed{why}. Start again from "
            "newest_complete(), which will tell"
        )

    def _owner(self) -> Generation:
        if self._generation is None:
            raise SnapshotError(f"{self.directory}: expected take_over() before anything is written")
        return self._generation

    def _owned_names(self, epoch: int | None) -> list[str]:
        """Return the names in the directory.

        Raises `StaleWriterError` if another process has taken over.
        """
        with reading(self.directory):
            names = self.disk.list(self.directory)
        newest = newest_claim(names)
        if newest is None:
            raise StaleWriterError(
                f"{self.directory}: found nothing of this run, whose owner is {self._owner()}; the directory was "
                "removed or emptied while it ran"
            )
        if newest != self._owner():
            what = "" if epoch is None else f"epoch {epoch} can't be committed: "
            raise StaleWriterError(
                f"{self.directory}: {what}this is owner {self._generation}, and {newest} has taken over. "
                "Expected one owner: end this process"
            )
        return names

    def _must_be_open(self, epoch: int) -> None:
        if epoch not in self._open:
            begun = ", ".join(map(str, sorted(self._open))) or "none"
            raise SnapshotError(f"{self.directory}: epoch {epoch} has not begun; in progress: {begun}")

    def _must_be_there(self, epoch: int, parts: tuple[PartReference, ...]) -> None:
        with reading(self.directory):
            present = set(self.disk.list(f"{self.directory}/{FILES}"))
        names: set[str] = set()
        for part in parts:
            if part.name in names:
                raise SnapshotError(f"{self.directory}: epoch {epoch} has two parts {part.name!r}, expected one")
            names.add(part.name)
            for file in part.all_files():
                if file.file not in present:
                    raise SnapshotError(
                        f"{self.directory}: the part {part.name!r} of epoch {epoch} depends on {file.file}, which is "
                        "missing: was its checkpoint aborted, or removed? A delta depends on a committed checkpoint"
                    )

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SnapshotError(f"{self.directory}: {what} failed: {text_or_class(error)}") from error

    def _found(self, names: list[str]) -> list[Found]:
        with reading(self.directory):
            return found_checkpoints(self.disk, self.directory, names, self._known)

    def _collect(self, names: list[str]) -> list[str]:
        kept = kept_by_retention(self._found(names), self._retain)
        bases = [checkpoint for live in self._open.values() for checkpoint in live]
        removed = collect(self.disk, self.directory, self._owner(), names, kept, self._open, bases)
        self._known = {each.name: each.checkpoint for each in kept if each.checkpoint is not None}
        return removed
