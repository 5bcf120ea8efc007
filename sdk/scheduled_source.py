"""ScheduledSource: elements that are due by the clock, so many in each period.

Element i is due at `begin + i * period / elements`, and has that event time.  Where a reader
stands is a number and a beginning, so the same offset gives the same elements, whenever and
however often it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ..windowing.timestamp import MIN_MICROS, Timestamp
from .event_time_reader import EventTimeReader, EventTimes
from .unbounded_source import UnboundedReader, UnboundedSource

T = TypeVar("T")


class ScheduledSource(UnboundedSource[T]):
    """A subclass says by `elements_at` what the elements are.

    Args:
      elements: how many are due in each period; None for as many as are asked for.
      period: in microseconds.
      begin: when the first is due, in microseconds; None for when it is first asked for.
      count: how many there are; None for no end.
      partitions: how many readers share them, each taking every so manieth.
      times: event times, where they aren't those of the schedule.
    """

    def __init__(
        self,
        elements: int | None,
        period: int,
        begin: int | None = None,
        count: int | None = None,
        partitions: int = 1,
        times: EventTimes | None = None,
    ) -> None:
        self.elements = elements
        self.period = period
        self.begin = begin
        self.count = count
        self.number_of_partitions = partitions
        self.times = times

    @property
    def repeatable(self) -> bool:  # type: ignore[override]
        """Whether event times don't depend on when it is read."""
        if self.times is not None:
            return self.times.timestamp_fn is not None
        return self.begin is not None and self.elements is not None

    def elements_at(self, indices: range, due: list[int] | None) -> tuple[list[T], list[int] | None]:
        """The elements of these numbers, and their event times: those they are due at, or others."""
        raise NotImplementedError(f"{type(self).__name__}.elements_at")

    def partitions(self) -> Sequence[int]:
        return range(self.number_of_partitions)

    def open(self, partition: int, offset: Any | None) -> UnboundedReader[T]:
        return ScheduledReader(self, *(offset or (partition, self.begin)))

    def due(self, index: int, begin: int) -> int:
        """When an element is due, in microseconds."""
        assert self.elements is not None
        return begin + index * self.period // self.elements

    def due_by(self, now: int, begin: int) -> int:
        """How many elements are due at this time."""
        assert self.elements is not None
        return max(-(-(now - begin + 1) * self.elements // self.period), 0)


class ScheduledReader(EventTimeReader[T]):
    """Reads every so manieth element; its offset is the number of the next, and when the first was due."""

    def __init__(self, source: ScheduledSource[T], index: int, begin: int | None) -> None:
        super().__init__(source.times or EventTimes())
        self.source = source
        self._index = index
        self._begin = begin
        self._last = MIN_MICROS
        self._stop = 0

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[T], list[int] | int | None]:
        source, step = self.source, self.source.number_of_partitions
        if source.elements is not None and self.end is not None:
            self._begin = self.end[1]
        elif source.elements is not None and self._begin is None:
            self._begin = now.micros
        self._stop = self._index + max_elements * step
        if self.end is not None:
            self._stop = min(self._stop, self.end[0])
        elif self._begin is not None and source.elements is not None:
            self._stop = min(self._stop, source.due_by(now.micros, self._begin))
        if source.count is not None:
            self._stop = min(self._stop, source.count)
        indices = range(self._index, self._stop, step)
        if not indices:
            return [], None
        self._index = indices[-1] + step
        due = None
        if self._begin is not None and source.elements is not None:
            begin, period, elements = self._begin, source.period, source.elements
            due = [begin + i * period // elements for i in indices]
            self._last = due[-1]
        return source.elements_at(indices, due)

    def time_jumped(self, micros: int) -> None:
        super().time_jumped(micros)
        # A schedule that nobody has fixed keeps its rate; one that begins at a given time is behind, and catches up.
        if self._begin is not None and self.source.begin is None:
            self._begin += micros

    def offset(self) -> tuple[int, int | None]:
        return self._index, self._begin

    def watermark(self, now: Timestamp) -> int:
        source = self.source
        if source.times is None and self._begin is not None and source.elements is not None and not self.is_finished():
            # Until the next is due, event time goes on with the clock.
            reached = max(self._last, min(source.due(self._index, self._begin), now.micros))
            self._watermark = max(self._watermark, reached)
            return self._watermark
        if source.times is None and source.elements is not None and not self.is_finished():
            return self._watermark
        return super().watermark(now)

    def backlog(self) -> int | None:
        if self.source.count is None:
            return None
        return len(range(self._index, self.source.count, self.source.number_of_partitions))

    def is_finished(self) -> bool:
        return self.source.count is not None and self._index >= self.source.count
