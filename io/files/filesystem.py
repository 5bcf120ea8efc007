"""Files, wherever they are: the few operations that sources and sinks need.

A plain path (or `file://`) is the local disk, through `os` alone.  Anything with another
protocol (`s3://`, `gs://`, `memory://`) goes through fsspec, which is imported only then.

Paths that contain a staging directory (see `FileSink`) never match a pattern, so
a reader can't see what a writer has not committed.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

import attrs

from ...sdk.errors import SourceError
from ...sdk.redaction import redacted_cause
from ...stored import stored_as

AnyPath: TypeAlias = str | os.PathLike[str]

# The name of a directory that holds what is staged and not yet committed.
STAGING = re.compile(r"(^|/)\.[^/]*\.penstock-[^/]*(/|$)")

_PROTOCOL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*(?=://|::)")
_MAGIC = re.compile(r"[*?\[]")


@stored_as("file-metadata", 1)
@attrs.frozen
class FileMetadata:
    """What matching a pattern tells of a file.

    Attributes:
      path: the path, with its protocol if the pattern had one.
      size_in_bytes: the size as stored, so compressed where the file is.
      last_updated_in_seconds: seconds since 1970, or 0 where it isn't known.
    """

    path: str
    size_in_bytes: int
    last_updated_in_seconds: float = 0.0


class EmptyMatchTreatment:
    """What to do with a pattern that matches nothing.

    >>> EmptyMatchTreatment.allow_empty_match("logs/*.txt", EmptyMatchTreatment.ALLOW_IF_WILDCARD)
    True
    """

    ALLOW = "ALLOW"
    DISALLOW = "DISALLOW"
    ALLOW_IF_WILDCARD = "ALLOW_IF_WILDCARD"

    @staticmethod
    def allow_empty_match(pattern: str, setting: str) -> bool:
        """Whether this pattern may match nothing; `ValueError` for an unknown setting."""
        if setting not in ("ALLOW", "DISALLOW", "ALLOW_IF_WILDCARD"):
            raise ValueError(f"empty_match_treatment must be ALLOW, DISALLOW or ALLOW_IF_WILDCARD, got {setting!r}")
        return setting == "ALLOW" or (setting == "ALLOW_IF_WILDCARD" and has_wildcard(pattern))


def has_wildcard(pattern: str) -> bool:
    """Whether a pattern can match more than one path.

    >>> has_wildcard("logs/*.txt"), has_wildcard("logs/a.txt")
    (True, False)
    """
    return _MAGIC.search(pattern) is not None


class FileSystem(ABC):
    """The operations, on whole paths.  They raise `OSError` where the system does."""

    @abstractmethod
    def match(self, pattern: str) -> list[FileMetadata]:
        """The files (not directories) that match, sorted by path.

        `*`, `?` and `[...]` stay within one directory, `**` crosses any number.
        """

    @abstractmethod
    def open(self, path: str) -> BinaryIO:
        """A seekable file to read bytes from."""

    @abstractmethod
    def create(self, path: str) -> BinaryIO:
        """A new file, or an emptied one, to write bytes to."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory of this name."""

    @abstractmethod
    def size(self, path: str) -> int:
        """The size of a file in bytes."""

    @abstractmethod
    def is_directory(self, path: str) -> bool:
        """Whether there is a directory of this name."""

    def real_path(self, path: str) -> str:
        """The path without symbolic links, where the file system has such."""
        return path

    def check_names(self, directory: str, path: str) -> None:
        """Raise `OSError` if a name in `path`, which is below `directory`, is none that the file system can give."""

    @abstractmethod
    def mkdirs(self, path: str) -> None:
        """Make a directory and those above it; fine if it is there already."""

    @abstractmethod
    def rename(self, source: str, destination: str) -> None:
        """Give a file another name, replacing a file that has it.

        Atomic on a local disk.  An object store copies and then deletes: readers see the
        old object or the whole new one.
        """

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove a file, or a directory and everything in it; fine if it isn't there."""

    @abstractmethod
    def sync(self, path: str) -> None:
        """Make the content of a closed file survive a power failure."""

    @abstractmethod
    def sync_directory(self, path: str) -> None:
        """Make names given and removed in a directory survive a power failure."""


class LocalFileSystem(FileSystem):
    """The local disk."""

    def match(self, pattern: str) -> list[FileMetadata]:
        local = _local(pattern)
        if os.path.exists(local):
            paths = [local]
        else:
            paths = sorted(path for path in glob.glob(local, recursive=True) if not _is_staged(path, local))
        prefix = pattern[: len(pattern) - len(local)]
        found = []
        for path in paths:
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue
            if not os.path.isdir(path):
                found.append(FileMetadata(prefix + path, status.st_size, status.st_mtime))
        return found

    def open(self, path: str) -> BinaryIO:
        return open(_local(path), "rb")

    def create(self, path: str) -> BinaryIO:
        return open(_local(path), "wb")

    def exists(self, path: str) -> bool:
        return os.path.exists(_local(path))

    def size(self, path: str) -> int:
        return os.path.getsize(_local(path))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(_local(path))

    def real_path(self, path: str) -> str:
        return os.path.realpath(_local(path))

    def check_names(self, directory: str, path: str) -> None:
        for name in path.split("/"):
            # The limit is the file system's: it alone knows how long a name may be.
            with suppress(FileNotFoundError):
                os.lstat(os.path.join(_local(directory), name))

    def mkdirs(self, path: str) -> None:
        os.makedirs(_local(path) or ".", exist_ok=True)

    def rename(self, source: str, destination: str) -> None:
        os.replace(_local(source), _local(destination))

    def delete(self, path: str) -> None:
        local = _local(path)
        if os.path.isdir(local) and not os.path.islink(local):
            shutil.rmtree(local, ignore_errors=False, onerror=_ignore_missing)
        else:
            Path(local).unlink(missing_ok=True)

    def sync(self, path: str) -> None:
        _fsync(_local(path), os.O_RDONLY)

    def sync_directory(self, path: str) -> None:
        _fsync(_local(path) or ".", os.O_RDONLY | os.O_DIRECTORY)


