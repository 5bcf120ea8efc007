"""The values of a group that is too large for memory: on disk, and read as a stream.

A plain grouping gives a list of values.  Where a task holds much, its large groups move to a
file, and each gives a `SpilledValues` instead: an iterable that may be gone through any number
of times, with a chunk of it in memory at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from ..column_codec import decode_column, encode_column
from .bounded_operator import WindowOperator

# What a task holds in memory before it moves groups to disk.
MEMORY_BYTES = 64 << 20

# How large a chunk on disk is.  Smaller groups stay in memory: they would free less than they cost.
CHUNK_BYTES = 256 << 10

# What a value takes in memory besides its encoded bytes: an object, and a place in a list.
_OBJECT_BYTES = 56


class SpillFile:
    """Chunks of values on disk; gone when nobody refers to it any more."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="penstock-spill-")  # noqa: SIM115
        self._end = 0

    def write(self, values: list[Any]) -> tuple[int, int]:
        """Append a chunk; where it is."""
        data = encode_column(values)
        self._file.seek(self._end)
        self._file.write(data)
        place = (self._end, len(data))
        self._end += len(data)
        return place

    def read(self, place: tuple[int, int]) -> list[Any]:
        """The chunk at a place."""
        self._file.seek(place[0])
        return decode_column(self._file.read(place[1]))


class SpilledValues:
    """The values of one group, most of them on disk.

    >>> values = SpilledValues([1, 2, 3], SpillFile(), chunk=2)
    >>> values.extend([4])
    >>> list(values), len(values), list(values)
    ([1, 2, 3, 4], 4, [1, 2, 3, 4])
    """

    def __init__(self, values: Iterable[Any], file: SpillFile, chunk: int) -> None:
        self._file = file
        self._chunk = max(1, chunk)
        self._places: list[tuple[int, int]] = []
        self._tail: list[Any] = []
        self._length = 0
        self.extend(values)

    def extend(self, values: Iterable[Any]) -> None:
        """Add values at the end."""
        remaining = iter(values)
        while added := list(islice(remaining, self._chunk - len(self._tail))):
            self._length += len(added)
            self._tail += added
            if len(self._tail) == self._chunk:
                self._places.append(self._file.write(self._tail))
                self._tail = []

    def __iter__(self) -> Iterator[Any]:
        for place in self._places:
            yield from self._file.read(place)
        yield from self._tail

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"<{self._length} values, on disk>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (list, (list(self),))


class GroupSpill:
    """Keeps what the window operator of a plain grouping holds within memory.

    Args:
      operator: the operator.
      memory_bytes: how much it may hold, about.
    """

    def __init__(self, operator: WindowOperator, memory_bytes: int = MEMORY_BYTES) -> None:
        self._operator = operator
        self._limit = memory_bytes
        self._file: SpillFile | None = None
        # What has come since groups were last moved.
        self._bytes = 0
        self._values = 0

    def received(self, values: int, encoded_bytes: int) -> None:
        """So many values have come; moves large groups to disk if that makes it too many."""
        self._values += values
        self._bytes += encoded_bytes + values * _OBJECT_BYTES
        if self._bytes >= self._limit:
            self._spill()

    def flushed(self) -> None:
        """The operator holds nothing any more."""
        self._bytes = self._values = 0
        self._file = None

    def _spill(self) -> None:
        chunk = max(1, CHUNK_BYTES * self._values // self._bytes)
        file = self._file = self._file or SpillFile()

        def spilled(values: Any) -> Any:
            return SpilledValues(values, file, chunk) if type(values) is list and len(values) >= chunk else values

        self._operator.replace(spilled)
        self._bytes = self._values = 0
