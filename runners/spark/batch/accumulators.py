"""What tasks report besides their results: metrics, and how many elements there were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....sdk.metrics import MetricsContainer
from ...execution.counters import Counts

if TYPE_CHECKING:
    from pyspark import SparkContext

# By segment and partition.
Reports = dict[tuple[int, int], tuple[MetricsContainer, Counts]]


class TaskReports:
    """The reports of one run, on the driver.

    Attributes:
      accumulator: what tasks add a `Reports` of one to.
      counts: elements by step, as of the last `update`.
    """

    def __init__(self, context: SparkContext) -> None:
        from pyspark.accumulators import AccumulatorParam

        # Of a partition that was computed again, for a retry or a second job, the later report
        # replaces the earlier one: each partition is counted once.
        class Latest(AccumulatorParam):  # type: ignore[type-arg]
            def zero(self, value: Reports) -> Reports:
                return {}

            def addInPlace(self, value1: Reports, value2: Reports) -> Reports:
                value1.update(value2)
                return value1

        self.accumulator: Any = context.accumulator({}, Latest())
        self.counts = Counts()

    def update(self) -> None:
        """Have `counts` say what has been reported."""
        merged = Counts()
        for _, counts in list(self.accumulator.value.values()):
            merged.add(counts)
        self.counts.steps = merged.steps

    @property
    def metrics(self) -> MetricsContainer:
        """What user code has reported."""
        merged = MetricsContainer()
        for container, _ in list(self.accumulator.value.values()):
            merged.merge(container)
        return merged
