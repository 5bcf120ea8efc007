"""File systems: the operations that sources, sinks and checkpoints need, on the local disk and through fsspec.

A plain path (or `file://`) is on the local disk, which `os` reads and writes.  Any other protocol (`s3://`, `gs://`,
`memory://`) goes through fsspec, which is imported on first use.

Paths that contain a staging directory (see `FileSink`) never match a pattern, so a reader sees committed files only.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from ...frozen import frozen
from ...persistence import stored_as
from ...sdk.errors import OptionsError, PenstockError, SourceError, missing_extra
from ...sdk.options.value_provider import ValueProvider, value_of
from ...sdk.process.working_directory import absolute
from ...sdk.redaction import redacted, redacted_cause
from ...sdk.user_code.error_text import text_or_class
from . import object_store

AnyPath: TypeAlias = str | os.PathLike[str] | ValueProvider

# The name of a directory of staged files, which are not committed yet.
STAGING = re.compile(r"(^|/)\.[^/]*\.penstock-[^/]*(/|$)")

# A misspelt protocol is one, too: a local path has no `://` in it.
_PROTOCOL = re.compile(r"^(?:[^/]+?(?=://)|[A-Za-z][A-Za-z0-9+.-]*(?=::))")
_MAGIC = re.compile(r"[*?\[]")


@stored_as("file-metadata", 1)
@frozen
class FileMetadata:
    """A file that matches a pattern.

    Attributes:
      path: the path, with its protocol if the pattern had one.
      size_in_bytes: the size as stored: of a compressed file, the compressed size.
      last_updated_in_seconds: seconds since 1970; 0 if the file system doesn't tell.

    >>> import pathlib, tempfile
    >>> import penstock as beam
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (directory / "a.txt").write_text("one")
    >>> with beam.Pipeline() as p:
    ...     files = p | beam.io.fileio.MatchFiles(str(directory / "*.txt"))
    ...     _ = files | beam.Map(lambda file: print(file.path.endswith("/a.txt"), file.size_in_bytes))
    True 3
    """

    path: str
    size_in_bytes: int
    last_updated_in_seconds: float = 0.0


class EmptyMatchTreatment:
    """Treatment of a pattern that matches nothing.

    >>> EmptyMatchTreatment.allow_empty_match("logs/*.txt", EmptyMatchTreatment.ALLOW_IF_WILDCARD)
    True
    """

    ALLOW = "ALLOW"
    DISALLOW = "DISALLOW"
    ALLOW_IF_WILDCARD = "ALLOW_IF_WILDCARD"

    @staticmethod
    def allow_empty_match(pattern: str, setting: str) -> bool:
        """Return whether this pattern may match nothing.  Raises `ValueError` for an unknown setting."""
        if setting not in ("ALLOW", "DISALLOW", "ALLOW_IF_WILDCARD"):
            raise ValueError(f"empty_match_treatment must be ALLOW, DISALLOW or ALLOW_IF_WILDCARD, got {setting!r}")
        return setting == "ALLOW" or (setting == "ALLOW_IF_WILDCARD" and has_wildcard(pattern))


def has_wildcard(pattern: str) -> bool:
    """Return whether a pattern can match more than one path.

    >>> has_wildcard("logs/*.txt"), has_wildcard("logs/a.txt")
    (True, False)
    """
    return _MAGIC.search(pattern) is not None


class FileSystem(ABC):
    """File operations on whole paths.  They raise the system's `OSError`s."""

    @abstractmethod
    def match(self, pattern: str) -> list[FileMetadata]:
        """Return the files (not directories) that match, sorted by path.

        `*`, `?` and `[...]` stay within one directory, `**` crosses any number.
        """

    @abstractmethod
    def open(self, path: str) -> BinaryIO:
        """Open a seekable file to read bytes from."""

    @abstractmethod
    def create(self, path: str) -> BinaryIO:
        """Create a file, or empty it, and open it to write bytes to."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Return whether there is a file or a directory of this name."""

    @abstractmethod
    def is_file(self, path: str) -> bool:
        """Return whether there is a file of this name.  A file of another process is seen at once."""

    @abstractmethod
    def list_files(self, directory: str) -> list[str]:
        """Return the sorted names of the files in a directory; of a missing one, an empty list.

        Files of other processes are seen at once.
        """

    @abstractmethod
    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""

    @abstractmethod
    def is_directory(self, path: str) -> bool:
        """Return whether there is a directory of this name."""

    def real_path(self, path: str) -> str:
        """Return the path with symbolic links resolved, if the file system has such links."""
        return path

    def check_names(self, directory: str, path: str) -> None:
        """Raise `OSError` if the file system doesn't accept a name in `path`, which is below `directory`."""

    @abstractmethod
    def mkdirs(self, path: str) -> None:
        """Make a directory and its parents, if they don't exist."""

    @abstractmethod
    def rename(self, source: str, destination: str) -> None:
        """Rename a file, replacing the file at the destination.

        Atomic on a local disk.  An object store copies and then deletes: readers see the old object or the new one.
        """

    @abstractmethod
    def copy(self, source: str, destination: str) -> None:
        """Copy a file, replacing the one at the destination, or a directory to a path that doesn't exist."""

    @abstractmethod
    def checksum(self, path: str) -> str:
        """Return what differs after a change of a file, without reading it."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove a file, or a directory with its content, if it exists."""

    @abstractmethod
    def sync(self, path: str) -> None:
        """Sync a closed file to the disk, so that its content survives a power failure."""

    @abstractmethod
    def sync_directory(self, path: str) -> None:
        """Sync a directory to the disk, so that created and removed names survive a power failure."""


