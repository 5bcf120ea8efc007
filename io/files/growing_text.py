"""Unbounded text: `ReadContinuouslyFromText` for files that grow, `ReadAllFromTextContinuously` for whole files.

For a file that grows a partition is a file, and an offset is a position between two lines. An unfinished line is left
until its end is written. After a failure the same bytes are read again, so the part of a file that was read must not
change: a file that got shorter or was replaced is an error. The offset holds a checksum of the file's first kilobyte to
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

# A position between two lines; how much of the file's beginning was looked at, and its checksum.
Offset = tuple[int, int, int]


class GrowingTextSource(UnboundedSource[Any]):
    """The lines of all files that match a pattern, now or later.

    Args:
      pattern: see `FileSource`; it may match nothing yet.
      poll_interval: every how many seconds it is looked for more, in a file and for files.
      times: when lines happened.

    The others are `TextSource`'s.  A last line that nothing ends is never read, not even when its
    file is removed; a file that is removed ends its partition, and one that gets its name later
    is read from its beginning.  A compressed file can't be followed, and is an error.
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
        # Else a line's event time is when it was read.
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
                "expected plain text; whole files as they turn up are read by ReadAllFromTextContinuously"
            )
        return GrowingTextReader(self, partition, tuple(offset) if offset is not None else (0, 0, 0))


class GrowingTextReader(EventTimeReader[Any]):
    """Follows one file."""

    def __init__(self, source: GrowingTextSource, path: str, offset: tuple[int, ...]) -> None:
        super().__init__(source.times)
        self.source = source
        self.path = path
        self._position, self._head_size, self._head = offset
        self._size = self._position
        self._looked: int | None = None
        # Lines that were read and not given yet, and bytes of one that isn't finished.
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
            left, at = self.end[0] - self._position, self._given
            while at < stop and left > 0:
                left -= len(self._lines[at]) + len(delimiter)
                at += 1
            stop = at
        taken = self._lines[self._given : stop]
        self._given = stop
        values = self._decoded(taken)
        self._position += sum(map(len, taken)) + len(delimiter) * len(taken)
        if self.end is not None and self._position == self.end[0]:
            # More may have been there to remember than when the batch was planned.
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
        # About the bytes in the file.
        return sum(len(v[1] if self.source.with_filename else v) + 1 for v in bundle.values if hasattr(v, "__len__"))

    # The file

    def _opened(self) -> BinaryIO:
        try:
            file = filesystem_for(self.path).open(self.path)
        except OSError as error:
            found = "no such file" if isinstance(error, FileNotFoundError) else "that it can't be opened"
            advice = (
                "" if error.errno != errno.EMFILE else "; each file that is followed is open: allow more (ulimit -n)"
            )
            read = f"{self._size} bytes or more, which were read before" if self._size else "a file to follow"
            raise SourceError(
                f"{self._who}: expected {read}, found {found} ({error.strerror or error}){advice}"
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
        """Read some more, if it is time to."""
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
            # One line longer than a block.
            self._rest = data
            wanted *= 2
        if self._lines and self._head_size < _HEAD:
            self._remember_head()
        self._is_finished = self._is_gone and not self._lines

    def _has_passed_header(self) -> bool:
        """Whether the header lines are all there; the position is then after them."""
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
            # Whoever removes a file has no use for it any more; what it held is still read, through
            # the open file.
            self._is_gone = True
            return
        if identity != self._identity:
            raise SourceError(
                f"{self._who}: it was replaced by another file of that name while it was followed; expected it to be "
                f"appended to only, found {size} bytes of another; give each file a name of its own"
            )
        self._check_size(size)
        if identity is None and size > self._size:
            # A file elsewhere is as long as it was when it was opened.
            here = self._position + len(self._rest)
            self._file.close()
            self._file = filesystem_for(self.path).open(self.path)
            self._file.seek(here)
        self._size = size

    def _check_size(self, size: int) -> None:
        read = max(self._position, self._size)
        if size < read:
            raise SourceError(
                f"{self._who}: expected {read} bytes or more, since it was that long before, found {size}; "
                "was it truncated, or replaced? A file that is followed may be appended to only"
            )

    def _check_head(self, file: BinaryIO) -> None:
        file.seek(0)
        if (found := zlib.crc32(file.read(self._head_size))) != self._head:
            raise SourceError(
                f"{self._who}: expected it to begin as when it was read before (its first {self._head_size} bytes had "
                f"checksum {self._head:08x}), found other bytes ({found:08x}); was it replaced by another file?"
            )

    def _remember_head(self) -> None:
        """Of what has been read so far, so that it is there also in a shorter copy."""
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
                f"{self._who}: a line after byte {self._position} is not UTF-8 (0x{error.object[error.start]:02x}); "
                "to read other bytes give a coder"
            ) from error

    @property
    def _who(self) -> str:
        return f"{self.source.transform}: {self.path!r}"


def _size(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


def _identity(file: BinaryIO) -> Any:
    """What tells a file from another of the same name; None where there is nothing."""
    try:
        status = os.fstat(file.fileno())
    except (OSError, AttributeError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _status(path: str, file: BinaryIO) -> tuple[Any, int]:
    """The identity and size that a path has now."""
    if _identity(file) is None:
        return None, filesystem_for(path).size(path)
    status = os.stat(path.removeprefix("file://"))
    return (status.st_dev, status.st_ino), status.st_size


class ReadContinuouslyFromText(PTransform):
    r"""The lines of all files that match a pattern, those that are there and those that come.

    A file is followed as it is appended to, and a file that turns up is followed from its
    beginning.  A line is read when what ends it is there.  A file that got shorter, or was
    replaced by another of its name, is a `SourceError`: what was read must stay as it was, so
    that it can be read again after a failure.  A file may be removed once nobody needs it, and
    its name used again once that has been noticed, which takes `poll_interval`: what has the name then is
    read from its beginning.  A file that is renamed to another name that matches is another file, and
    read again: where logs are rotated, have the pattern match none of the names that they are rotated to.
    Each file is open until it is removed, so there may be as many as the system allows (`ulimit -n`).

    Args:
      file_pattern: see `FileSource`; it may match nothing yet.
      poll_interval: every how many seconds it is looked for more, in a file and for files.
      timestamp_fn, watermark_estimator, idle_after: see `EventTimes`; without them a line happens
        when it is read.  Each file has a watermark of its own, and one that isn't appended to
        any more holds the others' back unless it is declared idle by `idle_after`.
      with_filename: give pairs of path and line.

    The others are `ReadFromText`'s.

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

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        source = copy.copy(self.source)
        source.transform = pbegin.pipeline.full_label
        lines: PCollection[Any] = pbegin | Read(source).with_output_types(self.element_type)
        return lines

    def display_data(self) -> dict[str, Any]:
        return {"file_pattern": redacted(self.source.pattern)}


class ReadAllFromTextContinuously(PTransform):
    """The lines of each file that matches a pattern, which is read whole, once, when it is first seen.

    For directories into which complete files are moved; compressed ones, too.  Files that are
    appended to are read by `ReadContinuouslyFromText`.

    Args:
      file_pattern, interval and those that follow: see `MatchContinuously`.
      kwargs: the others are `ReadAllFromText`'s.

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
        )
        self._read = ReadAllFromText(**kwargs)

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        lines: PCollection[Any] = pbegin | self._match | self._read
        return lines
