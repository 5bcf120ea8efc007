"""Results of metrics: the values of a run by step and name, and filters of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from .reporting import Counter, Distribution, Gauge, MetricName, Metrics, MetricsContainer


@attrs.frozen
class MetricKey:
    """A metric with the full label of the reporting step, or '' if unknown."""

    step: str
    metric: MetricName


@attrs.frozen
class DistributionResult:
    """Sum, count, minimum and maximum of the values of a distribution.

    >>> DistributionResult(sum=10, count=4, min=1, max=4).mean
    2.5
    """

    sum: float
    count: int
    min: float | None
    max: float | None

    @property
    def mean(self) -> float | None:
        """The mean, or None without values."""
        return self.sum / self.count if self.count else None


@attrs.frozen
class GaugeResult:
    """A gauge's latest value and when it was set, in seconds since the epoch."""

    value: Any
    timestamp: float


class MetricsFilter:
    """A filter of metrics by names, namespaces and steps.  An empty filter matches all.

    A step matches if its label is or contains the given path: "Outer" and "Outer/Inner" both match
    "Outer/Inner/Map(f)".

    >>> MetricsFilter().with_name("lines").with_step("Read").names
    frozenset({'lines'})
    """

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        self.namespaces: frozenset[str] = frozenset()
        self.steps: frozenset[str] = frozenset()

    def with_name(self, name: str) -> MetricsFilter:
        """Add metrics of this name."""
        return self.with_names([name])

    def with_names(self, names: Iterable[str]) -> MetricsFilter:
        """Add metrics of these names."""
        self.names |= _several(names, "with_name")
        return self

    def with_namespace(self, namespace: type | str) -> MetricsFilter:
        """Add metrics of this namespace."""
        return self.with_namespaces([namespace])

    def with_namespaces(self, namespaces: Iterable[type | str]) -> MetricsFilter:
        """Add metrics of these namespaces."""
        self.namespaces |= frozenset(map(Metrics.get_namespace, _several(namespaces, "with_namespace")))
        return self

    def with_metric(self, metric: Counter | Distribution | Gauge) -> MetricsFilter:
        """Add metrics with the name and namespace of a metric."""
        return self.with_name(metric.metric_name.name).with_namespace(metric.metric_name.namespace)

    def with_step(self, step: str) -> MetricsFilter:
        """Add metrics of this step."""
        return self.with_steps([step])

    def with_steps(self, steps: Iterable[str]) -> MetricsFilter:
        """Add metrics of these steps."""
        self.steps |= _several(steps, "with_step")
        return self

    def matches(self, key: MetricKey) -> bool:
        """Return whether the filter matches a metric."""
        return (
            (not self.names or key.metric.name in self.names)
            and (not self.namespaces or key.metric.namespace in self.namespaces)
            and (not self.steps or any(f"/{step}/" in f"/{key.step}/" for step in self.steps))
        )


def _several(items: Iterable[Any], singular: str) -> frozenset[Any]:
    if isinstance(items, str):
        raise TypeError(f"{singular}s takes several strings, not {items!r}; use {singular}({items!r})")
    return frozenset(items)


@attrs.frozen
class MetricResult:
    """A metric's value: of committed work, and of all attempts, retries included."""

    key: MetricKey
    committed: Any
    attempted: Any

    @property
    def result(self) -> Any:
        """The committed value, or the attempted value if the runner has no commits."""
        return self.attempted if self.committed is None else self.committed

    def __str__(self) -> str:
        return f"{self.key.step}:{self.key.metric.namespace}:{self.key.metric.name} = {self.result}"


class MetricResults:
    """Metrics of a finished or running pipeline.

    Args:
      committed: metrics of committed work.
      attempted: metrics of all attempts; by default the committed ones.
    """

    COUNTERS = "counters"
    DISTRIBUTIONS = "distributions"
    GAUGES = "gauges"

    def __init__(self, committed: MetricsContainer, attempted: MetricsContainer | None = None) -> None:
        self._committed = committed
        self._attempted = committed if attempted is None else attempted

    def query(self, filter: MetricsFilter | None = None) -> dict[str, list[MetricResult]]:
        """Return the matching metrics, as `{'counters': [...], 'distributions': [...], 'gauges': [...]}`.

        >>> MetricResults(MetricsContainer()).query()
        {'counters': [], 'distributions': [], 'gauges': []}
        """
        return {
            kind: _results(_values(self._committed, kind), _values(self._attempted, kind), filter)
            for kind in (self.COUNTERS, self.DISTRIBUTIONS, self.GAUGES)
        }


def _values(container: MetricsContainer, kind: str) -> dict[MetricKey, Any]:
    return {
        MetricKey(label, name): _public(kind, cell)
        for label, step in container.steps.items()
        for name, cell in getattr(step, kind).items()
    }


def _public(kind: str, cell: Any) -> Any:
    if kind == MetricResults.DISTRIBUTIONS:
        return DistributionResult(*cell)
    if kind == MetricResults.GAUGES:
        return GaugeResult(cell[1], cell[0])
    return cell


def _results(
    committed: dict[MetricKey, Any], attempted: dict[MetricKey, Any], filter: MetricsFilter | None
) -> list[MetricResult]:
    keys = committed if committed is attempted else {**attempted, **committed}
    return [
        MetricResult(key, committed.get(key), attempted.get(key))
        for key in keys
        if filter is None or filter.matches(key)
    ]
