"""FileSystem: Beam's interface of a file system, which users implement, and the local disk and fsspec under it."""

from __future__ import annotations

import glob
import inspect
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO

from ...frozen import frozen
from ...io.files import filesystem as own
from ...io.files.compression import CompressionTypes, open_for_reading, open_for_writing
from ...io.files.filesystem import FileMetadata, has_wildcard, local_path, split_path
from ...sdk.process.working_directory import absolute
from ...sdk.redaction import redacted


class BeamIOError(OSError):
    """Operations on files that failed.

    Attributes:
      exception_details: the errors by path, or by pair of paths; None if one operation failed as a whole.
    """

    def __init__(self, msg: str, exception_details: Mapping[Any, Exception] | None = None) -> None:
        super().__init__(redacted(f"{msg} with exceptions {exception_details}"))
        self.exception_details = exception_details


# The bytes that Beam reads at once.
DEFAULT_READ_BUFFER_SIZE = 16 << 20


@frozen
class MatchResult:
    """The files that match one pattern.

    Attributes:
      pattern: the pattern.
      metadata_list: the files, sorted by path.
    """

    pattern: str
    metadata_list: list[FileMetadata]


class FileSystem(ABC):
    """Operations on the files whose paths begin with `scheme()` and `://`.

    Once a subclass is defined, `FileSystems` and every transform that reads or writes files uses it for its paths.  Its
    methods get whole paths, with the scheme.  Operations on lists raise one `BeamIOError` for all paths that failed.

    Args:
      pipeline_options: the options of the program.
    """

    CHUNK_SIZE = 1

    def __init__(self, pipeline_options: Any) -> None:
        """Accept the options, for subclasses."""

    @classmethod
    def scheme(cls) -> str | None:
        """Return the scheme of the paths, such as `s3`; None for paths without one."""
        raise NotImplementedError(f"{cls.__name__}.scheme")

    @abstractmethod
    def join(self, basepath: str, *paths: str) -> str:
        """Return the path of names below a directory."""

    @abstractmethod
    def split(self, path: str) -> tuple[str, str]:
        """Return the directory and the name of a path."""

    @abstractmethod
    def mkdirs(self, path: str) -> None:
        """Make a directory and its parents.  Raises `OSError` if it exists already."""

    @abstractmethod
    def has_dirs(self) -> bool:
        """Return whether there are directories; not in an object store, whose paths are names with slashes."""

    @abstractmethod
    def _list(self, dir_or_prefix: str) -> Iterable[FileMetadata]:
        """Return the files below a directory, or of an object store, those whose paths begin like this."""

    @abstractmethod
    def create(
        self, path: str, mime_type: str = "application/octet-stream", compression_type: str = CompressionTypes.AUTO
    ) -> BinaryIO:
        """Create a file, and open it to write bytes, which are compressed."""

    @abstractmethod
    def open(
        self, path: str, mime_type: str = "application/octet-stream", compression_type: str = CompressionTypes.AUTO
    ) -> BinaryIO:
        """Open a file to read bytes, which are decompressed."""

    @abstractmethod
    def copy(self, source_file_names: Sequence[str], destination_file_names: Sequence[str]) -> None:
        """Copy files, and directories with their content."""

    @abstractmethod
    def rename(self, source_file_names: Sequence[str], destination_file_names: Sequence[str]) -> None:
        """Rename files."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Return whether there is a file or a directory of this name."""

    @abstractmethod
    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""

    @abstractmethod
    def last_updated(self, path: str) -> float:
        """Return the time of the last change of a file, in seconds since 1970."""

    def checksum(self, path: str) -> str:
        """Return what changes when a file changes."""
        raise NotImplementedError(f"{type(self).__name__}.checksum")

    @abstractmethod
    def metadata(self, path: str) -> FileMetadata:
        """Return the size and the time of the last change of a file.  Raises `BeamIOError` if there is none."""

    @abstractmethod
    def delete(self, paths: Sequence[str]) -> None:
        """Remove the files that match the patterns, and directories with their content."""

    def report_lineage(self, path: str, unused_lineage: Any) -> None:
        """Do nothing: no runner of penstock records lineage."""

    def match(self, patterns: Sequence[str], limits: Sequence[int | None] | None = None) -> list[MatchResult]:
        """Return the files that match each pattern; one that ends with a slash stands for all that it holds.

        Args:
          patterns: paths with the wildcards of `translate_pattern`.
          limits: the largest number of files for each pattern; None for all.
        """
        limits = [None] * len(patterns) if limits is None else limits
        if len(limits) != len(patterns):
            raise BeamIOError(f"match: expected a limit for each of {len(patterns)} patterns, got {len(limits)}")
        results, failed = [], {}
        for pattern, limit in zip(patterns, limits, strict=True):
            try:
                results.append(MatchResult(pattern, list(islice(self._matching(pattern), limit))))
            except Exception as error:
                failed[pattern] = error
        if failed:
            raise BeamIOError("Match operation failed", failed)
        return results

    def match_files(self, file_metas: Iterable[FileMetadata], pattern: str) -> Iterator[FileMetadata]:
        """Yield those of the files whose paths match a pattern."""
        matches = re.compile(self.translate_pattern(pattern)).match
        return (each for each in file_metas if matches(each.path))

    @staticmethod
    def translate_pattern(pattern: str) -> str:
        r"""Return a pattern as a regular expression.

        `*` stands for any characters except slashes, `**` for any characters, `?` for one, `[...]` for one of a set.

        >>> FileSystem.translate_pattern("logs/[!a]*")
        '(?ms)logs/[^a][^/\\\\]*\\Z'
        """
        return rf"(?ms){_WILDCARD.sub(_translated, pattern)}\Z"

    def _matching(self, pattern: str) -> Iterable[FileMetadata]:
        if pattern.endswith(("/", "\\")):
            pattern += "*"
        fixed = re.split(r"[\[*?]", pattern, maxsplit=1)[0]
        if fixed == pattern:
            return [self.metadata(pattern)] if self.exists(pattern) else []
        return self.match_files(self._list(self._url_dirname(fixed) if self.has_dirs() else fixed), pattern)

    def _url_dirname(self, url_or_path: str) -> str:
        """Return the directory of a path: up to the last slash, without the scheme at least the root."""
        scheme, path = self._split_scheme(url_or_path)
        return self._combine_scheme(scheme, os.path.dirname(path))

    @staticmethod
    def _split_scheme(url_or_path: str) -> tuple[str | None, str]:
        scheme, separator, path = url_or_path.partition("://")
        return (scheme, path) if separator else (None, url_or_path)

    @staticmethod
    def _combine_scheme(scheme: str | None, path: str) -> str:
        return path if scheme is None else f"{scheme}://{path}"


