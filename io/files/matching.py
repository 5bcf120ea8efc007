"""Files as elements: `MatchFiles`, `MatchAll`, `MatchContinuously` and `ReadMatches`."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, cast

from ...frozen import frozen
from ...persistence import stored_as
from ...sdk.dofn.dofn import DoFn
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import SourceError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.sources.event_time_reader import EventTimeReader, EventTimes
from ...sdk.sources.unbounded import UnboundedSource
from ...transforms.assign_windows import WindowInto
from ...transforms.create import Create
from ...transforms.par_do.pardo import ParDo
from ...transforms.read import Read
from ...windowing import FixedWindows
from ...windowing.duration import micros_of_span
from ...windowing.timestamp import MAX_MICROS, MAX_TIMESTAMP, MIN_MICROS, Timestamp
from .compression import CompressionTypes, naming_the_file, open_for_reading
from .filesystem import AnyPath, EmptyMatchTreatment, FileMetadata, filesystem_for, path_string
from .source import matching_files

__all__ = [
    "ReadableFile",
    "MatchFiles",
    "MatchAll",
    "MatchContinuously",
    "ReadMatches",
    "EmptyMatchTreatment",
    "FileMetadata",
]


@stored_as("readable-file", 1)
@frozen
class ReadableFile:
    """A file that a worker can read.

    Attributes:
      metadata: the file's path, size and time.
      compression: the compression; None to detect it by the extension.

    >>> import pathlib, tempfile
    >>> import penstock as beam
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (directory / "a.txt").write_text("one")
    >>> with beam.Pipeline() as p:
    ...     files = p | beam.io.fileio.MatchFiles(str(directory / "*.txt")) | beam.io.fileio.ReadMatches()
    ...     _ = files | beam.Map(lambda file: print(file.read_utf8()))
    one
    """

    metadata: FileMetadata
    compression: str | None = None

    def open(self, mime_type: str = "text/plain", compression_type: str | None = None) -> BinaryIO:
        """Open the decompressed content to read bytes from.  The caller closes it."""
        path, compression = self.metadata.path, compression_type or self.compression or CompressionTypes.AUTO
        with naming_the_file(path, compression):
            return open_for_reading(path, compression)

    def read(self, mime_type: str = "application/octet-stream") -> bytes:
        """Return the decompressed content."""
        with naming_the_file(self.metadata.path, self.compression or CompressionTypes.AUTO), self.open() as file:
            return file.read()

    def read_utf8(self) -> str:
        """Return the content as text.  Raises `SourceError`, with the file and the offset, for bytes that are no
        UTF-8."""
        content = self.read()
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise SourceError(f"{self.metadata.path!r} is not UTF-8 at byte {error.start}") from error

    def read_text(self) -> io.TextIOWrapper:
        """Open the content to read text from.  The caller closes it."""
        return io.TextIOWrapper(cast(Any, self.open()), encoding="utf-8")


class MatchFiles(PTransform):
    """The `FileMetadata` of each file that matches a pattern.

    `empty_match_treatment` applies when the pipeline runs.

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
    """The `FileMetadata` of each file that matches the patterns of its input.

    >>> import pathlib, tempfile
    >>> import penstock as beam
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (directory / "a.txt").write_text("one")
    >>> with beam.Pipeline() as p:
    ...     files = p | beam.Create([str(directory / "*.txt"), str(directory / "*.csv")]) | beam.io.fileio.MatchAll()
    ...     _ = files | beam.Map(lambda file: print(pathlib.Path(file.path).name))
    a.txt
    """

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


# The time of the next listing in microseconds, the files that were found and not emitted, and the seen files.
Offset = tuple[int | None, tuple[FileMetadata, ...], tuple[FileMetadata, ...]]


class WatchedFiles(UnboundedSource[FileMetadata]):
    """The files that match a pattern, listed periodically."""

    def __init__(
        self,
        pattern: str,
        interval: int,
        has_deduplication: bool,
        start: int | None,
        stop: int,
        match_updated_files: bool,
        empty_match_treatment: str,
        timestamp_cursor: bool = False,
    ) -> None:
        self.timestamp_cursor = timestamp_cursor
        self.pattern = pattern
        self.interval = interval
        self.start = start
        self.stop = stop
        self.has_deduplication = has_deduplication
        self.match_updated_files = match_updated_files
        self.empty_match_treatment = empty_match_treatment
        self.transform = "MatchContinuously"
        # An earlier listing can't be repeated.
        self.replayable = has_deduplication

    def partitions(self) -> Sequence[str]:
        return ["files"]

    def identity(self) -> Mapping[str, Any]:
        return {"file_pattern": self.pattern}

    def open(self, partition: str, offset: Offset | None) -> WatchedFilesReader:
        return WatchedFilesReader(self, offset or (self.start, (), ()))


