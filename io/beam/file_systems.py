"""FileSystems: Beam's operations on files, on the local disk and through fsspec."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO

import attrs

from ...sdk.redaction import redacted
from ..files.compression import (
    CompressionTypes,
    compressed,
    decompressed,
    open_for_reading,
    open_for_writing,
    zstandard_for,
)
from ..files.filesystem import (
    FileMetadata,
    LocalFileSystem,
    filesystem_for,
    has_wildcard,
    local_path,
    protocol_of,
    split_path,
)


class BeamIOError(OSError):
    """Operations on files that failed.

    Attributes:
      exception_details: the errors by path, or by pair of paths; None if one operation failed as a whole.
    """

    def __init__(self, msg: str, exception_details: Mapping[Any, Exception] | None = None) -> None:
        super().__init__(redacted(f"{msg} with exceptions {exception_details}"))
        self.exception_details = exception_details


class CompressedFile:
    """The content of an open file of compressed bytes, to read or, if that file is open for writing, to write.

    It has the methods of a binary file.  Closing it closes the other file.

    >>> import gzip, io
    >>> CompressedFile(io.BytesIO(gzip.compress(b"one"))).read()
    b'one'

    Args:
      fileobj: an open binary file.
      compression_type: one of `CompressionTypes`, except AUTO and UNCOMPRESSED.
      read_size: accepted, without effect.
    """

    def __init__(
        self, fileobj: BinaryIO, compression_type: str = CompressionTypes.GZIP, read_size: int = 16 * 1024 * 1024
    ) -> None:
        if not fileobj:
            raise ValueError("CompressedFile: expected an open file, got None")
        if not CompressionTypes.is_valid_compression_type(compression_type):
            raise TypeError(
                f"CompressedFile: compression_type must be one of CompressionTypes, got {compression_type!r}"
            )
        if compression_type in (CompressionTypes.AUTO, CompressionTypes.UNCOMPRESSED):
            raise ValueError(f"CompressedFile: the compression must be named, got {compression_type!r}")
        zstandard = zstandard_for("CompressedFile") if compression_type == CompressionTypes.ZSTD else None
        mode = getattr(fileobj, "mode", None)
        reads = "r" in mode if isinstance(mode, str) else fileobj.readable()
        self._file = (decompressed if reads else compressed)(fileobj, compression_type, zstandard)

    def __getattr__(self, name: str) -> Any:
        # An unpickled or unfinished object has no file.
        if name == "_file":
            raise AttributeError(name)
        return getattr(self._file, name)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._file)

    def __enter__(self) -> CompressedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@attrs.frozen
class MatchResult:
    """The files that match one pattern.

    Attributes:
      pattern: the pattern.
      metadata_list: the files, sorted by path.
    """

    pattern: str
    metadata_list: list[FileMetadata]


class FileSystems:
    """Operations on files.  Paths are local, or have a protocol of fsspec: `s3://`, `gs://`, `memory://`.

    Failed operations raise `BeamIOError`, an `OSError`.  Operations on lists do what they can, and then raise one error
    for all paths that failed.

    >>> import tempfile
    >>> directory = tempfile.mkdtemp()
    >>> path = FileSystems.join(directory, "new", "lines.txt.gz")
    >>> with FileSystems.create(path) as file:
    ...     _ = file.write(b"one\\n")
    >>> with FileSystems.open(path) as file:
    ...     file.read()
    b'one\\n'
    >>> [result] = FileSystems.match([directory + "/*/*.gz"])
    >>> [metadata.path == path for metadata in result.metadata_list]
    [True]
    """

    @staticmethod
    def set_options(pipeline_options: Any) -> None:
        """Do nothing: fsspec's packages have their settings from the environment."""

    @staticmethod
    def get_scheme(path: str) -> str | None:
        """Return the protocol of a path; None for a local path without one.

        >>> FileSystems.get_scheme("gs://bucket/a"), FileSystems.get_scheme("/tmp/a")
        ('gs', None)
        """
        return protocol_of(path.strip())

    @staticmethod
    def get_filesystem(path: str) -> type[FileSystems]:
        """Return the object with the operations for a path: this class, for each path."""
        return FileSystems

    @staticmethod
    def join(basepath: str, *paths: str) -> str:
        """Return the path of names below a directory."""
        if FileSystems.get_scheme(basepath) is None:
            return os.path.join(basepath, *paths)
        return "/".join([basepath.rstrip("/"), *(path.strip("/") for path in paths[:-1]), *paths[-1:]])

    @staticmethod
    def split(path: str) -> tuple[str, str]:
        """Return the directory and the name of a path.  The directory of a local path is absolute.

        >>> FileSystems.split("gs://bucket/out/a.txt")
        ('gs://bucket/out', 'a.txt')
        """
        return split_path(path) if FileSystems.get_scheme(path) else os.path.split(os.path.abspath(path))

    @staticmethod
    def mkdirs(path: str) -> None:
        """Make a directory and its parents.  Raises `BeamIOError` if a local directory exists already."""
        system = filesystem_for(path)
        if isinstance(system, LocalFileSystem) and system.exists(path):
            raise BeamIOError(f"mkdirs: {path!r} exists already")
        system.mkdirs(path)

    @staticmethod
    def match(patterns: Sequence[str], limits: Sequence[int | None] | None = None) -> list[MatchResult]:
        """Return the files that match each pattern.

        A pattern without wildcards matches a directory as well; one that ends with a slash, what the directory holds.

        Args:
          patterns: paths with `*`, `?`, `[...]` within one directory, and `**` for any number of directories.
          limits: the largest number of files for each pattern; None for all.
        """
        limits = [None] * len(patterns) if limits is None else limits
        if len(limits) != len(patterns):
            raise BeamIOError(f"match: expected a limit for each of {len(patterns)} patterns, got {len(limits)}")
        results, failed = [], {}
        for pattern, limit in zip(patterns, limits, strict=True):
            try:
                results.append(MatchResult(pattern, list(islice(_matching(pattern), limit))))
            except Exception as error:
                failed[pattern] = error
        if failed:
            raise BeamIOError("Match operation failed", failed)
        return results

    @staticmethod
    def create(
        path: str, mime_type: str = "application/octet-stream", compression_type: str = CompressionTypes.AUTO
    ) -> BinaryIO:
        """Create a file and its directories, and open it to write bytes, which are compressed by its extension."""
        system = filesystem_for(path)
        if isinstance(system, LocalFileSystem):
            system.mkdirs(split_path(path)[0])
        return open_for_writing(path, compression_type)

    @staticmethod
    def open(
        path: str, mime_type: str = "application/octet-stream", compression_type: str = CompressionTypes.AUTO
    ) -> BinaryIO:
        """Open a file to read bytes, which are decompressed by its extension."""
        return open_for_reading(path, compression_type)

    @staticmethod
    def copy(source_file_names: Sequence[str], destination_file_names: Sequence[str]) -> None:
        """Copy files, and directories with their content, replacing what exists at the destinations."""
        _for_pairs("Copy", _copied, source_file_names, destination_file_names)

    @staticmethod
    def rename(source_file_names: Sequence[str], destination_file_names: Sequence[str]) -> None:
        """Rename files, replacing the files at the destinations."""
        _for_pairs("Rename", lambda a, b: filesystem_for(a).rename(a, b), source_file_names, destination_file_names)

    @staticmethod
    def exists(path: str) -> bool:
        """Return whether there is a file or a directory of this name."""
        return filesystem_for(path).exists(path)

    @staticmethod
    def metadata(path: str) -> FileMetadata:
        """Return the size and the time of the last change of a file, or of a local directory."""
        for found in _matching(path):
            return found
        raise BeamIOError(f"Path does not exist: {path}")

    @staticmethod
    def size(path: str) -> int:
        """Return the size of a file in bytes."""
        return FileSystems.metadata(path).size_in_bytes

    @staticmethod
    def last_updated(path: str) -> float:
        """Return the time of the last change of a file, in seconds since 1970."""
        return FileSystems.metadata(path).last_updated_in_seconds

    @staticmethod
    def checksum(path: str) -> str:
        """Return what changes when a file changes: the size of a local file, else fsspec's checksum."""
        FileSystems.metadata(path)
        return filesystem_for(path).checksum(path)

    @staticmethod
    def delete(paths: Sequence[str]) -> None:
        """Remove the files that match the patterns, and directories with their content."""
        if isinstance(paths, str):
            raise BeamIOError(f"Delete passed string argument instead of list: {paths}")
        failed: dict[Any, Exception] = {}
        for result in FileSystems.match(paths):
            if not result.metadata_list:
                failed[result.pattern] = FileNotFoundError(f"No files found to delete under: {result.pattern}")
            for metadata in result.metadata_list:
                try:
                    filesystem_for(metadata.path).delete(metadata.path)
                except Exception as error:
                    failed[metadata.path] = error
        if failed:
            raise BeamIOError("Delete operation failed", failed)

    @staticmethod
    def get_chunk_size(path: str) -> int:
        """Return how many paths fit into one call of `rename` or `delete`: any number; this is Beam's."""
        return 1

    @staticmethod
    def report_source_lineage(path: str) -> None:
        """Do nothing: no runner of penstock records lineage."""

    @staticmethod
    def report_sink_lineage(path: str) -> None:
        """Do nothing: no runner of penstock records lineage."""


