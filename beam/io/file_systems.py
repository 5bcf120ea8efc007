"""FileSystems: Beam's operations on files, on the file system of each path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

from ...io.files.compression import CompressionTypes
from ...io.files.filesystem import FileMetadata, protocol_of
from .file_system import BeamIOError, FileSystem, MatchResult, check_pairs, file_system_for, set_options


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
        """Set the options that file systems of the user get.  fsspec's packages have theirs from the environment."""
        set_options(pipeline_options)

    @staticmethod
    def get_scheme(path: str) -> str | None:
        """Return the protocol of a path; None for a local path without one.

        >>> FileSystems.get_scheme("gs://bucket/a"), FileSystems.get_scheme("/tmp/a")
        ('gs', None)
        """
        return protocol_of(path.strip())

    @staticmethod
    def get_filesystem(path: str) -> FileSystem:
        """Return the file system of a path.

        Raises `ValueError` if neither a subclass of `FileSystem` nor fsspec has its scheme.
        """
        try:
            return file_system_for(path)
        except ValueError:
            raise
        except Exception as error:
            raise BeamIOError("Unable to get the Filesystem", {path: error}) from error

    @staticmethod
    def join(basepath: str, *paths: str) -> str:
        """Return the path of names below a directory."""
        return FileSystems.get_filesystem(basepath).join(basepath, *paths)

    @staticmethod
    def split(path: str) -> tuple[str, str]:
        """Return the directory and the name of a path.  The directory of a local path is absolute.

        >>> FileSystems.split("gs://bucket/out/a.txt")
        ('gs://bucket/out', 'a.txt')
        """
        return FileSystems.get_filesystem(path).split(path)

    @staticmethod
    def mkdirs(path: str) -> None:
        """Make a directory and its parents.  Raises `BeamIOError` if a local directory exists already."""
        FileSystems.get_filesystem(path).mkdirs(path)

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
        results: list[MatchResult] = []
        failed: dict[Any, Exception] = {}
        for pattern, limit in zip(patterns, limits, strict=True):
            system = FileSystems.get_filesystem(pattern)
            try:
                results += system.match([pattern], [limit])
            except BeamIOError as error:
                failed.update(error.exception_details or {pattern: error})
        if failed:
            raise BeamIOError("Match operation failed", failed)
        return results

    @staticmethod
    def create(
        path: str, mime_type: str = "application/octet-stream", compression_type: str = CompressionTypes.AUTO
    ) -> BinaryIO:
        """Create a file and its directories, and open it to write bytes, which are compressed by its extension."""
        return FileSystems.get_filesystem(path).create(path, mime_type, compression_type)

    @staticmethod
    def open(
        path: str, mime_type: str = "application/octet-stream", compression_type: str = CompressionTypes.AUTO
    ) -> BinaryIO:
        """Open a file to read bytes, which are decompressed by its extension."""
        return FileSystems.get_filesystem(path).open(path, mime_type, compression_type)

    @staticmethod
    def copy(source_file_names: Sequence[str], destination_file_names: Sequence[str]) -> None:
        """Copy files, and directories with their content, replacing what exists at the destinations."""
        _for_pairs("Copy", source_file_names, destination_file_names)

    @staticmethod
    def rename(source_file_names: Sequence[str], destination_file_names: Sequence[str]) -> None:
        """Rename files, replacing the files at the destinations."""
        _for_pairs("Rename", source_file_names, destination_file_names)

    @staticmethod
    def exists(path: str) -> bool:
        """Return whether there is a file or a directory of this name."""
        return FileSystems.get_filesystem(path).exists(path)

    @staticmethod
    def metadata(path: str) -> FileMetadata:
        """Return the size and the time of the last change of a file, or of a local directory."""
        return FileSystems.get_filesystem(path).metadata(path)

    @staticmethod
    def size(path: str) -> int:
        """Return the size of a file in bytes."""
        return FileSystems.get_filesystem(path).size(path)

    @staticmethod
    def last_updated(path: str) -> float:
        """Return the time of the last change of a file, in seconds since 1970."""
        return FileSystems.get_filesystem(path).last_updated(path)

    @staticmethod
    def checksum(path: str) -> str:
        """Return what changes when a file changes: the size of a local file, else fsspec's checksum."""
        return FileSystems.get_filesystem(path).checksum(path)

    @staticmethod
    def delete(paths: Sequence[str]) -> None:
        """Remove the files that match the patterns, and directories with their content."""
        if isinstance(paths, str):
            raise BeamIOError(f"Delete passed string argument instead of list: {paths}")
        failed: dict[Any, Exception] = {}
        for path in paths:
            try:
                FileSystems.get_filesystem(path).delete([path])
            except BeamIOError as error:
                failed.update(error.exception_details or {path: error})
        if failed:
            raise BeamIOError("Delete operation failed", failed)

    @staticmethod
    def get_chunk_size(path: str) -> int:
        """Return how many paths fit into one call of `rename` or `delete` of the file system: `CHUNK_SIZE`."""
        return FileSystems.get_filesystem(path).CHUNK_SIZE

    @staticmethod
    def report_source_lineage(path: str) -> None:
        """Do nothing: no runner of penstock records lineage."""

    @staticmethod
    def report_sink_lineage(path: str) -> None:
        """Do nothing: no runner of penstock records lineage."""


def _for_pairs(name: str, sources: Sequence[str], destinations: Sequence[str]) -> None:
    """Call `copy` or `rename` of each file system with its pairs of paths."""
    check_pairs(name, sources, destinations)
    failed: dict[Any, Exception] = {}
    by_system: dict[FileSystem, list[tuple[str, str]]] = {}
    for source, destination in zip(sources, destinations, strict=True):
        system = FileSystems.get_filesystem(source)
        if system is FileSystems.get_filesystem(destination):
            by_system.setdefault(system, []).append((source, destination))
        else:
            failed[source, destination] = ValueError(f"{source!r} and {destination!r} are on different file systems")
    for system, pairs in by_system.items():
        try:
            getattr(system, name.lower())(*map(list, zip(*pairs, strict=True)))
        except BeamIOError as error:
            failed.update(error.exception_details or dict.fromkeys(pairs, error))
    if failed:
        raise BeamIOError(f"{name} operation failed", failed)