_WILDCARD = re.compile(r"\*\*|\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


def _translated(part: re.Match[str]) -> str:
    text = part.group()
    if len(text) > 2 and text[0] == "[":
        content = text[1:-1].replace("\\", "\\\\")
        if content[0] in "!^":
            content = ("^" if content[0] == "!" else "\\^") + content[1:]
        return f"[{content}]"
    return {"**": ".*", "*": r"[^/\\]*", "?": "."}.get(text) or re.escape(text)


class OwnFileSystem(FileSystem):
    """A file system of penstock in Beam's interface."""

    _files: own.FileSystem

    def has_dirs(self) -> bool:
        return True

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *(path.strip("/") for path in paths[:-1]), *paths[-1:]])

    def split(self, path: str) -> tuple[str, str]:
        return split_path(path)

    def mkdirs(self, path: str) -> None:
        self._files.mkdirs(path)

    def _list(self, dir_or_prefix: str) -> Iterable[FileMetadata]:
        return self._files.match(own.join_path(dir_or_prefix, "**"))

    def _matching(self, pattern: str) -> Iterable[FileMetadata]:
        if pattern.endswith("/"):
            pattern += "*"
        if not has_wildcard(pattern) and self._files.is_directory(pattern):
            return [self._directory(pattern)]
        return self._files.match(pattern)

    def _directory(self, path: str) -> FileMetadata:
        return FileMetadata(path, 0)

    def create(
        self, path: str, mime_type: str = "application/octet-stream", compression_type: str = CompressionTypes.AUTO
    ) -> BinaryIO:
        return open_for_writing(path, compression_type)

    def open(
        self, path: str, mime_type: str = "application/octet-stream", compression_type: str = CompressionTypes.AUTO
    ) -> BinaryIO:
        return open_for_reading(path, compression_type)

    def copy(self, source_file_names: Sequence[str], destination_file_names: Sequence[str]) -> None:
        self._for_pairs("Copy", self._copy, source_file_names, destination_file_names)

    def rename(self, source_file_names: Sequence[str], destination_file_names: Sequence[str]) -> None:
        self._for_pairs("Rename", self._files.rename, source_file_names, destination_file_names)

    def _copy(self, source: str, destination: str) -> None:
        files = self._files
        if files.real_path(source) == files.real_path(destination):
            raise ValueError(f"{source!r} and {destination!r} are the same file")
        if files.is_directory(source) or files.is_directory(destination):
            files.delete(destination)
        files.copy(source, destination)

    def _for_pairs(
        self, name: str, operation: Callable[[str, str], None], sources: Sequence[str], destinations: Sequence[str]
    ) -> None:
        check_pairs(name, sources, destinations)
        failed: dict[Any, Exception] = {}
        for source, destination in zip(sources, destinations, strict=True):
            try:
                if not self._files.exists(source):
                    raise FileNotFoundError(f"there is no file {source!r}")
                operation(source, destination)
            except Exception as error:
                failed[source, destination] = error
        if failed:
            raise BeamIOError(f"{name} operation failed", failed)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def metadata(self, path: str) -> FileMetadata:
        for found in self._matching(path):
            return found
        raise BeamIOError(f"Path does not exist: {path}")

    def size(self, path: str) -> int:
        return self.metadata(path).size_in_bytes

    def last_updated(self, path: str) -> float:
        return self.metadata(path).last_updated_in_seconds

    def checksum(self, path: str) -> str:
        """Return the size of a local file, else fsspec's checksum."""
        self.metadata(path)
        return self._files.checksum(path)

    def delete(self, paths: Sequence[str]) -> None:
        if isinstance(paths, str):
            raise BeamIOError(f"Delete passed string argument instead of list: {paths}")
        failed: dict[Any, Exception] = {}
        for pattern in paths:
            found = list(self._deletable(pattern))
            if not found:
                failed[pattern] = FileNotFoundError(f"No files found to delete under: {pattern}")
            for path in found:
                try:
                    self._files.delete(path)
                except Exception as error:
                    failed[path] = error
        if failed:
            raise BeamIOError("Delete operation failed", failed)

    def _deletable(self, pattern: str) -> Iterable[str]:
        return (found.path for found in self._matching(pattern))


