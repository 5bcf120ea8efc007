"""UnboundedSource as Beam defines it: readers that start, advance, and mark their position."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from ...frozen import frozen
from ...persistence import stored_as
from ...sdk import coders
from ...sdk.adapters import AdaptedSource, convert_sources
from ...sdk.elements.bundle import Bundle
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.sources.unbounded import UnboundedReader as OwnUnboundedReader
from ...sdk.sources.unbounded import UnboundedSource as OwnUnboundedSource
from ...transforms.read import Read
from ...windowing.duration import micros_of_span
from ...windowing.timestamp import MAX_MICROS, MAX_TIMESTAMP, MIN_MICROS, Timestamp
from .bounded_source import SourceBase

# At most so many parts are asked for; a runner doesn't say how many it wants.
_DESIRED_SPLITS = 20
_POLL_INTERVAL = 1.0
_MAX_RECORDS = 10_000

_logger = logging.getLogger(__name__)

# A mark as bytes, None before the first; and whether the part has ended.
_Offset = tuple[bytes | None, bool]


class CheckpointMark:
    """The position of a reader, which a source's `create_reader` goes on from."""

    def finalize_checkpoint(self) -> None:
        """Acknowledge what was read up to the mark: a checkpoint with it is durable.

        It may be called again after a failure, and not at all for the last mark of a run that is killed.  What it
        raises is logged.
        """


class UnboundedReader:
    """Reader of a part of an `UnboundedSource`: one `start`, and any number of `advance`."""

    def start(self) -> bool:
        """Move to the first record, and return whether there is one now."""
        raise NotImplementedError(f"{type(self).__name__}.start")

    def advance(self) -> bool:
        """Move to the next record, and return whether there is one now.  Never waits."""
        raise NotImplementedError(f"{type(self).__name__}.advance")

    def get_current(self) -> Any:
        """Return the record."""
        raise NotImplementedError(f"{type(self).__name__}.get_current")

    def get_current_timestamp(self) -> Timestamp:
        """Return the event time of the record."""
        raise NotImplementedError(f"{type(self).__name__}.get_current_timestamp")

    def get_watermark(self) -> Timestamp:
        """Return a lower bound of the event times of later records; `MAX_TIMESTAMP` once there are none."""
        raise NotImplementedError(f"{type(self).__name__}.get_watermark")

    def get_checkpoint_mark(self) -> CheckpointMark:
        """Return the position behind the record."""
        raise NotImplementedError(f"{type(self).__name__}.get_checkpoint_mark")

    def close(self) -> None:
        """Close files and connections."""


class UnboundedSource(SourceBase):
    """A source of records without end, whose readers mark their positions.

    The runner stores the marks in its checkpoints.  After a failure, and in a run that resumes from a checkpoint,
    `create_reader` gets them.

    >>> import penstock as beam
    >>> from penstock.io.unbounded_source import UnboundedCountingSource
    >>> p = beam.Pipeline()
    >>> (p | beam.io.Read(UnboundedCountingSource(3))).is_bounded
    False
    """

    def split(self, desired_num_splits: int, options: Any = None) -> Sequence[UnboundedSource]:
        """Return at most so many parts, which are read independently; `[self]` for a source that can't be split."""
        raise NotImplementedError(f"{type(self).__name__}.split")

    def create_reader(self, options: Any, checkpoint_mark: CheckpointMark | None) -> UnboundedReader:
        """Return a reader whose `start` moves to the first record, or to the one behind a mark."""
        raise NotImplementedError(f"{type(self).__name__}.create_reader")

    def get_checkpoint_mark_coder(self) -> Any:
        """Return the coder of the marks.  Marks at the same position have the same bytes."""
        raise NotImplementedError(f"{type(self).__name__}.get_checkpoint_mark_coder")

    def is_bounded(self) -> bool:
        return False


def _adapted(source: UnboundedSource, poll_micros: int, max_records: int) -> AdaptedSource:
    return AdaptedSource(_ReadByMarks(source, poll_micros, max_records), source.default_output_coder().to_type_hint())