def _matching(pattern: str) -> Iterable[FileMetadata]:
    if pattern.endswith("/"):
        pattern += "*"
    system = filesystem_for(pattern)
    if not has_wildcard(pattern) and system.is_directory(pattern):
        if not isinstance(system, LocalFileSystem):
            return [FileMetadata(pattern, 0)]
        status = os.stat(local_path(pattern))
        return [FileMetadata(pattern, status.st_size, status.st_mtime)]
    return system.match(pattern)


def _copied(source: str, destination: str) -> None:
    system = filesystem_for(source)
    if system.real_path(source) == system.real_path(destination):
        raise ValueError(f"{source!r} and {destination!r} are the same file")
    if system.is_directory(source) or system.is_directory(destination):
        system.delete(destination)
    system.copy(source, destination)


def _for_pairs(
    name: str, operation: Callable[[str, str], None], sources: Sequence[str], destinations: Sequence[str]
) -> None:
    if len(sources) != len(destinations):
        raise BeamIOError(f"{name}: expected as many destinations as sources, got {len(sources)}, {len(destinations)}")
    failed: dict[Any, Exception] = {}
    for source, destination in zip(sources, destinations, strict=True):
        try:
            if not filesystem_for(source).exists(source):
                raise FileNotFoundError(f"there is no file {source!r}")
            if filesystem_for(source) is not filesystem_for(destination):
                raise ValueError(f"{source!r} and {destination!r} are on different file systems")
            operation(source, destination)
        except Exception as error:
            failed[source, destination] = error
    if failed:
        raise BeamIOError(f"{name} operation failed", failed)
