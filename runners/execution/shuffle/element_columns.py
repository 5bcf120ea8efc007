"""Element columns: the shuffle of a plain grouping whose windows don't merge.

A plain grouping shrinks nothing before its shuffle, so the writer doesn't group: a table of all values would miss the
processor's caches with each of them, and be sent key by key, with fewer values for each key the more workers there are.
The writer appends keys and values to the columns of their key group, and sends these while they are still in the cache.
The reader adds the values to their groups, one key group after the other.

Columns of Arrow stay columns: the writer sorts their rows by key group, and sends those of each as a block.

Forked workers distribute keys by `hash`, which is the same in all of them, and costs a tenth of `key_group`.  In other
processes equal keys may have different hashes; there `key_group` is computed once for each key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from itertools import chain, compress, islice
from typing import Any

import attrs
import msgspec

from ....sdk.coders.coded_key import VALID_TYPES, check_keys, is_coded
from ....sdk.coders.key_encoding import KEY_GROUPS, key_group, key_groups
from ....sdk.elements.bundle import Bundle
from ....windowing import BoundedWindow
from ..kernels.descriptions import KeyColumns
from ..serialization.column_codec import (
    decode_column,
    decode_windows,
    encode_column,
    encode_numbers,
    encode_windows,
    is_exact,
)
from ..spilling.memory import MemoryBound, memory_of_all
from ..user_errors import Attribution, attributed, reraise
from ..windows.cell_table import CellTable, WindowOperator
from ..windows.columns.folded_columns import FoldedColumns
from ..windows.columns.grouped_columns import GroupedColumns, Layout
from ..windows.columns.windowed_columns import COLUMNS
from ..windows.combining import Fold
from .blocks import BLOCK_BYTES, TABLE_BYTES, Send, prime_up_to

# The elements that are sent together, at least, and for each pair of a window and a key group.
TOGETHER = 1 << 16
_EACH = 256

# The elements of a block whose size is estimated before they are encoded.
_MANY = 4096

# The windows that have a column for each key group from the start, the windows whose empty columns are used again, and
# the keys whose key groups, or checks, are kept.
_WINDOWS_FILLED = 64
_WINDOWS_KEPT = 4
_KEYS_KEPT = 100_000

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[bytes, list[int], list[bytes]]).decode

# The elements of a window and key group, as `_ColumnCells` describes them.
_Column = tuple[BoundedWindow, list[Any]]


def sends_elements(fold: Fold) -> bool:
    """Return True for a plain grouping whose windows don't merge."""
    return fold.combine_fn is None and not fold.operation.merging


class _KnownGroups(dict[Any, int]):
    """By key, its key group."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self._groups = groups

    def __missing__(self, key: Any) -> int:
        if len(self) >= _KEYS_KEPT:
            self.clear()
        group = self[key] = key_group(key, self._groups)
        return group


class _ColumnsByGroup(defaultdict[int, list[Any]]):
    """The columns of a window, by key group."""

    def __init__(self, window: BoundedWindow) -> None:
        super().__init__(list)
        self.window = window


class _SentColumns(GroupedColumns):
    """Columns of Arrow that wait to be sent."""

    flush: Callable[[], None]

    def begin(self, layout: Layout) -> None:
        if not self.rows:
            # So that elements are sent in their order.
            self.flush()
        super().begin(layout)

    def settle(self) -> None:
        """Send the columns, in the place of making elements of them."""
        if self.rows:
            self.flush()
        self.clear()


class _ColumnCells(CellTable):
    """By window, its columns by key group, in the place of the cells of a fold.

    A column has an element's key and value one after the other, and its timestamp if the timestamp combiner looks at
    it.  Two calls of `list.append`, which the interpreter inlines, take half the time of calls through their names.

    Args:
      groups: the number of key groups; None if columns are always found by a dictionary.
      flush: sends everything that is buffered.
    """

    def __init__(self, groups: int | None, flush: Callable[[], None]) -> None:
        super().__init__(_ColumnsByGroup)
        self._groups = groups
        self._flush = flush

    def in_columns(self, fold: Fold) -> FoldedColumns | GroupedColumns:
        if self.columns is None:
            self.columns = _SentColumns(fold, self.of)
            self.columns.flush = self._flush
        return self.columns

    def start_bundle(self) -> None:
        """Do nothing: keys are checked when they are sent."""

    def finish_bundle(self) -> None:
        """Do nothing."""

    def open(self, window: BoundedWindow) -> Any:
        """Return the columns of a window: of the first windows a list of all, which is faster than a dictionary."""
        if self._groups is not None and window not in self.by_window and len(self.by_window) < _WINDOWS_FILLED:
            self.by_window[window] = [[] for _ in range(self._groups)]
        return self.of(window)

    def filled(self) -> Iterator[tuple[int, BoundedWindow, list[Any]]]:
        """Yield the columns that aren't empty, each with its key group and window."""
        for window, columns in self.by_window.items():
            for group, column in enumerate(columns) if type(columns) is list else columns.items():
                if column:
                    yield group, window, column


