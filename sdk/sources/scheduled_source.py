"""ScheduledSource: elements at a rate, which are due by the clock.

Element i is due at `begin + i * period / elements`, and has that event time.  An offset is a number and a beginning, so
reading from the same offset always returns the same elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd
from typing import Any

from ...windowing.timestamp import MIN_MICROS, Timestamp
from ..type_variables import T
from .event_time_reader import EventTimeReader, EventTimes
from .unbounded import UnboundedReader, UnboundedSource

# Unread numbers before the offset's own: first, end and step of each series.
Left = tuple[tuple[int, int, int], ...]


class ScheduledSource(UnboundedSource[T]):
    """Base class of scheduled sources.  A subclass defines the elements by `elements_at`.

    Args:
      elements: the number of elements that are due in each period; None for no schedule.
      period: in microseconds.
      begin: the due time of the first element in microseconds; None for the time of the first read.
      count: the number of elements; None for no end.
      partitions: the number of readers, of which each takes every n-th element.
      times: event times, if they aren't those of the schedule.

    Attributes:
      is_ahead: whether the watermark is at the next element's due time at once; else it follows the clock until then.
      newest_only: whether of several elements that are due only the last is read.
    """

    is_ahead = False
    # Whether of several elements that are due only the last is read, as after a time in which nothing was.
    newest_only = False

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
        """Whether event times are independent of the time of reading."""
        if self.times is not None:
            return self.times.timestamp_fn is not None
        return self.begin is not None and self.elements is not None

    def elements_at(self, indices: Sequence[int], due: list[int] | None) -> tuple[list[T], list[int] | None]:
        """Return the elements of these numbers, and their event times, which are their due times by default."""
        raise NotImplementedError(f"{type(self).__name__}.elements_at")

    def least_from(self, index: int, due: int) -> int:
        """Return the least event time of the elements from this number on, the first of which is due at `due`."""
        return due

    def count_from(self, begin: int | None) -> int | None:
        """Return the number of elements if the first is due at `begin`, or None for no end."""
        return self.count

    def partitions(self) -> Sequence[int]:
        return range(self.number_of_partitions)

    def identity(self) -> Mapping[str, Any]:
        return {
            "elements_per_period": self.elements,
            "period": self.period / 1_000_000,
            "partitions": self.number_of_partitions,
        }

    def shared_out(self, partitions: int, count: int | None, offsets: Mapping[int, Any]) -> Mapping[int, Any]:
        """Return offsets for this source's partitions after a change of their number.

        They cover the numbers that some of the former partitions were behind with, and all later numbers.

        Args:
          count: the former number of elements; None for no end.
          offsets: the offset of each former partition; None for a finished one.
        """
        finished = count or 0
        positions = {
            i: offsets.get(i, (i, None)) or (finished + (i - finished) % partitions, None) for i in range(partitions)
        }
        begins = [position[1] for position in positions.values() if position[1] is not None]
        # The latest beginning, so that no element is late.
        begin = max(begins, default=self.begin)
        front = max(position[0] for position in positions.values())
        left = [series for position in positions.values() for series in _left_of(position)]
        left += [(position[0], front, partitions) for position in positions.values()]
        shared: dict[int, Any] = {}
        for i in range(self.number_of_partitions):
            own = tuple(sorted(_own_of(left, i, self.number_of_partitions)))
            shared[i] = (front + (i - front) % self.number_of_partitions, begin, *([own] if own else []))
        return shared

    def open(self, partition: int, offset: Any | None) -> UnboundedReader[T]:
        return ScheduledReader(self, *(offset or (partition, self.begin)))

    def due(self, index: int, begin: int) -> int:
        """Return the due time of an element, in microseconds."""
        assert self.elements is not None
        return begin + index * self.period // self.elements

    def due_by(self, now: int, begin: int) -> int:
        """Return the number of elements that are due at this time."""
        assert self.elements is not None
        return max(-(-(now - begin + 1) * self.elements // self.period), 0)


class ScheduledReader(EventTimeReader[T]):
    """Reader of every n-th element.  Its offset is the number of the next element, and the due time of the first.

    After a change of the number of partitions there may be earlier numbers that other partitions hadn't read.  They
    come first, and are in the offset until they are read.
    """

    def __init__(self, source: ScheduledSource[T], index: int, begin: int | None, left: Left = ()) -> None:
        super().__init__(source.times or EventTimes())
        self.source = source
        self._index = index
        self._begin = begin
        self._left = left
        self._last = MIN_MICROS

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[T], list[int] | int | None]:
        source = self.source
        if source.elements is not None and self.end is not None:
            self._begin = self.end[1]
        elif source.elements is not None and self._begin is None:
            self._begin = now.micros
        stop = self._stop(now)
        indices = self._take_left(max_elements, stop) if self._left else self._take_own(max_elements, stop)
        if not indices:
            return [], None
        due = None
        if self._begin is not None and source.elements is not None:
            begin, period, elements = self._begin, source.period, source.elements
            due = [begin + i * period // elements for i in indices]
            self._last = due[-1]
        return source.elements_at(indices, due)

    def time_jumped(self, micros: int) -> None:
        super().time_jumped(micros)
        # A schedule without a given start keeps its rate.  One with a given start is behind, and catches up.
        if self._begin is not None and self.source.begin is None:
            self._begin += micros

    def _stop(self, now: Timestamp) -> int | None:
        """Return the number to stop before, or None for no limit."""
        source, begin = self.source, self._begin
        count = source.count_from(begin)
        if self.end is not None or begin is None or source.elements is None:
            return count
        due = source.due_by(now.micros, begin)
        return due if count is None else min(due, count)

    def _take_own(self, max_elements: int, stop: int | None) -> range:
        step = self.source.number_of_partitions
        last = self._index + max_elements * step
        if stop is not None:
            last = min(last, stop)
        if self.end is not None:
            last = min(last, self.end[0])
        indices = range(self._index, last, step)
        if self.source.newest_only and indices:
            limits = [limit for limit in (stop, None if self.end is None else self.end[0]) if limit is not None]
            indices = range(self._index, min(limits, default=last), step)[-1:]
        if indices:
            self._index = indices[-1] + step
        return indices

    def _take_left(self, max_elements: int, stop: int | None) -> list[int]:
        """Return the least of the earlier numbers, in order."""
        ahead = self._left_until_end()
        found = sorted(i for first, end, step in ahead for i in range(first, end, step)[:max_elements])
        taken = found[:max_elements]
        if stop is not None:
            taken = [i for i in taken if i < stop]
        if taken:
            behind = taken[-1] + 1
            self._left = _from(self._left, behind)
        return taken

    def _left_until_end(self) -> Left:
        if self.end is None:
            return self._left
        kept = [first for first, _, _ in _left_of(self.end)]
        # The rest begins where the batch ended.
        return tuple((first, min([end, *kept]), step) for first, end, step in self._left)

    def offset(self) -> tuple[Any, ...]:
        return (self._index, self._begin, *([self._left] if self._left else []))

    def watermark(self, now: Timestamp) -> int:
        source = self.source
        if source.times is None and source.elements is not None and not self.is_finished():
            if self._begin is not None:
                index = min(first for first, _, _ in self._left) if self._left else self._index
                due = source.due(index, self._begin)
                known = due if source.is_ahead else min(due, now.micros)
                reached = source.least_from(index, max(self._last, known))
                self._watermark = max(self._watermark, reached)
            return self._watermark
        return super().watermark(now)

    def backlog(self) -> int | None:
        count = self.source.count_from(self._begin)
        if count is None:
            return None
        left = sum(len(range(first, min(end, count), step)) for first, end, step in self._left)
        return left + len(range(self._index, count, self.source.number_of_partitions))

    def is_finished(self) -> bool:
        if self._left:
            return self.backlog() == 0
        count = self.source.count_from(self._begin)
        return count is not None and self._index >= count


def _left_of(offset: Sequence[Any]) -> Left:
    return tuple(offset[2]) if len(offset) > 2 else ()


def _from(left: Iterable[tuple[int, int, int]], index: int) -> Left:
    """Return the parts of these series from a number on."""
    later = ((max(first, index + (first - index) % step), end, step) for first, end, step in left)
    return tuple(series for series in later if series[0] < series[1])


def _own_of(left: Iterable[tuple[int, int, int]], index: int, partitions: int) -> Left:
    """Return the parts of these series for one of `partitions` partitions.

    >>> _own_of([(1, 20, 3)], 0, 2), _own_of([(1, 20, 3)], 1, 2)
    (((4, 20, 6),), ((1, 20, 6),))
    """
    own = []
    for first, end, step in left:
        common = gcd(step, partitions)
        for start in range(first, min(first + step * (partitions // common), end), step):
            if start % partitions == index:
                own.append((start, end, step * partitions // common))
    return tuple(own)
