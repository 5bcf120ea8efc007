"""MergeWindows: which of a key's windows become one, and what the merged window keeps (Dataflow Model, section 2.2.2).

`merged` says which windows become one: by their overlap, or as the user's `merge_windows` says.  `merged_timestamp`
says which timestamp is kept of several, and `Fold.merged` makes one accumulator of several.

`BulkMerge` merges the windows of a bounded input when all elements of a key are there, and folds the elements of a
merged window in one call.  With triggers, windows merge element by element (`merging_table.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

from ....sdk.errors import PenstockError
from ....windowing import BoundedWindow, IntervalWindow, WindowFn
from ....windowing.overlap import overlapping_runs
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from ....windowing.timestamp_combiner import KEEPING_LATEST, TimestampCombiner, for_element
from ..kernels.folds import MISSING
from .combining import Fold

T = TypeVar("T")

# A key's window, its accumulator, and the microseconds that the timestamp
# combiner keeps (None at the end of the window).
MergedWindow: TypeAlias = tuple[BoundedWindow, Any, int | None]

_first = itemgetter(0)
_new = tuple.__new__


def merged(window_fn: WindowFn, items: Iterable[tuple[BoundedWindow, T]]) -> list[tuple[BoundedWindow, list[T]]]:
    """Merge a key's windows.

    Args:
      items: the windows, each with an item.

    Returns the windows that they become, each with the items of the windows that it came from.  Windows that don't
    merge are among them.  A result of `merge_windows` may be merged again.

    Raises `PenstockError` where `merge_windows` merges a window that it wasn't given, or one that it has merged before.

    >>> from penstock.windowing import IntervalWindow, Sessions
    >>> merged(Sessions(9), [(IntervalWindow(0, 9), "a"), (IntervalWindow(30, 39), "b"), (IntervalWindow(6, 15), "c")])
    [([0.0, 15.0), ['a', 'c']), ([30.0, 39.0), ['b'])]
    """
    if not window_fn.merges_by_overlap:
        return _merged_by_fn(window_fn, items)
    spans = sorted(map(_span, items), key=_first)
    return [(IntervalWindow.of_micros(start, end), own) for start, end, own in overlapping_runs(spans)]


def _span(item: tuple[Any, T]) -> tuple[int, int, T]:
    (start, end), own = item
    return start, end - start, own


def _merged_by_fn(window_fn: WindowFn, items: Iterable[tuple[BoundedWindow, T]]) -> list[tuple[BoundedWindow, list[T]]]:
    groups: dict[BoundedWindow, list[T]] = {}
    for window, item in items:
        groups.setdefault(window, []).append(item)
    context = _Merges(groups)
    window_fn.merge_windows(context)
    for sources, result in context.merges:
        group: list[T] = []
        for window in sources:
            if window not in groups:
                raise PenstockError(
                    f"{window_fn!r}.merge_windows merged {window!r}, which is not among the windows that it was "
                    "given, or was merged before"
                )
            group += groups.pop(window)
        groups.setdefault(result, []).extend(group)
    return list(groups.items())


class _Merges(WindowFn.MergeContext):
    """The windows of one key, and the merges that `merge_windows` has called for."""

    def __init__(self, windows: Iterable[BoundedWindow]) -> None:
        super().__init__(windows)
        self.merges: list[tuple[list[BoundedWindow], BoundedWindow]] = []

    def merge(self, to_be_merged: Iterable[BoundedWindow], merge_result: BoundedWindow) -> None:
        self.merges.append((list(dict.fromkeys(to_be_merged)), merge_result))


def merged_timestamp(combiner: TimestampCombiner, stamps: Iterable[int | None]) -> int | None:
    """Return the timestamp that is kept of several elements or windows; those without one don't count.

    >>> merged_timestamp(TimestampCombiner.OUTPUT_AT_LATEST, [3, None, 7])
    7
    """
    known = [stamp for stamp in stamps if stamp is not None]
    if not known:
        return None
    return max(known) if combiner in KEEPING_LATEST else min(known)


class BulkMerge:
    """MergeWindows for a key's pending elements (`CellTable.pending`), and for windows that have merged before."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._window_fn = fold.windowing.window_fn
        self._by_overlap = self._window_fn.merges_by_overlap
        self._combiner: TimestampCombiner = fold.windowing.timestamp_combiner
        self._stamped = fold.operation.stamped
        self._width = fold.operation.pending_width
        # Whether the results of a key whose windows are all complete are those of the runs of its elements.
        self.emits_runs = self._by_overlap and not self._stamped

    def emit_runs(
        self, key: Any, entries: list[Any], values: list[Any], timestamps: list[int], windows: list[Any]
    ) -> None:
        """Append the results of a key's pending elements to those of a bundle, where `emits_runs`."""
        extracted = self._fold.extracted if self._fold.extracts else None
        for begin, end, accumulator in self._runs(entries):
            values.append((key, accumulator if extracted is None else extracted(accumulator)))
            timestamps.append(end - 1 if end <= MAX_MICROS else MAX_MICROS)
            windows.append((_new(IntervalWindow, (begin, end)),))

    def folded(self, entries: list[Any], windows: list[MergedWindow]) -> list[MergedWindow]:
        """Fold a key's pending elements, and merge their windows with those that are there already."""
        if self._by_overlap:
            found = self._folded_runs(entries)
            return self.joined([*found, *windows]) if windows else found
        by_window: dict[BoundedWindow, list[Any]] = {}
        for window, _, micros, value in entries:
            by_window.setdefault(window, []).append((value, micros))
        return self.joined([*windows, *(self._folded(window, pairs) for window, pairs in by_window.items())])

    def joined(self, windows: list[MergedWindow]) -> list[MergedWindow]:
        """Merge a key's windows."""
        return [
            self._join(group, window) for window, group in merged(self._window_fn, zip(map(_first, windows), windows))
        ]

    def _join(self, group: list[MergedWindow], result: BoundedWindow) -> MergedWindow:
        if len(group) == 1 and group[0][0] == result:
            return group[0]
        _, accumulators, stamps = zip(*group)
        return result, self._fold.merged(list(accumulators)), merged_timestamp(self._combiner, stamps)

    def _folded_runs(self, entries: list[Any]) -> list[MergedWindow]:
        """Fold elements by the windows that they merge into, without an accumulator for each of them."""
        window_of = IntervalWindow.of_micros
        if self._stamped:
            runs = overlapping_runs(sorted(self._unpacked(entries), key=_first))
            return [self._folded(window_of(begin, end), pairs) for begin, end, pairs in runs]
        return [(window_of(begin, end), accumulator, None) for begin, end, accumulator in self._runs(entries)]

    def _runs(self, entries: list[Any]) -> Iterator[tuple[int, int, Any]]:
        """Yield begin, end and accumulator of the windows that a key's elements merge into.

        They are those of `overlapping_runs`.
        """
        functions, of = self._fold.functions, self._fold.of
        collects = functions.calls
        first, add = (_alone, _with) if collects else (functions.first, functions.add)
        begin = end = MIN_MICROS
        accumulator: Any = MISSING
        for start, size, value in sorted(self._unpacked(entries), key=_first):
            if start < end:
                accumulator = add(accumulator, value)
                if start + size > end:
                    end = start + size
            else:
                if accumulator is not MISSING:
                    yield begin, end, of(accumulator) if collects else accumulator
                begin, end, accumulator = start, start + size, first(value)
        if accumulator is not MISSING:
            yield begin, end, of(accumulator) if collects else accumulator

    def _unpacked(self, entries: list[Any]) -> Iterator[tuple[int, int, Any]]:
        """Yield start, size and value of each element; a pair of value and timestamp if the timestamp matters."""
        width = self._width
        starts, sizes, values = entries[::width], entries[1::width], entries[2::width]
        return zip(starts, sizes, zip(values, entries[3::width]) if self._stamped else values)

    def _folded(self, window: BoundedWindow, pairs: list[tuple[Any, int]]) -> MergedWindow:
        """Fold values with timestamps into a window."""
        combiner, window_fn = self._combiner, self._window_fn
        stamp = merged_timestamp(combiner, [for_element(combiner, window, micros, window_fn) for _, micros in pairs])
        return window, self._fold.of([value for value, _ in pairs]), stamp


def _alone(value: Any) -> list[Any]:
    return [value]


def _with(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values
