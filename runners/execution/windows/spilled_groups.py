"""Groups larger than memory: their values are spilled to a file, and read in chunks.

A plain grouping emits lists of values.  Where a task's groups exceed its memory, the large ones are spilled and emitted
as `SpilledValues`: iterables with a length that can be iterated any number of times, with one chunk in memory at a
time.  Small ones stay in memory; `small_bytes` tells how much they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NoReturn

from ....sdk.elements.defensive_copy import never_copied
from ....sdk.errors import LargeGroupError
from ..serialization.column_codec import decode_column, encode_column
from .cell_table import WindowOperator

# The memory of a task for its groups.
MEMORY_BYTES = 64 << 20

# The size of a chunk on disk.  Smaller groups stay in memory: spilling them would free less than it costs.
CHUNK_BYTES = 256 << 10

# The memory of a value besides its encoded bytes: for an object, and a place in a list.
_OBJECT_BYTES = 56


# What smaller groups, which are lists, have besides.
_OF_LISTS = frozenset(dir(list)) - frozenset(dir(object)) - {"append", "extend"}


class SpillFile:
    """Temporary file of chunks of values, removed with its last reference."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="penstock-spill-")  # noqa: SIM115
        self._end = 0

    def write(self, values: list[Any]) -> tuple[int, int]:
        """Append a chunk, and return its offset and size."""
        data = encode_column(values)
        self._file.seek(self._end)
        self._file.write(data)
        span = (self._end, len(data))
        self._end += len(data)
        return span

    def read(self, span: tuple[int, int]) -> list[Any]:
        """Read a chunk."""
        self._file.seek(span[0])
        return decode_column(self._file.read(span[1]))


@never_copied
class SpilledValues:
    """The values of one group, all but the last of them on disk.

    Args:
      label: the grouping, for errors.

    Indexing it, and calling another method of a list, raises `LargeGroupError`.

    >>> values = SpilledValues([1, 2, 3], SpillFile(), chunk=2)
    >>> values.extend([4])
    >>> list(values), len(values), list(values)
    ([1, 2, 3, 4], 4, [1, 2, 3, 4])
    """

    def __init__(self, values: Iterable[Any], file: SpillFile, chunk: int, label: str = "GroupByKey") -> None:
        self._label = label
        self._file = file
        self._chunk = max(1, chunk)
        self._spans: list[tuple[int, int]] = []
        self._tail: list[Any] = []
        self._length = 0
        self.extend(values)

    def append(self, value: Any) -> None:
        """Add a value at the end."""
        self.extend((value,))

    def extend(self, values: Iterable[Any]) -> None:
        """Add values at the end."""
        remaining = iter(values)
        while added := list(islice(remaining, self._chunk - len(self._tail))):
            self._length += len(added)
            self._tail += added
            if len(self._tail) == self._chunk:
                self._spans.append(self._file.write(self._tail))
                self._tail = []

    def __iter__(self) -> Iterator[Any]:
        for span in self._spans:
            yield from self._file.read(span)
        yield from self._tail

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> NoReturn:
        raise self._refused("be indexed")

    def __reversed__(self) -> NoReturn:
        raise self._refused("be reversed")

    def __getattr__(self, name: str) -> NoReturn:
        if name in _OF_LISTS:
            raise self._refused(f"do .{name}() as a list does")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _refused(self, use: str) -> LargeGroupError:
        return LargeGroupError(
            f"{self._label}: a group of {self._length:,} values is too large for the memory of a task "
            f"({MEMORY_BYTES >> 20} MB), and so it is on disk and can't {use}; iterate over it, any number of times, "
            "or make a list of it, if memory has room: list(values)"
        )

    def __repr__(self) -> str:
        return f"<{self._length} values, on disk>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (list, (list(self),))


class GroupSpill:
    """Spills large groups of the window operator of a plain grouping.

    Args:
      operator: the operator.
      memory_bytes: the approximate memory for its groups.

    Attributes:
      small_bytes: the bytes of the groups that were too small to be spilled, when groups were last spilled.
    """

    def __init__(self, operator: WindowOperator, memory_bytes: int = MEMORY_BYTES) -> None:
        self._operator = operator
        self._limit = memory_bytes
        self._file: SpillFile | None = None
        self.small_bytes = 0
        # The values received since groups were last spilled.
        self._bytes = 0
        self._values = 0

    def received(self, values: int, encoded_bytes: int) -> None:
        """Count received values, and spill large groups if the values exceed memory."""
        self._values += values
        self._bytes += encoded_bytes + values * _OBJECT_BYTES
        if self._bytes >= self._limit:
            self._spill()

    def flushed(self) -> None:
        """Start anew, since the operator has emitted all groups."""
        self._bytes = self._values = self.small_bytes = 0
        self._file = None

    def _spill(self) -> None:
        chunk = max(1, CHUNK_BYTES * self._values // self._bytes)
        file = self._file = self._file or SpillFile()
        small = 0

        def spilled(values: Any) -> Any:
            nonlocal small
            if type(values) is not list:
                return values
            if len(values) >= chunk:
                return SpilledValues(values, file, chunk, self._operator.fold.label)
            small += len(values)
            return values

        if self._operator.fold.windowing.window_fn.merges_by_overlap:
            for key, merged in self._operator.take_merged():
                self._operator.put_merged([key] * len(merged), merged)
        self._operator.replace(spilled)
        self.small_bytes = small * self._bytes // self._values
        self._bytes = self._values = 0
