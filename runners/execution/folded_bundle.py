"""Accumulators on their way through a shuffle, in the place of the elements that were folded into them."""

from __future__ import annotations

from ...sdk.bundle import Bundle


class FoldedBundle(Bundle):
    """A bundle whose values are `(key, (accumulator, elements))`: of so many elements, each in one window.

    Its timestamps are what the grouping's timestamp combiner keeps.

    >>> type(FoldedBundle([("a", (5, 2)), ("b", (1, 1))]).part(0, 1)).__name__
    'FoldedBundle'
    """

    __slots__ = ()

    def part(self, start: int, stop: int) -> FoldedBundle:
        part = super().part(start, stop)
        return FoldedBundle(part.values, part.timestamps, part.windows, part.panes, part.signs)
