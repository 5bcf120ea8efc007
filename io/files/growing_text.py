"""Unbounded text: `ReadContinuouslyFromText` for files that grow, `ReadAllFromTextContinuously` for whole files.

Of growing files, a partition is a file and an offset is a position between two lines. An unfinished line is not read
until it is terminated. After a failure the same bytes are read again, so the part of a file that was read must not
change: a file that was truncated or replaced is an error. The offset holds a checksum of the file's first kilobyte to
detect that.
"""

from __future__ import annotations

import copy
import errno
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

from ...sdk.coders.primitive import StrUtf8Coder
from ...sdk.errors import SourceError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.redaction import redacted
from ...sdk.sources.event_time_reader import EventTimeReader, EventTimes
from ...sdk.sources.unbounded import UnboundedSource
from ...sdk.watermark_estimators import EstimatorTypes
from ...transforms.read import Read
from ...windowing.duration import micros_of_span, seconds_of_span
from ...windowing.timestamp import MAX_TIMESTAMP, Timestamp
from .compression import CompressionTypes
from .filesystem import AnyPath, EmptyMatchTreatment, filesystem_for, path_string
from .line_blocks import BLOCK_SIZE, end_of_lines
from .matching import MatchContinuously
from .source import matching_files
from .text import ReadAllFromText

_HEAD = 1024

# A position between two lines, and the size and checksum of the file's head.
Offset = tuple[int, int, int]


class GrowingTextSource(UnboundedSource[Any]):
    """The lines of all present and future files that match a pattern.

    Args:
      pattern: see `FileSource`; it may match no file yet.
      poll_interval: seconds between two checks for new files and new lines.
      times: the event times of lines.

    The other arguments are `TextSource`'s.  A last line without a terminator is never read, not even when its file is
    removed.  Removing a file ends its partition; a later file of that name is read from its beginning.  A compressed
    file can't be followed, and is an error.
    """

    reopens = True

    def __init__(
        self,
        pattern: AnyPath,
        poll_interval: float,
        times: EventTimes,
        *,
        strip_trailing_newlines: bool = True,
        coder: Any = None,
        skip_header_lines: int = 0,
        delimiter: bytes | None = None,
        with_filename: bool = False,
        transform: str = "ReadContinuouslyFromText",
    ) -> None:
        self.pattern = path_string(pattern)
        self.discovery_interval = poll_interval
        self.times = times
        self.strip_trailing_newlines = strip_trailing_newlines
        self.coder = None if type(coder) is StrUtf8Coder else coder
        self.skip_header_lines = skip_header_lines
        self.delimiter = delimiter
        self.with_filename = with_filename
        self.transform = transform
        # Otherwise a line's event time is the time of reading.
        self.repeatable = times.timestamp_fn is not None

    def partitions(self) -> Sequence[str]:
        return [file.path for file in matching_files(self.pattern, EmptyMatchTreatment.ALLOW, self.transform)]

    def identity(self) -> Mapping[str, Any]:
        return {
            "file_pattern": self.pattern,
            "skip_header_lines": self.skip_header_lines,
            "delimiter": None if self.delimiter is None else repr(self.delimiter),
        }

    def open(self, partition: str, offset: Offset | None) -> GrowingTextReader:
        kind = CompressionTypes.resolve(CompressionTypes.AUTO, partition)
        if kind != CompressionTypes.UNCOMPRESSED:
            raise SourceError(
                f"{self.transform}: {partition!r} is compressed by {kind}, and can't be followed while it grows; "
                "expected plain text; ReadAllFromTextContinuously reads whole files as they appear"
            )
        return GrowingTextReader(self, partition, tuple(offset) if offset is not None else (0, 0, 0))


