"""Overlap: the rule by which windows merge where `WindowFn.merges_by_overlap` is set (Dataflow Model, section 2.2.2).

Two windows overlap if each of them starts before the other one ends.  Windows that only touch stay apart.  A run of
windows that overlap one another becomes one window, from the first start to the last end.

`overlapping_runs` merges any number of windows in one scan.  `overlapping` looks up the windows that one more window
merges with, among windows that have merged already.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TypeVar

from .timestamp import MIN_MICROS
from .windows import IntervalWindow

T = TypeVar("T")


def overlapping_runs(spans: Iterable[tuple[int, int, T]]) -> list[tuple[int, int, list[T]]]:
    """Merge spans that overlap, in one scan.

    Args:
      spans: (start, size, item), sorted by start.

    Returns (start, end, items) of each run.

    >>> overlapping_runs([(0, 10, "a"), (5, 10, "b"), (15, 10, "c")])
    [(0, 15, ['a', 'b']), (15, 25, ['c'])]
    """
    runs: list[tuple[int, int, list[T]]] = []
    items: list[T] = []
    begin = end = MIN_MICROS
    for start, size, item in spans:
        own_end = start + size
        if start < end:
            items.append(item)
            if own_end > end:
                end = own_end
        else:
            if items:
                runs.append((begin, end, items))
            begin, end, items = start, own_end, [item]
    if items:
        runs.append((begin, end, items))
    return runs


def overlapping(windows: Sequence[IntervalWindow], window: IntervalWindow) -> tuple[int, int]:
    """Return the slice of the windows that overlap one more window.

    Args:
      windows: sorted; no two of them overlap.

    >>> from penstock.windowing import IntervalWindow
    >>> apart = [IntervalWindow(0, 10), IntervalWindow(10, 20), IntervalWindow(30, 40)]
    >>> overlapping(apart, IntervalWindow(15, 31)), overlapping(apart, IntervalWindow(20, 30))
    ((1, 3), (2, 2))
    """
    start, end = window
    first = last = bisect_left(windows, window)
    if first and windows[first - 1][1] > start:
        first -= 1
    count = len(windows)
    while last < count and windows[last][0] < end:
        last += 1
    return first, last
