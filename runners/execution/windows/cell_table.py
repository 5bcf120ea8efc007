"""Cell tables: by window, an accumulator for each key, and the operator that empties one.

Stages fold elements into cells: DropTimestamps and GroupByKey, of GroupByKeyAndWindow's five steps, are done by then
(Dataflow Model, section 2.2).  A stage that ends in a grouping folds into the table of that grouping's operator.
Before a shuffle it folds into a table of its own, whose cells are merged behind the shuffle.

A bounded input has one pane for each window, at its end.  So its operator is a table and a pass over it: it merges
windows (MergeWindows), groups results by window (GroupAlsoByWindow) and emits them as elements (ExpandToElements).  It
knows nothing of clocks, processes or files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from ....sdk.coders.coded_key import VALID_TYPES, check_keys
from ....sdk.columns.column_bundle import ColumnBundle
from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle, Windows
from ....triggers import ONLY_PANE
from ....windowing import BoundedWindow
from ....windowing.timestamp_combiner import TimestampCombiner
from ..user_errors import guarded_items
from .columns.folded_columns import FoldedColumns
from .columns.grouped_columns import GroupedColumns
from .combining import Fold, merge_into, merge_stamps
from .merging import BulkMerge, MergedWindow

# The size of a bundle of merged windows: four objects each, which are to stay in the processor's cache, and to be gone
# before the garbage collector looks at them.  Larger and smaller bundles both take longer: a session pipeline over text
# files 1.97 times a loop with 16,384 windows, 1.82 with 4,096, 1.69 with 2,048, 1.73 with 1,024.
MERGED_WINDOWS = 2048


class WindowCells:
    """The cells of one window.

    Attributes:
      window: the window.
      accumulators: the accumulators, by key.
      stamps: the microseconds that the timestamp combiner keeps, by key; empty if results are stamped with the end of
        the window.
    """

    __slots__ = ("accumulators", "stamps", "window")

    def __init__(self, window: BoundedWindow) -> None:
        self.window = window
        self.accumulators: dict[Any, Any] = {}
        self.stamps: dict[Any, int] = {}


class CellTable:
    """All cells of a grouping.

    Args:
      make: makes the cells of a window.

    Attributes:
      by_window: cells of windows that don't merge.
      pending: elements whose windows merge and haven't been merged yet, by key.  For windows that merge by overlap
        a flat list with start, size and value of each element, and its timestamp if the timestamp combiner looks at it
        (`FoldOperation.pending_width`): a tuple for each would take twice the memory.  For other windows
        (window, window, timestamp, value) of each.
      columns: cells of elements in columns; None if there were no such elements.
    """

    __slots__ = ("_make", "_sizes", "by_window", "columns", "pending")

    def __init__(self, make: Callable[[BoundedWindow], Any] = WindowCells) -> None:
        self._make = make
        self.by_window: dict[BoundedWindow, Any] = {}
        self.pending: dict[Any, list[Any]] = {}
        self.columns: FoldedColumns | GroupedColumns | None = None
        # The dictionaries that a bundle has folded into, and their numbers of keys before.
        self._sizes: list[tuple[dict[Any, Any], int]] = []

    def in_columns(self, fold: Fold) -> FoldedColumns | GroupedColumns:
        """Return the cells of elements in columns."""
        if self.columns is None:
            self.columns = (GroupedColumns if fold.combine_fn is None else FoldedColumns)(fold, self.of)
        return self.columns

    def add_columns(self, bundle: Bundle, fold: Fold) -> bool:
        """Fold a bundle of columns as a whole; return False if its elements have to be folded one by one."""
        takes = GroupedColumns.takes if fold.combine_fn is None else FoldedColumns.takes
        return isinstance(bundle, ColumnBundle) and takes(fold) and self.in_columns(fold).add(bundle)

    def flush_columns(self) -> None:
        """Flush the cells in columns: make them cells like all others."""
        if self.columns:
            self.columns.flush()

    def start_bundle(self) -> None:
        """Prepare for folding a bundle."""
        self._sizes = [(self.pending, len(self.pending))]

    def of(self, window: BoundedWindow) -> Any:
        """Return the cells of a window."""
        cells = self.by_window.get(window)
        if cells is None:
            cells = self.by_window[window] = self._make(window)
        return cells

    def open(self, window: BoundedWindow) -> Any:
        """Return the cells of a window, for a bundle's first element in it."""
        cells = self.of(window)
        self._sizes.append((cells.accumulators, len(cells.accumulators)))
        return cells

    def finish_bundle(self) -> None:
        """Check the new keys of a bundle after folding it.

        Raises `InvalidKeyError` for a key without a deterministic encoding.
        """
        sizes, self._sizes = self._sizes, []
        for keys, before in sizes:
            new = len(keys) - before
            # Dictionaries keep the order of insertion.
            if new and not set(map(type, islice(reversed(keys), new))) <= VALID_TYPES:
                check_keys(islice(reversed(keys), new))

    def __len__(self) -> int:
        in_columns = 0 if self.columns is None else len(self.columns)
        return in_columns + len(self.pending) + sum(len(cells.accumulators) for cells in self.by_window.values())

    def clear(self) -> None:
        """Forget all cells of windows that don't merge."""
        self.by_window.clear()
        if self.columns is not None:
            self.columns.clear()

    def take(self) -> Iterator[WindowCells]:
        """Remove and yield the cells of each window."""
        while self.by_window:
            _, cells = self.by_window.popitem()
            yield cells


