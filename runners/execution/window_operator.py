"""The window operator: the last three of GroupByKeyAndWindow's five steps, for all runners.

Elements are folded into cells as they come (DropTimestamps and GroupByKey lie before that).
When the watermark moves, windows are merged (MergeWindows), what is due is grouped by window
(GroupAlsoByWindow) and comes out as elements again (ExpandToElements).  Source: Dataflow
Model, section 2.2.

It is pure: bundles and watermarks in, bundles out.  It knows nothing of clocks, processes or
files.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

from ...sdk.bundle import BUNDLE_SIZE, Bundle, Windows
from ...sdk.errors import PenstockError
from ...triggers import ONLY_PANE
from ...windowing import BoundedWindow, IntervalWindow, WindowFn
from ...windowing.timestamp import MAX_MICROS, MIN_MICROS
from ...windowing.timestamp_combiner import TimestampCombiner, at_fire, combined, for_element
from .cells import Cells, WindowCells
from .fold import Fold
from .user_code import Attribution, attributed, reraise


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
        # Windows that have merged, by key.
        self._merged: dict[Any, list[_MergedWindow]] = {}

    def advance(self, watermark: int) -> Iterator[Bundle]:
        """Move the input watermark on; what becomes due comes out.

        The watermark never goes back: an earlier one changes nothing.
        """
        if watermark <= self.watermark:
            return
        self.watermark = watermark
        try:
            yield from self._fire_merging() if self._windowing.window_fn.is_merging else self._fire()
        except Exception as error:
            reraise(attributed(error, Attribution(self.fold.label, None)))

    def flush(self) -> Iterator[Bundle]:
        """Everything that is held, as when the watermark goes to infinity; then start anew.

        For a batch runner that brings the keys one range after the other.
        """
        yield from self.advance(MAX_MICROS)
        self.watermark = MIN_MICROS

    def merge(self, window: BoundedWindow, accumulators: dict[Any, Any], stamps: dict[Any, int]) -> None:
        """Take in cells that were folded elsewhere."""
        cells = self.cells.open(window)
        held = cells.accumulators
        fold, combiner = self.fold, self._combiner
        if held:
            merged = fold.merged
            for key, accumulator in accumulators.items():
                if key not in held:
                    held[key] = accumulator
                elif fold.combine_fn is None:
                    held[key].extend(accumulator)
                else:
                    held[key] = merged([held[key], accumulator])
            for key, micros in stamps.items():
                other = cells.stamps.get(key)
                cells.stamps[key] = micros if other is None else combined(combiner, other, micros)
        else:
            held.update(accumulators)
            cells.stamps.update(stamps)

    # Windows that don't merge

    def _fire(self) -> Iterator[Bundle]:
        by_window = self.cells.by_window
        due = [w for w in by_window if w.max_micros <= self.watermark]
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
        by_overlap = self._windowing.window_fn.merges_by_overlap
        out = _Rows()
        pending, self.cells.pending = self.cells.pending, {}
        held, self._merged = self._merged, {}
        everything = self.watermark >= MAX_MICROS
        extracted = self.fold.extracted
        for key in [*pending, *(key for key in held if key not in pending)]:
            entries, windows = pending.pop(key, []), held.pop(key, [])
            merged = self._merge_overlapping(entries, windows) if by_overlap else self._merge_by_fn(entries, windows)
            kept = []
            for window in merged:
                if everything or window.window.max_micros <= self.watermark:
                    timestamp = at_fire(self._combiner, window.window, window.stamp)
                    out.add((key, extracted(window.accumulator)), timestamp, window.window)
                else:
                    kept.append(window)
            if kept:
                self._merged[key] = kept
            if len(out.values) >= BUNDLE_SIZE:
                yield out.taken()
        if out.values:
            yield out.taken()

    def _merge_overlapping(
        self, entries: list[tuple[Any, Any, int, Any]], windows: list[_MergedWindow]
    ) -> list[_MergedWindow]:
        """Windows that merge where they overlap: one scan in order of their beginnings."""
        of, stamped = self.fold.of, self._combiner is not TimestampCombiner.OUTPUT_AT_EOW
        found: list[_MergedWindow] = []
        entries.sort(key=_first)
        i, n = 0, len(entries)
        while i < n:
            start, end, _, value = entries[i]
            first = i
            values = [value]
            i += 1
            while i < n and entries[i][0] < end:
                _, other, _, value = entries[i]
                if other > end:
                    end = other
                values.append(value)
                i += 1
            window = IntervalWindow.of_micros(start, end)
            stamp = self._stamp(window, entries[first:i]) if stamped else None
            found.append(_MergedWindow(window, of(values), stamp))
        if not windows:
            return found
        return self._joined(sorted([*found, *windows], key=lambda w: w.window))

    def _joined(self, windows: list[_MergedWindow]) -> list[_MergedWindow]:
        joined: list[list[_MergedWindow]] = []
        end = MIN_MICROS
        for window in windows:
            interval: Any = window.window
            if joined and interval[0] < end:
                joined[-1].append(window)
                end = max(end, interval[1])
            else:
                joined.append([window])
                end = interval[1]
        return [self._join(group) for group in joined]

    def _join(self, group: list[_MergedWindow], result: BoundedWindow | None = None) -> _MergedWindow:
        if len(group) == 1 and result in (None, group[0].window):
            return group[0]
        if result is None:
            intervals: list[Any] = [w.window for w in group]
            result = IntervalWindow.of_micros(min(w[0] for w in intervals), max(w[1] for w in intervals))
        stamp = None
        for window in group:
            if window.stamp is not None:
                stamp = window.stamp if stamp is None else combined(self._combiner, stamp, window.stamp)
        return _MergedWindow(result, self.fold.merged([w.accumulator for w in group]), stamp)

    def _stamp(self, window: BoundedWindow, entries: list[tuple[Any, Any, int, Any]]) -> int | None:
        stamp: int | None = None
        for _, _, micros, _ in entries:
            own = for_element(self._combiner, window, micros, self._windowing.window_fn)
            if own is not None:
                stamp = own if stamp is None else combined(self._combiner, stamp, own)
        return stamp

    def _merge_by_fn(
        self, entries: list[tuple[Any, Any, int, Any]], windows: list[_MergedWindow]
    ) -> list[_MergedWindow]:
        """Windows that merge as the user's `merge_windows` says."""
        by_window: dict[BoundedWindow, list[tuple[Any, Any, int, Any]]] = {}
        for entry in entries:
            by_window.setdefault(entry[0], []).append(entry)
        current: dict[BoundedWindow, list[_MergedWindow]] = {w.window: [w] for w in windows}
        for window, own in by_window.items():
            made = _MergedWindow(window, self.fold.of([e[3] for e in own]), self._stamp(window, own))
            current.setdefault(window, []).append(made)
        merges: list[tuple[list[BoundedWindow], BoundedWindow]] = []

        class Context(WindowFn.MergeContext):
            def merge(self, to_be_merged: Any, merge_result: BoundedWindow) -> None:
                merges.append((list(to_be_merged), merge_result))

        window_fn = self._windowing.window_fn
        window_fn.merge_windows(Context(current))
        for sources, result in merges:
            group: list[_MergedWindow] = []
            for window in dict.fromkeys(sources):
                if window not in current:
                    raise PenstockError(
                        f"{window_fn!r}.merge_windows merged {window!r}, which is not among the windows that it was "
                        f"given, or was merged before"
                    )
                group.extend(current.pop(window))
            current.setdefault(result, []).append(self._join(group, result))
        return [self._join(group, window) for window, group in current.items()]


class _MergedWindow:
    """One key's window, and what has been folded for it."""

    __slots__ = ("accumulator", "stamp", "window")

    def __init__(self, window: BoundedWindow, accumulator: Any, stamp: int | None) -> None:
        self.window = window
        self.accumulator = accumulator
        self.stamp = stamp


class _Rows:
    """Results of which each has a window of its own."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.timestamps: list[int] = []
        self.windows: list[Windows] = []

    def add(self, value: Any, timestamp: int, window: BoundedWindow) -> None:
        self.values.append(value)
        self.timestamps.append(timestamp)
        self.windows.append((window,))

    def taken(self) -> Bundle:
        bundle = Bundle(self.values, self.timestamps, self.windows, ONLY_PANE)
        self.values, self.timestamps, self.windows = [], [], []
        return bundle


_first = itemgetter(0)


def _end(window: BoundedWindow) -> int:
    return window.max_micros
