"""Metrics of user code: counters, distributions, gauges, sets of texts and paths, histograms.

reporting.py  reports of user code, and the containers that they go to
results.py    the values of a run, and filters of them
distribution.py, string_set.py, bounded_trie.py, histogram.py
              the values, and how those of several bundles are combined
lineage.py    the sources and sinks that a run has used, as paths
"""

from .distribution import DistributionData, DistributionResult, GaugeData, GaugeResult
from .lineage import Lineage
from .reporting import (
    DEAD_LETTERS,
    BoundedTrie,
    Counter,
    Distribution,
    Gauge,
    HistogramMetric,
    MetricName,
    Metrics,
    MetricsContainer,
    ReportsByStep,
    StepMetrics,
    StringSet,
    merge_apart,
    report_apart,
    scoped,
)
from .results import MetricKey, MetricResult, MetricResults, MetricsFilter, SubtaskLoad

__all__ = [
    "Metrics",
    "Counter",
    "Distribution",
    "Gauge",
    "MetricName",
    "MetricsContainer",
    "ReportsByStep",
    "StepMetrics",
    "scoped",
    "report_apart",
    "merge_apart",
    "DEAD_LETTERS",
    "MetricsFilter",
    "MetricKey",
    "MetricResult",
    "MetricResults",
    "SubtaskLoad",
    "DistributionResult",
    "GaugeResult",
    "DistributionData",
    "GaugeData",
    "StringSet",
    "BoundedTrie",
    "HistogramMetric",
    "Lineage",
]
