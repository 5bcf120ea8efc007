"""CountingSource: the numbers from 0, as a source with Beam's interface."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .bounded_source import BoundedSource, SourceBundle
from .range_trackers import OffsetRangeTracker, RangeTracker


class CountingSource(BoundedSource):
    """The numbers from 0 to before `count`.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.Read(CountingSource(3)) | beam.Map(print)
    0
    1
    2
    """

    def __init__(self, count: int) -> None:
        self._count = count

    def estimate_size(self) -> int:
        return self._count

    def get_range_tracker(self, start_position: Any, stop_position: Any) -> OffsetRangeTracker:
        return OffsetRangeTracker(start_position or 0, self._count if stop_position is None else stop_position)

    def read(self, range_tracker: RangeTracker) -> Iterator[int]:
        for number in range(range_tracker.start_position(), range_tracker.stop_position()):
            if not range_tracker.try_claim(number):
                return
            yield number

    def split(
        self, desired_bundle_size: int, start_position: Any = None, stop_position: Any = None
    ) -> Iterator[SourceBundle]:
        stop = self._count if stop_position is None else stop_position
        for start in range(start_position or 0, stop, desired_bundle_size):
            end = min(start + desired_bundle_size, stop)
            yield SourceBundle(end - start, self, start, end)
