"""Text that doesn't end: lines as they are appended, and files as they turn up."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ..sdk.coders.primitive import StrUtf8Coder
from ..sdk.event_time_reader import EventTimes
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PBegin, PCollection
from ..sdk.redaction import redacted
from ..sdk.watermark_estimators import EstimatorTypes
from ..transforms.read import Read
from ..windowing.duration import micros_of_span, seconds_of_span
from ..windowing.timestamp import MAX_TIMESTAMP
from .filesystem import AnyPath, EmptyMatchTreatment
from .growing_text_source import GrowingTextSource
from .match_continuously import MatchContinuously
from .textio import ReadAllFromText


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
