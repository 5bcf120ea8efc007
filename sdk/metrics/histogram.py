"""Histogram: counts of values in buckets, and percentiles estimated from them."""

from __future__ import annotations

import logging
import math
import threading
from abc import ABC, abstractmethod
from collections import Counter
from typing import Any

from ...frozen import frozen

_LOGGER = logging.getLogger(__name__)


class BucketType(ABC):
    """Base class of the buckets of a histogram."""

    @abstractmethod
    def range_from(self) -> float:
        """Return the least value of the first bucket."""

    @abstractmethod
    def range_to(self) -> float:
        """Return the end of the last bucket."""

    @abstractmethod
    def num_buckets(self) -> int:
        """Return the number of buckets."""

    @abstractmethod
    def bucket_index(self, value: float) -> int:
        """Return the bucket of a value in the range."""

    @abstractmethod
    def bucket_size(self, index: int) -> float:
        """Return the width of a bucket."""

    def accumulated_bucket_size(self, end_index: int) -> float:
        """Return the width of the buckets before an index."""
        return sum(map(self.bucket_size, range(end_index)))


@frozen(init=False)
class LinearBucket(BucketType):
    """Buckets of one width.

    >>> LinearBucket(0, 20, 5).bucket_index(45)
    2
    """

    _start: float
    _width: float
    _num_buckets: int

    def __init__(self, start: float, width: float, num_buckets: int) -> None:
        self.__attrs_init__(start, width, num_buckets)

    def range_from(self) -> float:
        return self._start

    def range_to(self) -> float:
        return self._start + self._width * self._num_buckets

    def num_buckets(self) -> int:
        return self._num_buckets

    def bucket_index(self, value: float) -> int:
        return math.floor((value - self._start) / self._width)

    def bucket_size(self, index: int) -> float:
        return self._width

    def accumulated_bucket_size(self, end_index: int) -> float:
        return self._width * end_index


class Histogram:
    """Counts of values by bucket, and of those below and above all buckets.

    >>> histogram = Histogram(LinearBucket(0, 1, 10))
    >>> histogram.record(1, 1, 1, 6)
    >>> histogram.total_count(), histogram.p50()
    (4, 1.6666666666666665)
    """

    def __init__(self, bucket_type: BucketType) -> None:
        self._bucket_type = bucket_type
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._buckets: Counter[int] = Counter()
            self._below = self._above = 0

    def copy(self) -> Histogram:
        """Return a copy."""
        return self.combine(Histogram(self._bucket_type))

    def combine(self, other: Histogram) -> Histogram:
        """Return a histogram of the values of both.  Raises `RuntimeError` if they have different buckets."""
        if not isinstance(other, Histogram) or self._bucket_type != other._bucket_type:
            raise RuntimeError(f"failed to combine histogram: expected {self._bucket_type}, got {other!r}")
        combined = Histogram(self._bucket_type)
        for each in (self, other):
            with each._lock:
                combined._buckets.update(each._buckets)
                combined._below += each._below
                combined._above += each._above
        return combined

    def record(self, *args: float) -> None:
        """Add values.  Logs a warning for one that is in no bucket."""
        for value in args:
            self._record(value)

    def _record(self, value: float) -> None:
        start, end = self._bucket_type.range_from(), self._bucket_type.range_to()
        with self._lock:
            if value >= end:
                self._above += 1
            elif value < start:
                self._below += 1
            else:
                self._buckets[self._bucket_type.bucket_index(value)] += 1
                return
        if value >= end:
            _LOGGER.warning("record is out of upper bound %s: %s", end, value)
        else:
            _LOGGER.warning("record is out of lower bound %s: %s", start, value)

    def total_count(self) -> int:
        """Return the number of values."""
        return self._below + self._buckets.total() + self._above

    def p99(self) -> float:
        """Return the estimated percentile 0.99."""
        return self.get_linear_interpolation(0.99)

    def p90(self) -> float:
        """Return the estimated percentile 0.9."""
        return self.get_linear_interpolation(0.90)

    def p50(self) -> float:
        """Return the estimated median."""
        return self.get_linear_interpolation(0.50)

    def get_linear_interpolation(self, percentile: float) -> float:
        """Return an estimated percentile, as if the values of a bucket had equal distances.

        Returns minus or plus infinity for one outside of the buckets.  Raises `ValueError` unless `percentile` is
        between 0 and 1, and `RuntimeError` without values.
        """
        if not 0 <= percentile <= 1:
            raise ValueError(f"percentile should be between 0 and 1, got {percentile}.")
        with self._lock:
            total = self.total_count()
            if not total:
                raise RuntimeError("histogram has no record.")
            seen = self._below
            if seen / total >= percentile:
                return -math.inf
            for index in range(self._bucket_type.num_buckets()):
                count = self._buckets[index]
                if (seen + count) / total >= percentile:
                    inside = (percentile - seen / total) * self._bucket_type.bucket_size(index) / (count / total)
                    return self._bucket_type.range_from() + self._bucket_type.accumulated_bucket_size(index) + inside
                seen += count
        return math.inf

    def get_percentile_info(self) -> str:
        """Return a text with the number of values and some percentiles.

        >>> Histogram(LinearBucket(0, 1, 10)).get_percentile_info()
        'Total count: 0'
        """
        total = f"Total count: {self.total_count()}"
        if not self.total_count():
            return total
        shown = [
            f"{name}: {self._shown(at())}" for name, at in (("P99", self.p99), ("P90", self.p90), ("P50", self.p50))
        ]
        return ", ".join([total, *shown])

    def _shown(self, value: float) -> str:
        if value == -math.inf:
            return f"<{self._bucket_type.range_from()}"
        return f">={self._bucket_type.range_to()}" if value == math.inf else str(round(value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and self._state() == other._state()

    def __hash__(self) -> int:
        return hash(self._state())

    def _state(self) -> tuple[Any, ...]:
        counts = frozenset((index, count) for index, count in self._buckets.items() if count)
        return self._bucket_type, counts, self._below, self._above

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())


@frozen(repr=False)
class HistogramData:
    """The histogram of a metric, which can be combined with others of the same buckets."""

    histogram: Histogram

    @staticmethod
    def identity_element(bucket_type: BucketType) -> HistogramData:
        """Return the data of no value."""
        return HistogramData(Histogram(bucket_type))

    def combine(self, other: HistogramData | None) -> HistogramData:
        """Return the data of the values of both."""
        return self if other is None else HistogramData(self.histogram.combine(other.histogram))

    def get_cumulative(self) -> HistogramData:
        """Return a copy."""
        return HistogramData(self.histogram.copy())

    def get_result(self) -> HistogramResult:
        """Return what a query returns of it."""
        return HistogramResult(self.get_cumulative())

    def __repr__(self) -> str:
        return f"HistogramData({self.histogram.get_percentile_info()})"


@frozen(repr=False)
class HistogramResult:
    """The histogram of a metric, and percentiles estimated from it."""

    data: HistogramData

    @property
    def histogram(self) -> Histogram:
        """The histogram."""
        return self.data.histogram

    @property
    def p99(self) -> float:
        """The estimated percentile 0.99."""
        return self.histogram.p99()

    @property
    def p95(self) -> float:
        """The estimated percentile 0.95."""
        return self.histogram.get_linear_interpolation(0.95)

    @property
    def p90(self) -> float:
        """The estimated percentile 0.9."""
        return self.histogram.p90()

    def __repr__(self) -> str:
        return f"HistogramResult({self.histogram.get_percentile_info()})"
