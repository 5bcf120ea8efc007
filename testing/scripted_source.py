"""ScriptedSource: an unbounded source with given elements, in the order of their arrival."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Generic

from ..frozen import frozen
from ..sdk.coders.digest import digest_of
from ..sdk.elements.bundle import Bundle
from ..sdk.sources.unbounded import UnboundedReader, UnboundedSource
from ..sdk.type_variables import T
from ..windowing import TimestampedValue
from ..windowing.timestamp import MAX_MICROS, Timestamp


@frozen
class _Partition:
    """A partition.

    Attributes:
      watermarks: the least timestamp of the elements from each index on.
    """

    values: tuple[Any, ...]
    timestamps: tuple[int, ...]
    watermarks: tuple[int, ...]

    @staticmethod
    def of(elements: Iterable[TimestampedValue]) -> _Partition:
        if not isinstance(elements, Iterable):
            raise TypeError(f"ScriptedSource: expected lists of TimestampedValues, one a partition, got {elements!r}")
        elements = tuple(elements)
        for element in elements:
            if not isinstance(element, TimestampedValue):
                raise TypeError(f"ScriptedSource: expected TimestampedValues in a partition, got {element!r}")
        timestamps = tuple(element.timestamp.micros for element in elements)
        least = list(accumulate(reversed(timestamps), min, initial=MAX_MICROS))
        return _Partition(tuple(element.value for element in elements), timestamps, tuple(reversed(least)))


class ScriptedSource(UnboundedSource[T], Generic[T]):
    """Partitions, each a list of `TimestampedValue`s, of which a few arrive at a time.

    For a runner it is like a log: unbounded, and replayable from offsets.  Timestamps may be out of order; the
    watermark is derived from the future elements, so none is late.

    Args:
      partitions: the elements of each partition.
      at_a_time: the largest number of elements that arrive at once; the clock decides their number.

    Raises `TypeError` for other values.

    >>> import penstock as beam
    >>> source = ScriptedSource([[beam.window.TimestampedValue("a", 5), beam.window.TimestampedValue("b", 3)]])
    >>> reader = source.open(0, None)
    >>> reader.watermark(Timestamp(0)) == Timestamp(3).micros
    True
    >>> reader.poll(10, Timestamp(0)).values, reader.offset()
    (['a'], 1)
    """

    repeatable = True

    def __init__(self, partitions: Sequence[Iterable[TimestampedValue[T]]], at_a_time: int = 3) -> None:
        self._partitions = tuple(map(_Partition.of, partitions))
        self._at_a_time = at_a_time

    def partitions(self) -> Sequence[int]:
        return range(len(self._partitions))

    def identity(self) -> Mapping[str, Any]:
        partitions = (list(zip(each.values, each.timestamps, strict=True)) for each in self._partitions)
        return {"partitions": digest_of(partitions)}

    def open(self, partition: int, offset: int | None) -> UnboundedReader[T]:
        return _ScriptedReader(self._partitions[partition], offset or 0, self._at_a_time)


class _ScriptedReader(UnboundedReader[T]):
    def __init__(self, partition: _Partition, offset: int, at_a_time: int) -> None:
        self._partition = partition
        self._offset = offset
        self._at_a_time = at_a_time

    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        start = self._offset
        stop = min(start + 1 + now.micros % self._at_a_time, start + max_elements, len(self._partition.values))
        self._offset = stop
        if start == stop:
            return None
        return Bundle(list(self._partition.values[start:stop]), list(self._partition.timestamps[start:stop]))

    def offset(self) -> int:
        return self._offset

    def watermark(self, now: Timestamp) -> int:
        return self._partition.watermarks[self._offset]

    def is_finished(self) -> bool:
        return self._offset == len(self._partition.values)