class LocalFileSystem(OwnFileSystem):
    """The local disk.  The directories of a created file are made, too.

    >>> LocalFileSystem(None).join("out", "a.txt"), LocalFileSystem.scheme()
    ('out/a.txt', None)
    """

    _files = own.filesystem_for("/")

    @classmethod
    def scheme(cls) -> None:
        return None

    def join(self, basepath: str, *paths: str) -> str:
        return os.path.join(basepath, *paths)

    def split(self, path: str) -> tuple[str, str]:
        return os.path.split(os.path.normpath(absolute(path)))

    def mkdirs(self, path: str) -> None:
        if self.exists(path):
            raise BeamIOError(f"mkdirs: {path!r} exists already")
        super().mkdirs(path)

    def create(
        self, path: str, mime_type: str = "application/octet-stream", compression_type: str = CompressionTypes.AUTO
    ) -> BinaryIO:
        self._files.mkdirs(split_path(path)[0])
        return super().create(path, mime_type, compression_type)

    def _deletable(self, pattern: str) -> Iterable[str]:
        return sorted(glob.glob(local_path(pattern))) if has_wildcard(pattern) else super()._deletable(pattern)

    def _directory(self, path: str) -> FileMetadata:
        status = os.stat(local_path(path))
        return FileMetadata(path, status.st_size, status.st_mtime)


class FsspecFileSystem(OwnFileSystem):
    """The file systems of fsspec, for paths with a protocol."""

    _files = own.FsspecFileSystem()


class GCSFileSystem(FsspecFileSystem):
    """Google Cloud Storage, for paths such as `gs://lake/sales.csv`.

    >>> GCSFileSystem(None).split("gs://lake/sales/2026.csv"), GCSFileSystem.scheme()
    (('gs://lake/sales', '2026.csv'), 'gs')
    """

    GCS_PREFIX = "gs://"

    @classmethod
    def scheme(cls) -> str:
        return "gs"

    def has_dirs(self) -> bool:
        return False


def check_pairs(name: str, sources: Sequence[str], destinations: Sequence[str]) -> None:
    """Raise `BeamIOError` unless there are as many destinations as sources."""
    if len(sources) != len(destinations):
        raise BeamIOError(f"{name}: expected as many destinations as sources, got {len(sources)}, {len(destinations)}")


