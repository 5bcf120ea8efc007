"""GenerateSequence: whole numbers, all at once or at a rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PBegin, PCollection
from ..sdk.sources.bounded import ValuesSource
from ..sdk.sources.event_time_reader import EventTimes
from ..sdk.sources.scheduled_source import ScheduledSource
from ..sdk.watermark_estimators import EstimatorTypes
from ..transforms.read import Read
from ..transforms.times.with_timestamps import WithTimestamps
from ..windowing.duration import micros_of_span
from ..windowing.timestamp import Timestamp


class SequenceSource(ScheduledSource[int]):
    """Numbers from `start` on."""

    start: int = 0

    def elements_at(self, indices: Sequence[int], due: list[int] | None) -> tuple[list[int], list[int] | None]:
        start = self.start
        if isinstance(indices, range):
            return list(range(indices.start + start, indices.stop + start, indices.step)), due
        return [index + start for index in indices], due

    def identity(self) -> Mapping[str, Any]:
        begin = None if self.begin is None else str(Timestamp.of_micros(self.begin))
        stop = None if self.count is None else self.start + self.count
        return {**super().identity(), "start": self.start, "stop": stop, "start_time": begin}

    def rescalable_from(self, before: Mapping[str, Any]) -> Set[str]:
        return {"partitions", "stop"}

    def rescale(self, before: Mapping[str, Any], offsets: Mapping[Any, Any]) -> Mapping[Any, Any]:
        count = None if before["stop"] is None else before["stop"] - before["start"]
        return self.shared_out(before["partitions"], count, offsets)


class GenerateSequence(PTransform):
    """The numbers from `start` up to, and without, `stop`, or without an end.

    Returns a `PCollection[int]`.

    Without a stop, or with a rate, it is unbounded.  At a rate, a number's event time is its due time, and the
    watermark follows it.  Without a rate, the event time is the time of reading.

    Args:
      elements_per_period, period: the rate, `period` in seconds; both or neither.  The numbers are spread evenly over
        the period.  A reader that was interrupted catches up.
      partitions: how many readers share the numbers; the second of three gives every third
        number, from the second on.
      start_time: the due time of the first number (seconds, or a Timestamp), which makes all runs alike; None for the
        time of the first read.
      timestamp_fn: returns each number's event time.  An unbounded sequence then needs a `watermark_estimator`, which
        declares the order of the event times.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.GenerateSequence(1, stop=4) | beam.Map(print)
    1
    2
    3
    """

    def __init__(
        self,
        start: int,
        stop: int | None = None,
        elements_per_period: int | None = None,
        period: Any = None,
        *,
        partitions: int = 1,
        start_time: Any = None,
        timestamp_fn: Callable[[int], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None:
        super().__init__()
        for name, number in (("start", start), ("stop", stop), ("elements_per_period", elements_per_period)):
            if not isinstance(number, int) and (number is not None or name == "start"):
                raise TypeError(f"GenerateSequence: {name} must be a whole number, got {number!r}")
        if (elements_per_period is None) != (period is None):
            raise ValueError(
                f"GenerateSequence: a rate is elements_per_period and period, got {elements_per_period!r} and "
                f"{period!r}; give both or neither"
            )
        period_micros = 1 if period is None else micros_of_span(period)
        if period_micros <= 0 or (elements_per_period is not None and elements_per_period <= 0):
            raise ValueError(
                f"GenerateSequence: a rate must be more than 0, got {elements_per_period!r} every {period!r} seconds"
            )
        if partitions < 1:
            raise ValueError(f"GenerateSequence: partitions must be 1 or more, got {partitions!r}")
        self.start, self.stop = start, stop
        self.timestamp_fn = timestamp_fn
        self.source: SequenceSource | None = None
        if stop is None or elements_per_period is not None:
            times = None
            if timestamp_fn is not None or watermark_estimator is not None or idle_after is not None:
                times = EventTimes.of("GenerateSequence", timestamp_fn, watermark_estimator, idle_after)
            begin = None if start_time is None else Timestamp.of(start_time).micros
            count = None if stop is None else max(stop - start, 0)
            self.source = SequenceSource(elements_per_period, period_micros, begin, count, partitions, times)
            self.source.start = start

    def expand(self, pbegin: PBegin) -> PCollection[int]:
        numbers: PCollection[int]
        if self.source is not None:
            numbers = pbegin | Read(self.source).with_output_types(int)
            return numbers
        assert self.stop is not None
        numbers = pbegin | Read(ValuesSource(range(self.start, self.stop))).with_output_types(int)
        return numbers if self.timestamp_fn is None else numbers | WithTimestamps(self.timestamp_fn)
