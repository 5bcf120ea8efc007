"""Partitions of records by a hash, all but the last of them in a temporary file.

More records than memory has room for are read one partition after the other: those of one key are in one partition
(Grace hash join, Kitsuregawa et al., 1983).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any, Generic, Self, TypeVar

T = TypeVar("T")

PARTITIONS = 128

# The memory of records that are held before they are written, in bytes.
HELD_BYTES = 16 << 20


class HashPartitions(Generic[T]):
    """Records in `PARTITIONS` partitions of about the same size.

    Args:
      encode: returns a list of records as bytes.
      decode: returns the list of `encode`.
      held: the size of the records that are held before they are written; None for `HELD_BYTES`.

    >>> import msgspec
    >>> kept = HashPartitions(msgspec.msgpack.encode, msgspec.msgpack.decode, held=20)
    >>> for n in range(100):
    ...     kept.add(n % 2, f"record {n}", size=8)
    >>> list(kept.of(1))[:3], sum(1 for number in range(PARTITIONS) for _ in kept.of(number))
    (['record 1', 'record 3', 'record 5'], 100)
    """

    def __init__(
        self,
        encode: Callable[[list[T]], bytes],
        decode: Callable[[bytes], list[T]],
        held: int | None = None,
    ) -> None:
        self._encode = encode
        self._decode = decode
        self._file: IO[bytes] | None = None
        self._limit = HELD_BYTES if held is None else held
        self._size = 0
        self._held: list[list[T]] = [[] for _ in range(PARTITIONS)]
        # Where the blocks of each partition begin, and their lengths.
        self._written: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]

    def add(self, hash: int, record: T, size: int = 1) -> None:
        """Add a record of a hash, with its size in the unit of `held`."""
        self._held[hash % PARTITIONS].append(record)
        self._size += size
        if self._size >= self._limit:
            self._write()

    def of(self, number: int) -> Iterator[T]:
        """Yield the records of a partition, in the order in which they were added; again and again."""
        for position, length in self._written[number]:
            file: Any = self._file
            file.seek(position)
            yield from self._decode(file.read(length))
        yield from self._held[number]

    def close(self) -> None:
        """Remove the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="penstock-partitions-")  # noqa: SIM115
        position = self._file.seek(0, 2)
        for held, written in zip(self._held, self._written, strict=True):
            if held:
                block = self._encode(held)
                self._file.write(block)
                written.append((position, len(block)))
                position += len(block)
                held.clear()
        self._size = 0
