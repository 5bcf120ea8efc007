"""LagSketch: percentiles of the lag between event time and arrival of a source's elements.

A watermark waits for the slowest element.  A percentile watermark is the event time up to which a share of the elements
has arrived: if 95 of 100 elements arrive at most 20 seconds after their event time, then 95 of 100 elements with event
times before 20 seconds ago have arrived.  `AfterWatermarkPercentile` fires by it.

The sketch is a histogram whose buckets grow with the lag, so that a percentile is at most a fifteenth too large.  Its
counts decay, so that a former backlog loses its weight.  It needs a few hundred counters.  Source: Dataflow Model,
section 2.3; the buckets are those of DDSketch (Masson, Rim, Lee: VLDB 2019).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...windowing.timestamp import MAX_MICROS, MIN_MICROS

# The percentiles that are sent with the watermark.
PERCENTILES: tuple[float, ...] = (0.5, 0.75, 0.9, 0.95, 0.99)

# Ratio of the upper ends of neighbouring buckets.  The upper end stands for the whole bucket, since a watermark may be
# too early but not too late.
_GROWTH = math.log(16 / 15)

# The number of sampled elements of a large bundle.
_SAMPLED = 64

# The total count at which all counts are halved.
_FADES_AFTER = 100_000


class LagSketch:
    """Arrival lags of one partition.

    >>> sketch = LagSketch()
    >>> sketch.observe([1_000_000 * second for second in range(100)], now=100_000_000)
    >>> sketch.watermarks(now=200_000_000, low=0, percentiles=(0.5,))[0.5] // 1_000_000
    148
    """

    def __init__(self) -> None:
        self._counts: dict[int, float] = {}
        self._total = 0.0
        self._reached: dict[float, int] = {}

    def observe(self, timestamps: Iterable[int] | int, now: int, elements: int = 1) -> None:
        """Record the arrival at `now`, in microseconds, of elements with these event times, or with a common one."""
        if isinstance(timestamps, int):
            self._count(now - timestamps, elements)
        else:
            column = timestamps if isinstance(timestamps, list) else list(timestamps)
            step = -(-len(column) // _SAMPLED) if column else 1
            # From the middle of each step, so that the sample isn't biased to an end of the bundle.
            sample = column[step // 2 :: step] or column
            for micros in sample:
                self._count(now - micros, len(column) / len(sample))
        if self._total > _FADES_AFTER:
            self._counts = {bucket: count / 2 for bucket, count in self._counts.items() if count >= 1}
            self._total = sum(self._counts.values())

    def lag(self, percentile: float) -> int | None:
        """Return the percentile of the lag, in microseconds, or None without elements.

        >>> LagSketch().lag(0.5) is None
        True
        """
        if not self._total:
            return None
        wanted, seen = percentile * self._total, 0.0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            # Halved counts don't add up exactly.
            if seen >= wanted * (1 - 1e-9):
                break
        return 0 if bucket < 0 else round(math.exp(bucket * _GROWTH))

    def watermarks(self, now: int, low: int, percentiles: Iterable[float] = PERCENTILES) -> dict[float, int]:
        """Return the watermark of each percentile: at least `low`, and never going back."""
        found: dict[float, int] = {}
        for percentile in percentiles:
            lag = self.lag(percentile)
            reached = max(low, self._reached.get(percentile, MIN_MICROS))
            if lag is not None:
                reached = max(reached, min(now - lag, MAX_MICROS))
            found[percentile] = self._reached[percentile] = reached
        return found

    def merge(self, other: LagSketch) -> None:
        """Add the counts of another sketch."""
        for bucket, count in other._counts.items():
            self._counts[bucket] = self._counts.get(bucket, 0.0) + count
        self._total += other._total

    def _count(self, lag: int, elements: float) -> None:
        # Elements without a lag share one bucket.
        bucket = math.ceil(math.log(lag) / _GROWTH) if lag > 0 else -1
        self._counts[bucket] = self._counts.get(bucket, 0.0) + elements
        self._total += elements