def _across_directories(pattern: str) -> re.Pattern[str] | None:
    """Return the expression of a pattern with a `**` beside other characters, as in `**.txt`, or None for others.

    >>> _across_directories("in/**a").fullmatch("in/b/a") is not None, _across_directories("in/**/a")
    (True, None)
    """
    if all(part == "**" or "**" not in part for part in pattern.split("/")):
        return None
    expressions = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*|\*|\?|\[!?\]?[^\]]*\])", pattern)
    return re.compile(
        "".join(
            expressions.get(part) or (_set(part) if part.startswith("[") and part.endswith("]") else re.escape(part))
            for part in parts
        ),
        re.DOTALL,
    )


def _set(part: str) -> str:
    """Return the expression of a set of characters, such as `[!a]`."""
    inverted = part.startswith("[!")
    characters = part[1 + inverted : -1].replace("[", r"\[")
    return f"[{'^' if inverted else ''}{characters}]"


def _above(pattern: str) -> str:
    """Return the directory below which everything is that matches a pattern."""
    return _MAGIC.split(pattern, maxsplit=1)[0].rpartition("/")[0]


def _matching(pattern: str) -> Iterator[str]:
    across = _across_directories(pattern)
    if across is None:
        yield from glob.glob(pattern, recursive=True)
        return
    start = pattern[: len(_above(pattern)) + 1] if "/" in pattern[: len(_above(pattern)) + 1] else ""
    for folder, _, files in os.walk(start or os.curdir):
        for file in files:
            path = os.path.join(folder, file) if start else os.path.normpath(os.path.join(folder, file))
            if across.fullmatch(path):
                yield path


