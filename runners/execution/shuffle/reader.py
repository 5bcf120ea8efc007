"""The reader of shuffles: spools the blocks that a task receives, and merges them into a window operator."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, compress, islice, repeat
from operator import itemgetter
from typing import IO, Any

from ....sdk.coders.key_encoding import KEY_GROUPS
from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle, narrowed
from ....sdk.elements.defensive_copy import defensive_copy
from ....windowing import BoundedWindow
from ....windowing.timestamp_combiner import for_element
from ..windows.cell_table import WindowOperator
from ..windows.columns.folded_columns import FoldedColumns
from ..windows.columns.windowed_columns import COLUMNS
from .blocks import decode_bundle, decode_rows

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


def receive(operator: WindowOperator, block: bytes | memoryview, divisor: int = 1, remainder: int = 0) -> int:
    """Merge a block of a bounded grouping into its operator; return the number of its values or accumulators.

    Args:
      divisor, remainder: those of the hashes of the keys that are received, for a plain grouping whose windows don't
        merge.
    """

    def parts_of(keys: Collection[Any]) -> list[int]:
        return [hash(key) // KEY_GROUPS % divisor for key in keys]

    fold, cells = operator.fold, operator.cells
    if block[:1] == COLUMNS:
        columns = cells.in_columns(fold)
        if isinstance(columns, FoldedColumns):
            return columns.receive(block)
        return columns.receive(block, (parts_of, remainder) if divisor > 1 else None)
    merging = fold.operation.merging
    if merging and not (fold.combine_fn and fold.windowing.window_fn.merges_by_overlap):
        return _receive_pending(operator, decode_bundle(block))
    windows, counts, keys, values, *stamps = decode_rows(block)
    if divisor > 1:
        selected = [part == remainder for part in parts_of(keys)]
        selectors = iter(selected)
        counts = [sum(islice(selectors, count)) for count in counts]
        keys, values, *stamps = (list(compress(column, selected)) for column in (keys, values, *stamps))
    if merging:
        of_rows = chain.from_iterable(map(repeat, windows, counts))
        operator.put_merged(keys, zip(of_rows, values, stamps[0] if stamps else repeat(None)))
    elif fold.combine_fn is None:
        # So that values are added in their order.
        cells.flush_columns()
        _add_pairs(operator, windows, counts, keys, values, stamps)
    else:
        start = 0
        for window, count in zip(windows, counts, strict=True):
            part = slice(start, start + count)
            operator.merge(window, keys[part], values[part], stamps[0][part] if stamps else [])
            start += count
    return len(keys)


def _add_pairs(
    operator: WindowOperator,
    windows: list[BoundedWindow],
    counts: list[int],
    keys: list[Any],
    values: list[Any],
    stamps: list[list[int]],
) -> None:
    """Add values to the groups of their keys."""
    combiner, window_fn = operator.fold.operation.combiner, operator.fold.operation.window_fn
    pairs = zip(keys, values, strict=True)
    start = 0
    for window, count in zip(windows, counts, strict=True):
        operator.add(window, islice(pairs, count))
        for column in stamps:
            kept: list[Any] = [for_element(combiner, window, t, window_fn) for t in column[start : start + count]]
            operator.stamp(window, keys[start : start + count], kept)
        start += count


def _receive_pending(operator: WindowOperator, bundle: Bundle) -> int:
    """Add elements whose windows merge to those that wait for it; return their number."""
    pending = operator.cells.pending
    by_overlap = operator.fold.windowing.window_fn.merges_by_overlap
    width = operator.fold.operation.pending_width
    for (key, value), micros, windows, _, _ in bundle.rows():
        entries = pending.setdefault(key, [])
        window: Any
        for window in windows:
            if window is not windows[0]:
                value = defensive_copy(value)
            if by_overlap:
                start, end = window
                entries += (start, end - start, value, micros)[:width]
            else:
                entries.append((window, window, micros, value))
    return len(bundle)


def in_order_of_time(blocks: Iterable[bytes]) -> Iterator[Bundle]:
    """Yield a key group's elements in the order of their event times."""
    rows = [row for block in blocks for row in decode_bundle(block).rows()]
    rows.sort(key=itemgetter(1))
    for start in range(0, len(rows), BUNDLE_SIZE):
        values, *others = map(list, zip(*rows[start : start + BUNDLE_SIZE], strict=True))
        yield Bundle(values, *map(narrowed, others))
