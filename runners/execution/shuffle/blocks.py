"""Blocks: the units that a shuffle sends.

A block has rows of one key group, as columns: keys, windows, accumulators (or values), and the timestamps that the
timestamp combiner keeps.  The writer of a shuffle sends the cells of a grouping as blocks; the reader merges them into
a window operator.

Three kinds of grouping fill the columns differently:

- Where windows don't merge, a row is a cell: a key's accumulator in a window.
- Where windows merge by overlap, they are merged before the shuffle as far as possible, and once more behind it.  A row
  is a merged window.
- Where a user's function merges windows, it needs all windows of a key.  A row is an element.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator
from itertools import accumulate, chain, groupby, repeat
from sys import getsizeof
from typing import Any, Protocol

import attrs
import msgspec

from ....sdk.coders.key_encoding import KEY_GROUPS, key_groups
from ....sdk.columns.column_bundle import ColumnBundle
from ....sdk.elements.bundle import Bundle
from ..serialization.column_codec import decode_column, encode_column, pickled
from ..spilling.memory import MemoryBound, memory_of_all
from ..user_errors import Attribution, attributed, reraise
from ..windows.cell_table import WindowOperator
from ..windows.columns.windowed_columns import COLUMNS
from ..windows.combining import Fold, FoldedBundle

# The size beyond which a block is cut in two, unless it is a single value.
BLOCK_BYTES = 4 << 20

# The memory of the tables that the writers of a task fold into, in bytes.
TABLE_BYTES = 64 << 20

# The first byte of a block of columns, which no array of MessagePack begins with.
_COLUMNS = b"\xc1"

# Each distinct window is sent once if there are this many times as many elements.
_FEW_WINDOWS = 4

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class Send(Protocol):
    """Sends blocks to their key group."""

    def __call__(self, group: int, block: bytes, /) -> None: ...


@attrs.frozen
class Rows:
    """Rows of one key group as columns.

    Attributes:
      keys: one for each row.
      windows, counts: the windows, and the number of successive rows of each.
      accumulators: one for each row; of a plain grouping a list of values.
      stamps: the timestamp combiner's timestamps, one for each row; empty at the end of the window.
    """

    keys: list[Any] = attrs.field(factory=list)
    windows: list[Any] = attrs.field(factory=list)
    counts: list[int] = attrs.field(factory=list)
    accumulators: list[Any] = attrs.field(factory=list)
    stamps: list[Any] = attrs.field(factory=list)

    def part(self, start: int, stop: int) -> Rows:
        """Return some of the rows."""
        runs = [(window, len(list(same))) for window, same in groupby(list(self.row_windows())[start:stop])]
        columns = (self.keys[start:stop], self.accumulators[start:stop], self.stamps[start:stop])
        return Rows(columns[0], [window for window, _ in runs], [count for _, count in runs], *columns[1:])

    def row_windows(self) -> Iterator[Any]:
        """Return the window of each row."""
        return chain.from_iterable(map(repeat, self.windows, self.counts))


def encode_rows(rows: Rows, plain: bool = False) -> Iterator[bytes]:
    """Yield rows as one block, or as several if it would be too large.

    Args:
      plain: True if accumulators are lists of values.
    """
    lengths = list(map(len, rows.accumulators)) if plain else []
    values = list(chain.from_iterable(rows.accumulators)) if plain else rows.accumulators
    columns = [rows.keys, rows.windows, rows.counts, rows.stamps, lengths, values]
    block = _encode([encode_column(column) for column in columns])
    n = len(rows.keys)
    if len(block) <= BLOCK_BYTES:
        yield block
    elif n > 1:
        yield from encode_rows(rows.part(0, n // 2), plain)
        yield from encode_rows(rows.part(n // 2, n), plain)
    elif plain and len(values) > 1:
        half = len(values) // 2
        for part in (values[:half], values[half:]):
            yield from encode_rows(attrs.evolve(rows, accumulators=[part]), plain)
    else:
        yield block


def decode_rows(data: bytes | memoryview) -> Rows:
    """Return the rows of a block."""
    keys, windows, counts, stamps, lengths, values = map(decode_column, _decode(data))
    if lengths:
        ends = list(accumulate(lengths))
        values = [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return Rows(keys, windows, counts, values, stamps)


def encode_bundle(bundle: Bundle, limit: float = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield a bundle as blocks: the columns that vary, and the values that all elements share.

    Columns of Arrow and batches are sent as such, in Arrow's IPC format.

    Args:
      limit: the size in bytes beyond which a block is cut in two.
    """
    n = len(bundle)
    if isinstance(bundle, ColumnBundle) and n and not bundle.has_given_elements:
        block = _COLUMNS + pickled(bundle)
        if len(block) <= limit or n == 1:
            yield block
        else:
            yield from encode_bundle(bundle.part(0, n // 2), limit)
            yield from encode_bundle(bundle.part(n // 2, n), limit)
        return
    columns: list[Any] = [bundle.timestamps, bundle.windows, bundle.panes, bundle.signs]
    varying = [column for column in columns if type(column) is list]
    shared = [None if type(column) is list else column for column in columns]
    if type(bundle.windows) is list and (found := _distinct(bundle.windows)) is not None:
        # Each window is decoded to one object, because windows are compared by identity first.
        shared[1], places = found
        varying = [places if column is bundle.windows else column for column in varying]
    if type(bundle) is FoldedBundle:
        shared.append(True)
    if n == 0:
        return
    block = _encode([encode_column(column) for column in ([shared], bundle.values, *varying)])
    if len(block) <= limit or n == 1:
        yield block
        return
    yield from encode_bundle(bundle.part(0, n // 2), limit)
    yield from encode_bundle(bundle.part(n // 2, n), limit)


def decode_bundle(data: bytes | memoryview) -> Bundle:
    """Return the bundle that `encode_bundle` made this block of."""
    if data[:1] == _COLUMNS:
        columns: Bundle = pickle.loads(memoryview(data)[1:])
        return columns
    (shared,), values, *varying = map(decode_column, _decode(data))
    rest = iter(varying)
    timestamps, windows, panes, signs, *is_folded = (
        next(rest) if column is None else list(map(column.__getitem__, next(rest))) if type(column) is list else column
        for column in shared
    )
    kind = FoldedBundle if is_folded else Bundle
    return kind(values, timestamps, windows, panes, signs)


def _distinct(windows: list[Any]) -> tuple[list[Any], list[int]] | None:
    """Return a column's distinct objects, and the place of each element's; None if there are too many."""
    ids = list(map(id, windows))
    found = dict(zip(ids, windows, strict=True))
    if len(found) * _FEW_WINDOWS > len(ids):
        return None
    places = dict(zip(found, range(len(found)), strict=True))
    return list(found.values()), list(map(places.__getitem__, ids))


def prime_up_to(groups: int) -> int:
    """Return the largest prime number up to `groups`: integers hash to themselves, and may be multiples of any other.

    >>> prime_up_to(128)
    127
    """
    return next(n for n in range(groups, 1, -1) if all(n % i for i in range(2, int(n**0.5) + 1)))


class ShuffleWriter:
    """The writer of a shuffle: folds into a table, and sends its cells as blocks by key group when it is full.

    Args:
      groups: the number of key groups.
      memory_bytes: the approximate memory of the table.
      forked: True if all writers of the shuffle run in processes that were forked from the same one.

    Attributes:
      fold, cells: the cells that stages fold into.
    """

    def __init__(
        self,
        fold: Fold,
        send: Send,
        groups: int = KEY_GROUPS,
        memory_bytes: int = TABLE_BYTES,
        forked: bool = False,
    ) -> None:
        self._hashed = prime_up_to(groups) if forked else None
        self.fold = fold
        self._operator = WindowOperator(fold)
        self.cells = self._operator.cells
        self._send = send
        self._groups = groups
        self._bound = MemoryBound(memory_bytes, self._memory)
        fold.setup()

    def portions(self, bundle: Bundle) -> Iterator[Bundle]:
        """Yield a bundle, cut so that the table stays bounded; each part is to be folded before the next is taken."""
        for part in self._bound.portions(bundle):
            yield part
            if self._bound.added(len(part)):
                self.flush()

    def _memory(self) -> float:
        cells = self.cells
        if cells.columns:
            cells.columns.compact()
        in_columns = 0 if cells.columns is None else cells.columns.nbytes
        tables: list[dict[Any, Any]] = [cells.pending]
        tables += (table for own in cells.by_window.values() for table in (own.accumulators, own.stamps))
        values = [value for table in tables for value in table.values()]
        keys = list(chain.from_iterable(tables))
        return in_columns + sum(map(getsizeof, tables)) + memory_of_all(keys) + memory_of_all(values)

    def flush(self) -> None:
        """Send everything that is buffered."""
        try:
            self._send_rows()
        except BaseException as error:
            reraise(attributed(error, Attribution(self.fold.label, None)))

    def _send_rows(self) -> None:
        if self.cells.columns:
            for group, block in self.cells.columns.blocks(self._groups_of):
                self._send(group, block)
        by_group = [Rows() for _ in range(self._groups)]
        if self._by_element:
            self._distribute_elements(by_group)
        elif self.fold.operation.merging:
            self._distribute_merged(by_group)
        else:
            self._distribute_cells(by_group)
        plain = self.fold.combine_fn is None and not self._by_element
        for group, rows in enumerate(by_group):
            if rows.keys:
                for block in encode_rows(rows, plain):
                    self._send(group, block)

    def _groups_of(self, keys: Collection[Any]) -> list[int]:
        if self._hashed is None:
            return key_groups(list(keys), self._groups)
        number = self._hashed
        return [hash(key) % number for key in keys]

    @property
    def _by_element(self) -> bool:
        window_fn = self.fold.windowing.window_fn
        return window_fn.is_merging and not window_fn.merges_by_overlap

    # One pass over the cells, appending to columns, takes half the time of sorting tuples into groups and transposing
    # them.
    def _distribute_cells(self, by_group: list[Rows]) -> None:
        add_key = [rows.keys.append for rows in by_group]
        add_accumulator = [rows.accumulators.append for rows in by_group]
        add_stamp = [rows.stamps.append for rows in by_group]
        counted = [0] * len(by_group)
        for cells in self.cells.take():
            groups = self._groups_of(cells.accumulators)
            accumulators = self.fold.compacted(cells.accumulators.values())
            for group, key, accumulator in zip(groups, cells.accumulators, accumulators, strict=True):
                add_key[group](key)
                add_accumulator[group](accumulator)
            # Both dictionaries have the same order of keys.
            for group, stamp in zip(groups, cells.stamps.values(), strict=False):
                add_stamp[group](stamp)
            for group in set(groups):
                rows = by_group[group]
                rows.windows.append(cells.window)
                rows.counts.append(len(rows.keys) - counted[group])
                counted[group] = len(rows.keys)

    def _distribute_merged(self, by_group: list[Rows]) -> None:
        fold = self.fold
        groups = self._groups_of(self.cells.pending)
        for group, (key, merged) in zip(groups, self._operator.take_merged(), strict=True):
            rows = by_group[group]
            rows.keys.extend(repeat(key, len(merged)))
            rows.windows.extend(window for window, _, _ in merged)
            rows.counts.extend(repeat(1, len(merged)))
            rows.accumulators.extend(fold.compacted(accumulator for _, accumulator, _ in merged))
            rows.stamps.extend(stamp for _, _, stamp in merged)

    def _distribute_elements(self, by_group: list[Rows]) -> None:
        pending, self.cells.pending = self.cells.pending, {}
        for group, (key, entries) in zip(self._groups_of(pending), pending.items(), strict=True):
            rows = by_group[group]
            rows.keys.extend(repeat(key, len(entries)))
            for window, _, micros, value in entries:
                rows.windows.append(window)
                rows.counts.append(1)
                rows.stamps.append(micros)
                rows.accumulators.append(value)


def receive_block(operator: WindowOperator, data: bytes | memoryview) -> int:
    """Merge a block into an operator's windows; return the number of its values or accumulators."""
    fold = operator.fold
    if data[:1] == COLUMNS:
        return operator.cells.in_columns(fold).receive(data)
    rows = decode_rows(data)
    if not fold.operation.merging:
        start = 0
        for window, count in zip(rows.windows, rows.counts, strict=True):
            part = slice(start, start + count)
            operator.merge(window, rows.keys[part], rows.accumulators[part], rows.stamps[part])
            start += count
    elif fold.windowing.window_fn.merges_by_overlap:
        operator.put_merged(rows.keys, zip(rows.row_windows(), rows.accumulators, rows.stamps, strict=True))
    else:
        pending = operator.cells.pending
        for key, window, value, micros in zip(
            rows.keys, rows.row_windows(), rows.accumulators, rows.stamps, strict=True
        ):
            pending.setdefault(key, []).append((window, window, micros, value))
        return len(rows.keys)
    return sum(map(len, rows.accumulators)) if fold.combine_fn is None else len(rows.keys)
