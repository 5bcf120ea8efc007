"""The values of a group that is too large for memory: on disk, and read as a stream.

A plain grouping gives a list of values.  Where a task holds many, those of its large
groups move to a file, and the group gives a `SpilledValues` instead: an iterable that may be
gone through any number of times, with a chunk of it in memory at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

from .cells import Cells
from .column_codec import decode_column, encode_column

# How many values a task holds in memory before it moves groups to disk.
VALUES_IN_MEMORY = 400_000

# Groups smaller than this stay in memory: a chunk on disk costs more than it frees.
SMALLEST_SPILLED = 4_096

# How many values are written, and read again, at a time.
CHUNK = 16_384


class SpillFile:
    """Chunks of values on disk; gone when nobody refers to it any more."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="penstock-spill-")  # noqa: SIM115 (it lives as long as this)
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

    def __init__(self, values: list[Any], file: SpillFile, chunk: int = CHUNK) -> None:
        self._file = file
        self._chunk = chunk
        self._places: list[tuple[int, int]] = []
        self._tail: list[Any] = []
        self._length = 0
        self.extend(values)

    def extend(self, values: list[Any]) -> None:
        """Add values at the end."""
        self._length += len(values)
        tail = self._tail
        tail.extend(values)
        if len(tail) >= self._chunk:
            for start in range(0, len(tail), self._chunk):
                self._places.append(self._file.write(tail[start : start + self._chunk]))
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
    """Keeps what a plain grouping holds within memory."""

    def __init__(self, values_in_memory: int = VALUES_IN_MEMORY) -> None:
        self._limit = values_in_memory
        self._file: SpillFile | None = None

    def check(self, cells: Cells) -> None:
        """Move large groups to disk if much has come since the last time."""
        if cells.size < self._limit:
            return
        cells.size = 0
        if self._file is None:
            self._file = SpillFile()
        for window in cells.by_window.values():
            groups = window.accumulators
            for key, values in groups.items():
                if type(values) is list and len(values) >= SMALLEST_SPILLED:
                    groups[key] = SpilledValues(values, self._file)