_LOCAL = LocalFileSystem(None)
_FSSPEC = FsspecFileSystem(None)
# What `FileSystems.set_options` was given, and the file systems that have been made with it, by class.
_options: list[Any] = []
_made: dict[type[FileSystem], FileSystem] = {}


def set_options(options: Any) -> None:
    """Make the file systems of users anew, with these options."""
    _options[:] = [options]
    _made.clear()


def file_system_for(path: str) -> FileSystem:
    """Return the file system for a path.  Raises `ValueError` for a scheme that isn't known."""
    scheme = own.protocol_of(path.strip())
    if scheme in (None, "file"):
        return _LOCAL
    assert scheme is not None
    found = _of_users(scheme)
    if found is None:
        from fsspec import available_protocols

        if scheme not in available_protocols() and not path.startswith(f"{scheme}::"):
            raise ValueError(
                f"Unable to get filesystem from specified path, please use the correct path or ensure that the "
                f"required dependency is installed. Path specified: {path}; expected a local path, a protocol of "
                f"fsspec, or the scheme of a subclass of FileSystem"
            )
        return _FSSPEC
    return found


def _of_users(scheme: str) -> FileSystem | None:
    """Return the file system of the latest subclass with this scheme; None if there is none."""
    found: type[FileSystem] | None = None
    classes: list[type[Any]] = [FileSystem]
    for cls in classes:
        classes += cls.__subclasses__()
        if cls.__module__ != __name__ and not inspect.isabstract(cls) and cls.scheme() == scheme:
            found = cls
    if found is None:
        return None
    if found not in _made:
        from ...sdk.options import PipelineOptions

        _made[found] = found(_options[0] if _options else PipelineOptions())
    return _made[found]


class _FilesOfUsers(own.FileSystem):
    """A file system of a user in the interface of penstock."""

    def __init__(self, system: FileSystem) -> None:
        self._system = system

    def match(self, pattern: str) -> list[FileMetadata]:
        found = self._system.match([pattern])[0].metadata_list
        return sorted((each for each in found if not own.is_staged(each.path, pattern)), key=lambda each: each.path)

    def open(self, path: str) -> BinaryIO:
        return self._system.open(path, compression_type=CompressionTypes.UNCOMPRESSED)

    def create(self, path: str) -> BinaryIO:
        return self._system.create(path, compression_type=CompressionTypes.UNCOMPRESSED)

    def exists(self, path: str) -> bool:
        return self._system.exists(path) or self.is_directory(path)

    def is_file(self, path: str) -> bool:
        return self._system.exists(path) and not self.is_directory(path)

    def is_directory(self, path: str) -> bool:
        # Beam's interface doesn't tell directories, and an object store has none.
        return bool(self._below(path, 1))

    def _below(self, directory: str, limit: int | None = None) -> list[FileMetadata]:
        return self._system.match([own.join_path(directory, "**")], [limit])[0].metadata_list

    def list_files(self, directory: str) -> list[str]:
        found = self._system.match([own.join_path(directory, "*")])[0].metadata_list
        return sorted(split_path(each.path)[1] for each in found)

    def size(self, path: str) -> int:
        return self._system.size(path)

    def mkdirs(self, path: str) -> None:
        if self._system.has_dirs() and not self._system.exists(path):
            self._system.mkdirs(path)

    def rename(self, source: str, destination: str) -> None:
        if self._system.exists(destination):
            self._system.delete([destination])
        self._system.rename([source], [destination])

    def copy(self, source: str, destination: str) -> None:
        self._system.copy([source], [destination])

    def checksum(self, path: str) -> str:
        return self._system.checksum(path)

    def delete(self, path: str) -> None:
        if not self._system.has_dirs() and (below := self._below(path)):
            self._system.delete([each.path for each in below])
        if self._system.exists(path):
            self._system.delete([path])

    def sync(self, path: str) -> None:
        """Do nothing: a closed file is durable."""

    def sync_directory(self, path: str) -> None:
        """Do nothing: a closed file is durable."""


def _files_of_users(scheme: str) -> own.FileSystem | None:
    system = _of_users(scheme)
    if system is None:
        return None
    adapters = vars(system)
    if "_penstock_files" not in adapters:
        adapters["_penstock_files"] = _FilesOfUsers(system)
    files: own.FileSystem = adapters["_penstock_files"]
    return files


own.PROVIDERS.append(_files_of_users)
