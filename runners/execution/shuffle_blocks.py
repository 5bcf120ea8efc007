"""Blocks: what travels through a shuffle.

A block holds rows of one key group, as columns: keys, windows, accumulators (or values), and
what the timestamp combiner keeps.  One side of a shuffle writes the cells of a grouping as
blocks; the other side merges them into a window operator.

Three kinds of grouping fill the columns differently:

- Where windows don't merge, a row is a cell: a key's accumulator in a window.
- Where windows merge by overlap, they are merged before the shuffle as far as they can be, and
  once more behind it.  A row is a merged window.
- Where a user's function merges windows, it has to see all windows of a key.  A row is an element.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, groupby, repeat
from typing import Any, Protocol

import attrs
import msgspec

from ...sdk.bundle import Bundle
from ...sdk.coders.key_encoding import KEY_GROUPS, key_groups
from .cells import Cells
from .column_codec import decode_column, encode_column
from .fold import Fold
from .user_code import Attribution, attributed, reraise
from .window_operator import WindowOperator

# A block is cut in two while it is larger, unless it is a single value.
BLOCK_BYTES = 4 << 20

# What a writer holds before it sends it on: so many entries, or what makes so many bytes of blocks.
BUFFERED_ENTRIES = 200_000
BUFFERED_BYTES = 16 << 20

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.decode

# Key, window, accumulator, what the timestamp combiner keeps.
Row = tuple[Any, Any, Any, Any]


class Send(Protocol):
    """What takes blocks to their key group."""

    def __call__(self, group: int, block: bytes, /) -> None: ...


@attrs.frozen
class Block:
    """Rows of one key group as columns.

    Attributes:
      keys, accumulators, stamps: one entry for each row.
      windows, counts: each window, and how many rows in succession are of it.
    """

    keys: list[Any]
    windows: list[Any]
    counts: list[int]
    accumulators: list[Any]
    stamps: list[Any]


def encode_rows(rows: list[Row], plain: bool = False) -> Iterator[bytes]:
    """Rows as one block, or as several if it were too large.

    `plain` says that accumulators are lists of values.
    """
    keys, windows, accumulators, stamps = map(list, zip(*rows, strict=True))
    runs = [(window, len(list(same))) for window, same in groupby(windows)]
    lengths = list(map(len, accumulators)) if plain else []
    values = list(chain.from_iterable(accumulators)) if plain else accumulators
    columns = [keys, [window for window, _ in runs], [count for _, count in runs], stamps, lengths, values]
    block = _encode([encode_column(column) for column in columns])
    if len(block) <= BLOCK_BYTES:
        yield block
    elif len(rows) > 1:
        half = len(rows) // 2
        yield from encode_rows(rows[:half], plain)
        yield from encode_rows(rows[half:], plain)
    elif plain and len(values) > 1:
        half = len(values) // 2
        yield from encode_rows([(keys[0], windows[0], values[:half], stamps[0])], plain)
        yield from encode_rows([(keys[0], windows[0], values[half:], stamps[0])], plain)
    else:
        yield block


def decode_block(data: bytes | memoryview) -> Block:
    """The rows of a block."""
    keys, windows, counts, stamps, lengths, values = map(decode_column, _decode(data, type=list[bytes]))
    if lengths:
        ends = list(accumulate(lengths))
        values = [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return Block(keys, windows, counts, values, stamps)


def encode_bundle(bundle: Bundle) -> Iterator[bytes]:
    """A bundle as blocks: the columns that vary, and the entries that all elements share."""
    n = len(bundle)
    columns = (bundle.timestamps, bundle.windows, bundle.panes, bundle.signs)
    varying = [column for column in columns if type(column) is list]
    shared = [None if type(column) is list else column for column in columns]
    if n == 0:
        return
    block = _encode([encode_column(column) for column in ([shared], bundle.values, *varying)])
    if len(block) <= BLOCK_BYTES or n == 1:
        yield block
        return
    for part in (slice(n // 2), slice(n // 2, n)):
        timestamps, windows, panes, signs = (c[part] if type(c) is list else c for c in columns)
        yield from encode_bundle(Bundle(bundle.values[part], timestamps, windows, panes, signs))


def decode_bundle(data: bytes | memoryview) -> Bundle:
    """The bundle that `encode_bundle` made this block of."""
    (shared,), values, *varying = map(decode_column, _decode(data, type=list[bytes]))
    columns = iter(varying)
    timestamps, windows, panes, signs = (next(columns) if column is None else column for column in shared)
    return Bundle(values, timestamps, windows, panes, signs)


class ShuffleWriter:
    """The side of a shuffle that writes: cells of its own, sent on as blocks by key group.

    Args:
      groups: how many key groups there are.

    Attributes:
      fold, cells: what stages fold into.
    """

    # It folds whatever comes.
    takes_bundles = False

    def __init__(self, fold: Fold, send: Send, groups: int = KEY_GROUPS) -> None:
        self.fold = fold
        self._operator = WindowOperator(fold)
        self._send = send
        self._groups = groups
        # The first time it sends early: only then it is known how large entries are.
        self._limit = BUFFERED_ENTRIES // 10
        fold.setup()

    @property
    def cells(self) -> Cells:
        return self._operator.cells

    def receive(self, bundle: Bundle) -> None:
        raise AssertionError("bundles are folded before a shuffle")

    def folded(self) -> None:
        """Send on what is held, if it is much."""
        if self.cells.size >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Send on everything that is held."""
        entries, self.cells.size = self.cells.size, 0
        try:
            sent = self._flush(list(self._rows()))
        except Exception as error:
            reraise(attributed(error, Attribution(self.fold.label, None)))
        self._limit = max(1, min(BUFFERED_ENTRIES, BUFFERED_BYTES * entries // max(1, sent)))

    def _flush(self, rows: list[Row]) -> int:
        plain = self.fold.combine_fn is None and not self._by_element
        by_group: defaultdict[int, list[Row]] = defaultdict(list)
        for group, row in zip(key_groups([row[0] for row in rows], self._groups), rows, strict=True):
            by_group[group].append(row)
        sent = 0
        for group, own in by_group.items():
            for block in encode_rows(own, plain):
                sent += len(block)
                self._send(group, block)
        return sent

    @property
    def _by_element(self) -> bool:
        window_fn = self.fold.windowing.window_fn
        return window_fn.is_merging and not window_fn.merges_by_overlap

    def _rows(self) -> Iterator[Row]:
        cells = self.cells
        if self._by_element:
            pending, cells.pending = cells.pending, {}
            for key, entries in pending.items():
                for window, _, micros, value in entries:
                    yield key, window, value, micros
        elif self.fold.operation.merging:
            for key, merged in self._operator.take_merged():
                accumulators = self.fold.compacted(accumulator for _, accumulator, _ in merged)
                for (window, _, stamp), accumulator in zip(merged, accumulators, strict=True):
                    yield key, window, accumulator, stamp
        else:
            for own in cells.take():
                accumulators = self.fold.compacted(own.accumulators.values())
                # Both dictionaries have their keys in the order in which they came.
                stamps: Iterable[Any] = own.stamps.values() if own.stamps else repeat(None)
                yield from zip(own.accumulators, repeat(own.window), accumulators, stamps, strict=False)


def receive_block(operator: WindowOperator, data: bytes | memoryview) -> int:
    """Merge a block into an operator's windows; how many values or accumulators it had."""
    block = decode_block(data)
    fold = operator.fold
    window_fn = fold.windowing.window_fn
    if fold.operation.merging:
        windows = chain.from_iterable(map(repeat, block.windows, block.counts))
        if window_fn.merges_by_overlap:
            operator.put_merged(block.keys, zip(windows, block.accumulators, block.stamps, strict=True))
        else:
            pending = operator.cells.pending
            for key, window, micros, value in zip(block.keys, windows, block.stamps, block.accumulators, strict=True):
                pending.setdefault(key, []).append((window, window, micros, value))
            return len(block.keys)
    else:
        start = 0
        for window, count in zip(block.windows, block.counts, strict=True):
            end = start + count
            operator.merge(window, block.keys[start:end], block.accumulators[start:end], block.stamps[start:end])
            start = end
    return sum(map(len, block.accumulators)) if fold.combine_fn is None else len(block.keys)
