"""Durable storage, as the snapshot store sees it: whole files, written once.

>>> import tempfile
>>> directory = tempfile.mkdtemp()
>>> disk = disk_of(directory)
>>> disk.write_atomically(f"{directory}/a", [b"one", b"two"])
>>> disk.read(f"{directory}/a"), disk.list(directory)
(b'onetwo', ['a'])

Paths are strings with `/`.  Every operation raises `OSError` where the system does; none of them
retries, logs or takes a lock, so a forked child may use them.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, TypeAlias, cast

from ....io.files.filesystem import AnyPath, LocalFileSystem, filesystem_for, path_string, split_path
from ....sdk.errors import SnapshotError, UnsupportedError
from ....sdk.redaction import redacted_cause
from ..serialization.trust import why_untrusted

# A file's content, whole or in pieces.
Content: TypeAlias = bytes | Iterable[bytes]

# The file's length is synced too, if it has changed; where it hasn't, nothing of the file system's own is written.
_sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)

# What a file is called until it is whole: its own name, and then this.
UNFINISHED = ".unfinished"


class Disk(ABC):
    """Storage that survives a crash of the process, and of the machine.

    Instances hold no open files and can be pickled: several processes may use one at the same time.

    Attributes:
      late_writes: whether a write that has failed here may still take effect later, as a request that timed out may.
      can_append: whether files can be written to where they are; else they are only put whole.
    """

    late_writes = False
    can_append = True

    @abstractmethod
    def write_atomically(self, path: str, content: Content) -> None:
        """Make a file, or replace it: after a crash it is as it was before, or whole.

        When this returns, the file survives a power failure.  If it raises, or if the content does while
        it is being produced, the file is as it was before; only after an `OSError` of the last step (the
        directory could not be synced) may it be there nevertheless.
        """

    def write_at(self, path: str, place: int, content: bytes) -> None:
        """Write over what a file has from an offset on, and make it longer if need be; `FileNotFoundError` without it.

        When this returns, what was written survives a power failure.  If it raises, or if the process dies, any
        parts of it may be there.  Raises `UnsupportedError` where files are only put whole.
        """
        raise UnsupportedError(f"{path}: files can't be appended to there; give a directory of a local disk")

    def write_soon(self, path: str, place: int, content: bytes) -> None:
        """Write over what a file has from an offset on, as `write_at`, without waiting for the disk.

        When this returns, other processes read what was written, and it survives the death of this one.  After a power
        failure the bytes may be those from before.  Each aligned 64 of them are all new, or all old.
        """
        raise UnsupportedError(f"{path}: files can't be appended to there; give a directory of a local disk")

    @abstractmethod
    def open(self, path: str) -> BinaryIO:
        """A file to read bytes from, in order; `FileNotFoundError` if it isn't there."""

    def read(self, path: str) -> bytes:
        """All that is in a file; `FileNotFoundError` if it isn't there."""
        with self.open(path) as file:
            return file.read()

    @abstractmethod
    def list(self, directory: str) -> list[str]:
        """The names of the files in a directory, sorted, unfinished ones too; none if there is no such directory.

        What any process had written before the call is listed.
        """

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""

    @abstractmethod
    def remove(self, *paths: str) -> None:
        """Remove files; those that aren't there count as removed.  When this returns, no crash brings them back."""

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, for this user alone; one that is there is left as it is."""

    @abstractmethod
    def why_untrusted(self, path: str) -> str | None:
        """Why somebody else may have written this file, or may put files into this directory; None if nobody can.

        None too where that can't be known: on an object store it is the bucket's policy that decides.
        """


class LocalDisk(Disk):
    """The local disk: write under another name, fsync, rename, fsync the directory.

    Files and directories are made for their owner alone (0600, 0700).
    """

    def write_atomically(self, path: str, content: Content) -> None:
        path = _local(path)
        # Two processes may write the same name at the same time.
        unfinished = f"{path}.{secrets.token_hex(4)}{UNFINISHED}"
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.writelines([content] if isinstance(content, bytes) else content)
                file.flush()
                os.fsync(descriptor)
            os.rename(unfinished, path)
        except BaseException:
            _unlink(unfinished)
            raise
        _sync_directory(path)

    def write_at(self, path: str, place: int, content: bytes) -> None:
        descriptor = os.open(_local(path), os.O_WRONLY)
        try:
            _write_at(descriptor, place, content)
            _sync_data(descriptor)
        finally:
            os.close(descriptor)

    def write_soon(self, path: str, place: int, content: bytes) -> None:
        descriptor = os.open(_local(path), os.O_WRONLY)
        try:
            _write_at(descriptor, place, content)
        finally:
            os.close(descriptor)

    def open(self, path: str) -> BinaryIO:
        return open(_local(path), "rb")

    def list(self, directory: str) -> list[str]:
        try:
            with os.scandir(_local(directory)) as entries:
                return sorted(entry.name for entry in entries if not entry.is_dir())
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        try:
            return not stat.S_ISDIR(os.stat(_local(path)).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def remove(self, *paths: str) -> None:
        changed = {}
        for path in map(_local, paths):
            if _unlink(path):
                changed[os.path.dirname(path)] = path
        for path in changed.values():
            _sync_directory(path)

    def make_directory(self, path: str) -> None:
        path = _local(path).rstrip("/") or "/"
        if os.path.isdir(path):
            return
        parent = os.path.dirname(path)
        if parent:
            self.make_directory(parent)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        _sync_directory(path)

    def why_untrusted(self, path: str) -> str | None:
        return why_untrusted(_local(path))


class FsspecDisk(Disk):
    """Whatever fsspec has a protocol for: `s3://`, `gs://`, `memory://`.

    An object store puts an object whole or not at all, and lists what was put: that is all that is asked of
    it.  Where a put isn't atomic (`sftp://`), a crash leaves part of a file, which its checksum gives away.
    """

    late_writes = True
    can_append = False

    def write_atomically(self, path: str, content: Content) -> None:
        fs, stripped = _fsspec(path)
        if isinstance(content, bytes):
            fs.pipe_file(stripped, content)
            return
        # An upload that is closed half-way would be taken for the file; so it begins when all is at hand.
        with tempfile.NamedTemporaryFile() as gathered:
            gathered.writelines(content)
            gathered.flush()
            fs.put_file(gathered.name, stripped)

    def open(self, path: str) -> BinaryIO:
        fs, stripped = _fsspec(path)
        return cast(BinaryIO, fs.open(stripped, "rb"))

    def list(self, directory: str) -> list[str]:
        fs, stripped = _fsspec(directory)
        # Listings are cached, and other processes write too.
        fs.invalidate_cache(stripped)
        try:
            found = fs.ls(stripped, detail=True)
        except FileNotFoundError:
            return []
        names = (split_path(info["name"])[1] for info in found if info["type"] == "file")
        return sorted(name for name in names if name)

    def exists(self, path: str) -> bool:
        fs, stripped = _fsspec(path)
        fs.invalidate_cache(split_path(stripped)[0])
        return bool(fs.isfile(stripped))

    def remove(self, *paths: str) -> None:
        for path in paths:
            fs, stripped = _fsspec(path)
            try:
                fs.rm_file(stripped)
            except FileNotFoundError:
                pass

    def make_directory(self, path: str) -> None:
        fs, stripped = _fsspec(path)
        fs.makedirs(stripped, exist_ok=True)

    def why_untrusted(self, path: str) -> str | None:
        fs, stripped = _fsspec(path)
        # A cache or a subdirectory of another file system.
        while hasattr(fs, "fs"):
            fs = fs.fs
        is_local = "local" in ([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol)
        return why_untrusted(stripped) if is_local else None


def disk_of(path: AnyPath) -> Disk:
    """The disk that a path belongs to.

    >>> type(disk_of("/var/checkpoints")).__name__, type(disk_of("s3://bucket/checkpoints")).__name__
    ('LocalDisk', 'FsspecDisk')
    """
    return LocalDisk() if isinstance(filesystem_for(path_string(path)), LocalFileSystem) else FsspecDisk()


def _local(path: str) -> str:
    return path.removeprefix("file://")


def _write_at(descriptor: int, place: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        written = os.pwrite(descriptor, rest, place)
        rest, place = rest[written:], place + written


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def _sync_directory(path: str) -> None:
    """Make the names in the directory that a path is in survive a power failure."""
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fsspec(path: str) -> tuple[Any, str]:
    # Looked up anew each time: fsspec keeps its file systems, one for each process, so nothing is shared by a fork.
    from fsspec.core import url_to_fs

    try:
        fs, stripped = url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise SnapshotError(f"{path!r} can't be reached: {error}") from redacted_cause(error)
    return fs, cast(str, stripped)