class WatchedFilesReader(EventTimeReader[FileMetadata]):
    """Reader that lists the files and emits the new ones."""

    def __init__(self, source: WatchedFiles, offset: Offset) -> None:
        super().__init__(EventTimes())
        self.source = source
        self._next, pending, seen = offset
        self._pending = list(pending)
        self._seen = {file.path: file for file in seen}
        # With a cursor: the event times of later files, as far as the latest listing tells.
        self._reached = MIN_MICROS

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[FileMetadata], list[int] | int | None]:
        if not self._pending and not self.is_finished():
            self._look(now.micros)
        taken, self._pending = self._pending[:max_elements], self._pending[max_elements:]
        return taken, self._times_of(taken)

    def _times_of(self, files: list[FileMetadata]) -> list[int] | None:
        """Return the files' times of modification with a cursor; None for the time of arrival."""
        return list(map(_modified, files)) if self.source.timestamp_cursor else None

    def watermark(self, now: Timestamp) -> int:
        if not self.source.timestamp_cursor or self.is_finished():
            return super().watermark(now)
        if not self._pending:
            self._watermark = max(self._watermark, self._reached)
        return self._watermark

    def offset(self) -> Offset:
        return self._next, tuple(self._pending), tuple(self._seen[path] for path in sorted(self._seen))

    def is_finished(self) -> bool:
        return not self._pending and self._next is not None and self._next >= self.source.stop

    def backlog(self) -> int | None:
        return len(self._pending)

    def read_to(self, offset_end: Any, now: Timestamp) -> Iterator[Bundle]:
        """Yield the files of the offsets, whether or not they still exist."""
        if not self.source.has_deduplication:
            raise SourceError(
                f"{self.source.transform}: without has_deduplication, an earlier listing can't be repeated"
            )
        following, pending, seen = offset_end
        found = [*self._pending, *(file for file in seen if self._is_new(file))]
        left = set(pending)
        values = [file for file in found if file not in left]
        self._next, self._pending, self._seen = following, list(pending), {file.path: file for file in seen}
        if values:
            yield Bundle(values, self._times_of(values) or now.micros)

    def _look(self, now: int) -> None:
        if self._next is None:
            self._next = now
        if now < self._next:
            return
        source = self.source
        skipped = (now - self._next) // source.interval
        self._next += (skipped + 1) * source.interval
        cursor = max((file.last_updated_in_seconds for file in self._seen.values()), default=0.0)
        if source.timestamp_cursor:
            # Those of the last listing were kept until now: `read_to` emits them from an offset.
            self._seen = {path: file for path, file in self._seen.items() if file.last_updated_in_seconds >= cursor}
        for file in matching_files(source.pattern, source.empty_match_treatment, source.transform):
            if source.timestamp_cursor and not file.last_updated_in_seconds:
                raise SourceError(
                    f"{source.transform}: timestamp_cursor needs times of modification, and {file.path!r} has none"
                )
            if not source.has_deduplication:
                self._pending.append(file)
            elif self._is_new(file) and (not source.timestamp_cursor or file.last_updated_in_seconds >= cursor):
                self._pending.append(file)
                self._seen[file.path] = file
        newest = max(map(_modified, self._seen.values()), default=MIN_MICROS)
        is_newer = newest > cursor * 1_000_000
        self._reached = min(newest, now) if is_newer else now

    def _is_new(self, file: FileMetadata) -> bool:
        seen = self._seen.get(file.path)
        if seen is None:
            return True
        return self.source.match_updated_files and seen.last_updated_in_seconds != file.last_updated_in_seconds


def _modified(file: FileMetadata) -> int:
    """Return the time of modification in microseconds."""
    return round(file.last_updated_in_seconds * 1_000_000)


class MatchContinuously(PTransform):
    """The `FileMetadata` of each file that matches a pattern, when it is first seen.

    A file may be read as soon as it matches, so give it its name once it is complete.  Every checkpoint holds the names
    of the seen files that still match; some hundred thousand of them make checkpoints large.

    Args:
      file_pattern: see `FileSource`.
      interval: seconds between two listings.
      has_deduplication: emits a file once; otherwise at every listing, also after a failure.
      start_timestamp: the time of the first listing; None for immediately.
      stop_timestamp: the time from which on no listing is made.
      match_updated_files: emits a file again when its time of modification has changed.
      apply_windowing: assigns a window to the files of each listing.
      empty_match_treatment: see `EmptyMatchTreatment`.
      timestamp_cursor: takes files that were modified before the newest file of the listing before as seen, so that
        checkpoints don't grow.  The event time of a file is then its time of modification, and the watermark is that of
        the newest file until a listing has none that is newer.  Implies `match_updated_files`.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> (p | beam.io.fileio.MatchContinuously("/var/log/clicks/*.log", interval=5)).is_bounded
    False
    """

    def __init__(
        self,
        file_pattern: AnyPath,
        interval: float = 360.0,
        has_deduplication: bool = True,
        start_timestamp: Any = None,
        stop_timestamp: Any = MAX_TIMESTAMP,
        match_updated_files: bool = False,
        apply_windowing: bool = False,
        empty_match_treatment: str = EmptyMatchTreatment.ALLOW,
        timestamp_cursor: bool = False,
    ) -> None:
        super().__init__()
        if micros_of_span(interval) <= 0:
            raise ValueError(f"MatchContinuously: interval must be positive, more than 0 seconds, got {interval!r}")
        if timestamp_cursor and not has_deduplication:
            raise ValueError("MatchContinuously: timestamp_cursor deduplicates, so it requires has_deduplication=True")
        pattern = path_string(file_pattern)
        EmptyMatchTreatment.allow_empty_match(pattern, empty_match_treatment)
        self.interval = interval
        # Beam's name of the attribute.
        self.match_upd = match_updated_files or timestamp_cursor
        self.apply_windowing = apply_windowing
        self.source = WatchedFiles(
            pattern,
            micros_of_span(interval),
            has_deduplication,
            None if start_timestamp is None else Timestamp.of(start_timestamp).micros,
            min(Timestamp.of(stop_timestamp).micros, MAX_MICROS),
            self.match_upd,
            empty_match_treatment,
            timestamp_cursor,
        )

    def expand(self, pbegin: PBegin) -> PCollection[FileMetadata]:
        source = copy.copy(self.source)
        source.transform = pbegin.pipeline.full_label
        files: PCollection[FileMetadata] = pbegin | Read(source).with_output_types(FileMetadata)
        return files | WindowInto(FixedWindows(self.interval)) if self.apply_windowing else files
