"""PeriodicImpulse and PeriodicSequence: elements at regular intervals."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from enum import Enum
from itertools import accumulate
from typing import Any

from ...sdk import graph
from ...sdk.coders.digest import digest_of
from ...sdk.dofn.dofn import DoFn
from ...sdk.dofn.offset_range import OffsetRange, OffsetRestrictionTracker
from ...sdk.dofn.splittable_dofn import RestrictionProvider
from ...sdk.elements.element_wrappers import unwrapped
from ...sdk.errors import InputError, UnsupportedError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.sources.bounded import ValuesSource
from ...sdk.sources.scheduled_source import ScheduledSource
from ...sdk.watermark_estimators import ManualWatermarkEstimator
from ...windowing import FixedWindows, TimestampedValue
from ...windowing.duration import micros_of_span
from ...windowing.timestamp import MAX_MICROS, MAX_TIMESTAMP, Timestamp
from ..assign_windows import WindowInto
from ..flatten import Flatten
from ..read import Read


class ImpulseSource(ScheduledSource[Any]):
    """The times of firing as elements, or the elements of a list, repeatedly.

    Args:
      start: the due time of the first element: seconds, or a time; None for the time of the first read.
      stop: the time from which on there are no elements, in microseconds.
      interval: the interval between elements: seconds, or a span of time.
      data: the elements; pairs of a `Timestamp` and a value have their own event times.
      newest_only: whether of several elements that are due only the last is read.
    """

    # A window of a side input that an element of each interval fills is complete when that element has been read.
    is_ahead = True

    def __init__(
        self, start: Any, stop: int, interval: Any, data: Sequence[Any] | None, newest_only: bool = False
    ) -> None:
        begin = None if start is None else Timestamp.of(start).micros
        super().__init__(1, micros_of_span(interval), begin)
        self.stop = stop
        self.newest_only = newest_only
        self.data = None if data is None else list(data)
        self._first = _as_number(start) if begin is not None else None
        self._interval = interval if isinstance(interval, (int, float)) else self.period / 1_000_000
        # For elements with their own event times, the least event time from each element on.
        self._least: list[int] | None = None
        if data is not None and _is_timestamped(data):
            times = [timestamp.micros for timestamp, _ in data]
            self._least = list(accumulate(reversed(times), min))[::-1]

    def elements_at(self, indices: Sequence[int], due: list[int] | None) -> tuple[list[Any], list[int] | None]:
        assert due is not None
        if self.data is None:
            begin = due[0] - indices[0] * self.period
            first = self._first if begin == self.begin and self._first is not None else begin / 1_000_000
            return [first + self._interval * i for i in indices], due
        found = [self.data[i % len(self.data)] for i in indices]
        if self._least is None:
            return found, due
        return [value for _, value in found], [timestamp.micros for timestamp, _ in found]

    def least_from(self, index: int, due: int) -> int:
        return due if self._least is None or index >= len(self._least) else self._least[index]

    def count_from(self, begin: int | None) -> int | None:
        """Return the number of elements that are due before the stop."""
        length = None if self.data is None else len(self.data)
        if self.stop >= MAX_MICROS:
            return length
        if begin is None:
            return None
        count = max(-(-(self.stop - begin) // self.period), 0)
        return count if self._least is None else min(count, len(self._least))

    def identity(self) -> Mapping[str, Any]:
        begin = None if self.begin is None else str(Timestamp.of_micros(self.begin))
        return {
            "fire_interval": self.period / 1_000_000,
            "start_timestamp": begin,
            "stop_timestamp": str(Timestamp.of_micros(self.stop)),
            "data": None if self.data is None else digest_of(self.data),
        }

    def rescalable_from(self, before: Mapping[str, Any]) -> Set[str]:
        # The offset has the beginning of the schedule.
        return {"start_timestamp", "stop_timestamp"}


class RebaseMode(Enum):
    """The timestamps of a periodic impulse that are moved to the present: neither, both, or the start."""

    REBASE_NONE = 0
    REBASE_ALL = 1
    REBASE_START = 2


class PeriodicImpulse(PTransform):
    """An element at `start_timestamp`, and then every `fire_interval` seconds until `stop_timestamp`.

    Returns a `PCollection[float]`, or one of the elements of `data`.

    An element is its time of firing, in seconds since 1970, which is also its event time.  Elements that are due in the
    past are emitted immediately.  The output is unbounded.  A run that resumes from a checkpoint keeps the start of the
    first run, independent of `start_timestamp`.

    Args:
      start_timestamp: the time of the first element; None for the start of reading.  (Beam's default is the time of the
        module's import.)
      stop_timestamp: the time from which on there are no elements; the input then ends.
      fire_interval: in seconds, or a span of time.
      apply_windowing: assigns each element to its own window, as long as the interval.
      data: elements to emit instead of times, repeatedly if there is a `stop_timestamp`, otherwise once.  Pairs of a
        Timestamp and a value are values with their own event times, and aren't repeated.  The watermark is at the
        earliest future event time, so none is late.
      rebase: `REBASE_START` replaces the start by the time at which the transform is made; `REBASE_ALL` moves the stop
        by as much.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> impulses = p | beam.PeriodicImpulse(0, 100, fire_interval=10, apply_windowing=True)
    >>> impulses.is_bounded, impulses.windowing.window_fn
    (False, FixedWindows(size=Duration(10), offset=Duration(0)))
    """

    def __init__(
        self,
        start_timestamp: Any = None,
        stop_timestamp: Any = MAX_TIMESTAMP,
        fire_interval: Any = 360.0,
        apply_windowing: bool = False,
        data: Sequence[Any] | None = None,
        rebase: RebaseMode | None = None,
    ) -> None:
        super().__init__()
        if rebase in (RebaseMode.REBASE_ALL, RebaseMode.REBASE_START):
            now = Timestamp.now()
            if rebase is RebaseMode.REBASE_ALL and start_timestamp is not None:
                shift = now - Timestamp.of(start_timestamp)
                given = Timestamp.of(stop_timestamp)
                stop_timestamp = given + shift if given.micros < MAX_MICROS else given
            start_timestamp = now
        interval = micros_of_span(fire_interval)
        if interval <= 0:
            raise ValueError(f"PeriodicImpulse: fire_interval must be more than 0 seconds, got {fire_interval!r}")
        if data is not None and not len(data):
            raise ValueError("PeriodicImpulse: data must hold at least one element, got none")
        stop = Timestamp.of(stop_timestamp).micros
        if stop < MAX_MICROS and start_timestamp is not None:
            begin = Timestamp.of(start_timestamp).micros
            if stop < begin:
                raise ValueError(
                    f"PeriodicImpulse: it would stop at {stop_timestamp} before it starts at {start_timestamp}"
                )
            count = -(-(stop - begin) // interval)
            if data is not None and len(data) < count:
                _warn_or_refuse(data, count, stop_timestamp)
        self.interval = fire_interval
        self.apply_windowing = apply_windowing
        self.source = ImpulseSource(start_timestamp, stop, fire_interval, data)

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        hint = float if self.source.data is None else Any
        impulses: PCollection[Any] = pbegin | Read(self.source).with_output_types(hint)
        return impulses | WindowInto(FixedWindows(self.interval)) if self.apply_windowing else impulses


class PeriodicSequence(PTransform):
    """A periodic impulse for each element `(start, stop, interval)` of its input, which must be Create.

    Returns a `PCollection[float]`.

    Raises `UnsupportedError` for elements that are known only in the run.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> (p | beam.Create([(0, 100, 10)]) | beam.PeriodicSequence()).is_bounded
    False
    """

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        label = pcoll.pipeline.full_label
        if not isinstance(pcoll, PCollection):
            raise InputError(
                f"{label}: expected a PCollection of (start, stop, interval), got the pipeline; apply it to Create, or "
                "use PeriodicImpulse(start, stop, interval)"
            )
        producer = pcoll.pipeline.producer(pcoll)
        source = producer.primitive.source if isinstance(producer.primitive, graph.Read) else None
        if not isinstance(source, ValuesSource):
            raise UnsupportedError(
                f"{label}: no runner can begin a sequence for an element that is known only in the run, as those of "
                f"{producer.label}; apply it to Create"
            )
        sequences = [unwrapped(element)[0] for element in source.values]
        begin = PBegin(pcoll.pipeline)
        impulses = [begin | f"Sequence {i}" >> PeriodicImpulse(*sequence) for i, sequence in enumerate(sequences)]
        together: PCollection[Any] = tuple(impulses) | Flatten(pipeline=pcoll.pipeline)
        return together


class ImpulseSeqGenRestrictionProvider(RestrictionProvider):
    """The numbers of the impulses of an element `(start, stop, interval)`."""

    def initial_restriction(self, element: tuple[Any, Any, Any]) -> OffsetRange:
        start, stop, interval = element
        begin, end = Timestamp.of(start).micros, Timestamp.of(stop).micros
        return OffsetRange(0, max(-(-(end - begin) // micros_of_span(interval)), 0))

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        return restriction.size()


class ImpulseSeqGenDoFn(DoFn):
    """A periodic impulse for each element `(start, stop, interval)`, which may be applied to Create.

    Args:
      data: elements to emit instead of times, as of `PeriodicImpulse`.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> (p | beam.Create([(0, 100, 10)]) | beam.ParDo(ImpulseSeqGenDoFn())).is_bounded
    False
    """

    def __init__(self, data: Sequence[Any] | None = None) -> None:
        if data is not None and not len(data):
            raise ValueError("ImpulseSeqGenDoFn: data must hold at least one element, got none")
        self.data = data
        self._has_times = data is not None and _is_timestamped(data)

    @DoFn.unbounded_per_element()
    def process(
        self,
        element: tuple[Any, Any, Any],
        restriction_tracker: Any = DoFn.RestrictionParam(ImpulseSeqGenRestrictionProvider()),
        watermark_estimator: Any = DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),
    ) -> Iterator[TimestampedValue]:
        first, interval = _as_number(element[0]), micros_of_span(element[2]) / 1_000_000
        number = restriction_tracker.current_restriction().start
        while True:
            due = first + interval * number
            now = Timestamp.now()
            if due > float(now):
                if not self._has_times:
                    _advance(watermark_estimator, Timestamp.of(due))
                restriction_tracker.defer_remainder(Timestamp.of(due) - now)
                return
            if not restriction_tracker.try_claim(number):
                return
            output = TimestampedValue(due, due) if self.data is None else self._listed(number, due)
            _advance(watermark_estimator, output.timestamp)
            yield output
            number += 1

    def _listed(self, number: int, due: float) -> TimestampedValue:
        assert self.data is not None
        value = self.data[number % len(self.data)]
        return TimestampedValue(value[1], value[0]) if self._has_times else TimestampedValue(value, due)


def _advance(estimator: Any, timestamp: Timestamp) -> None:
    current = estimator.current_watermark()
    if current is None or timestamp > current:
        estimator.set_watermark(timestamp)


def _as_number(start: Any) -> float:
    """Return a time in seconds.  Numbers are unchanged, even if they are finer than a microsecond."""
    return start if isinstance(start, (int, float)) else Timestamp.of(start).micros / 1_000_000


def _warn_or_refuse(data: Sequence[Any], count: int, stop: Any) -> None:
    found = f"PeriodicImpulse: {count} elements are due until {stop}, and data has {len(data)}: not enough to span that"
    if _is_timestamped(data):
        raise ValueError(
            f"{found}. Elements with their own timestamps aren't repeated; give more of them, or stop earlier"
        )
    warnings.warn(f"{found}, so the elements are repeated from the first one", UserWarning, stacklevel=3)


def _is_timestamped(data: Sequence[Any]) -> bool:
    return isinstance(data[0], tuple) and len(data[0]) == 2 and isinstance(data[0][0], Timestamp)
