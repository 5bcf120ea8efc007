"""Shuffle writers: gather the input of a shuffle, and send it as blocks by key group when memory is full.

What is gathered depends on the step behind the shuffle:

- `CellWriter`: cells, where a combiner shrinks its input.
- `PairWriter`: pairs, for a plain grouping.  It shrinks nothing: a table of all values would miss the processor's
  caches with each of them, and be sent key by key, with fewer values for each key the more workers there are.  So keys
  and values are appended to columns of their key group, which are sent while they are in the cache.
- `ElementWriter`: elements with all that they have, for any other step.

Columns of Arrow stay columns: their rows are sorted by key group, and those of each are a block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import chain
from sys import getsizeof
from typing import Any, Protocol

from ....sdk.coders.coded_key import VALID_TYPES, check_keys
from ....sdk.coders.key_encoding import KEY_GROUPS
from ....sdk.columns.column_bundle import ColumnBundle
from ....sdk.elements.bundle import Bundle, expanded, joined
from ....sdk.elements.defensive_copy import IMMUTABLE, defensive_copy
from ....windowing import BoundedWindow
from ..spilling.memory import MemoryBound, memory_of_all
from ..user_errors import guarded
from ..windows.cell_table import WindowOperator
from ..windows.columns.grouped_columns import GroupedColumns
from ..windows.combining import Fold
from .blocks import Rows, encode_bundle, encode_rows
from .partitioner import Partitioner

# The memory of what the writers of a task gather, in bytes.
TABLE_BYTES = 64 << 20

# The pairs that are sent together, at least, and for each pair of a window and a key group.
TOGETHER = 1 << 16
_EACH = 256

# The pairs of a bundle, so that they are still in the cache when they are appended: with 16,384 a writer takes half as
# much time again.
_CACHED = 2048

# The keys that are known to be valid.
_KEYS_KEPT = 100_000

# The rows of a window, as `Rows` has them, by key group.
_ByGroup = defaultdict[int, list[Any]]


class Send(Protocol):
    """Sends blocks to their key group."""

    def __call__(self, group: int, block: bytes, /) -> None: ...


class ShuffleWriter(ABC):
    """The writer of a shuffle.

    Args:
      label: the step behind the shuffle.
      memory_bytes: the approximate memory of what is gathered.
    """

    def __init__(self, label: str, send: Send, memory_bytes: int) -> None:
        self._label = label
        self._send = send
        self._bound = MemoryBound(memory_bytes, self._memory)

    def portions(self, bundle: Bundle) -> Iterator[Bundle]:
        """Yield a bundle, cut so that memory stays bounded if each element becomes a few."""
        return self._bound.portions(bundle)

    def flush(self) -> None:
        """Send everything that was gathered."""
        guarded(self._label, self._send_all)
        self._bound.emptied()

    def _send_all(self) -> None:
        for group, block in self._taken():
            self._send(group, block)

    @abstractmethod
    def _memory(self) -> float:
        """Return the bytes of what was gathered."""

    @abstractmethod
    def _taken(self) -> Iterator[tuple[int, bytes]]:
        """Remove what was gathered, and yield it as blocks, each with its key group."""


class ElementWriter(ShuffleWriter):
    """Writer of elements: gathers bundles.

    Args:
      groups: the number of key groups.

    >>> from penstock.runners.execution.shuffle.blocks import decode_bundle
    >>> sent = []
    >>> writer = ElementWriter("Count", lambda group, block: sent.append(decode_bundle(block).values))
    >>> writer.receive(Bundle([("a", 1), ("b", 2), ("a", 3)]))
    >>> writer.flush()
    >>> sent
    [[('b', 2)], [('a', 1), ('a', 3)]]
    """

    def __init__(self, label: str, send: Send, groups: int = KEY_GROUPS, memory_bytes: int = TABLE_BYTES) -> None:
        super().__init__(label, send, memory_bytes)
        self._partitioner = Partitioner(groups, label, groups)
        self._bundles: list[Bundle] = []

    def receive(self, bundle: Bundle) -> None:
        """Add a bundle."""
        self._bundles.append(bundle)
        if self._bound.added(len(bundle)):
            self.flush()

    def _memory(self) -> float:
        return memory_of_all([row for bundle in self._bundles for row in bundle.rows()])

    def _taken(self) -> Iterator[tuple[int, bytes]]:
        bundles, self._bundles = self._bundles, []
        if bundles:
            for group, part in enumerate(self._partitioner.parts(joined(bundles))):
                for block in encode_bundle(part):
                    yield group, block


class PairWriter(ShuffleWriter):
    """Writer of the pairs of a plain grouping whose windows don't merge.

    Args:
      fold: the grouping's fold.
      groups: the number of key groups.
    """

    def __init__(
        self,
        fold: Fold,
        send: Send,
        groups: int = KEY_GROUPS,
        memory_bytes: int = TABLE_BYTES,
    ) -> None:
        # More memory gains nothing.
        super().__init__(fold.label, send, memory_bytes // 4)
        self._partitioner = Partitioner(groups, fold.label, groups, bounded=True)
        self._stamped = fold.operation.stamped
        self._width = 3 if self._stamped else 2
        self._by_window: dict[BoundedWindow, _ByGroup] = {}
        self._pairs = 0
        self._columns = _SentColumns(fold, self.flush) if GroupedColumns.takes(fold) else None
        self._check = lru_cache(_KEYS_KEPT)(_check)

    def portions(self, bundle: Bundle) -> Iterator[Bundle]:
        """Yield a bundle, cut so that memory stays bounded, and what an element becomes is appended from the cache."""
        for part in super().portions(bundle):
            if isinstance(part, ColumnBundle) or len(part) <= _CACHED:
                yield part
                continue
            for start in range(0, len(part), _CACHED):
                yield part.part(start, start + _CACHED)

    def receive(self, bundle: Bundle) -> None:
        """Add a bundle."""
        columns = self._columns
        if columns is None or not isinstance(bundle, ColumnBundle):
            self._add(bundle)
        else:
            if self._pairs:
                # So that elements are sent in their order.
                self.flush()
            if not columns.add(bundle):
                self._add(bundle)
        is_enough = self._pairs >= TOGETHER and self._pairs >= _EACH * sum(map(len, self._by_window.values()))
        if self._bound.added(len(bundle)) or is_enough:
            self.flush()

    def _add(self, bundle: Bundle) -> None:
        if self._columns:
            self.flush()
        rows: Any = bundle.values
        groups = self._partitioner.targets(rows)
        if self._stamped:
            rows = [(*pair, micros) for pair, micros in zip(rows, expanded(bundle.timestamps, len(rows)), strict=True)]
        self._pairs += len(groups)
        windows: Any = bundle.windows
        if type(windows) is tuple and len(windows) == 1:
            by_group = self._by_group(windows[0])
            for group, row in zip(groups, rows, strict=True):
                by_group[group].extend(row)
            return
        parts: dict[int, list[_ByGroup]] = {}
        for group, row, own in zip(groups, rows, expanded(windows, len(rows)), strict=True):
            found = parts.get(id(own))
            if found is None:
                found = parts[id(own)] = list(map(self._by_group, own))
            for by_group in found:
                by_group[group].extend(row if by_group is found[0] else _unshared(row))

    def _by_group(self, window: BoundedWindow) -> _ByGroup:
        found = self._by_window.get(window)
        if found is None:
            found = self._by_window[window] = defaultdict(list)
        return found

    def _memory(self) -> float:
        if self._columns:
            return self._columns.nbytes
        columns = [column for by_group in self._by_window.values() for column in by_group.values()]
        items = list(chain.from_iterable(columns))
        return 8 * len(items) + memory_of_all(items[:: self._width]) + memory_of_all(items[1 :: self._width])

    def _taken(self) -> Iterator[tuple[int, bytes]]:
        if self._columns:
            yield from self._columns.blocks(self._partitioner.of_keys)
        by_window, self._by_window, self._pairs = self._by_window, {}, 0
        rows: defaultdict[int, Rows] = defaultdict(partial(Rows, self._width))
        for window, by_group in by_window.items():
            for group, items in by_group.items():
                rows[group].add(window, items)
        for group, own in rows.items():
            self._check_all(own.items[:: self._width])
            for block in encode_rows(own):
                yield group, block

    def _check_all(self, keys: list[Any]) -> None:
        """Raise `InvalidKeyError` for a key that can't be encoded."""
        if not VALID_TYPES.issuperset(map(type, keys)):
            for key in set(keys):
                self._check(key)