class ColumnWriter:
    """The writer of the shuffle of a plain grouping.

    Args:
      groups: the number of key groups.
      memory_bytes: the approximate memory of the columns.
      forked: True if all writers of the shuffle run in processes that were forked from the same one.

    Attributes:
      fold, cells: the columns that stages append to.
    """

    def __init__(
        self,
        fold: Fold,
        send: Send,
        groups: int = KEY_GROUPS,
        memory_bytes: int = TABLE_BYTES,
        forked: bool = False,
    ) -> None:
        number = prime_up_to(groups) if forked else groups
        stamped = fold.operation.stamped
        columns = KeyColumns(hashed=number) if forked else KeyColumns(known=_KnownGroups(groups))
        fold.operation = attrs.evolve(fold.operation, columns=columns)
        self.fold = fold
        self.cells = _ColumnCells(None if stamped else number, self.flush)
        # The places of an element in its column.
        self._width = 3 if stamped else 2
        self._send = send
        self._groups = groups
        self._hashed = number if forked else None
        self._bound = MemoryBound(memory_bytes, self._memory)
        self._waiting = 0
        self._checked: set[Any] = set()

    def portions(self, bundle: Bundle) -> Iterator[Bundle]:
        """Yield a bundle, cut so that the columns stay bounded; each part is to be added before the next is taken."""
        for part in self._bound.portions(bundle):
            yield part
            self._waiting += len(part)
            if self._bound.added(len(part)) or self._is_enough():
                self.flush()

    def _is_enough(self) -> bool:
        """Return True if so many elements wait that the blocks of all key groups are large."""
        waiting = 0 if self.cells.columns else self._waiting
        return waiting >= TOGETHER and waiting >= _EACH * sum(1 for _ in self.cells.filled())

    def _memory(self) -> float:
        if self.cells.columns:
            return self.cells.columns.nbytes
        items = list(chain.from_iterable(column for _, _, column in self.cells.filled()))
        return 8 * len(items) + memory_of_all(items[:: self._width]) + memory_of_all(items[1 :: self._width])

    def flush(self) -> None:
        """Send everything that is buffered."""
        try:
            self._send_all()
        except BaseException as error:
            reraise(attributed(error, Attribution(self.fold.label, None)))
        self._waiting = 0
        self._bound.emptied()
        if len(self.cells.by_window) > _WINDOWS_KEPT:
            self.cells.by_window.clear()

    def _send_all(self) -> None:
        if self.cells.columns:
            for group, rows in self.cells.columns.blocks(self._groups_of):
                self._send(group, rows)
        by_group: dict[int, list[_Column]] = {}
        for group, window, column in self.cells.filled():
            by_group.setdefault(group, []).append((window, column))
        for group, columns in by_group.items():
            for block in self._encoded(columns):
                self._send(group, block)
            for _, column in columns:
                column.clear()

    def _groups_of(self, keys: Collection[Any]) -> list[int]:
        if self._hashed is None:
            return key_groups(list(keys), self._groups)
        number = self._hashed
        return [hash(key) % number for key in keys]

    def _encoded(self, columns: list[_Column]) -> Iterator[bytes]:
        """Yield the columns of one key group as one block, or as several if it would be too large."""
        one = len(columns) == 1
        window, items = columns[0]
        if not one:
            items = list(chain.from_iterable(column for _, column in columns))
        counts = [len(column) // self._width for _, column in columns]
        encoded = self._encoded_items(items)
        if encoded:
            block = _encode((encode_windows([window for window, _ in columns]), counts, encoded))
            if len(block) <= BLOCK_BYTES or len(items) == self._width:
                yield block
                return
        if one:
            half = counts[0] // 2 * self._width
            parts = [[(window, items[:half])], [(window, items[half:])]]
        else:
            parts = [columns[: len(columns) // 2], columns[len(columns) // 2 :]]
        for part in parts:
            yield from self._encoded(part)

    def _encoded_items(self, items: list[Any]) -> list[bytes]:
        """Return the columns of keys, values and timestamps; nothing if they are too large for a block.

        Keys and values that are all integers remain one column.
        """
        width = self._width
        if width == 2 and (integers := _encoded_integers(items)):
            return [integers]
        keys, values = items[::width], items[1::width]
        # Many values of a hot key aren't encoded in vain.
        if len(keys) >= _MANY and memory_of_all(values) > 2 * BLOCK_BYTES:
            return []
        encoded = [encode_column(column) for column in (keys, values, items[2::3] if width == 3 else [])]
        if not (is_exact(encoded[0]) and _is_valid(keys[0])):
            self._check(keys)
        return encoded[:width]

    def _check(self, keys: list[Any]) -> None:
        """Raise `InvalidKeyError` for a key that can't be encoded."""
        new = set(keys) - self._checked
        check_keys(new)
        if len(self._checked) >= _KEYS_KEPT:
            self._checked.clear()
        self._checked |= new


def _encoded_integers(items: list[Any]) -> bytes | None:
    """Return the column of keys and values that are all integers of 32 bits; None for any other column."""
    return encode_numbers(items) if type(items[0]) is type(items[1]) is int else None


def _is_valid(key: Any) -> bool:
    """Return True if all keys of the same types are valid."""
    if type(key) is tuple:
        return not is_coded(key) and all(map(_is_valid, key))
    return type(key) in VALID_TYPES


def receive_columns(operator: WindowOperator, block: bytes, divisor: int = 1, remainder: int = 0) -> int:
    """Add the elements of a block to their groups; return their number.

    Args:
      divisor, remainder: those of the hashes of the keys that are added.
    """

    def parts_of(keys: Collection[Any]) -> list[int]:
        return [hash(key) // KEY_GROUPS % divisor for key in keys]

    if block[:1] == COLUMNS:
        columns = operator.cells.in_columns(operator.fold)
        assert isinstance(columns, GroupedColumns)
        return columns.receive(block, (parts_of, remainder) if divisor > 1 else None)
    # So that elements are added in their order.
    operator.cells.settle()
    windows, counts, encoded = _decode(block)
    keys, *others = map(decode_column, encoded)
    if divisor > 1:
        if not others:
            keys, others = keys[::2], [keys[1::2]]
        added = [part == remainder for part in parts_of(keys)]
        selectors = iter(added)
        counts = [sum(islice(selectors, count)) for count in counts]
        keys, *others = (list(compress(column, added)) for column in (keys, *others))
    pairs = zip(*[iter(keys)] * 2, strict=True) if not others else zip(keys, others[0], strict=True)
    start = 0
    for window, count in zip(decode_windows(windows), counts, strict=True):
        operator.add(window, pairs if len(counts) == 1 else islice(pairs, count))
        if len(others) == 2:
            part = slice(start, start + count)
            operator.stamp(window, keys[part], others[1][part])
        start += count
    return start
