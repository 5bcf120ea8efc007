"""Durable storage of checkpoints: files that are written whole, atomically, and survive a crash.

>>> import tempfile
>>> directory = tempfile.mkdtemp()
>>> disk = disk_of(directory)
>>> disk.write_atomically(f"{directory}/a", [b"one", b"two"])
>>> disk.read(f"{directory}/a"), disk.list(directory)
(b'onetwo', ['a'])

Paths are strings with `/`.  The operations raise the system's `OSError`s.  None of them retries, logs or takes a lock,
so a forked child may use them.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, ClassVar, TypeAlias, TypeVar

from ....io.files.filesystem import (
    AnyPath,
    FileSystem,
    FsspecFileSystem,
    LocalFileSystem,
    filesystem_for,
    local_path,
    path_string,
)
from ....sdk.errors import SnapshotError, UnsupportedError
from ....sdk.process.working_directory import absolute
from ..serialization.trust import why_untrusted

T = TypeVar("T")
R = TypeVar("R")

# A file's content, whole or in chunks.
Content: TypeAlias = bytes | Iterable[bytes]

# Syncs the content, and the metadata only if the file's length has changed.
_sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)

# Suffix of the name of a file that is not written completely.
UNFINISHED = ".unfinished"

# The requests to a store of objects at the same time.
_REQUESTS = 8

# The bytes of a file that are copied at a time.
_PIECE = 1 << 20

# The errors of a link that can't be made.
_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS, errno.EACCES})


class Disk(ABC):
    """Storage that survives a crash of the process and of the machine.

    Instances hold no open files and can be pickled.  Several processes may use one at the same time.

    Attributes:
      late_writes: whether a failed write may take effect later, as a request that timed out may.
      can_append: whether a file can be written to in place; otherwise files are only written whole.
    """

    late_writes = False
    can_append = True

    @abstractmethod
    def write_atomically(self, path: str, content: Content) -> None:
        """Create or replace a file: after a crash it has its old content or the new one.

        Once this has returned, the file survives a power failure.  If this raises, or if iterating over the content
        raises, the file is unchanged.  Only an `OSError` of the last step (syncing the directory) may leave the new
        file.
        """

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        """Overwrite a file from an offset on, extending it as needed.

        Once this has returned, the content survives a power failure.  If this raises, or if the process dies, any part
        of the content may be in the file.  Raises `FileNotFoundError` for a missing file, and `UnsupportedError` where
        files are only written whole.
        """
        raise UnsupportedError(f"{path}: this file system can't append to files; use a directory of a local disk")

    def write_soon(self, path: str, offset: int, content: bytes) -> None:
        """Overwrite a file from an offset on, as `write_at`, without waiting for the disk.

        Once this has returned, other processes read the content, and it survives the death of this process.  After a
        power failure each aligned block of 64 bytes has its old content or the new one.
        """
        raise UnsupportedError(f"{path}: this file system can't append to files; use a directory of a local disk")

    def take_in(self, source: str, path: str) -> None:
        """Create a file from a finished file of the local disk, atomically."""
        with open(source, "rb") as file:
            self.write_atomically(path, iter(lambda: file.read(_PIECE), b""))

    def give_out(self, path: str, target: str, is_shared: bool = False) -> None:
        """Create a file of the local disk with the content of one of this.

        Args:
          is_shared: whether both files are read-only from now on; then they may share their content on the disk.

        Raises `FileNotFoundError` for a missing file.
        """
        with self.open(path) as file, open(target, "xb") as copy:
            shutil.copyfileobj(file, copy, _PIECE)

    @abstractmethod
    def open(self, path: str) -> BinaryIO:
        """Open a file to read bytes from, in order.  Raises `FileNotFoundError` for a missing file."""

    def read(self, path: str) -> bytes:
        """Return the content of a file.  Raises `FileNotFoundError` for a missing file."""
        with self.open(path) as file:
            return file.read()

    @abstractmethod
    def list(self, directory: str) -> list[str]:
        """Return the sorted names of the files in a directory, unfinished ones included; of a missing one, none.

        Files that any process had written before the call are included.
        """

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Return whether there is a file of this name."""

    @abstractmethod
    def remove(self, *paths: str) -> None:
        """Remove files, if they exist.  Once this has returned, they stay removed after a crash."""

    def sync(self, directory: str) -> None:
        """Make the names in a directory durable, including those of writes whose last step failed.

        On an object store every listed object is durable.
        """

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Make a directory and its parents, accessible to this user only.  An existing directory is left as it is.

        Raises `SnapshotError` if there is something else of that name.
        """

    @abstractmethod
    def why_untrusted(self, path: str) -> str | None:
        """Return the reason why another user may write this file, or create files in this directory.

        None if no other user can, or if that is unknown: on an object store the bucket's policy decides.
        """


class _FileSystemDisk(Disk):
    """A disk that reads and lists files through a file system of `io`."""

    files: ClassVar[FileSystem]

    def open(self, path: str) -> BinaryIO:
        return self.files.open(path)

    def list(self, directory: str) -> list[str]:
        return self.files.list_files(directory)

    def exists(self, path: str) -> bool:
        return self.files.is_file(path)


class LocalDisk(_FileSystemDisk):
    """The local disk.  A file is written under another name, synced and renamed; then its directory is synced.

    Files and directories are accessible to their owner only (0600, 0700).
    """

    files = LocalFileSystem()

    def write_atomically(self, path: str, content: Content) -> None:
        path = local_path(path)
        # Two processes may write the same file at the same time.
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
        self.files.sync_directory(os.path.dirname(path))

    def take_in(self, source: str, path: str) -> None:
        if not _link(source, local_path(path)):
            super().take_in(source, path)
            return
        descriptor = os.open(source, os.O_RDONLY)
        try:
            os.fchmod(descriptor, 0o600)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.files.sync_directory(os.path.dirname(local_path(path)))

    def give_out(self, path: str, target: str, is_shared: bool = False) -> None:
        if not is_shared or not _link(local_path(path), target):
            super().give_out(path, target)

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        descriptor = os.open(local_path(path), os.O_WRONLY)
        try:
            _write_at(descriptor, offset, content)
            _sync_data(descriptor)
        finally:
            os.close(descriptor)

    def write_soon(self, path: str, offset: int, content: bytes) -> None:
        descriptor = os.open(local_path(path), os.O_WRONLY)
        try:
            _write_at(descriptor, offset, content)
        finally:
            os.close(descriptor)

    def remove(self, *paths: str) -> None:
        changed: dict[str, None] = {}
        for path in map(local_path, paths):
            if _unlink(path):
                changed[os.path.dirname(path)] = None
        for directory in changed:
            self.files.sync_directory(directory)

    def sync(self, directory: str) -> None:
        self.files.sync_directory(local_path(directory))

    def make_directory(self, path: str) -> None:
        path = local_path(path).rstrip("/") or "/"
        if os.path.isdir(path):
            return
        absolute(path)
        parent = os.path.dirname(path)
        if parent:
            self.make_directory(parent)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise _no_directory(path) from None
        self.files.sync_directory(parent)

    def why_untrusted(self, path: str) -> str | None:
        return why_untrusted(local_path(path))


class FsspecDisk(_FileSystemDisk):
    """Storage of fsspec's protocols: `s3://`, `gs://`, `memory://`.

    An object store puts an object atomically, and lists it from then on: nothing else is required of it.  Where a put
    isn't atomic (`sftp://`), a crash leaves part of a file, which its checksum detects.
    """

    late_writes = True
    can_append = False
    files: ClassVar[FsspecFileSystem] = FsspecFileSystem(SnapshotError)

    def write_atomically(self, path: str, content: Content) -> None:
        fs, stripped = self.files.resolve(path)
        if isinstance(content, bytes):
            fs.pipe_file(stripped, content)
            return
        # Closing an upload completes it, also after an error.  So the upload starts once the content is complete.
        with tempfile.NamedTemporaryFile() as complete:
            complete.writelines(content)
            complete.flush()
            fs.put_file(complete.name, stripped)

    def take_in(self, source: str, path: str) -> None:
        fs, stripped = self.files.resolve(path)
        fs.put_file(source, stripped)

    def give_out(self, path: str, target: str, is_shared: bool = False) -> None:
        fs, stripped = self.files.resolve(path)
        fs.get_file(stripped, target)

    def remove(self, *paths: str) -> None:
        for path in paths:
            fs, stripped = self.files.resolve(path)
            try:
                fs.rm_file(stripped)
            except FileNotFoundError:
                pass

    def make_directory(self, path: str) -> None:
        fs, stripped = self.files.resolve(path)
        fs.makedirs(stripped, exist_ok=True)

    def why_untrusted(self, path: str) -> str | None:
        fs, stripped = self.files.resolve(path)
        # Unwrap a cache, or a subdirectory of another file system.
        while hasattr(fs, "fs"):
            fs = fs.fs
        is_local = "local" in ([fs.protocol] if isinstance(fs.protocol, str) else fs.protocol)
        return why_untrusted(stripped) if is_local else None


def disk_of(path: AnyPath) -> Disk:
    """Return the disk of a path.

    >>> type(disk_of("/var/checkpoints")).__name__, type(disk_of("s3://bucket/checkpoints")).__name__
    ('LocalDisk', 'FsspecDisk')
    """
    return LocalDisk() if isinstance(filesystem_for(path_string(path)), LocalFileSystem) else FsspecDisk()


def side_by_side(disk: Disk, act: Callable[[T], R], things: Sequence[T]) -> list[R]:
    """Return the results of a function for each of several files; at the same time where each is a request."""
    if not disk.late_writes or len(things) < 2:
        return list(map(act, things))
    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="penstock files") as threads:
        return list(threads.map(act, things))


def _write_at(descriptor: int, offset: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


def _link(source: str, target: str) -> bool:
    """Link a file under another name; return False where file systems differ, or have no links, or no more of them."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in _NO_LINK:
            return False
        raise
    return True


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def _no_directory(path: str) -> SnapshotError:
    """Return the error for a path that exists and is no directory."""
    if not os.path.islink(path):
        return SnapshotError(f"{path!r} is a file; expected a directory. Remove the file, or give another directory")
    target = os.readlink(path)
    return SnapshotError(
        f"{path!r} is a symbolic link to {target!r}, which is no directory; expected a directory. Create the directory "
        f"{target!r}, or remove the link"
    )
