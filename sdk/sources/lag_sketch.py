"""LagSketch: how long after they happened a source's elements come, as percentiles.

A watermark waits for the slowest element.  A percentile watermark says up to which event time
a share of them has come: if 95 of 100 elements arrive at most 20 seconds after they happened,
then of what happened until 20 seconds ago, 95 of 100 are here.  `AfterWatermarkPercentile`
fires by it.

The sketch is a histogram whose buckets grow with the lag, so that a percentile is at most a
fifteenth more than the true one, and whose counts fade, so that an hour with a backlog is forgotten.
It needs no package, and a few hundred counters.  Source: Dataflow Model, section 2.3; the
buckets are those of DDSketch (Masson, Rim, Lee: VLDB 2019).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...windowing.timestamp import MAX_MICROS, MIN_MICROS

# The shares that travel with the watermark.
PERCENTILES: tuple[float, ...] = (0.5, 0.75, 0.9, 0.95, 0.99)

# Each bucket's upper end is this much further out than the one before.  It stands for all that
# is in the bucket: a watermark had better be too early than too late.
_GROWTH = math.log(16 / 15)

# Of a large bundle so many elements are looked at, each standing for its share.
_SAMPLED = 64

# When so many elements have been counted, all counts are halved.
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
        """Elements with these event times came at `now`, in microseconds; one time may be that of several."""
        if isinstance(timestamps, int):
            self._count(now - timestamps, elements)
        else:
            column = timestamps if isinstance(timestamps, list) else list(timestamps)
            step = -(-len(column) // _SAMPLED) if column else 1
            # From the middle of each step, so that no end of the bundle counts for more.
            sample = column[step // 2 :: step] or column
            for micros in sample:
                self._count(now - micros, len(column) / len(sample))
        if self._total > _FADES_AFTER:
            self._counts = {bucket: count / 2 for bucket, count in self._counts.items() if count >= 1}
            self._total = sum(self._counts.values())

    def lag(self, percentile: float) -> int | None:
        """The lag, in microseconds, that this share of the elements has at most; None before the first.

        >>> LagSketch().lag(0.5) is None
        True
        """
        if not self._total:
            return None
        wanted, seen = percentile * self._total, 0.0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            # Counts that were divided don't quite add up.
            if seen >= wanted * (1 - 1e-9):
                break
        return 0 if bucket < 0 else round(math.exp(bucket * _GROWTH))

    def watermarks(self, now: int, low: int, percentiles: Iterable[float] = PERCENTILES) -> dict[float, int]:
        """By share, up to which event time it has come: never before `low`, and never going back."""
        found: dict[float, int] = {}
        for percentile in percentiles:
            lag = self.lag(percentile)
            reached = max(low, self._reached.get(percentile, MIN_MICROS))
            if lag is not None:
                reached = max(reached, min(now - lag, MAX_MICROS))
            found[percentile] = self._reached[percentile] = reached
        return found

    def merge(self, other: LagSketch) -> None:
        """Count what the other has counted too."""
        for bucket, count in other._counts.items():
            self._counts[bucket] = self._counts.get(bucket, 0.0) + count
        self._total += other._total

    def _count(self, lag: int, elements: float) -> None:
        # What comes early, or at once, is one bucket.
        bucket = math.ceil(math.log(lag) / _GROWTH) if lag > 0 else -1
        self._counts[bucket] = self._counts.get(bucket, 0.0) + elements
        self._total += elements