convert_sources(UnboundedSource, lambda source: _adapted(source, micros_of_span(_POLL_INTERVAL), _MAX_RECORDS))


class ReadFromUnboundedSource(PTransform):
    """The records of an `UnboundedSource`, as by `Read`.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     _ = p | ReadFromUnboundedSource(UnboundedCountingSource(2)) | beam.Map(print)
    0
    1

    Args:
      poll_interval: seconds after which a reader without a record is asked again.
      max_records_per_bundle: the largest number of records of a bundle.
      max_read_time_seconds: accepted; a bundle ends as soon as the runner needs a checkpoint.
    """

    def __init__(
        self,
        source: UnboundedSource,
        poll_interval: float = _POLL_INTERVAL,
        max_records_per_bundle: int = _MAX_RECORDS,
        max_read_time_seconds: float = 10.0,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if not isinstance(source, UnboundedSource):
            raise TypeError(f"{name}: expected an UnboundedSource, got {source!r}")
        if poll_interval < 0:
            raise ValueError(f"{name}: poll_interval must be 0 seconds or more, got {poll_interval!r}")
        if max_records_per_bundle < 1:
            raise ValueError(f"{name}: max_records_per_bundle must be 1 or more, got {max_records_per_bundle!r}")
        if max_read_time_seconds <= 0:
            raise ValueError(f"{name}: max_read_time_seconds must be more than 0, got {max_read_time_seconds!r}")
        self.source = source
        self._reading = micros_of_span(poll_interval), max_records_per_bundle

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        adapted = _adapted(self.source, *self._reading)
        records: PCollection[Any] = pbegin | Read(adapted.source).with_output_types(adapted.element_type)
        return records


@stored_as("unbounded-part", 1)
@frozen
class Part:
    """A part of a source, identified by its number."""

    number: int
    source: Any = attrs.field(eq=False)


class _ReadByMarks(OwnUnboundedSource[Any]):
    # It is split once.
    keeps_partitions = True

    def __init__(self, source: UnboundedSource, interval: int, max_records: int) -> None:
        self._source = source
        self._interval = interval
        self._max_records = max_records

    def partitions(self) -> Sequence[Part]:
        return [Part(i, source) for i, source in enumerate(self._source.split(_DESIRED_SPLITS))]

    def identity(self) -> Mapping[str, Any]:
        return {"source": type(self._source).__name__}

    def open(self, partition: Part, offset: _Offset | None) -> OwnUnboundedReader[Any]:
        return _MarkingReader(partition.source, offset or (None, False), self._interval, self._max_records)


class _MarkingReader(OwnUnboundedReader[Any]):
    def __init__(self, source: UnboundedSource, offset: _Offset, interval: int, max_records: int) -> None:
        self._coder = source.get_checkpoint_mark_coder()
        self._mark, self._is_finished = offset
        self._reader = source.create_reader(None, None if self._mark is None else self._coder.decode(self._mark))
        self._interval = interval
        self._max_records = max_records
        self._has_started = False
        # True if records were read since the latest mark.
        self._is_ahead = False
        # Marks that aren't finalized yet, with their offsets.
        self._unacknowledged: list[tuple[_Offset, CheckpointMark]] = []
        self._resume = MIN_MICROS
        self._watermark = MIN_MICROS

    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        if self._is_finished or now.micros < self._resume:
            return None
        values: list[Any] = []
        timestamps: list[int] = []
        reader = self._reader
        for _ in range(min(max_elements, self._max_records)):
            move = reader.advance if self._has_started else reader.start
            self._has_started = True
            if not move():
                self._is_finished = self._of_reader() >= MAX_MICROS
                self._resume = now.micros + self._interval
                break
            values.append(reader.get_current())
            timestamps.append(Timestamp.of(reader.get_current_timestamp()).micros)
        self._is_ahead = self._is_ahead or bool(values)
        return Bundle(values, timestamps) if values else None

    def offset(self) -> _Offset:
        if self._is_ahead:
            self._is_ahead = False
            mark = self._reader.get_checkpoint_mark()
            self._mark = self._coder.encode(mark)
            self._unacknowledged.append((self.offset(), mark))
        return self._mark, self._is_finished

    def acknowledge(self, offset: Any) -> None:
        bytes_of = [known[0] for known, _ in self._unacknowledged]
        if offset[0] not in bytes_of:
            return
        reached = bytes_of.index(offset[0]) + 1
        # Each mark may acknowledge what was read since the one before.
        for _, mark in self._unacknowledged[:reached]:
            try:
                mark.finalize_checkpoint()
            except Exception:
                _logger.exception("%s.finalize_checkpoint failed", type(mark).__name__)
        del self._unacknowledged[:reached]

    def watermark(self, now: Timestamp) -> int:
        # The latest record is emitted before the watermark passes it.
        self._watermark = MAX_MICROS if self._is_finished else max(self._watermark, self._of_reader())
        return self._watermark

    def _of_reader(self) -> int:
        if not self._has_started:
            return MIN_MICROS
        return min(Timestamp.of(self._reader.get_watermark()).micros, MAX_MICROS)

    def is_finished(self) -> bool:
        return self._is_finished

    def close(self) -> None:
        self._reader.close()


# 2024-10-27T00:00:00Z, as in Beam.
_EVENT_TIME_BASE = Timestamp(1_729_987_200)


class UnboundedCountingSource(UnboundedSource):
    """The numbers from 0 to before `count`, for tests and examples.  A number's event time is a second behind the last.

    Args:
      finalize_log: a list to which finalized marks append their number.
      is_splittable: whether even and odd numbers are read independently.
      modulus, residue: of the numbers that are read.
    """

    def __init__(
        self,
        count: int,
        finalize_log: list[int] | None = None,
        is_splittable: bool = False,
        modulus: int = 1,
        residue: int = 0,
    ) -> None:
        self._count = count
        self._finalize_log = finalize_log
        self._is_splittable = is_splittable
        self._modulus = modulus
        self._residue = residue

    def split(self, desired_num_splits: int, options: Any = None) -> Sequence[UnboundedSource]:
        if not self._is_splittable or desired_num_splits < 2:
            return [self]
        return [type(self)(self._count, self._finalize_log, modulus=2, residue=residue) for residue in (0, 1)]

    def create_reader(self, options: Any, checkpoint_mark: Any) -> UnboundedReader:
        first = self._residue if checkpoint_mark is None else checkpoint_mark.last_index + self._modulus
        return _CountingReader(self._count, first, self._modulus, self._finalize_log)

    def get_checkpoint_mark_coder(self) -> Any:
        return coders.PickleCoder()


class _CountingReader(UnboundedReader):
    def __init__(self, count: int, start_index: int, step: int = 1, finalize_log: list[int] | None = None) -> None:
        self._count = count
        self._step = step
        self._finalize_log = finalize_log
        self._current = start_index - step

    def start(self) -> bool:
        return self.advance()

    def advance(self) -> bool:
        if self._current + self._step >= self._count:
            self._is_over = True
            return False
        self._current += self._step
        return True

    _is_over = False

    def get_current(self) -> Any:
        return self._current

    def get_current_timestamp(self) -> Timestamp:
        return _EVENT_TIME_BASE + max(self._current, 0)

    def get_watermark(self) -> Timestamp:
        return MAX_TIMESTAMP if self._is_over else self.get_current_timestamp()

    def get_checkpoint_mark(self) -> CheckpointMark:
        return _CountingCheckpointMark(self._current, self._finalize_log)


class _CountingCheckpointMark(CheckpointMark):
    def __init__(self, last_index: int, finalize_log: list[int] | None = None) -> None:
        self.last_index = last_index
        self._finalize_log = finalize_log

    def finalize_checkpoint(self) -> None:
        if self._finalize_log is not None:
            self._finalize_log.append(self.last_index)

    # The log stays with the reader.
    def __reduce__(self) -> tuple[Any, ...]:
        return _CountingCheckpointMark, (self.last_index,)
