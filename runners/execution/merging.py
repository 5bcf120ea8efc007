"""MergeWindows by a user's window function (Dataflow Model, section 2.2.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...sdk.errors import PenstockError
from ...windowing import BoundedWindow, WindowFn


def merge_by_fn(
    window_fn: WindowFn, windows: Iterable[BoundedWindow]
) -> list[tuple[list[BoundedWindow], BoundedWindow]]:
    """The merges that `merge_windows` makes: which windows, and what they become.

    Raises `PenstockError` where it merges a window twice, or one that isn't there.

    >>> from penstock.windowing import IntervalWindow, Sessions
    >>> merge_by_fn(Sessions(10), [IntervalWindow(0, 10), IntervalWindow(5, 15), IntervalWindow(30, 40)])
    [([[0.0, 10.0), [5.0, 15.0)], [0.0, 15.0))]
    """
    present = list(dict.fromkeys(windows))
    unmerged = set(present)
    merges: list[tuple[list[BoundedWindow], BoundedWindow]] = []

    class Context(WindowFn.MergeContext):
        def merge(self, to_be_merged: Any, merge_result: BoundedWindow) -> None:
            merges.append((list(dict.fromkeys(to_be_merged)), merge_result))

    window_fn.merge_windows(Context(present))
    for sources, _ in merges:
        for window in sources:
            if window not in unmerged:
                raise PenstockError(
                    f"{window_fn!r}.merge_windows merged {window!r}, which is not among the windows that it was "
                    "given, or was merged before"
                )
            unmerged.discard(window)
    return merges
