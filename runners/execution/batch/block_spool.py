"""The shuffle blocks that a task receives, by key group; spilled to disk beyond a limit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

# The bytes of blocks that a task keeps in memory.
MEMORY_BYTES = 64 << 20


class BlockSpool:
    """Receives blocks in any order and returns them by key group.

    >>> spool = BlockSpool()
    >>> for group, block in [(1, b"a"), (0, b"b"), (1, b"c")]:
    ...     spool.add(group, block)
    >>> [(group, list(blocks)) for group, blocks in spool.groups()]
    [(0, [b'b']), (1, [b'a', b'c'])]
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._limit = memory_bytes
        self._held = 0
        self._blocks: dict[int, list[bytes]] = {}
        self._spilled: dict[int, list[tuple[int, int]]] = {}
        self._file: IO[bytes] | None = None

    def add(self, group: int, block: bytes) -> None:
        """Add a block."""
        self._blocks.setdefault(group, []).append(block)
        self._held += len(block)
        if self._held > self._limit:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="penstock-spool-")  # noqa: SIM115
        offset = self._file.seek(0, 2)
        for group, blocks in self._blocks.items():
            places = self._spilled.setdefault(group, [])
            for block in blocks:
                self._file.write(block)
                places.append((offset, len(block)))
                offset += len(block)
        self._blocks = {}
        self._held = 0

    def groups(self) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Yield each key group with its blocks, which are to be read before the next group's."""
        for group in sorted({*self._blocks, *self._spilled}):
            yield group, self._of(group)
        if self._file is not None:
            self._file.close()

    def _of(self, group: int) -> Iterator[bytes]:
        for offset, length in self._spilled.pop(group, ()):
            assert self._file is not None
            self._file.seek(offset)
            yield self._file.read(length)
        yield from self._blocks.pop(group, ())
