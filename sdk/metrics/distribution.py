"""Values of distributions and gauges, and how those of several bundles are combined."""

from __future__ import annotations

import time
from typing import Any

import attrs

from ...frozen import frozen


@frozen
class DistributionData:
    """Sum, count, minimum and maximum of the values of a distribution, which can be combined.

    >>> DistributionData(3, 1, 3, 3).combine(DistributionData(9, 2, 4, 5))
    DistributionData(sum=12, count=3, min=3, max=5)
    """

    sum: float
    count: int
    min: float | None
    max: float | None

    @staticmethod
    def singleton(value: float) -> DistributionData:
        """Return the data of one value."""
        return DistributionData(value, 1, value, value)

    @staticmethod
    def identity_element() -> DistributionData:
        """Return the data of no value."""
        return DistributionData(0, 0, None, None)

    def combine(self, other: DistributionData | None) -> DistributionData:
        """Return the data of the values of both."""
        if other is None or not other.count:
            return self
        if not self.count:
            return other
        ends = [end for end in (self.min, self.max, other.min, other.max) if end is not None]
        return DistributionData(self.sum + other.sum, self.count + other.count, min(ends), max(ends))

    def get_cumulative(self) -> DistributionData:
        """Return itself: it doesn't change."""
        return self

    def get_result(self) -> DistributionResult:
        """Return what a query returns of it."""
        return DistributionResult(self)


@frozen(repr=False)
class DistributionResult:
    """Sum, count, minimum, maximum and mean of the values of a distribution.

    >>> DistributionResult(DistributionData(sum=10, count=4, min=1, max=4)).mean
    2.5
    """

    data: DistributionData

    @property
    def sum(self) -> float:
        """The sum of the values."""
        return self.data.sum

    @property
    def count(self) -> int:
        """The number of values."""
        return self.data.count

    @property
    def min(self) -> float | None:
        """The least value, or None without values."""
        return self.data.min if self.data.count else None

    @property
    def max(self) -> float | None:
        """The greatest value, or None without values."""
        return self.data.max if self.data.count else None

    @property
    def mean(self) -> float | None:
        """The mean, or None without values."""
        return self.data.sum / self.data.count if self.data.count else None

    def __repr__(self) -> str:
        return (
            f"DistributionResult(sum={self.sum}, count={self.count}, min={self.min}, max={self.max}, mean={self.mean})"
        )


@frozen
class GaugeData:
    """The latest value of a gauge, and when it was set, in seconds since the epoch: by default now.

    >>> GaugeData(7, 20.0).combine(GaugeData(8, 10.0)).value
    7
    """

    value: Any
    timestamp: float = attrs.field(factory=time.time)

    @staticmethod
    def singleton(value: Any, timestamp: float | None = None) -> GaugeData:
        """Return the data of one value."""
        return GaugeData(value) if timestamp is None else GaugeData(value, timestamp)

    @staticmethod
    def identity_element() -> GaugeData:
        """Return the data of a gauge that was never set."""
        return GaugeData(None, 0)

    def combine(self, other: GaugeData | None) -> GaugeData:
        """Return the later one."""
        return self if other is None or other.timestamp < self.timestamp else other

    def get_cumulative(self) -> GaugeData:
        """Return itself: it doesn't change."""
        return self

    def get_result(self) -> GaugeResult:
        """Return what a query returns of it."""
        return GaugeResult(self)


@frozen(repr=False)
class GaugeResult:
    """A gauge's latest value and when it was set, in seconds since the epoch.

    >>> GaugeResult(GaugeData(5, 20.0))
    GaugeResult(value=5, timestamp=20.0)
    """

    data: GaugeData

    @property
    def value(self) -> Any:
        """The latest value."""
        return self.data.value

    @property
    def timestamp(self) -> float:
        """When it was set."""
        return self.data.timestamp

    def __repr__(self) -> str:
        return f"GaugeResult(value={self.value}, timestamp={self.timestamp})"
