"""MatchContinuously: files as elements, as they turn up."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..sdk.bundle import Bundle
from ..sdk.errors import SourceError
from ..sdk.event_time_reader import EventTimeReader, EventTimes
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PBegin, PCollection
from ..sdk.unbounded_source import UnboundedSource
from ..transforms.assign_windows import WindowInto
from ..transforms.read import Read
from ..windowing import FixedWindows
from ..windowing.duration import micros_of_span
from ..windowing.timestamp import MAX_MICROS, MAX_TIMESTAMP, Timestamp
from .file_source import matching_files
from .filesystem import AnyPath, EmptyMatchTreatment, FileMetadata, path_string

# When it will look next, in microseconds; what it has found and not given yet; what it has seen.
Offset = tuple[int | None, tuple[FileMetadata, ...], tuple[FileMetadata, ...]]


class WatchedFiles(UnboundedSource[FileMetadata]):
    """The files that match a pattern, looked for again and again."""

    def __init__(
        self,
        pattern: str,
        interval: int,
        has_deduplication: bool,
        start: int | None,
        stop: int,
        match_updated_files: bool,
        empty_match_treatment: str,
    ) -> None:
        self.pattern = pattern
        self.interval = interval
        self.start = start
        self.stop = stop
        self.has_deduplication = has_deduplication
        self.match_updated_files = match_updated_files
        self.empty_match_treatment = empty_match_treatment
        self.transform = "MatchContinuously"
        # What was there at an earlier look can't be asked again.
        self.replayable = has_deduplication

    def partitions(self) -> Sequence[str]:
        return ["files"]

    def identity(self) -> Mapping[str, Any]:
        return {"file_pattern": self.pattern}

    def open(self, partition: str, offset: Offset | None) -> WatchedFilesReader:
        return WatchedFilesReader(self, offset or (self.start, (), ()))


class WatchedFilesReader(EventTimeReader[FileMetadata]):
    """Looks, remembers, and gives what is new."""

    def __init__(self, source: WatchedFiles, offset: Offset) -> None:
        super().__init__(EventTimes())
        self.source = source
        self._next, pending, seen = offset
        self._pending = list(pending)
        self._seen = {file.path: file for file in seen}

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[FileMetadata], list[int] | int | None]:
        if not self._pending and not self.is_finished():
            self._look(now.micros)
        taken, self._pending = self._pending[:max_elements], self._pending[max_elements:]
        return taken, None

    def offset(self) -> Offset:
        return self._next, tuple(self._pending), tuple(self._seen[path] for path in sorted(self._seen))

    def is_finished(self) -> bool:
        return not self._pending and self._next is not None and self._next >= self.source.stop

    def backlog(self) -> int | None:
        return len(self._pending)

    def read_to(self, offset_end: Any, now: Timestamp) -> Iterator[Bundle]:
        """What the offsets say, whatever is there now."""
        if not self.source.has_deduplication:
            raise SourceError(
                f"{self.source.transform}: without has_deduplication, what was found before can't be found again"
            )
        following, pending, seen = offset_end
        found = [*self._pending, *(file for file in seen if self._is_new(file))]
        left = set(pending)
        values = [file for file in found if file not in left]
        self._next, self._pending, self._seen = following, list(pending), {file.path: file for file in seen}
        if values:
            yield Bundle(values, now.micros)

    def _look(self, now: int) -> None:
        if self._next is None:
            self._next = now
        if now < self._next:
            return
        source = self.source
        missed = (now - self._next) // source.interval
        self._next += (missed + 1) * source.interval
        for file in matching_files(source.pattern, source.empty_match_treatment, source.transform):
            if not source.has_deduplication:
                self._pending.append(file)
            elif self._is_new(file):
                self._pending.append(file)
                self._seen[file.path] = file

    def _is_new(self, file: FileMetadata) -> bool:
        seen = self._seen.get(file.path)
        if seen is None:
            return True
        return self.source.match_updated_files and seen.last_updated_in_seconds != file.last_updated_in_seconds


class MatchContinuously(PTransform):
    """The `FileMetadata` of each file that matches a pattern, when it is first seen.

    Give a file its name when it is complete: it may be read as soon as it matches.  What was
    seen is kept with every checkpoint, so remove old files' names from where it looks only
    when you don't mind that, some hundred thousand of them make checkpoints large.

    Args:
      file_pattern: see `FileSource`.
      interval: seconds from one look to the next.
      has_deduplication: give a file once; otherwise at every look, and not to runners that
        have to see the same again after a failure.
      start_timestamp: when to look first; None for at once.
      stop_timestamp: no look at or after it.
      match_updated_files: give it again when its time of modification has changed.
      apply_windowing: put what each look found into a window of its own.
      empty_match_treatment: see `EmptyMatchTreatment`.

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
    ) -> None:
        super().__init__()
        if micros_of_span(interval) <= 0:
            raise ValueError(f"MatchContinuously: interval must be more than 0 seconds, got {interval!r}")
        pattern = path_string(file_pattern)
        EmptyMatchTreatment.allow_empty_match(pattern, empty_match_treatment)
        self.interval = interval
        self.apply_windowing = apply_windowing
        self.source = WatchedFiles(
            pattern,
            micros_of_span(interval),
            has_deduplication,
            None if start_timestamp is None else Timestamp.of(start_timestamp).micros,
            min(Timestamp.of(stop_timestamp).micros, MAX_MICROS),
            match_updated_files,
            empty_match_treatment,
        )

    def expand(self, pbegin: PBegin) -> PCollection[FileMetadata]:
        source = copy.copy(self.source)
        source.transform = pbegin.pipeline.full_label
        files: PCollection[FileMetadata] = pbegin | Read(source).with_output_types(FileMetadata)
        return files | WindowInto(FixedWindows(self.interval)) if self.apply_windowing else files
