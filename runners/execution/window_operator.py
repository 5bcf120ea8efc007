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
from operator import itemgetter
from typing import Any, TypeAlias

from ...sdk.bundle import BUNDLE_SIZE, Bundle, Windows
from ...sdk.errors import PenstockError
from ...triggers import ONLY_PANE
from ...windowing import BoundedWindow, IntervalWindow, WindowFn
from ...windowing.timestamp import MAX_MICROS, MIN_MICROS
from ...windowing.timestamp_combiner import TimestampCombiner, combined, for_element
from .cells import Cells, WindowCells
from .fold import Fold
from .garbage import rarely_collected
from .merged_accumulators import merging_into
from .user_code import Attribution, attributed, reraise
from .window_lifetime import end_of_window

# A key's window, what has been folded for it, and the microseconds that the timestamp
# combiner keeps (None at the end of the window).
MergedWindow: TypeAlias = tuple[BoundedWindow, Any, int | None]


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
        self._stamped = fold.operation.stamped
        self._width = fold.operation.pending_width
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
            yield key, self._merge_overlapping(entries, [])

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
            joined = self._joined(sorted(windows, key=_first)) if len(windows) > 1 else windows
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
        merge = self._merge_overlapping if self._windowing.window_fn.merges_by_overlap else self._merge_by_fn
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

    def _merge_overlapping(self, entries: list[Any], windows: list[MergedWindow]) -> list[MergedWindow]:
        """Windows that merge where they overlap: one scan in order of their beginnings."""
        runs: list[tuple[int, int, list[Any]]] = []
        values: list[Any] = []
        begin = end = MIN_MICROS
        for start, size, value in sorted(self._unpacked(entries), key=_first):
            own_end = start + size
            if start < end:
                values.append(value)
                if own_end > end:
                    end = own_end
            else:
                if values:
                    runs.append((begin, end, values))
                begin, end, values = start, own_end, [value]
        if values:
            runs.append((begin, end, values))
        of, window_of = self.fold.of, IntervalWindow.of_micros
        if self._stamped:
            found = [self._folded(window_of(begin, end), pairs) for begin, end, pairs in runs]
        else:
            found = [(window_of(begin, end), of(values), None) for begin, end, values in runs]
        return self._joined(sorted([*found, *windows], key=_first)) if windows else found

    def _unpacked(self, entries: list[Any]) -> Iterator[tuple[int, int, Any]]:
        """Start, size and value of each element; in place of the value a pair with its timestamp, if that matters."""
        width = self._width
        starts, sizes, values = entries[::width], entries[1::width], entries[2::width]
        return zip(starts, sizes, zip(values, entries[3::width]) if self._stamped else values)

    def _folded(self, window: BoundedWindow, pairs: list[tuple[Any, int]]) -> MergedWindow:
        """A window, of values and their timestamps."""
        stamp: int | None = None
        for _, micros in pairs:
            own = for_element(self._combiner, window, micros, self._windowing.window_fn)
            if own is not None:
                stamp = own if stamp is None else combined(self._combiner, stamp, own)
        return window, self.fold.of([value for value, _ in pairs]), stamp

    def _joined(self, windows: list[MergedWindow]) -> list[MergedWindow]:
        joined: list[list[MergedWindow]] = []
        end = MIN_MICROS
        for merged in windows:
            interval: Any = merged[0]
            if joined and interval[0] < end:
                joined[-1].append(merged)
                end = max(end, interval[1])
            else:
                joined.append([merged])
                end = interval[1]
        return [self._join(group) for group in joined]

    def _join(self, group: list[MergedWindow], result: BoundedWindow | None = None) -> MergedWindow:
        if len(group) == 1 and result in (None, group[0][0]):
            return group[0]
        if result is None:
            intervals: list[Any] = [window for window, _, _ in group]
            result = IntervalWindow.of_micros(min(w[0] for w in intervals), max(w[1] for w in intervals))
        stamp = None
        for _, _, own in group:
            if own is not None:
                stamp = own if stamp is None else combined(self._combiner, stamp, own)
        return result, self.fold.merged([accumulator for _, accumulator, _ in group]), stamp

    def _merge_by_fn(self, entries: list[Any], windows: list[MergedWindow]) -> list[MergedWindow]:
        """Windows that merge as the user's `merge_windows` says."""
        by_window: dict[BoundedWindow, list[Any]] = {}
        for window, _, micros, value in entries:
            by_window.setdefault(window, []).append((value, micros))
        current: dict[BoundedWindow, list[MergedWindow]] = {merged[0]: [merged] for merged in windows}
        for window, pairs in by_window.items():
            current.setdefault(window, []).append(self._folded(window, pairs))
        merges: list[tuple[list[BoundedWindow], BoundedWindow]] = []

        class Context(WindowFn.MergeContext):
            def merge(self, to_be_merged: Any, merge_result: BoundedWindow) -> None:
                merges.append((list(to_be_merged), merge_result))

        window_fn = self._windowing.window_fn
        window_fn.merge_windows(Context(current))
        for sources, result in merges:
            group: list[MergedWindow] = []
            for window in dict.fromkeys(sources):
                if window not in current:
                    raise PenstockError(
                        f"{window_fn!r}.merge_windows merged {window!r}, which is not among the windows that it was "
                        f"given, or was merged before"
                    )
                group.extend(current.pop(window))
            current.setdefault(result, []).append(self._join(group, result))
        return [self._join(group, window) for window, group in current.items()]


_first = itemgetter(0)


def _end(window: BoundedWindow) -> int:
    return window.max_micros
