"""A tally: what user code has reported, and what was counted of elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from ....sdk.metrics import MetricName, MetricsContainer
from ...execution.counters import Counts
from ...execution.serialization.records import pickled, unpickled

_GAUGE_IS_DATA = "The value of a gauge has to be data."


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
        self.counts.add(other.counts)


def tally_as_data(tally: Tally) -> list[Any]:
    """Return a tally as the fields of a record: metrics and counts by step."""
    metrics = [
        [
            label,
            list(step.counters.items()),
            list(step.distributions.items()),
            [(name, at, pickled(value, label, _GAUGE_IS_DATA)) for name, (at, value) in step.gauges.items()],
        ]
        for label, step in tally.metrics.steps.items()
    ]
    return [metrics, [(count.label, count.read, count.written) for count in tally.counts.steps.values()]]


def tally_of(data: list[Any]) -> Tally:
    """Return the tally that `tally_as_data` was given."""
    metrics, counts = data
    tally = Tally()
    for label, counters, distributions, gauges in metrics:
        step = tally.metrics.step(label)
        step.counters.update({MetricName(*name): n for name, n in counters})
        step.distributions.update({MetricName(*name): cell for name, cell in distributions})
        for name, at, value in gauges:
            step.gauges[MetricName(*name)] = at, unpickled(value, f"{label}: a gauge", "the log of its productions")
    for label, read, written in counts:
        count = tally.counts.of(label)
        count.read, count.written = read, written
    return tally


def sum_of(tallies: Iterable[Tally]) -> Tally:
    """All of them together, as they are now."""
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total
