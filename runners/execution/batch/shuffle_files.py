"""Shuffles through files: writes the blocks of a task, and reads a partition from the files of several tasks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from ....frozen import frozen
from .segment_task import Destination, KeyGroups

# Offset and length of a block in its file.
Span = tuple[int, int]

# A partition's part of one file: the spans of its blocks, by key group.
FilePart = tuple[str, dict[int, list[Span]]]

# The number of open files, at most.
_OPEN_FILES = 64


@frozen
class BlockFile:
    """The blocks that a task has written.

    Attributes:
      spans: by destination and partition, the offsets and lengths of the blocks by key group.
    """

    path: str
    spans: dict[Destination, dict[int, dict[int, list[Span]]]]

    def part(self, destination: Destination, partition: int) -> FilePart | None:
        """Return a partition of the blocks for a destination; None if it has none."""
        found = self.spans.get(destination, {}).get(partition)
        return None if found is None else (self.path, found)


class BlockFileWriter:
    """Writes a task's blocks to a file, which is created with the first of them.

    A key group belongs to the partition of its number, modulo the number of partitions.

    Args:
      partitions: the number of partitions of each destination.
    """

    def __init__(self, path: str, partitions: int) -> None:
        self._path = path
        self._partitions = partitions
        self._file: IO[bytes] | None = None
        self._end = 0
        self._spans: dict[Destination, dict[int, dict[int, list[Span]]]] = {}

    def send(self, destination: Destination, group: int, block: bytes) -> None:
        """Append a block."""
        if self._file is None:
            self._file = open(self._path, "wb")  # noqa: SIM115
        self._file.write(block)
        partitions = self._spans.setdefault(destination, {})
        groups = partitions.setdefault(group % self._partitions, {})
        groups.setdefault(group, []).append((self._end, len(block)))
        self._end += len(block)

    def close(self) -> BlockFile:
        """Finish the file."""
        if self._file is not None:
            self._file.close()
        return BlockFile(self._path, self._spans)


def read_key_groups(parts: Iterable[FilePart]) -> KeyGroups:
    """Yield the key groups of a partition, each with its blocks of all files, which can be iterated several times."""
    parts = list(parts)
    files = _Files()
    try:
        for group in sorted({group for _, groups in parts for group in groups}):
            yield group, _Blocks(files, parts, group)
    finally:
        files.close()


@frozen
class _Blocks:
    """The blocks of a key group."""

    files: _Files
    parts: Sequence[FilePart]
    group: int

    def __iter__(self) -> Iterator[bytes]:
        for path, groups in self.parts:
            for offset, length in groups.get(self.group, ()):
                file = self.files.of(path)
                file.seek(offset)
                yield file.read(length)


class _Files:
    """Files that are open for reading; the one that was read least recently is closed first."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, IO[bytes]] = OrderedDict()

    def of(self, path: str) -> IO[bytes]:
        file = self._open.get(path)
        if file is None:
            if len(self._open) >= _OPEN_FILES:
                self._open.popitem(last=False)[1].close()
            file = self._open[path] = open(path, "rb", buffering=0)  # noqa: SIM115
        self._open.move_to_end(path)
        return file

    def close(self) -> None:
        for file in self._open.values():
            file.close()
