"""EventTimes and EventTimeReader: event times, watermarks and idleness, for all readers.

A reader returns values, with event times or without. An EventTimeReader gives them the times that the user's function
returns, or else those of their arrival. It estimates the watermark, counts lags, and detects idle partitions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from ...frozen import frozen
from ...windowing.duration import micros_of_span
from ...windowing.timestamp import MAX_MICROS, MIN_MICROS, Timestamp, in_range
from ..elements.bundle import BUNDLE_SIZE, Bundle
from ..type_variables import T
from ..watermark_estimators import WalltimeWatermarkEstimator, WatermarkEstimatorProvider
from ..watermark_estimators.estimator import EstimatorTypes, provider_of
from .lag_sketch import LagSketch
from .unbounded import UnboundedReader, ended_early


def _idle_after(span: Any) -> int | None:
    if span is None:
        return None
    micros = micros_of_span(span, "idle_after")
    if micros <= 0:
        raise ValueError(f"EventTimes: idle_after must be more than 0 seconds, got {span!r}")
    return micros


def _estimator(given: Any) -> WatermarkEstimatorProvider:
    return provider_of(given, "EventTimes: estimator")


@frozen
class EventTimes:
    """The event times of a source's elements, and the estimation of its watermark.

    Args:
      timestamp_fn: returns an element's event time (seconds, a `Timestamp`, or a datetime with a time zone); None for
        the time of arrival, or the source's own event times.
      estimator: estimates the watermark: an estimator, its class, or a provider.  Without a `timestamp_fn` it may be
        left out, and the watermark follows the clock.
      idle_after: the time without elements (seconds, a `Duration`, or a timedelta) after which a partition is idle, so
        that it doesn't hold back the watermark; None for never.

    Raises `ValueError` for a `timestamp_fn` without an estimator: historical elements would be late by the clock.

    Attributes:
      idle_micros: `idle_after`, in microseconds.

    >>> import penstock as beam
    >>> from penstock.io.watermark_estimators import BoundedOutOfOrdernessWatermarkEstimator
    >>> times = beam.io.EventTimes(lambda row: row["at"], BoundedOutOfOrdernessWatermarkEstimator(30), idle_after=60)
    >>> times.idle_micros
    60000000
    """

    timestamp_fn: Callable[[Any], Any] | None = None
    estimator: WatermarkEstimatorProvider = attrs.field(converter=_estimator)
    idle_micros: int | None = attrs.field(default=None, alias="idle_after", converter=_idle_after)

    @estimator.default
    def _by_the_clock(self) -> WatermarkEstimatorProvider:
        if self.timestamp_fn is not None:
            raise ValueError(f"EventTimes: with a timestamp_fn give an estimator too, {_WHICH}")
        return WalltimeWatermarkEstimator.default_provider()

    @staticmethod
    def of(
        transform: str,
        timestamp_fn: Callable[[Any], Any] | None,
        watermark_estimator: EstimatorTypes | None,
        idle_after: Any,
        default: WatermarkEstimatorProvider | None = None,
    ) -> EventTimes:
        """Return the event times for a transform's arguments.  With a `timestamp_fn` the estimator is required.

        Raises `ValueError` and `TypeError`, naming the transform.
        """
        if watermark_estimator is None and timestamp_fn is not None:
            raise ValueError(f"{transform}: with a timestamp_fn give a watermark_estimator too, {_WHICH}")
        estimator = default or WalltimeWatermarkEstimator.default_provider()
        if watermark_estimator is not None:
            estimator = provider_of(watermark_estimator, f"{transform}: watermark_estimator")
        if idle_after is not None and micros_of_span(idle_after, f"{transform}: idle_after") <= 0:
            raise ValueError(f"{transform}: idle_after must be more than 0 seconds, got {idle_after!r}")
        return EventTimes(timestamp_fn, estimator, idle_after)


_WHICH = (
    "which says how far out of order the timestamps may be: BoundedOutOfOrdernessWatermarkEstimator(seconds), or "
    "MonotonicWatermarkEstimator"
)


class EventTimeReader(UnboundedReader[T]):
    """Base class of readers that only return values.

    A subclass defines `take`, `offset` and `is_finished`.  It uses `self.end` if it can determine the position of an
    offset in advance, so that a micro-batch is read in whole bundles.

    >>> class Letters(EventTimeReader[str]):
    ...     position = 0
    ...     def take(self, max_elements, now):
    ...         values = list("abc"[self.position:self.position + max_elements])
    ...         self.position += len(values)
    ...         return values, None
    ...     def offset(self):
    ...         return self.position
    >>> reader = Letters(EventTimes(idle_after=5))
    >>> reader.poll(10, Timestamp(20)).values, reader.watermark(Timestamp(21))
    (['a', 'b', 'c'], 21000000)
    >>> reader.is_idle(Timestamp(24)), reader.is_idle(Timestamp(25))
    (False, True)

    Attributes:
      end: the offset at which a micro-batch ends, or None.
    """

    end: Any = None

    def __init__(self, times: EventTimes) -> None:
        self.times = times
        self.estimator = times.estimator.create_watermark_estimator(times.estimator.initial_estimator_state(None, None))
        self.lags = LagSketch()
        self._active: int | None = None
        self._watermark = MIN_MICROS

    @abstractmethod
    def take(self, max_elements: int, now: Timestamp) -> tuple[list[T], list[int] | int | None]:
        """Return at most `max_elements` values, and their event times in microseconds, if the source has any.

        Never beyond `self.end`; and, if that is set, without waiting for the next poll.
        """

    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        if self._active is None:
            self._active = now.micros
        values, timestamps = self.take(max_elements, now)
        if not values:
            return None
        if self.times.timestamp_fn is not None:
            times = map(self.times.timestamp_fn, values)
            # No Timestamp is created for whole seconds, which would be most of the cost.
            timestamps = [t * 1_000_000 if type(t) is int else Timestamp.of(t).micros for t in times]
            in_range(min(timestamps)), in_range(max(timestamps))
        elif timestamps is None:
            timestamps = now.micros
        self.estimator.observe_all(timestamps)
        self.lags.observe(timestamps, now.micros, len(values))
        self._active = now.micros
        return Bundle(values, timestamps)

    def watermark(self, now: Timestamp) -> int:
        known = MAX_MICROS if self.is_finished() else self.estimator.at(now)
        self._watermark = max(self._watermark, known)
        return self._watermark

    def watermarks(self, now: Timestamp) -> dict[float, int]:
        return self.lags.watermarks(now.micros, self.watermark(now))

    def is_idle(self, now: Timestamp) -> bool:
        if self.times.idle_micros is None:
            return False
        if self._active is None:
            self._active = now.micros
        return now.micros - self._active >= self.times.idle_micros

    def time_jumped(self, micros: int) -> None:
        if self._active is not None:
            self._active += micros

    def read_to(self, offset_end: Any, now: Timestamp) -> Iterator[Bundle]:
        self.end = offset_end
        try:
            while self.offset() != offset_end:
                bundle = self.poll(BUNDLE_SIZE, now)
                if bundle is None:
                    if self.offset() == offset_end:
                        return
                    raise ended_early(self, offset_end)
                yield bundle
        finally:
            self.end = None