class GrowingTextReader(EventTimeReader[Any]):
    """Reader that follows one file."""

    def __init__(self, source: GrowingTextSource, path: str, offset: tuple[int, ...]) -> None:
        super().__init__(source.times)
        self.source = source
        self.path = path
        self._position, self._head_size, self._head = offset
        self._size = self._position
        self._looked: int | None = None
        # Lines that were read but not emitted, and the bytes of an unfinished line.
        self._lines: list[bytes] = []
        self._given = 0
        self._rest = b""
        self._is_gone = self._is_finished = False
        self._file = self._opened()

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[Any], list[int] | int | None]:
        if self._given == len(self._lines):
            self._look(now)
        stop = min(self._given + max_elements, len(self._lines))
        delimiter = self.source.delimiter or b"\n"
        if self.end is not None:
            remaining, at = self.end[0] - self._position, self._given
            while at < stop and remaining > 0:
                remaining -= len(self._lines[at]) + len(delimiter)
                at += 1
            stop = at
        taken = self._lines[self._given : stop]
        self._given = stop
        values = self._decoded(taken)
        self._position += sum(map(len, taken)) + len(delimiter) * len(taken)
        if self.end is not None and self._position == self.end[0]:
            # The head may be longer than when the batch was planned.
            self._head_size, self._head = self.end[1:]
        return values, None

    def offset(self) -> Offset:
        return self._position, self._head_size, self._head

    def backlog(self) -> int | None:
        return max(self._size - self._position, 0)

    def is_finished(self) -> bool:
        return self._is_finished

    def close(self) -> None:
        self._file.close()

    def size_of(self, bundle: Any) -> int:
        # The bytes of the file.
        return sum(len(v[1] if self.source.with_filename else v) + 1 for v in bundle.values if hasattr(v, "__len__"))

    # The file

    def _opened(self) -> BinaryIO:
        try:
            file = filesystem_for(self.path).open(self.path)
        except OSError as error:
            found = "no such file" if isinstance(error, FileNotFoundError) else "that it can't be opened"
            advice = "" if error.errno != errno.EMFILE else "; each followed file is open: raise the limit (ulimit -n)"
            read = f"{self._size} bytes or more, which were read before" if self._size else "a file to follow"
            raise SourceError(
                f"{self._label}: expected {read}, found {found} ({error.strerror or error}){advice}"
            ) from error
        try:
            self._identity = _identity(file)
            self._check_size(_size(file))
            if self._head_size:
                self._check_head(file)
            file.seek(self._position)
        except BaseException:
            file.close()
            raise
        return file

    def _look(self, now: Timestamp) -> None:
        """Read more bytes, if the poll interval has passed."""
        interval = micros_of_span(self.source.discovery_interval or 0)
        is_time = self._looked is None or now.micros - self._looked >= interval
        if self.end is None and not is_time and self._position + len(self._rest) >= self._size:
            return
        self._looked = now.micros
        self._lines, self._given = [], 0
        self._check_that_it_is_the_same()
        if not self._has_passed_header():
            self._is_finished = self._is_gone
            return
        delimiter = self.source.delimiter or b"\n"
        wanted = BLOCK_SIZE
        while block := self._file.read(wanted):
            data = self._rest + block
            cut = data.rfind(delimiter)
            if cut >= 0:
                self._lines = data[:cut].split(delimiter)
                self._rest = data[cut + len(delimiter) :]
                break
            # The line is longer than a block.
            self._rest = data
            wanted *= 2
        if self._lines and self._head_size < _HEAD:
            self._remember_head()
        self._is_finished = self._is_gone and not self._lines

    def _has_passed_header(self) -> bool:
        """Return whether all header lines were read, so that the position is after them."""
        lines, delimiter = self.source.skip_header_lines, self.source.delimiter or b"\n"
        if not lines or self._position:
            return True
        self._file.seek(0)
        end = end_of_lines(self._file, lines, delimiter)
        self._file.seek(0)
        is_complete = self._file.read(end).count(delimiter) >= lines
        self._position = end if is_complete else 0
        self._file.seek(self._position)
        return is_complete

    def _check_that_it_is_the_same(self) -> None:
        if self._is_gone:
            return
        try:
            identity, size = _status(self.path, self._file)
        except FileNotFoundError:
            # The rest of a removed file is read through the open file.
            self._is_gone = True
            return
        if identity != self._identity:
            raise SourceError(
                f"{self._label}: it was replaced by another file of that name while it was followed; expected it to be "
                f"appended to only, found {size} bytes of another; give each file a name of its own"
            )
        self._check_size(size)
        if identity is None and size > self._size:
            # A remote file keeps the size that it had when it was opened.
            here = self._position + len(self._rest)
            self._file.close()
            self._file = filesystem_for(self.path).open(self.path)
            self._file.seek(here)
        self._size = size

    def _check_size(self, size: int) -> None:
        read = max(self._position, self._size)
        if size < read:
            raise SourceError(
                f"{self._label}: expected {read} bytes or more, since it was that long before, found {size}; "
                "was it truncated, or replaced? A file that is followed may be appended to only"
            )

    def _check_head(self, file: BinaryIO) -> None:
        file.seek(0)
        if (found := zlib.crc32(file.read(self._head_size))) != self._head:
            raise SourceError(
                f"{self._label}: expected it to begin as when it was read before (its first {self._head_size} bytes "
                f"had checksum {self._head:08x}), found other bytes ({found:08x}); was it replaced by another file?"
            )

    def _remember_head(self) -> None:
        """Store the checksum of the bytes read so far, which a shorter copy of the file has as well."""
        here = self._file.tell()
        self._file.seek(0)
        head = self._file.read(min(_HEAD, here - len(self._rest)))
        self._head_size, self._head = len(head), zlib.crc32(head)
        self._file.seek(here)

    # Lines

    def _decoded(self, lines: list[bytes]) -> list[Any]:
        source = self.source
        if source.delimiter is None and source.strip_trailing_newlines:
            lines = [line.removesuffix(b"\r") for line in lines]
        elif not source.strip_trailing_newlines:
            lines = [line + (source.delimiter or b"\n") for line in lines]
        if source.coder is not None:
            values = [source.coder.decode(line) for line in lines]
        else:
            values = self._as_text(lines)
        return [(self.path, value) for value in values] if source.with_filename else values

    def _as_text(self, lines: list[bytes]) -> list[str]:
        try:
            return [line.decode() for line in lines]
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{self._label}: a line after byte {self._position} is not UTF-8 (0x{error.object[error.start]:02x}); "
                "to read other bytes give a coder"
            ) from error

    @property
    def _label(self) -> str:
        return f"{self.source.transform}: {self.path!r}"


