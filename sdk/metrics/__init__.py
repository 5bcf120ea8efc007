"""Metrics: counters, distributions and gauges of user code.

reporting.py  reports of user code, and the containers that they go to
results.py    the values of a run, and filters of them
"""

from .reporting import (
    STEPS_OF_LINES,
    Counter,
    Distribution,
    Gauge,
    MetricName,
    Metrics,
    MetricsContainer,
    StepMetrics,
    at_step,
    runs_step,
    scoped,
)
from .results import DistributionResult, GaugeResult, MetricKey, MetricResult, MetricResults, MetricsFilter

__all__ = [
    "Metrics",
    "Counter",
    "Distribution",
    "Gauge",
    "MetricName",
    "MetricsContainer",
    "StepMetrics",
    "scoped",
    "at_step",
    "runs_step",
    "STEPS_OF_LINES",
    "MetricsFilter",
    "MetricKey",
    "MetricResult",
    "MetricResults",
    "DistributionResult",
    "GaugeResult",
]
