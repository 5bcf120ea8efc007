"""PeriodicImpulse and PeriodicSequence: an element every so often."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence, Set
from itertools import accumulate
from typing import Any

from ..sdk import graph
from ..sdk.digest import digest_of
from ..sdk.element_wrappers import unwrapped
from ..sdk.errors import UnsupportedError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PBegin, PCollection
from ..sdk.sources.bounded import ValuesSource
from ..sdk.sources.scheduled_source import ScheduledSource
from ..windowing import FixedWindows
from ..windowing.duration import micros_of_span
from ..windowing.timestamp import MAX_MICROS, MAX_TIMESTAMP, Timestamp
from .assign_windows import WindowInto
from .flatten import Flatten
from .read import Read


class ImpulseSource(ScheduledSource[Any]):
    """The times at which it fires, as elements; or the elements of a list, over and over.

    Args:
      start: when the first is due, as the user said: seconds, or a time; None for when it is first asked for.
      stop: no element at or after it, in microseconds.
      interval: from one to the next: seconds, or a span.
      data: the elements; pairs of a `Timestamp` and a value have event times of their own.
    """

    def __init__(self, start: Any, stop: int, interval: Any, data: Sequence[Any] | None) -> None:
        begin = None if start is None else Timestamp.of(start).micros
        super().__init__(1, micros_of_span(interval), begin)
        self.stop = stop
        self.data = None if data is None else list(data)
        self._first = _as_number(start) if begin is not None else None
        self._interval = interval if isinstance(interval, (int, float)) else self.period / 1_000_000
        # Of elements with event times of their own, the least from each on.
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
        """How many are due before it stops."""
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
        # When the schedule has begun is in the offset.
        return {"start_timestamp", "stop_timestamp"}


class PeriodicImpulse(PTransform):
    """An element at `start_timestamp`, and then every `fire_interval` seconds until `stop_timestamp`.

    An element is the time at which it fires, as a number of seconds since 1970; that is its event time too.  None
    comes before its time; those that are due in the past come at once.  It is unbounded.  A run that goes on from a
    checkpoint keeps the start that the first run had, whatever `start_timestamp` is then.

    Args:
      start_timestamp: the first element's; None for when the pipeline starts to read.  (Beam's
        default is when the module was imported.)
      stop_timestamp: no element at or after it; the pipeline then ends.
      fire_interval: in seconds, or a span of time.
      apply_windowing: put each element into a window of its own, as long as the interval.
      data: elements to give instead of times, from the beginning again after the last where
        there is a `stop_timestamp`, once where there is none.  Pairs of a Timestamp and a value are values with event
        times of their own; these aren't repeated.  The watermark is at the earliest of those that are yet to come, so
        none is late.

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
    ) -> None:
        super().__init__()
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
    """The same for each element `(start, stop, interval)` of its input, which has to be Create.

    Raises `UnsupportedError` for elements that only turn up in the run.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> (p | beam.Create([(0, 100, 10)]) | beam.PeriodicSequence()).is_bounded
    False
    """

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        label, producer = pcoll.pipeline.full_label, pcoll.pipeline.producer(pcoll)
        source = producer.primitive.source if isinstance(producer.primitive, graph.Read) else None
        if not isinstance(source, ValuesSource):
            raise UnsupportedError(
                f"{label}: no runner can begin a sequence for an element that only turns up in the run, as those of "
                f"{producer.label}; apply it to Create"
            )
        sequences = [unwrapped(element)[0] for element in source.values]
        begin = PBegin(pcoll.pipeline)
        impulses = [begin | f"Sequence {i}" >> PeriodicImpulse(*sequence) for i, sequence in enumerate(sequences)]
        together: PCollection[Any] = tuple(impulses) | Flatten(pipeline=pcoll.pipeline)
        return together


def _as_number(start: Any) -> float:
    """A time in seconds; a number stays what it is, also where it is finer than a microsecond."""
    return start if isinstance(start, (int, float)) else Timestamp.of(start).micros / 1_000_000


def _warn_or_refuse(data: Sequence[Any], count: int, stop: Any) -> None:
    found = f"PeriodicImpulse: {count} elements are due until {stop}, and data has {len(data)}: not enough to span that"
    if _is_timestamped(data):
        raise ValueError(
            f"{found}. Elements with timestamps of their own aren't repeated; give more of them, or stop earlier"
        )
    warnings.warn(f"{found}, so it begins again with the first after the last", UserWarning, stacklevel=3)


def _is_timestamped(data: Sequence[Any]) -> bool:
    return isinstance(data[0], tuple) and len(data[0]) == 2 and isinstance(data[0][0], Timestamp)