class FsspecFileSystem(FileSystem):
    """Whatever fsspec has a protocol for.  Closing a file there is what makes it durable."""

    def match(self, pattern: str) -> list[FileMetadata]:
        fs, stripped = _fsspec(pattern)
        protocol = pattern[: pattern.index("://") + 3]
        if fs.isfile(stripped):
            infos = {stripped: fs.info(stripped)}
        else:
            infos = fs.glob(stripped, detail=True)
        return [
            FileMetadata(protocol + path, info.get("size") or 0, _modified(info))
            for path, info in sorted(infos.items())
            if info.get("type") == "file" and not _is_staged(path, stripped)
        ]

    def open(self, path: str) -> BinaryIO:
        fs, stripped = _fsspec(path)
        return cast(BinaryIO, fs.open(stripped, "rb"))

    def create(self, path: str) -> BinaryIO:
        fs, stripped = _fsspec(path)
        return cast(BinaryIO, fs.open(stripped, "wb"))

    def exists(self, path: str) -> bool:
        fs, stripped = _fsspec(path)
        return bool(fs.exists(stripped))

    def size(self, path: str) -> int:
        fs, stripped = _fsspec(path)
        return int(fs.size(stripped))

    def is_directory(self, path: str) -> bool:
        fs, stripped = _fsspec(path)
        return bool(fs.isdir(stripped))

    def mkdirs(self, path: str) -> None:
        fs, stripped = _fsspec(path)
        fs.makedirs(stripped, exist_ok=True)

    def rename(self, source: str, destination: str) -> None:
        fs, stripped = _fsspec(source)
        fs.mv(stripped, _fsspec(destination)[1])

    def delete(self, path: str) -> None:
        fs, stripped = _fsspec(path)
        if fs.exists(stripped):
            fs.rm(stripped, recursive=True)

    def sync(self, path: str) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass


_LOCAL = LocalFileSystem()
_REMOTE = FsspecFileSystem()


def filesystem_for(path: str) -> FileSystem:
    """The file system that a path belongs to.

    >>> type(filesystem_for("/tmp/lines.txt")).__name__, type(filesystem_for("s3://bucket/lines.txt")).__name__
    ('LocalFileSystem', 'FsspecFileSystem')
    """
    protocol = _PROTOCOL.match(path)
    return _LOCAL if protocol is None or protocol.group() == "file" else _REMOTE


def split_path(path: str) -> tuple[str, str]:
    """A path as directory and name; the directory keeps a protocol, and a root.

    >>> split_path("out/a.txt"), split_path("a.txt"), split_path("/a"), split_path("s3://bucket/a")
    (('out', 'a.txt'), ('', 'a.txt'), ('/', 'a'), ('s3://bucket', 'a'))
    """
    directory, slash, name = path.rpartition("/")
    return (slash if slash and not directory else directory), name


def join_path(directory: str, name: str) -> str:
    """The path of a name in a directory.

    >>> join_path("out", "a"), join_path("", "a"), join_path("/", "a")
    ('out/a', 'a', '/a')
    """
    return directory + name if not directory or directory.endswith("/") else f"{directory}/{name}"


def path_string(path: AnyPath) -> str:
    """A path as the string it is kept as; `TypeError` for anything that isn't one."""
    plain = os.fspath(path)
    if not isinstance(plain, str):
        raise TypeError(f"a path must be a str or a Path, got {path!r}")
    return plain


def absolute_path(path: AnyPath) -> str:
    """A path that means the same in every process: a local one begins at the root, a URL stays as it is.

    >>> absolute_path("s3://bucket/out"), absolute_path("/out/")
    ('s3://bucket/out', '/out/')
    """
    plain = path_string(path)
    return plain if "://" in plain or not plain else os.path.join(os.getcwd(), plain)


def _local(path: str) -> str:
    return path[7:] if path.startswith("file://") else path


def _is_staged(path: str, pattern: str) -> bool:
    return STAGING.search(path) is not None and STAGING.search(pattern) is None


def _ignore_missing(_function: Any, _path: str, info: Any) -> None:
    if not isinstance(info[1], FileNotFoundError):
        raise info[1]


def _fsync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fsspec(path: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    try:
        fs, stripped = url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise SourceError(f"{path!r} can't be reached: {error}") from redacted_cause(error)
    return fs, cast(str, stripped)


def _modified(info: dict[str, Any]) -> float:
    for name in ("mtime", "LastModified", "last_modified", "updated", "modified", "created"):
        moment = info.get(name)
        if isinstance(moment, (int, float)):
            return float(moment)
        if hasattr(moment, "timestamp"):
            return float(cast(Any, moment).timestamp())
    return 0.0
