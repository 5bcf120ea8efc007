"""Number columns: pairs of numbers before the shuffle of a plain grouping, distributed to key groups by NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from ....windowing import BoundedWindow
from ..serialization.number_pairs import NumberPairs, marshalled_pairs
from ..windows.columns.number_groups import block_of_numbers, order_of, starts_of_runs

# The size of the records that are distributed together, in bytes.  The processor's second-level cache holds the arrays
# that this takes, and the allocator keeps their memory: 2 MiB at a time cost 20 ns more for each pair.
_TOGETHER = 256 << 10

# Records of a key group, and the runs of them with the same window: the places of the windows, and lengths.
_Part = tuple[memoryview, list[int], list[int]]


class NumberColumns:
    """Pairs of numbers that wait to be sent.

    Args:
      groups: the number of key groups that they are distributed to, by the hashes of their keys.

    Attributes:
      nbytes: the size of their records.
    """

    def __init__(self, groups: int) -> None:
        self._number = groups
        self._value: type | None = None
        self._parts: list[list[_Part]] = [[] for _ in range(groups)]
        self._clear()

    def _clear(self) -> None:
        self.nbytes = 0
        self._windows: dict[BoundedWindow, int] = {}
        for parts in self._parts:
            parts.clear()
        self._clear_records()

    def _clear_records(self) -> None:
        # Records that have yet to be distributed, and their runs.
        self._records: list[bytes] = []
        self._waiting = 0
        self._places: list[int] = []
        self._lengths: list[int] = []

    def add(self, columns: dict[BoundedWindow, list[Any]]) -> bool:
        """Add the pairs of some windows; return False, adding none, if not all of them are numbers.

        All values have the type of the first one ever added.

        Args:
          columns: keys and values, one after the other, by window; none of them is empty.
        """
        items = list(chain.from_iterable(columns.values())) if len(columns) > 1 else next(iter(columns.values()))
        value = self._value or type(items[1])
        records = marshalled_pairs(items, value)
        if records is None:
            return False
        self._value = value
        self._records.append(records)
        self._waiting += len(records)
        self.nbytes += len(records)
        for window, column in columns.items():
            self._places.append(self._windows.setdefault(window, len(self._windows)))
            self._lengths.append(len(column) // 2)
        if self._waiting >= _TOGETHER:
            self._distribute()
        return True

    def blocks(self, most_bytes: int) -> Iterator[tuple[int, bytes]]:
        """Remove and yield all pairs as blocks, with the key group of each.

        Pairs of a key group and window are in the order in which they were added.

        Args:
          most_bytes: the size of the records of a block, beyond which there is another, unless they were distributed
            together.
        """
        value = self._value
        if value is None:
            return
        self._distribute()
        windows = list(self._windows)
        for group, parts in enumerate(self._parts):
            start = size = 0
            for i, (records, _, _) in enumerate(parts):
                if size and size + len(records) > most_bytes:
                    yield group, block_of_numbers(windows, value, parts[start:i])
                    start, size = i, 0
                size += len(records)
            if size:
                yield group, block_of_numbers(windows, value, parts[start:])
        self._clear()

    def _distribute(self) -> None:
        if not self._records:
            return
        import numpy

        assert self._value is not None
        pairs = NumberPairs(b"".join(self._records), self._value)
        columns = [(pairs.hashes() % self._number).astype(numpy.min_scalar_type(self._number))]
        if len(self._windows) > 1:
            kind = numpy.min_scalar_type(len(self._windows))
            columns.insert(0, numpy.repeat(numpy.array(self._places, kind), self._lengths))
        order = order_of(columns)
        columns = [column[order] for column in columns]
        starts = starts_of_runs(columns)
        lengths = numpy.diff(starts, append=len(pairs)).tolist()
        places = columns[0][starts].tolist() if len(self._windows) > 1 else [0] * len(starts)
        groups = columns[-1]
        ends = numpy.bincount(groups, minlength=self._number).cumsum().tolist()
        run_ends = numpy.bincount(groups[starts], minlength=self._number).cumsum().tolist()
        records, width, start, run = pairs.take(order), pairs.width, 0, 0
        for parts, end, run_end in zip(self._parts, ends, run_ends, strict=True):
            if end > start:
                parts.append((records[start * width : end * width], places[run:run_end], lengths[run:run_end]))
                start, run = end, run_end
        self._clear_records()
