"""Accumulators on their way through a shuffle, in the place of the elements that were folded into them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...sdk.bundle import Bundle, Windows, expanded
from ...triggers.pane import PaneInfo


class Folded(NamedTuple):
    """What stands in the place of so many elements of one key and window, where it travels among elements."""

    accumulator: Any
    elements: int


class FoldedBundle(Bundle):
    """A bundle whose values are `(key, (accumulator, elements))`, each in one window.

    Its timestamps are what the grouping's timestamp combiner keeps.  As rows its values are
    `(key, Folded(accumulator, elements))`, so that in a snapshot of what is in flight they can be told from elements.

    >>> [value for value, *_ in FoldedBundle([("a", (5, 2))]).rows()]
    [('a', Folded(accumulator=5, elements=2))]
    """

    __slots__ = ()

    def part(self, start: int, stop: int) -> FoldedBundle:
        part = super().part(start, stop)
        return FoldedBundle(part.values, part.timestamps, part.windows, part.panes, part.signs)

    def rows(self) -> Iterator[tuple[Any, int, Windows, PaneInfo, int]]:
        n = len(self.values)
        return zip(
            [(key, Folded(*folded)) for key, folded in self.values],
            expanded(self.timestamps, n),
            expanded(self.windows, n),
            expanded(self.panes, n),
            expanded(self.signs, n),
            strict=True,
        )


def told_apart(bundle: Bundle) -> Iterator[Bundle]:
    """The elements of a bundle of rows, and the accumulators among them, as bundles of their own.

    >>> mixed = Bundle([("a", 1), ("a", Folded(5, 2))], [0, 0], [(), ()], [None, None], [1, 1])
    >>> [(type(part).__name__, part.values) for part in told_apart(mixed)]
    [('Bundle', [('a', 1)]), ('FoldedBundle', [('a', (5, 2))])]
    """
    elements: list[Any] = []
    folded: list[Any] = []
    for row in bundle.rows():
        key, value = row[0]
        if type(value) is Folded:
            folded.append(((key, tuple(value)), *row[1:]))
        else:
            elements.append(row)
    for kind, rows in ((Bundle, elements), (FoldedBundle, folded)):
        if rows:
            yield kind(*map(list, zip(*rows, strict=True)))
