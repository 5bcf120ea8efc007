"""Element columns: the shuffle of a plain grouping whose windows don't merge.

A plain grouping shrinks nothing before its shuffle, so the writer doesn't group: a table of all values would miss the
processor's caches with each of them, and be sent key by key, with fewer values for each key the more workers there are.
The writer appends keys and values to the columns of their key group, and sends these while they are still in the cache.
The reader adds the values to their groups, one key group after the other.

Forked workers distribute keys by `hash`, which is the same in all of them, and costs a tenth of `key_group`.  In other
processes equal keys may have different hashes; there `key_group` is computed once for each key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any

import attrs
import msgspec

from ....sdk.bundle import Bundle
from ....sdk.coders.coded_key import check_keys
from ....sdk.coders.key_encoding import KEY_GROUPS, key_group
from ....windowing import BoundedWindow
from ..serialization.column_codec import decode_column, encode_column, is_exact
from ..spilling.memory import MemoryBound, memory_of_all
from ..user_errors import Attribution, attributed, reraise
from ..windows.bounded_operator import Cells, WindowOperator
from ..windows.combining import Fold
from .blocks import BLOCK_BYTES, TABLE_BYTES, Send, prime_up_to

# The elements that are sent together, at least, and for each pair of a window and a key group.
TOGETHER = 1 << 16
_EACH = 256

# The elements of a block whose size is estimated before they are encoded.
_MANY = 4096

# The windows whose empty columns are used again, and the keys whose key groups, or checks, are kept.
_WINDOWS_KEPT = 4
_KEYS_KEPT = 100_000

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[bytes, list[int], bytes, bytes, bytes]).decode

# Types of keys that are checked by the type of their encoded column.
_ATOMS = {str, int, bool, type(None)}


def sends_elements(fold: Fold) -> bool:
    """Return True for a plain grouping whose windows don't merge."""
    return fold.combine_fn is None and not fold.operation.merging


@attrs.define(eq=False)
class _Columns:
    """Elements of one window and key group; `stamps` is empty if the results' timestamp is the window's end."""

    window: BoundedWindow
    keys: list[Any] = attrs.field(factory=list)
    values: list[Any] = attrs.field(factory=list)
    stamps: list[int] = attrs.field(factory=list)

    def part(self, start: int, stop: int | None) -> _Columns:
        """Return some of the elements."""
        return _Columns(self.window, self.keys[start:stop], self.values[start:stop], self.stamps[start:stop])


class _Appends(dict[int, Any]):
    """By key group, the methods that append to the columns of a window."""

    __slots__ = ("columns", "window")

    def __init__(self, window: BoundedWindow) -> None:
        super().__init__()
        self.window = window
        self.columns: dict[int, _Columns] = {}

    def __missing__(self, group: int) -> Any:
        columns = self.columns[group] = _Columns(self.window)
        appends = self[group] = (columns.keys.append, columns.values.append, columns.stamps.append)
        return appends


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