def _size(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


def _identity(file: BinaryIO) -> Any:
    """Return the identity that tells a file from another of the same name, or None if the file system has none."""
    try:
        status = os.fstat(file.fileno())
    except (OSError, AttributeError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _status(path: str, file: BinaryIO) -> tuple[Any, int]:
    """Return the current identity and size of a path."""
    if _identity(file) is None:
        return None, filesystem_for(path).size(path)
    status = os.stat(path.removeprefix("file://"))
    return (status.st_dev, status.st_ino), status.st_size


class ReadContinuouslyFromText(PTransform[PBegin, PCollection[str]]):
    r"""The lines of all present and future files that match a pattern.

    Returns a `PCollection[str]`.

    A file is followed as it is appended to, a new file from its beginning.  A line is read once it is terminated.  A
    file that was truncated, or replaced by another of its name, is a `SourceError`: the bytes that were read must not
    change, so that they can be read again after a failure.

    A file may be removed.  Its name may be used again `poll_interval` later; the new file is read from its beginning. A
    file that is renamed to another matching name is a new file, and read again.  So for rotated logs, choose a pattern
    that doesn't match the names of rotated files.  Each file stays open until it is removed, so the number of files is
    limited by the system (`ulimit -n`).

    Args:
      file_pattern: see `FileSource`; it may match no file yet.
      poll_interval: seconds between two checks for new files and new lines.
      timestamp_fn, watermark_estimator, idle_after: see `EventTimes`.  Without them the event time of a line is the
        time of reading.  Each file has its own watermark.  A file that isn't appended to any more holds back the
        watermark of the others unless `idle_after` declares it idle.
      with_filename: emits pairs of path and line.

    The other arguments are `ReadFromText`'s.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> (p | beam.io.ReadContinuouslyFromText("/var/log/clicks/*.log", poll_interval=0.5)).is_bounded
    False
    """

    def __init__(
        self,
        file_pattern: AnyPath,
        poll_interval: float = 1.0,
        *,
        timestamp_fn: Callable[[Any], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
        strip_trailing_newlines: bool = True,
        coder: Any = StrUtf8Coder(),
        skip_header_lines: int = 0,
        delimiter: bytes | None = None,
        with_filename: bool = False,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if micros_of_span(poll_interval) < 0:
            raise ValueError(f"{name}: poll_interval must be 0 seconds or more, got {poll_interval!r}")
        self.source = GrowingTextSource(
            file_pattern,
            seconds_of_span(poll_interval),
            EventTimes.of(name, timestamp_fn, watermark_estimator, idle_after),
            strip_trailing_newlines=strip_trailing_newlines,
            coder=coder,
            skip_header_lines=skip_header_lines,
            delimiter=delimiter,
            with_filename=with_filename,
        )
        kind = coder.to_type_hint()
        self.element_type = tuple[str, kind] if with_filename else kind  # type: ignore[valid-type]

    def expand(self, pbegin: PBegin) -> Any:
        source = copy.copy(self.source)
        source.transform = pbegin.pipeline.full_label
        lines: PCollection[Any] = pbegin | Read(source).with_output_types(self.element_type)
        return lines

    def display_data(self) -> dict[str, Any]:
        return {"file_pattern": redacted(self.source.pattern)}


class ReadAllFromTextContinuously(PTransform[PBegin, PCollection[str]]):
    """The lines of each file that matches a pattern.  A file is read once and whole, when it is first seen.

    Returns a `PCollection[str]`.

    For directories into which complete files are moved, compressed files included.  `ReadContinuouslyFromText` reads
    files that are appended to.

    Args:
      file_pattern, interval and those that follow: see `MatchContinuously`.
      kwargs: the other arguments of `ReadAllFromText`.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> (p | beam.io.ReadAllFromTextContinuously("in/*.txt.gz", interval=5, skip_header_lines=1)).is_bounded
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
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self._match = MatchContinuously(
            file_pattern,
            interval,
            has_deduplication,
            start_timestamp,
            stop_timestamp,
            match_updated_files,
            apply_windowing,
            empty_match_treatment,
            timestamp_cursor,
        )
        self._read = ReadAllFromText(**kwargs)

    def expand(self, pbegin: PBegin) -> Any:
        lines: PCollection[Any] = pbegin | self._match | self._read
        return lines
