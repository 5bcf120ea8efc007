"""Accumulators on their way through a shuffle, in the place of the elements that were folded into them."""

from __future__ import annotations

from ...sdk.bundle import Bundle


class FoldedBundle(Bundle):
    """A bundle whose values are `(key, (accumulator, elements))`: of so many elements, each in one window.

    Its timestamps are what the grouping's timestamp combiner keeps.

    >>> folded = FoldedBundle([("a", (5, 2)), ("b", (1, 1))])
    >>> len(folded), folded.elements, folded.part(0, 1).elements
    (2, 3, 2)
    """

    __slots__ = ()

    @property
    def elements(self) -> int:
        """How many elements were folded into what it has."""
        return sum(count for _, (_, count) in self.values)

    def part(self, start: int, stop: int) -> FoldedBundle:
        part = super().part(start, stop)
        return FoldedBundle(part.values, part.timestamps, part.windows, part.panes, part.signs)
