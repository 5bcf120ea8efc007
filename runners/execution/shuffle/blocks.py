"""Blocks: the units that a shuffle sends.

A block has elements or cells of one key group, as columns.  There are three kinds:

- Rows have a key, a value or accumulator, and the timestamp that the timestamp combiner keeps.  Windows are sent once
  for all successive rows.
- Bundles have all that elements have.  In-flight records of checkpoints are such blocks, too.
- Columns of Arrow are written and read by the cells that they belong to (`windows/columns/`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import chain
from typing import Any

import attrs
import msgspec

from ....frozen import frozen
from ....sdk.columns.column_bundle import ColumnBundle
from ....sdk.elements.bundle import Bundle
from ....triggers import PaneInfo, PaneInfoTiming
from ....windowing import BoundedWindow
from ..serialization.column_codec import PICKLE, decode_column, encode_column, pickled
from ..windows.combining import FoldedBundle

# The size beyond which a block is cut in two, unless it is a single value.
BLOCK_BYTES = 4 << 20

# The first byte of a block of columns, which no array of MessagePack begins with.
_COLUMNS = b"\xc1"

# Each distinct window is sent once if there are this many times as many elements.
_FEW_WINDOWS = 4

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode
_decode_head = msgspec.msgpack.Decoder(list[Any]).decode


@frozen
class Rows:
    """Rows of one key group.

    Attributes:
      width: the items of a row: key, value or accumulator, and a timestamp if the timestamp combiner looks at it.
      windows, counts: the windows, and the number of successive rows of each.
      parts: the items of all rows, one after the other, in several lists.
    """

    width: int
    windows: list[BoundedWindow] = attrs.field(factory=list)
    counts: list[int] = attrs.field(factory=list)
    parts: list[list[Any]] = attrs.field(factory=list)

    def __len__(self) -> int:
        return sum(self.counts)

    @property
    def items(self) -> list[Any]:
        """Return the items of all rows as one list.

        They are joined as late as this, since any look at the items of all key groups misses the processor's caches.
        """
        if len(self.parts) > 1:
            self.parts[:] = [list(chain.from_iterable(self.parts))]
        return self.parts[0]

    def add(self, window: BoundedWindow, items: list[Any]) -> None:
        """Add rows of a window."""
        self.windows.append(window)
        self.counts.append(len(items) // self.width)
        self.parts.append(items)

    def part(self, start: int, stop: int) -> Rows:
        """Return some of the rows."""
        part, items = Rows(self.width), self.items
        end = 0
        for window, count in zip(self.windows, self.counts, strict=True):
            first, end = max(start, end), end + count
            if first < min(stop, end):
                part.add(window, items[first * self.width : min(stop, end) * self.width])
        return part


def encode_rows(rows: Rows) -> Iterator[bytes]:
    """Yield rows as one block, or as several if it would be too large."""
    items, width = rows.items, rows.width
    columns: list[list[Any]] = [rows.windows, rows.counts, *(items[i::width] for i in range(width))]
    block = _encode(list(map(encode_column, columns)))
    n = len(rows)
    if len(block) <= BLOCK_BYTES or n == 1:
        yield block
        return
    # So that it isn't in memory while its halves are sent.
    del block
    yield from encode_rows(rows.part(0, n // 2))
    yield from encode_rows(rows.part(n // 2, n))


def decode_rows(block: bytes | memoryview) -> Iterator[list[Any]]:
    """Return the columns of rows: windows, counts, keys, values, and timestamps if rows have them.

    >>> from penstock.windowing import IntervalWindow
    >>> rows = Rows(2)
    >>> rows.add(IntervalWindow(0, 10), ["a", 1, "b", 2])
    >>> list(map(list, map(decode_rows, encode_rows(rows))))
    [[[[0.0, 10.0)], [2], ['a', 'b'], [1, 2]]]
    """
    return map(decode_column, _decode(block))


def encode_bundle(bundle: Bundle, limit: float = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield a bundle as blocks: the columns that vary, and the values that all elements share.

    Columns of Arrow and batches are sent as such, in Arrow's IPC format.

    Args:
      limit: the size in bytes beyond which a block is cut in two.
    """
    n = len(bundle)
    if n == 0:
        return
    if isinstance(bundle, ColumnBundle) and not bundle.has_given_elements:
        block = _COLUMNS + pickled(bundle)
        if len(block) <= limit or n == 1:
            yield block
        else:
            del block
            yield from encode_bundle(bundle.part(0, n // 2), limit)
            yield from encode_bundle(bundle.part(n // 2, n), limit)
        return
    columns: list[Any] = [bundle.timestamps, bundle.windows, bundle.panes, bundle.signs]
    head = [None if type(column) is list else column for column in columns]
    windows: list[Any] | None = [bundle.windows]
    if type(bundle.windows) is list:
        windows = None
        if (found := _distinct(bundle.windows)) is not None:
            # Each window is decoded to one object, because windows are compared by identity first.
            windows, positions = found
            columns[1] = positions if len(windows) > 1 else windows[0]
    varying = [column for column in columns if type(column) is list]
    head[1] = None if windows is None else encode_column(windows)
    head[2] = None if isinstance(bundle.panes, list) else _fields_of(bundle.panes)
    if type(bundle) is FoldedBundle:
        head.append(True)
    block = _encode([_encode(head), *map(encode_column, (bundle.values, *varying))])
    if len(block) <= limit or n == 1:
        yield block
        return
    del block
    yield from encode_bundle(bundle.part(0, n // 2), limit)
    yield from encode_bundle(bundle.part(n // 2, n), limit)


def decode_bundle(data: bytes | memoryview) -> Bundle:
    """Return the bundle that `encode_bundle` made this block of."""
    if data[:1] == _COLUMNS:
        columns: Bundle = pickle.loads(memoryview(data)[1:])
        return columns
    head, *encoded = _decode(data)
    values, *varying = map(decode_column, encoded)
    if head[:1] == PICKLE:
        # As earlier versions wrote it: a column of one value.
        ((timestamps, windows, panes, signs, *is_folded),) = decode_column(head)
    else:
        timestamps, windows, panes, signs, *is_folded = _decode_head(head)
        panes = None if panes is None else _pane_of(*panes)
        if windows is not None:
            distinct = decode_column(windows)
            windows = distinct if len(distinct) > 1 else distinct[0]
    rest = iter(varying)
    properties = (
        next(rest) if column is None else list(map(column.__getitem__, next(rest))) if type(column) is list else column
        for column in (timestamps, windows, panes, signs)
    )
    kind = FoldedBundle if is_folded else Bundle
    return kind(values, *properties)


def _fields_of(pane: PaneInfo) -> tuple[Any, ...]:
    return pane.is_first, pane.is_last, pane.timing.value, pane.index, pane.nonspeculative_index


def _pane_of(is_first: bool, is_last: bool, timing: int, index: int, nonspeculative_index: int) -> PaneInfo:
    return PaneInfo(is_first, is_last, PaneInfoTiming(timing), index, nonspeculative_index)


def _distinct(windows: list[Any]) -> tuple[list[Any], list[int]] | None:
    """Return a column's distinct objects, and the position of each element's; None if there are too many."""
    ids = list(map(id, windows))
    found = dict(zip(ids, windows, strict=True))
    if len(found) * _FEW_WINDOWS > len(ids):
        return None
    positions = dict(zip(found, range(len(found)), strict=True))
    return list(found.values()), list(map(positions.__getitem__, ids))
