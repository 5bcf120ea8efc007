"""Bundles in portions, for a stage that folds into what is held before a shuffle.

One element may become a million in a FlatMap, and the fold is part of the stage's loop: how
much it holds is known only when the loop ends.  So at first the stage is given one element,
then a few, and from what came of them it is known how many fill a quarter of what may be held.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....sdk.bundle import BUNDLE_SIZE, Bundle
from .blocks import ShuffleWriter


class Portions:
    """The bundles of one stage, as it is to be given them.

    Args:
      writer: where the stage's fold goes.
    """

    def __init__(self, writer: ShuffleWriter) -> None:
        self._writer = writer
        self._portion = 1
        # Elements that have been processed since entries were counted.
        self._elements = 0
        self._entries = 0

    def __call__(self, bundle: Bundle) -> Iterator[Bundle]:
        """The bundle, cut if need be; each part has to be processed before the next is asked for."""
        start, n = 0, len(bundle)
        while start < n:
            stop = min(n, start + self._portion)
            yield bundle if stop - start == n else bundle.part(start, stop)
            self._elements += stop - start
            if self._elements >= self._portion:
                self._look()
            start = stop

    def _look(self) -> None:
        entries = self._writer.entries()
        self._writer.folded()
        fits = self._writer.limit * self._elements // (4 * max(1, entries - self._entries))
        self._portion = max(1, min(fits, 4 * self._elements, 2 * BUNDLE_SIZE))
        self._entries, self._elements = entries, 0