class WindowOperator:
    """The operator of a bounded grouping whose windows have one pane each, in one worker.

    Attributes:
      fold: the grouping's fold.
      cells: the cells that stages fold into.
    """

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self.cells = CellTable()
        self._combiner: TimestampCombiner = fold.windowing.timestamp_combiner
        self._merge = BulkMerge(fold)
        # Windows that were merged before a shuffle, by key.
        self._merged: dict[Any, list[MergedWindow]] = {}

    def flush(self) -> Iterator[Bundle]:
        """Remove all windows, and yield their results.

        Batch runners call it after each range of keys.
        """
        results = self._merged_results if self.fold.windowing.window_fn.is_merging else self._results
        return guarded_items(self.fold.label, results)

    # A shuffle's two sides

    def merge(self, window: BoundedWindow, keys: list[Any], accumulators: list[Any], stamps: list[Any]) -> None:
        """Merge cells of a window that were folded before a shuffle.

        Args:
          keys: the keys, each of them once.
          stamps: the timestamps that are kept; empty if results are stamped with the end of the window.
        """
        cells = self.cells.of(window)
        merge_into(self.fold, cells.accumulators, keys, accumulators)
        merge_stamps(self._combiner, cells.stamps, keys, stamps)

    def add(self, window: BoundedWindow, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Add values of a window to the groups of their keys, in a plain grouping."""
        cells = self.cells.of(window)
        groups = cells.accumulators
        if type(groups) is dict:
            groups = cells.accumulators = defaultdict(list, groups)
        for key, value in pairs:
            groups[key].append(value)

    def stamp(self, window: BoundedWindow, keys: list[Any], stamps: list[Any]) -> None:
        """Add timestamps that the timestamp combiner looks at to those of their keys."""
        merge_stamps(self._combiner, self.cells.of(window).stamps, keys, stamps)

    def take_merged(self) -> Iterator[tuple[Any, list[MergedWindow]]]:
        """Merge the pending windows, and remove and yield them key by key."""
        pending, self.cells.pending = self.cells.pending, {}
        for key, entries in pending.items():
            yield key, self._merge.folded(entries, [])

    def put_merged(self, keys: list[Any], windows: Iterable[MergedWindow]) -> None:
        """Add windows that were merged before a shuffle."""
        merged = self._merged
        for key, window in zip(keys, windows, strict=True):
            held = merged.get(key)
            if held is None:
                merged[key] = [window]
            else:
                held.append(window)

    def replace(self, replaced: Callable[[Any], Any]) -> None:
        """Replace each accumulator by the result of `replaced`, after merging the windows that have come so far."""
        self.cells.flush_columns()
        for cells in self.cells.by_window.values():
            for key, accumulator in cells.accumulators.items():
                cells.accumulators[key] = replaced(accumulator)
        for key, windows in self._merged.items():
            joined = self._merge.joined(windows) if len(windows) > 1 else windows
            self._merged[key] = [(window, replaced(accumulator), stamp) for window, accumulator, stamp in joined]

    # Results

    def _results(self) -> Iterator[Bundle]:
        """Yield the results of windows that don't merge, in the order of their ends."""
        by_window, extracted = self.cells.by_window, self.fold.extracted if self.fold.extracts else None
        if self.cells.columns and not by_window:
            yield from self.cells.columns.results()
        self.cells.flush_columns()
        for window in sorted(by_window, key=_end):
            cells = by_window.pop(window)
            items = iter(cells.accumulators.items())
            while chunk := list(islice(items, BUNDLE_SIZE)):
                timestamps = [cells.stamps[key] for key, _ in chunk] if cells.stamps else window.max_micros
                if extracted is not None:
                    chunk = [(key, extracted(accumulator)) for key, accumulator in chunk]
                yield Bundle(chunk, timestamps, (window,), ONLY_PANE)

    def _merged_results(self) -> Iterator[Bundle]:
        """Yield the results of windows that merge, key by key."""
        merge, emits_runs = self._merge.folded, self._merge.emits_runs
        extracted = self.fold.extracted if self.fold.extracts else None
        pending, self.cells.pending = self.cells.pending, {}
        held, self._merged = self._merged, {}
        values: list[Any] = []
        timestamps: list[int] = []
        windows: list[Windows] = []
        for key in [*pending, *(key for key in held if key not in pending)]:
            if emits_runs and key not in held:
                self._merge.emit_runs(key, pending.pop(key), values, timestamps, windows)
            else:
                for window, accumulator, stamp in merge(pending.pop(key, []), held.pop(key, [])):
                    values.append((key, accumulator if extracted is None else extracted(accumulator)))
                    timestamps.append(window.max_micros if stamp is None else stamp)
                    windows.append((window,))
            if len(values) >= MERGED_WINDOWS:
                yield Bundle(values, timestamps, windows, ONLY_PANE)
                values, timestamps, windows = [], [], []
        if values:
            yield Bundle(values, timestamps, windows, ONLY_PANE)


def _end(window: BoundedWindow) -> int:
    return window.max_micros
