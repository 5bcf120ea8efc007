"""Cells: what a grouping holds for each window and key.

A stage that ends in a grouping folds straight into the cells of that grouping's window
operator, or into cells of its own where the fold is lifted before a shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from ...sdk.coders.coded_key import check_keys
from ...windowing import BoundedWindow


class WindowCells:
    """The cells of one window.

    Attributes:
      window: the window.
      accumulators: by key, what has been folded so far.
      stamps: by key, the microseconds that the timestamp combiner keeps; empty at
        the end of the window.
    """

    __slots__ = ("accumulators", "stamps", "window")

    def __init__(self, window: BoundedWindow) -> None:
        self.window = window
        self.accumulators: dict[Any, Any] = {}
        self.stamps: dict[Any, int] = {}


class Cells:
    """All cells of a grouping.

    Attributes:
      by_window: for windows that don't merge.
      pending: for windows that do: by key, the elements whose windows haven't been merged
        yet.  Where they merge by overlap, one flat list of start, size and value of each, and
        its timestamp if the timestamp combiner looks at it (`FoldOperation.pending_width`):
        a tuple for each would take twice the memory.  Else (window, window, timestamp, value).
      size: how many entries have come, about: keys for a combining grouping whose windows
        don't merge, else elements.
    """

    __slots__ = ("_sizes", "by_window", "pending", "size")

    def __init__(self) -> None:
        self.size = 0
        self.by_window: dict[BoundedWindow, WindowCells] = {}
        self.pending: dict[Any, list[Any]] = {}
        # What a bundle has touched, and how many keys were there before it.
        self._sizes: list[tuple[dict[Any, Any], int]] = []

    def start_bundle(self) -> None:
        """Before a bundle is folded."""
        self._sizes = [(self.pending, len(self.pending))]

    def open(self, window: BoundedWindow) -> WindowCells:
        """The cells of a window, when a bundle's first element of it comes."""
        cells = self.by_window.get(window)
        if cells is None:
            cells = self.by_window[window] = WindowCells(window)
        self._sizes.append((cells.accumulators, len(cells.accumulators)))
        return cells

    def finish_bundle(self) -> None:
        """After a bundle was folded: looks at the keys that are new.

        Raises `InvalidKeyError` for one that has no deterministic encoding.
        """
        sizes, self._sizes = self._sizes, []
        for keys, before in sizes:
            new = len(keys) - before
            if new:
                # Of windows that merge the elements count, which the stage knows of.
                self.size += 0 if keys is self.pending else new
                # Dictionaries keep the order of insertion.
                check_keys(islice(reversed(keys), new))

    def __len__(self) -> int:
        return len(self.pending) + sum(len(cells.accumulators) for cells in self.by_window.values())

    def take(self) -> Iterator[WindowCells]:
        """Every window's cells, taken out."""
        while self.by_window:
            _, cells = self.by_window.popitem()
            yield cells