class LocalFileSystem(FileSystem):
    """The local disk."""

    def match(self, pattern: str) -> list[FileMetadata]:
        local = local_path(pattern)
        if os.path.exists(local):
            paths = [local]
        else:
            paths = sorted(path for path in _matching(local) if not is_staged(path, local))
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
        return open(local_path(path), "rb")

    def create(self, path: str) -> BinaryIO:
        return open(local_path(path), "wb")

    def exists(self, path: str) -> bool:
        return os.path.exists(local_path(path))

    def is_file(self, path: str) -> bool:
        try:
            return not stat.S_ISDIR(os.stat(local_path(path)).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def list_files(self, directory: str) -> list[str]:
        try:
            with os.scandir(local_path(directory)) as entries:
                return sorted(entry.name for entry in entries if not entry.is_dir())
        except FileNotFoundError:
            return []

    def size(self, path: str) -> int:
        return os.path.getsize(local_path(path))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(local_path(path))

    def real_path(self, path: str) -> str:
        return os.path.realpath(local_path(path))

    def check_names(self, directory: str, path: str) -> None:
        for name in path.split("/"):
            # The longest name differs between file systems.
            with suppress(FileNotFoundError):
                os.lstat(os.path.join(local_path(directory), name))

    def mkdirs(self, path: str) -> None:
        os.makedirs(local_path(path) or ".", exist_ok=True)

    def rename(self, source: str, destination: str) -> None:
        os.replace(local_path(source), local_path(destination))

    def copy(self, source: str, destination: str) -> None:
        copy: Any = shutil.copytree if self.is_directory(source) else shutil.copy2
        copy(local_path(source), local_path(destination))

    def checksum(self, path: str) -> str:
        return str(self.size(path))

    def delete(self, path: str) -> None:
        local = local_path(path)
        if os.path.isdir(local) and not os.path.islink(local):
            shutil.rmtree(local, ignore_errors=False, onerror=_ignore_missing)
        else:
            Path(local).unlink(missing_ok=True)

    def sync(self, path: str) -> None:
        _fsync(local_path(path), os.O_RDONLY)

    def sync_directory(self, path: str) -> None:
        _fsync(local_path(path) or ".", os.O_RDONLY | os.O_DIRECTORY)


class FsspecFileSystem(FileSystem):
    """File systems of fsspec's protocols.  A file there is durable once it is closed.

    Args:
      error: raised for a protocol that is unknown or whose package isn't installed.
    """

    def __init__(self, error: type[PenstockError] = SourceError) -> None:
        self._error = error

    def resolve(self, path: str) -> tuple[Any, str]:
        """Return fsspec's file system for a path, and the path in it."""
        # fsspec caches its file systems by process, so a forked child gets its own.
        from fsspec.core import url_to_fs

        store = object_store.store_of(path)
        try:
            options = {} if store is None else object_store.options_of(store)
            fs, stripped = url_to_fs(path, **options)
        except ImportError as error:
            if store is not None:
                raise missing_extra(store.package, store.extra, redacted(path)) from error
            raise self._error(f"{path!r} can't be reached: {text_or_class(error)}") from redacted_cause(error)
        except Exception as error:
            if store is not None and object_store.is_of_credentials(error):
                said = f"{text_or_class(error)}{object_store.advice_on(error, store)}"
                raise self._error(f"{redacted(path)} can't be reached: {redacted(said)}") from redacted_cause(error)
            if not isinstance(error, ValueError):
                raise
            raise self._error(f"{path!r} can't be reached: {text_or_class(error)}") from redacted_cause(error)
        return fs if store is None else object_store.ObjectStore(fs, path, store), cast(str, stripped)

    def match(self, pattern: str) -> list[FileMetadata]:
        fs, stripped = self.resolve(pattern)
        protocol = pattern[: pattern.index("://") + 3]
        if fs.isfile(stripped):
            infos = {stripped: fs.info(stripped)}
        else:
            infos = (
                fs.glob(stripped, detail=True)
                if (across := _across_directories(stripped)) is None
                else {
                    path: info
                    for path, info in fs.find(_above(stripped), detail=True).items()
                    if across.fullmatch(path)
                }
            )
        return [
            FileMetadata(protocol + path, info.get("size") or 0, _modified(info))
            for path, info in sorted(infos.items())
            if info.get("type") == "file" and not is_staged(path, stripped)
        ]

    def open(self, path: str) -> BinaryIO:
        fs, stripped = self.resolve(path)
        return cast(BinaryIO, fs.open(stripped, "rb"))

    def create(self, path: str) -> BinaryIO:
        fs, stripped = self.resolve(path)
        return cast(BinaryIO, fs.open(stripped, "wb"))

    def exists(self, path: str) -> bool:
        fs, stripped = self.resolve(path)
        return bool(fs.exists(stripped))

    def is_file(self, path: str) -> bool:
        fs, stripped = self.resolve(path)
        # fsspec caches listings.
        fs.invalidate_cache(split_path(stripped)[0])
        return bool(fs.isfile(stripped))

    def list_files(self, directory: str) -> list[str]:
        fs, stripped = self.resolve(directory)
        fs.invalidate_cache(stripped)
        try:
            found = fs.ls(stripped, detail=True)
        except FileNotFoundError:
            return []
        names = (split_path(info["name"])[1] for info in found if info["type"] == "file")
        return sorted(name for name in names if name)

    def size(self, path: str) -> int:
        fs, stripped = self.resolve(path)
        return int(fs.size(stripped))

    def is_directory(self, path: str) -> bool:
        fs, stripped = self.resolve(path)
        return bool(fs.isdir(stripped))

    def mkdirs(self, path: str) -> None:
        fs, stripped = self.resolve(path)
        fs.makedirs(stripped, exist_ok=True)

    def rename(self, source: str, destination: str) -> None:
        fs, stripped = self.resolve(source)
        target = self.resolve(destination)[1]
        if isinstance(fs, object_store.ObjectStore) or has_wildcard(stripped):
            # A client sends a request again when its answer is lost: of these two, each may be repeated, a move may
            # not.  And `mv` takes names for patterns.
            fs.cp_file(stripped, target)
            with suppress(FileNotFoundError):
                fs.rm_file(stripped)
        else:
            fs.mv(stripped, target)

    def copy(self, source: str, destination: str) -> None:
        fs, stripped = self.resolve(source)
        target = self.resolve(destination)[1]
        if fs.isdir(stripped):
            fs.copy(glob.escape(stripped), target, recursive=True)
        else:
            fs.cp_file(stripped, target)

    def checksum(self, path: str) -> str:
        fs, stripped = self.resolve(path)
        return str(fs.checksum(stripped))

    def delete(self, path: str) -> None:
        fs, stripped = self.resolve(path)
        if fs.isfile(stripped):
            fs.rm_file(stripped)
        elif fs.exists(stripped):
            # `rm` takes patterns.
            fs.rm(glob.escape(stripped), recursive=True)

    def sync(self, path: str) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass


_LOCAL = LocalFileSystem()
_REMOTE = FsspecFileSystem()

# Each returns the file system of a protocol, or None.  They are asked before fsspec.
PROVIDERS: list[Callable[[str], FileSystem | None]] = []


def filesystem_for(path: str) -> FileSystem:
    """Return the file system of a path.

    >>> type(filesystem_for("/tmp/lines.txt")).__name__, type(filesystem_for("s3://bucket/lines.txt")).__name__
    ('LocalFileSystem', 'FsspecFileSystem')
    """
    protocol = protocol_of(path)
    if protocol in (None, "file"):
        return _LOCAL
    assert protocol is not None
    return next((found for provider in PROVIDERS if (found := provider(protocol)) is not None), _REMOTE)


def protocol_of(path: str) -> str | None:
    """Return the protocol of a path; None for a path without one."""
    protocol = _PROTOCOL.match(path)
    return None if protocol is None else protocol.group()


def split_path(path: str) -> tuple[str, str]:
    """Return the directory and the name of a path.  The directory keeps its protocol and its root.

    >>> split_path("out/a.txt"), split_path("a.txt"), split_path("/a"), split_path("s3://bucket/a")
    (('out', 'a.txt'), ('', 'a.txt'), ('/', 'a'), ('s3://bucket', 'a'))
    """
    directory, slash, name = path.rpartition("/")
    return (slash if slash and not directory else directory), name


def join_path(directory: str, name: str) -> str:
    """Return the path of a name in a directory.

    >>> join_path("out", "a"), join_path("", "a"), join_path("/", "a")
    ('out/a', 'a', '/a')
    """
    return directory + name if not directory or directory.endswith("/") else f"{directory}/{name}"


def path_string(path: AnyPath) -> str:
    """Return a path as a string, the value of a `ValueProvider` too.

    Raises `TypeError` for a value that is no path, and `OptionsError` for an option without a value.
    """
    given = value_of(path)
    if given is None and path is not None:
        raise OptionsError(f"{path}: it has no value; give the option, or declare it with a default")
    plain = os.fspath(given)
    if not isinstance(plain, str):
        raise TypeError(f"a path must be a str or a Path, got {path!r}")
    return plain


def absolute_path(path: AnyPath) -> str:
    """Return a path that is the same in every process: absolute on a local disk; a URL is unchanged.

    Raises `WorkingDirectoryError` for a relative path whose directory was deleted.

    >>> absolute_path("s3://bucket/out"), absolute_path("/out/")
    ('s3://bucket/out', '/out/')
    """
    plain = path_string(path)
    return plain if "://" in plain or not plain else absolute(plain)


def local_path(path: str) -> str:
    """Return a path on the local disk without its protocol."""
    return path[7:] if path.startswith("file://") else path


def is_staged(path: str, pattern: str) -> bool:
    """Return whether a path is in a staging directory, which the pattern doesn't name."""
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


def _modified(info: dict[str, Any]) -> float:
    for name in ("mtime", "LastModified", "last_modified", "updated", "modified", "created"):
        moment = info.get(name)
        if isinstance(moment, (int, float)):
            return float(moment)
        if hasattr(moment, "timestamp"):
            return float(cast(Any, moment).timestamp())
    return 0.0
