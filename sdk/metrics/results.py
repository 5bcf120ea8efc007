"""Results of metrics: the values of a run by step and name, and filters of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from ...frozen import frozen
from .distribution import DistributionData, DistributionResult, GaugeData, GaugeResult
from .reporting import (
    BoundedTrie,
    Counter,
    Distribution,
    Gauge,
    HistogramMetric,
    MetricName,
    Metrics,
    MetricsContainer,
    StepMetrics,
    StringSet,
)

AnyMetric: TypeAlias = Counter | Distribution | Gauge | StringSet | BoundedTrie | HistogramMetric


@frozen(repr=False)
class MetricKey:
    """A metric with the full label of the reporting step, or '' if unknown, and other labels if it has some.

    >>> from penstock.metrics import MetricKey, MetricName
    >>> MetricKey("Count", MetricName("text", "words")).metric.name
    'words'
    """

    step: str
    metric: MetricName
    labels: Mapping[str, str] = attrs.field(factory=dict, hash=False)

    def __repr__(self) -> str:
        return f"MetricKey(step={self.step}, metric={self.metric}, labels={self.labels})"


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

    def with_metric(self, metric: AnyMetric) -> MetricsFilter:
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


@frozen(repr=False)
class MetricResult:
    """A metric's value: of committed work, and of all attempts, retries included.

    >>> print(MetricResult(MetricKey("Parse", MetricName("app", "lines")), 2, 3))
    MetricResult(key=MetricKey(step=Parse, metric=MetricName(namespace=app, name=lines), labels={}), \
committed=2, attempted=3)
    """

    key: MetricKey
    committed: Any
    attempted: Any

    @property
    def result(self) -> Any:
        """The committed value, or the attempted value if the runner has no commits."""
        return self.attempted if self.committed is None else self.committed

    def __repr__(self) -> str:
        return f"MetricResult(key={self.key}, committed={self.committed!s}, attempted={self.attempted!s})"


@frozen
class SubtaskLoad:
    """How a subtask has spent the time of a run, or of the time since the last restart: shares that add up to 1.

    Attributes:
      stage: the labels of the transforms that run together between two shuffles.
      subtask: the number of the subtask: of a worker or a partition of the stage.
      busy: the share in which it was processing, calls of user code, sources and sinks included.
      backpressured: the share in which it had to wait for the subtasks behind it.
      idle: the rest, in which it had no input or the stage had yet to begin, or was over.

    >>> from penstock.metrics import SubtaskLoad
    >>> SubtaskLoad("Parse", 0, busy=0.5, backpressured=0.25, idle=0.25).busy
    0.5
    """

    stage: str
    subtask: int
    busy: float
    backpressured: float
    idle: float


class MetricResults:
    """Metrics of a finished or running pipeline.

    Args:
      committed: metrics of committed work.
      attempted: metrics of all attempts; by default the committed ones.
      step_seconds: the sampled time of each transform, by full label.
      subtask_loads: the load of each subtask.

    >>> import penstock as beam
    >>> words = beam.metrics.Metrics.counter("text", "words")
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create(["to", "be"]) | "Count" >> beam.Map(lambda word: words.inc())
    >>> wanted = beam.metrics.MetricsFilter().with_name("words")
    >>> (found,) = p.run().metrics().query(wanted)["counters"]
    >>> found.key.step, found.committed
    ('Count', 2)
    """

    COUNTERS = "counters"
    DISTRIBUTIONS = "distributions"
    GAUGES = "gauges"
    STRINGSETS = "string_sets"
    BOUNDED_TRIES = "bounded_tries"
    HISTOGRAMS = "histograms"

    def __init__(
        self,
        committed: MetricsContainer,
        attempted: MetricsContainer | None = None,
        step_seconds: Mapping[str, float] | None = None,
        subtask_loads: Sequence[SubtaskLoad] = (),
    ) -> None:
        self._step_seconds = step_seconds or {}
        self._subtask_loads = subtask_loads
        self._committed = committed
        self._attempted = committed if attempted is None else attempted

    def query(self, filter: MetricsFilter | None = None) -> dict[str, list[MetricResult]]:
        """Return the matching metrics by kind: counters, distributions, gauges, string_sets, bounded_tries, histograms.

        The value of a string set is a set; of a bounded trie, a `BoundedTrieData`; of the others, a number or a result.

        >>> MetricResults(MetricsContainer()).query()["counters"]
        []
        """
        kinds = (
            self.COUNTERS,
            self.DISTRIBUTIONS,
            self.GAUGES,
            self.STRINGSETS,
            self.BOUNDED_TRIES,
            self.HISTOGRAMS,
        )
        return {
            kind: _results(_values(self._committed, kind), _values(self._attempted, kind), filter) for kind in kinds
        }

    def step_seconds(self) -> dict[str, float]:
        """Return the seconds that each transform has taken, by its full label, longest first.

        The runner samples the running transform some twenty times a second and more, in each worker.  So transforms of
        one fused stage are told apart, and a transform that has hardly taken any time is missing.

        >>> MetricResults(MetricsContainer(), step_seconds={"Parse": 0.5, "Join": 2.0}).step_seconds()
        {'Join': 2.0, 'Parse': 0.5}
        """
        return dict(sorted(self._step_seconds.items(), key=lambda entry: -entry[1]))

    def subtask_loads(self) -> list[SubtaskLoad]:
        """Return the load of each subtask, by stage and number.

        The numbers of `--metrics_port` are those of the last seconds; these are of the whole run.  In batch nothing is
        backpressured: a stage writes its output to files.

        >>> import penstock as beam
        >>> p = beam.Pipeline()
        >>> _ = p | "Read" >> beam.Create([1, 2]) | "Square" >> beam.Map(lambda n: n * n)
        >>> [(load.stage, load.subtask) for load in p.run().metrics().subtask_loads()]
        [('Read/Values → Square', 0)]
        """
        return list(self._subtask_loads)

    @staticmethod
    def matches(filter: MetricsFilter | None, metric_key: MetricKey) -> bool:
        """Return whether a filter matches a metric; None matches all."""
        return filter is None or filter.matches(metric_key)


def _values(container: MetricsContainer, kind: str) -> dict[MetricKey, Any]:
    return {
        MetricKey(label, name): _public(kind, cell)
        for label, step in container.steps.items()
        for name, cell in _reports(step, kind).items()
    }


def _reports(step: StepMetrics, kind: str) -> dict[MetricName, Any]:
    found: dict[MetricName, Any] = getattr(step, kind, None) or step.data.get(kind, {})
    return found


def _public(kind: str, cell: Any) -> Any:
    if kind == MetricResults.DISTRIBUTIONS:
        return DistributionResult(DistributionData(*cell))
    if kind == MetricResults.GAUGES:
        return GaugeResult(GaugeData(cell[1], cell[0]))
    if kind == MetricResults.BOUNDED_TRIES:
        return cell.get_cumulative()
    return cell if kind == MetricResults.COUNTERS else cell.get_result()


def _results(
    committed: dict[MetricKey, Any], attempted: dict[MetricKey, Any], filter: MetricsFilter | None
) -> list[MetricResult]:
    keys = committed if committed is attempted else {**attempted, **committed}
    return [
        MetricResult(key, committed.get(key), attempted.get(key)) for key in keys if MetricResults.matches(filter, key)
    ]
