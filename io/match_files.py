"""MatchFiles, MatchAll and ReadMatches: files themselves as elements."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, BinaryIO, cast

import attrs

from ..sdk.dofn import DoFn
from ..sdk.errors import SourceError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PBegin, PCollection
from ..transforms.create import Create
from ..transforms.pardo import ParDo
from .compression import CompressionTypes, naming_the_file, open_for_reading
from .file_source import matching_files
from .filesystem import AnyPath, EmptyMatchTreatment, FileMetadata, filesystem_for, path_string


@attrs.frozen
class ReadableFile:
    """A file that a worker can read.

    Attributes:
      metadata: the file's path, size and time.
      compression: how it is compressed; None for what its extension announces.
    """

    metadata: FileMetadata
    compression: str | None = None

    def open(self, mime_type: str = "text/plain", compression_type: str | None = None) -> BinaryIO:
        """The decompressed content, as a file to read bytes from; close it."""
        path, compression = self.metadata.path, compression_type or self.compression or CompressionTypes.AUTO
        with naming_the_file(path, compression):
            return open_for_reading(path, compression)

    def read(self, mime_type: str = "application/octet-stream") -> bytes:
        """The decompressed content."""
        with naming_the_file(self.metadata.path, self.compression or CompressionTypes.AUTO), self.open() as file:
            return file.read()

    def read_utf8(self) -> str:
        """The content as text; raises `SourceError`, with the file and the offset, if it is none."""
        content = self.read()
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise SourceError(f"{self.metadata.path!r} is not UTF-8 at byte {error.start}") from error

    def read_text(self) -> io.TextIOWrapper:
        """The content as a file to read text from; close it."""
        return io.TextIOWrapper(cast(Any, self.open()), encoding="utf-8")


class MatchFiles(PTransform):
    """The `FileMetadata` of each file that matches a pattern.

    A pattern that matches nothing is treated as `empty_match_treatment` says, when the
    pipeline runs.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.txt")
    >>> _ = path.write_text("abc")
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.fileio.MatchFiles(path) | beam.Map(lambda file: file.size_in_bytes) | beam.Map(print)
    3
    """

    def __init__(
        self, file_pattern: AnyPath, empty_match_treatment: str = EmptyMatchTreatment.ALLOW_IF_WILDCARD
    ) -> None:
        super().__init__()
        self._pattern = path_string(file_pattern)
        self._empty_match_treatment = empty_match_treatment
        EmptyMatchTreatment.allow_empty_match("", empty_match_treatment)

    def expand(self, pbegin: PBegin) -> PCollection[FileMetadata]:
        files: PCollection[FileMetadata] = pbegin | Create([self._pattern]) | MatchAll(self._empty_match_treatment)
        return files


class MatchAll(PTransform):
    """The `FileMetadata` of each file that matches the patterns, which are its input."""

    def __init__(self, empty_match_treatment: str = EmptyMatchTreatment.ALLOW) -> None:
        super().__init__()
        self._empty_match_treatment = empty_match_treatment
        EmptyMatchTreatment.allow_empty_match("", empty_match_treatment)

    def expand(self, pcoll: PCollection[str]) -> PCollection[FileMetadata]:
        match = _Match(self._empty_match_treatment, pcoll.pipeline.full_label)
        files: PCollection[FileMetadata] = pcoll | ParDo(match).with_output_types(FileMetadata)
        return files


class ReadMatches(PTransform):
    """Files, as metadata or as paths, to `ReadableFile`s.

    A directory is skipped, or, without `skip_directories`, raises `SourceError`.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.txt")
    >>> _ = path.write_text("abc")
    >>> with beam.Pipeline() as p:
    ...     files = p | beam.io.fileio.MatchFiles(path) | beam.io.fileio.ReadMatches()
    ...     _ = files | beam.Map(lambda file: file.read_utf8()) | beam.Map(print)
    abc
    """

    def __init__(self, compression: str | None = None, skip_directories: bool = True) -> None:
        super().__init__()
        self._compression = compression
        self._skip_directories = skip_directories
        CompressionTypes.resolve(compression or CompressionTypes.AUTO, "")

    def expand(self, pcoll: PCollection[FileMetadata | str]) -> PCollection[ReadableFile]:
        read = _MakeReadable(self._compression, self._skip_directories, pcoll.pipeline.full_label)
        files: PCollection[ReadableFile] = pcoll | ParDo(read).with_output_types(ReadableFile)
        return files


class _Match(DoFn):
    def __init__(self, empty_match_treatment: str, transform: str) -> None:
        self._empty_match_treatment = empty_match_treatment
        self._transform = transform

    def process(self, element: str) -> Iterable[FileMetadata]:
        return matching_files(path_string(element), self._empty_match_treatment, self._transform)


class _MakeReadable(DoFn):
    def __init__(self, compression: str | None, skip_directories: bool, transform: str) -> None:
        self._compression = compression
        self._skip_directories = skip_directories
        self._transform = transform

    def process(self, element: FileMetadata | str) -> Iterable[ReadableFile]:
        path = element.path if isinstance(element, FileMetadata) else path_string(element)
        fs = filesystem_for(path)
        if path.endswith("/") or fs.is_directory(path):
            if not self._skip_directories:
                raise SourceError(f"{self._transform}: {path!r} is a directory, so it can't be read")
            return
        if not isinstance(element, FileMetadata):
            (element,) = matching_files(path, EmptyMatchTreatment.DISALLOW, self._transform)
        yield ReadableFile(element, self._compression)
