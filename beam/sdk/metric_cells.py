"""Beam's cells of metrics: values that threads may report to.

>>> cell = CounterCell()
>>> cell.inc(2)
>>> cell.dec()
>>> cell.get_cumulative()
1
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ...frozen import frozen
from ...sdk.metrics.bounded_trie import BoundedTrieData
from ...sdk.metrics.distribution import DistributionData, GaugeData
from ...sdk.metrics.histogram import BucketType, Histogram, HistogramData
from ...sdk.metrics.string_set import StringSetData

_CellT = TypeVar("_CellT", bound="MetricCell")


class MetricCell:
    """Base class of cells, whose `data` is replaced or changed under a lock."""

    data: Any

    def __init__(self, identity: Callable[[], Any]) -> None:
        self._identity = identity
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Forget all reports."""
        self.data = self._identity()

    def update(self, value: Any) -> None:
        """Report a value."""
        raise NotImplementedError(type(self).__name__)

    def combine(self: _CellT, other: MetricCell) -> _CellT:
        """Return a cell with the reports of both."""
        combined = self._new()
        combined.data = self.data.combine(other.data)
        return combined

    def _new(self: _CellT) -> _CellT:
        return type(self)()  # type: ignore[call-arg]

    def get_cumulative(self) -> Any:
        """Return a copy of the data."""
        with self._lock:
            return self.data.get_cumulative()

    def __reduce__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: a cell can't be pickled; pickle its get_cumulative()")


class CounterCell(MetricCell):
    """A whole number."""

    data: int

    def __init__(self) -> None:
        super().__init__(int)

    @property
    def value(self) -> int:
        """The number."""
        return self.data

    def inc(self, n: int = 1) -> None:
        """Add `n`."""
        self.update(n)

    def dec(self, n: int = 1) -> None:
        """Subtract `n`."""
        self.update(-n)

    def update(self, value: int) -> None:
        with self._lock:
            self.data += int(value)

    def combine(self, other: MetricCell) -> CounterCell:
        combined = CounterCell()
        combined.data = self.data + other.data
        return combined

    def get_cumulative(self) -> int:
        with self._lock:
            return self.data


class DistributionCell(MetricCell):
    """A distribution of whole numbers: others are cut off."""

    data: DistributionData

    def __init__(self) -> None:
        super().__init__(DistributionData.identity_element)

    def update(self, value: float) -> None:
        with self._lock:
            self.data = self.data.combine(DistributionData.singleton(int(value)))


class GaugeCell(MetricCell):
    """The latest whole number."""

    data: GaugeData

    def __init__(self) -> None:
        super().__init__(GaugeData.identity_element)

    def set(self, value: float) -> None:
        """Replace the number."""
        self.update(value)

    def update(self, value: float) -> None:
        with self._lock:
            self.data = GaugeData(int(value))


class StringSetCell(MetricCell):
    """A set of texts."""

    data: StringSetData

    def __init__(self) -> None:
        super().__init__(StringSetData)

    def add(self, value: str) -> None:
        """Add a text."""
        self.update(value)

    def update(self, value: str) -> None:
        with self._lock:
            self.data.add(value)


class BoundedTrieCell(MetricCell):
    """A bounded trie of paths."""

    data: BoundedTrieData

    def __init__(self) -> None:
        super().__init__(BoundedTrieData)

    def add(self, value: Sequence[str]) -> None:
        """Add a path."""
        self.update(value)

    def update(self, value: Sequence[str]) -> None:
        with self._lock:
            self.data.add(value)


class HistogramCell(MetricCell):
    """Counts of values in buckets."""

    data: HistogramData

    def __init__(self, bucket_type: BucketType) -> None:
        self._bucket_type = bucket_type
        super().__init__(lambda: HistogramData(Histogram(bucket_type)))

    def update(self, value: float) -> None:
        self.data.histogram.record(value)

    def _new(self) -> HistogramCell:
        return HistogramCell(self._bucket_type)


class MetricCellFactory:
    """Base class of functions that make cells, and can be compared."""

    def __call__(self) -> MetricCell:
        raise NotImplementedError(type(self).__name__)


@frozen
class HistogramCellFactory(MetricCellFactory):
    """Makes cells of histograms with some buckets."""

    _bucket_type: BucketType

    def __call__(self) -> HistogramCell:
        return HistogramCell(self._bucket_type)
