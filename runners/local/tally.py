"""A tally: what user code has reported, and what was counted of elements."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ...sdk.metrics import MetricsContainer
from ..execution.counters import Counts


@attrs.define
class Tally:
    """Of a subtask, or of many.

    >>> own, other = Tally(), Tally()
    >>> own.counts.of("Read").read, other.counts.of("Read").read = 1, 2
    >>> sum_of([own, other]).counts.of("Read").read, own.counts.of("Read").read
    (3, 1)
    """

    metrics: MetricsContainer = attrs.field(factory=MetricsContainer)
    counts: Counts = attrs.field(factory=Counts)

    def add(self, other: Tally) -> None:
        """Add what another has."""
        self.metrics.merge(other.metrics)
        for label, count in other.counts.steps.items():
            own = self.counts.of(label)
            own.read += count.read
            own.written += count.written


def sum_of(tallies: Iterable[Tally]) -> Tally:
    """All of them together, as they are now."""
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total
