"""The shuffle blocks that a task receives, by key group and in the order of their positions; spilled beyond a limit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from operator import itemgetter
from typing import IO, Any

# The bytes of blocks that a task keeps in memory.
MEMORY_BYTES = 64 << 20


class BlockSpool:
    """Receives blocks in any order and returns them by key group, each group's in the order of their positions.

    A shuffle delivers blocks as they arrive, and what follows it may depend on the order of elements.

    >>> spool = BlockSpool()
    >>> for group, position, block in [(1, 7, b"c"), (0, 3, b"b"), (1, 5, b"a")]:
    ...     spool.add(group, position, block)
    >>> [(group, list(blocks)) for group, blocks in spool.groups()]
    [(0, [b'b']), (1, [b'a', b'c'])]
    """

    def __init__(self, memory_bytes: int | None = None) -> None:
        self._limit = MEMORY_BYTES if memory_bytes is None else memory_bytes
        self._held = 0
        # Each with its position.  Only blocks are spilled: of each, its position, offset and length stay in memory.
        self._blocks: dict[int, list[tuple[Any, bytes]]] = {}
        self._spilled: dict[int, list[tuple[Any, int, int]]] = {}
        self._file: IO[bytes] | None = None

    def add(self, group: int, position: Any, block: bytes) -> None:
        """Add a block.

        Args:
          position: decides the order of the blocks of a group.
        """
        self._blocks.setdefault(group, []).append((position, block))
        self._held += len(block)
        if self._held > self._limit:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="penstock-spool-")  # noqa: SIM115
        offset = self._file.seek(0, 2)
        for group, blocks in self._blocks.items():
            positions = self._spilled.setdefault(group, [])
            for position, block in blocks:
                self._file.write(block)
                positions.append((position, offset, len(block)))
                offset += len(block)
        self._blocks = {}
        self._held = 0

    def groups(self) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Yield each key group with its blocks, which are to be read before the next group's."""
        for group in sorted({*self._blocks, *self._spilled}):
            yield group, self.blocks(group)
        self.close()

    def close(self) -> None:
        """Remove what was spilled."""
        if self._file is not None:
            self._file.close()

    def blocks(self, group: int) -> Iterator[bytes]:
        """Remove and yield the blocks of a group."""
        found: list[tuple[Any, Any]] = [(position, at) for position, *at in self._spilled.pop(group, [])]
        found += self._blocks.pop(group, [])
        for _, block in sorted(found, key=itemgetter(0)):
            if isinstance(block, bytes):
                yield block
                continue
            offset, length = block
            assert self._file is not None
            self._file.seek(offset)
            yield self._file.read(length)
