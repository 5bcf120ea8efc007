"""Blocks: what travels through a shuffle.

A block holds entries of one key group, as columns: keys, accumulators (or values), and for
each run of entries the window that they belong to.  The cells of a grouping are written as
blocks on one side and merged into a window operator's cells on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ...sdk.bundle import Bundle
from ...sdk.coders.key_encoding import key_group
from .cells import Cells
from .column_codec import decode_column, encode_column
from .fold import Fold
from .user_code import Attribution, attributed, reraise
from .window_operator import WindowOperator

# Of how many ranges of keys a shuffle is made (DESIGN.md): the unit that a task works on at
# a time, and that moves when the parallelism changes.
KEY_GROUPS = 128

# A block is cut in two while it is larger.
BLOCK_BYTES = 4 << 20

# Entries that are held before they are written out.
BUFFERED_ENTRIES = 200_000

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.decode

Send = Callable[[int, bytes], None]


def encode_blocks(columns: list[list[Any]]) -> Iterator[bytes]:
    """Columns of one length as one block, or as several if that were too large."""
    block = _encode([encode_column(column) for column in columns])
    n = len(columns[0])
    if len(block) <= BLOCK_BYTES or n <= 1:
        yield block
        return
    half = n // 2
    yield from encode_blocks([column[:half] for column in columns])
    yield from encode_blocks([column[half:] for column in columns])


def decode_block(block: bytes | memoryview) -> list[list[Any]]:
    """The columns of a block."""
    return [decode_column(column) for column in _decode(block, type=list[bytes])]


def encode_bundle(bundle: Bundle) -> Iterator[bytes]:
    """A bundle as blocks of five columns; a column that doesn't vary is one entry long in the last one."""
    n = len(bundle)
    varying = [c for c in (bundle.timestamps, bundle.windows, bundle.panes, bundle.signs) if type(c) is list]
    constants = [
        None if type(c) is list else c for c in (bundle.timestamps, bundle.windows, bundle.panes, bundle.signs)
    ]
    head = encode_column([constants])
    if n:
        for block in encode_blocks([bundle.values, *varying]):
            yield _encode([head, block])


def decode_bundle(data: bytes | memoryview) -> Bundle:
    """The bundle that `encode_bundle` made this block of."""
    head, block = _decode(data, type=list[bytes])
    (constants,) = decode_column(head)
    values, *varying = decode_block(block)
    columns = iter(varying)
    timestamps, windows, panes, signs = (next(columns) if c is None else c for c in constants)
    return Bundle(values, timestamps, windows, panes, signs)


class ShuffleWriter:
    """The side of a shuffle that writes: cells of its own, sent on as blocks by key group.

    Attributes:
      fold, cells: what stages fold into.
    """

    def __init__(self, fold: Fold, send: Send) -> None:
        self.fold = fold
        self.cells = Cells()
        self._send = send
        fold.setup()

    # It folds whatever comes.
    takes_bundles = False

    def receive(self, bundle: Bundle) -> None:
        raise AssertionError("bundles are folded before a shuffle")

    def folded(self) -> None:
        """Send on what is held, if it is much."""
        if self.cells.size >= BUFFERED_ENTRIES:
            self.flush()

    def flush(self) -> None:
        """Send on everything that is held."""
        self.cells.size = 0
        try:
            if self.fold.operation.merging:
                self._flush_pending()
            else:
                self._flush_cells()
        except Exception as error:
            reraise(attributed(error, Attribution(self.fold.label, None)))

    def _flush_cells(self) -> None:
        by_group: dict[int, tuple[list[Any], list[Any], list[Any], list[Any]]] = {}
        compacted = self.fold.compacted
        for cells in self.cells.take():
            window, stamps = cells.window, cells.stamps
            accumulators = compacted(cells.accumulators.values())
            for key, accumulator in zip(cells.accumulators, accumulators, strict=True):
                group = key_group(key, KEY_GROUPS)
                columns = by_group.get(group)
                if columns is None:
                    columns = by_group[group] = ([], [], [], [])
                columns[0].append(key)
                columns[1].append(accumulator)
                columns[2].append(window)
                if stamps:
                    columns[3].append(stamps[key])
        for group, (keys, values, windows, micros) in by_group.items():
            for block in encode_blocks([keys, values, windows, micros or [None] * len(keys)]):
                self._send(group, block)

    def _flush_pending(self) -> None:
        by_group: dict[int, tuple[list[Any], list[Any]]] = {}
        pending, self.cells.pending = self.cells.pending, {}
        for key, entries in pending.items():
            columns = by_group.setdefault(key_group(key, KEY_GROUPS), ([], []))
            columns[0].extend([key] * len(entries))
            columns[1].extend(entries)
        for group, (keys, all_entries) in by_group.items():
            for block in encode_blocks([keys, all_entries]):
                self._send(group, block)


def receive_block(operator: WindowOperator, block: bytes | memoryview) -> int:
    """Merge a block into an operator's cells; how many entries it had."""
    columns = decode_block(block)
    if operator.fold.operation.merging:
        pending = operator.cells.pending
        for key, entry in zip(*columns, strict=True):
            pending.setdefault(key, []).append(tuple(entry))
        return len(columns[0])
    keys, accumulators, windows, micros = columns
    n = len(keys)
    plain = operator.fold.combine_fn is None
    operator.cells.size += sum(map(len, accumulators)) if plain else n
    stamped = micros[0] is not None
    start = 0
    while start < n:
        window = windows[start]
        end = start + 1
        while end < n and windows[end] == window:
            end += 1
        stamps = dict(zip(keys[start:end], micros[start:end], strict=True)) if stamped else {}
        operator.merge(window, dict(zip(keys[start:end], accumulators[start:end], strict=True)), stamps)
        start = end
    return n


__all__ = ["BLOCK_BYTES", "KEY_GROUPS", "ShuffleWriter", "decode_bundle", "encode_bundle", "receive_block"]
