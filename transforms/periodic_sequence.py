"""PeriodicImpulse and PeriodicSequence: an element every so often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..sdk import graph
from ..sdk.errors import UnsupportedError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PBegin, PCollection
from ..sdk.scheduled_source import ScheduledSource
from ..sdk.source import ValuesSource
from ..sdk.windowed_value import unwrapped
from ..windowing import FixedWindows
from ..windowing.timestamp import MAX_MICROS, MAX_TIMESTAMP, Timestamp, micros_of
from .assign_windows import WindowInto
from .flatten import Flatten
from .read import Read


class ImpulseSource(ScheduledSource[Any]):
    """The times at which it fires, as elements; or the elements of a list, over and over."""

    data: Sequence[Any] | None = None

    def elements_at(self, indices: range, due: list[int] | None) -> tuple[list[Any], list[int] | None]:
        assert due is not None
        if self.data is None:
            return [Timestamp.of_micros(micros) for micros in due], due
        found = [self.data[i % len(self.data)] for i in indices]
        if not _is_timestamped(self.data):
            return found, due
        return [value for _, value in found], [timestamp.micros for timestamp, _ in found]


class PeriodicImpulse(PTransform):
    """An element at `start_timestamp`, and then every `fire_interval` seconds until `stop_timestamp`.

    An element is the time at which it fires, which is its event time too.  None comes before
    its time; those that are due in the past come at once.  It is unbounded.

    Args:
      start_timestamp: the first element's; None for when the pipeline starts to read.  (Beam's
        default is when the module was imported.)
      stop_timestamp: no element at or after it; the pipeline then ends.
      fire_interval: in seconds.
      apply_windowing: put each element into a window of its own, as long as the interval.
      data: elements to give instead of times, from the beginning again after the last where
        there is a `stop_timestamp`, once where there is none.  Pairs of a Timestamp and a value
        are values with event times of their own, which may be late; these aren't repeated.

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
        fire_interval: float = 360.0,
        apply_windowing: bool = False,
        data: Sequence[Any] | None = None,
    ) -> None:
        super().__init__()
        interval = micros_of(fire_interval)
        if interval <= 0:
            raise ValueError(f"PeriodicImpulse: fire_interval must be more than 0 seconds, got {fire_interval!r}")
        if data is not None and not len(data):
            raise ValueError("PeriodicImpulse: data must hold at least one element, got none")
        begin = None if start_timestamp is None else Timestamp.of(start_timestamp).micros
        stop = Timestamp.of(stop_timestamp).micros
        count = None if data is None else len(data)
        if stop < MAX_MICROS:
            if begin is None:
                raise ValueError("PeriodicImpulse: with a stop_timestamp give a start_timestamp too")
            if stop < begin:
                raise ValueError(
                    f"PeriodicImpulse: it would stop at {stop_timestamp} before it starts at {start_timestamp}"
                )
            count = -(-(stop - begin) // interval)
            if data is not None and _is_timestamped(data) and len(data) < count:
                raise ValueError(
                    f"PeriodicImpulse: {count} elements are due until {stop_timestamp}, but data has {len(data)} with "
                    "timestamps of their own, which aren't repeated; give more, or stop earlier"
                )
        self.interval = fire_interval
        self.apply_windowing = apply_windowing
        self.source = ImpulseSource(1, interval, begin, count)
        self.source.data = None if data is None else list(data)

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        hint = Timestamp if self.source.data is None else Any
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


def _is_timestamped(data: Sequence[Any]) -> bool:
    return isinstance(data[0], tuple) and len(data[0]) == 2 and isinstance(data[0][0], Timestamp)
