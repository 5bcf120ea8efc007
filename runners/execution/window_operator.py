"""The window operator: the last three of GroupByKeyAndWindow's five steps, for all runners.

Elements are folded into cells as they come (DropTimestamps and GroupByKey lie before that).
When the watermark moves, windows are merged (MergeWindows), what is due is grouped by window
(GroupAlsoByWindow) and comes out as elements again (ExpandToElements).  Source: Dataflow
Model, section 2.2.

It is pure: bundles and watermarks in, bundles out.  It knows nothing of clocks, processes or
files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from ...sdk.bundle import BUNDLE_SIZE, Bundle, Windows
from ...triggers import ONLY_PANE
from ...windowing import BoundedWindow
from ...windowing.timestamp import MAX_MICROS, MIN_MICROS
from ...windowing.timestamp_combiner import TimestampCombiner, combined
from .cells import Cells, WindowCells
from .fold import Fold
from .garbage import rarely_collected
from .merged_accumulators import merging_into
from .merging import BulkMerge, MergedWindow
from .user_code import Attribution, attributed, reraise
from .window_lifetime import end_of_window


class WindowOperator:
    """One worker's cells of one grouping, and when their results are due.

    Attributes:
      cells: what stages fold into.
      watermark: the input watermark, in microseconds.
    """

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self.cells = Cells()
        self.watermark = MIN_MICROS
        self._windowing = fold.windowing
        self._combiner: TimestampCombiner = fold.windowing.timestamp_combiner
        self._merge = BulkMerge(fold)
        self._merge_into = merging_into(fold)
        # Windows that have merged, by key.
        self._merged: dict[Any, list[MergedWindow]] = {}

    def advance(self, watermark: int) -> Iterator[Bundle]:
        """Move the input watermark on; what becomes due comes out.

        The watermark never goes back: an earlier one changes nothing.
        """
        if watermark <= self.watermark:
            return
        self.watermark = watermark
        results = self._fire_merging() if self._windowing.window_fn.is_merging else self._fire()
        try:
            while True:
                with rarely_collected():
                    bundle = next(results, None)
                if bundle is None:
                    return
                yield bundle
        except BaseException as error:
            reraise(attributed(error, Attribution(self.fold.label, None)))

    def flush(self) -> Iterator[Bundle]:
        """Everything that is held, as when the watermark goes to infinity; then start anew.

        For a batch runner that brings the keys one range after the other.
        """
        yield from self.advance(MAX_MICROS)
        self.watermark = MIN_MICROS

    # A shuffle's two sides

    def merge(self, window: BoundedWindow, keys: list[Any], accumulators: list[Any], stamps: list[Any]) -> None:
        """Take in cells of a window that were folded elsewhere, no key twice; `stamps` may be empty."""
        by_window = self.cells.by_window
        cells = by_window.get(window)
        if cells is None:
            cells = by_window[window] = WindowCells(window)
        self._merge_into(cells.accumulators, keys, accumulators)
        for key, micros in zip(keys, stamps, strict=False):
            other = cells.stamps.get(key)
            cells.stamps[key] = micros if other is None else combined(self._combiner, other, micros)

    def take_merged(self) -> Iterator[tuple[Any, list[MergedWindow]]]:
        """Merge the windows that overlap among what has come, and take them out, key by key."""
        pending, self.cells.pending = self.cells.pending, {}
        for key, entries in pending.items():
            yield key, self._merge.folded(entries, [])

    def put_merged(self, keys: list[Any], windows: Iterable[MergedWindow]) -> None:
        """Take in windows that were merged elsewhere."""
        merged = self._merged
        for key, window in zip(keys, windows, strict=True):
            held = merged.get(key)
            if held is None:
                merged[key] = [window]
            else:
                held.append(window)

    def replace(self, replaced: Callable[[Any], Any]) -> None:
        """Put in the place of each accumulator that is held what `replaced` makes of it."""
        for cells in self.cells.by_window.values():
            for key, accumulator in cells.accumulators.items():
                cells.accumulators[key] = replaced(accumulator)
        for key, windows in self._merged.items():
            joined = self._merge.joined(windows) if len(windows) > 1 else windows
            self._merged[key] = [(window, replaced(accumulator), stamp) for window, accumulator, stamp in joined]

    # Windows that don't merge

    def _fire(self) -> Iterator[Bundle]:
        by_window = self.cells.by_window
        due = [w for w in by_window if end_of_window(w) <= self.watermark]
        due.sort(key=_end)
        for window in due:
            yield from self._results(by_window.pop(window))

    def _results(self, cells: WindowCells) -> Iterator[Bundle]:
        fold, window = self.fold, cells.window
        windows: Windows = (window,)
        stamps = cells.stamps
        items = iter(cells.accumulators.items())
        while chunk := list(islice(items, BUNDLE_SIZE)):
            timestamps: Any = window.max_micros
            if stamps:
                timestamps = [stamps[key] for key, _ in chunk]
            if fold.extracts:
                extracted = fold.extracted
                chunk = [(key, extracted(accumulator)) for key, accumulator in chunk]
            yield Bundle(chunk, timestamps, windows, ONLY_PANE)

    # Windows that merge

    def _fire_merging(self) -> Iterator[Bundle]:
        merge = self._merge.folded
        extracted, watermark = self.fold.extracted, self.watermark
        everything = watermark >= MAX_MICROS
        pending, self.cells.pending = self.cells.pending, {}
        held, self._merged = self._merged, {}
        values: list[Any] = []
        timestamps: list[int] = []
        windows: list[Windows] = []
        for key in [*pending, *(key for key in held if key not in pending)]:
            kept = []
            for found in merge(pending.pop(key, []), held.pop(key, [])):
                window, accumulator, stamp = found
                if not everything and end_of_window(window) > watermark:
                    kept.append(found)
                    continue
                last = window.max_micros
                values.append((key, extracted(accumulator)))
                timestamps.append(last if stamp is None else stamp)
                windows.append((window,))
            if kept:
                self._merged[key] = kept
            if len(values) >= BUNDLE_SIZE:
                yield Bundle(values, timestamps, windows, ONLY_PANE)
                values, timestamps, windows = [], [], []
        if values:
            yield Bundle(values, timestamps, windows, ONLY_PANE)


def _end(window: BoundedWindow) -> int:
    return window.max_micros