class _ColumnCells(Cells):
    """The columns of all windows, in the place of the cells of a fold."""

    def start_bundle(self) -> None:
        """Do nothing: keys are checked when they are sent."""

    def finish_bundle(self) -> None:
        """Do nothing."""

    def open(self, window: BoundedWindow) -> Any:
        """Return the columns of a window."""
        return self.of(window)


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
        fold.operation = attrs.evolve(
            fold.operation, scatter=f"hash(k) % {prime_up_to(groups)}" if forked else "known[k]"
        )
        fold.names = {"known": _KnownGroups(groups)}
        self.fold = fold
        self.cells = _ColumnCells(_Appends)
        self._send = send
        self._bound = MemoryBound(memory_bytes, self._memory)
        self._waiting = 0
        self._checked: set[Any] = set()

    def portions(self, bundle: Bundle) -> Iterator[Bundle]:
        """Yield a bundle, cut so that the columns stay bounded; each part is to be added before the next is taken."""
        for part in self._bound.portions(bundle):
            yield part
            self._waiting += len(part)
            if self._bound.added(len(part)) or (
                self._waiting >= TOGETHER and self._waiting >= _EACH * len(self._columns())
            ):
                self.flush()

    def _columns(self) -> list[_Columns]:
        return [columns for own in self.cells.by_window.values() for columns in own.columns.values()]

    def _memory(self) -> float:
        columns = self._columns()
        keys = list(chain.from_iterable(part.keys for part in columns))
        values = list(chain.from_iterable(part.values for part in columns))
        return 2 * 8 * len(keys) + memory_of_all(keys) + memory_of_all(values)

    def flush(self) -> None:
        """Send everything that is buffered."""
        self._waiting = 0
        by_group: dict[int, list[_Columns]] = {}
        for own in self.cells.by_window.values():
            for group, columns in own.columns.items():
                if columns.keys:
                    by_group.setdefault(group, []).append(columns)
        try:
            for group, parts in by_group.items():
                for block in _encoded(parts, self._check):
                    self._send(group, block)
                for columns in parts:
                    for column in (columns.keys, columns.values, columns.stamps):
                        column.clear()
        except BaseException as error:
            reraise(attributed(error, Attribution(self.fold.label, None)))
        if len(self.cells.by_window) > _WINDOWS_KEPT:
            self.cells.by_window.clear()

    def _check(self, columns: _Columns) -> None:
        """Raise `InvalidKeyError` for a key that can't be encoded."""
        new = set(columns.keys) - self._checked
        check_keys(new)
        if len(self._checked) >= _KEYS_KEPT:
            self._checked.clear()
        self._checked |= new


def _encoded(parts: list[_Columns], check: Callable[[_Columns], None]) -> Iterator[bytes]:
    """Yield the columns of one key group as one block, or as several if it would be too large.

    Args:
      check: checks keys.
    """
    counts = [len(part.keys) for part in parts]
    columns = [(part.keys, part.values, part.stamps) for part in parts]
    keys, values, stamps = columns[0] if len(parts) == 1 else tuple(map(_joined, zip(*columns, strict=True)))
    # Many values of a hot key aren't encoded in vain.
    if len(keys) < _MANY or memory_of_all(values) <= 2 * BLOCK_BYTES:
        encoded = encode_column(keys)
        if not (is_exact(encoded) and type(keys[0]) in _ATOMS):
            for part in parts:
                check(part)
        one = len(parts) == 1
        windows = _encoded_window(parts[0].window) if one else encode_column([part.window for part in parts])
        block = _encode((windows, counts, encoded, encode_column(values), encode_column(stamps) if stamps else b""))
        if len(block) <= BLOCK_BYTES or (one and len(keys) == 1):
            yield block
            return
    if len(parts) > 1:
        half = len(parts) // 2
        smaller = (parts[:half], parts[half:])
    else:
        half = len(parts[0].keys) // 2
        smaller = ([parts[0].part(0, half)], [parts[0].part(half, None)])
    for some in smaller:
        yield from _encoded(some, check)


@lru_cache(maxsize=256)
def _encoded_window(window: BoundedWindow) -> bytes:
    return encode_column([window])


@lru_cache(maxsize=256)
def _decoded_windows(windows: bytes) -> list[BoundedWindow]:
    return decode_column(windows)


def _joined(columns: tuple[list[Any], ...]) -> list[Any]:
    return list(chain.from_iterable(columns))


def receive_columns(operator: WindowOperator, block: bytes) -> int:
    """Add the elements of a block to their groups; return their number."""
    windows, counts, *columns = _decode(block)
    keys, values, stamps = (decode_column(column) if column else [] for column in columns)
    start = 0
    for window, count in zip(_decoded_windows(windows), counts, strict=True):
        part = slice(start, start + count)
        operator.add(window, keys[part], values[part], stamps[part])
        start += count
    return len(keys)