def _unshared(row: Any) -> Any:
    """Return a row for another window, since the consumer of a group may change its values."""
    key, value, *stamp = row
    return row if type(value) in IMMUTABLE else (key, defensive_copy(value), *stamp)


def _check(key: Any) -> None:
    check_keys((key,))


class _SentColumns(GroupedColumns):
    """Columns of Arrow that wait to be sent."""

    def __init__(self, fold: Fold, flush: Callable[[], None]) -> None:
        super().__init__(fold, lambda window: None)
        self._flush = flush

    def flush(self) -> None:
        """Send the columns, and make no elements of them."""
        if self.rows:
            self._flush()
        self.clear()


class CellWriter(ShuffleWriter):
    """Writer of the cells of a combining grouping.

    Args:
      fold: the grouping's fold.
      groups: the number of key groups.

    Attributes:
      fold, cells: the cells that stages fold into.
    """

    def __init__(
        self,
        fold: Fold,
        send: Send,
        groups: int = KEY_GROUPS,
        memory_bytes: int = TABLE_BYTES,
    ) -> None:
        super().__init__(fold.label, send, memory_bytes)
        self.fold = fold
        self._operator = WindowOperator(fold)
        self.cells = self._operator.cells
        self._merging = fold.operation.merging
        self._width = 3 if fold.operation.stamped else 2
        self._partitioner = Partitioner(groups, fold.label, groups, bounded=True)
        fold.setup()

    def portions(self, bundle: Bundle) -> Iterator[Bundle]:
        """Yield a bundle, cut so that the table stays bounded; each part is to be folded before the next is taken."""
        for part in super().portions(bundle):
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

    def _taken(self) -> Iterator[tuple[int, bytes]]:
        if self.cells.columns:
            yield from self.cells.columns.blocks(self._partitioner.of_keys)
        rows: defaultdict[int, Rows] = defaultdict(partial(Rows, self._width))
        if self._merging:
            self._take_merged(rows)
        else:
            self._take_cells(rows)
        for group, own in rows.items():
            for block in encode_rows(own):
                yield group, block

    def _take_cells(self, rows: defaultdict[int, Rows]) -> None:
        for cells in self.cells.take():
            columns = [cells.accumulators, self.fold.compacted(cells.accumulators.values())]
            if cells.stamps:
                # Both dictionaries have the same order of keys.
                columns.append(cells.stamps.values())
            by_group: _ByGroup = defaultdict(list)
            groups = self._partitioner.of_keys(cells.accumulators)
            for group, row in zip(groups, zip(*columns, strict=True), strict=True):
                by_group[group].extend(row)
            for group, items in by_group.items():
                rows[group].add(cells.window, items)

    def _take_merged(self, rows: defaultdict[int, Rows]) -> None:
        """Merge windows as far as possible before the shuffle."""
        groups = self._partitioner.of_keys(self.cells.pending)
        for group, (key, merged) in zip(groups, self._operator.take_merged(), strict=True):
            own = rows[group]
            accumulators = self.fold.compacted(accumulator for _, accumulator, _ in merged)
            for (window, _, stamp), accumulator in zip(merged, accumulators, strict=True):
                own.add(window, [key, accumulator, stamp][: own.width])
