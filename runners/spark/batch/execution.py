"""A batch run on Spark: segments in the order of their dependencies, and the commit of their sinks.

Subclasses say what holds the rows of a segment: an RDD, or a DataFrame of Spark Connect.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ....sdk.errors import RunnerError
from ....sdk.metrics import MetricsContainer
from ....sdk.spark_interfaces import FrameSink
from ...execution.batch.bounded_program import BoundedProgram
from ...execution.batch.segment_program import SegmentProgram, TaskTraffic
from ...execution.batch.segment_results import SegmentResults
from ...execution.counters import Counts
from ...execution.plan.segments import Segment
from ...execution.sinks.committer import sinks_of
from ..dataframes import Pack, check_packages
from ..jobs import is_of_several_attempts, raise_original
from .partition_function import Reports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The size of a task's input, in bytes, if the source is large enough.
SPLIT_BYTES = 64 << 20

# The most tasks for each core, if a source has many small splits.
TASKS_PER_CORE = 4

# Seconds from one cancellation of a run's jobs to the next.
_CANCELS = 0.5


class TaskReports(ABC):
    """The metrics and counts of a run's tasks, on the driver.

    Attributes:
      counts: elements by step, as of the last `update`.
      committed: what sinks have reported during their commits.
    """

    def __init__(self) -> None:
        self.counts = Counts()
        self.committed = MetricsContainer()

    @abstractmethod
    def reports(self) -> Reports:
        """Return the latest report of each partition."""

    def update(self) -> None:
        """Update `counts`."""
        merged = Counts()
        for report in list(self.reports().values()):
            merged.add(report.counts)
        self.counts.take(merged)

    @property
    def metrics(self) -> MetricsContainer:
        """The metrics of all tasks."""
        merged = MetricsContainer()
        for report in list(self.reports().values()):
            merged.merge(report.metrics)
        merged.merge(self.committed)
        return merged

    def traffic(self) -> TaskTraffic:
        """Return what tasks that have ended have read and sent."""
        merged = TaskTraffic()
        for report in list(self.reports().values()):
            merged.add(report.traffic)
        return merged

    def stacks(self) -> Mapping[int, Mapping[str, int]]:
        """Return how often each stack was seen in tasks that have ended, by segment."""
        merged: dict[int, Counter[str]] = {}
        for (segment, _), report in list(self.reports().items()):
            merged.setdefault(segment, Counter()).update(report.stacks)
        return merged


class BatchExecution(ABC):
    """One run of a program on Spark.

    Args:
      timeout: seconds after which a call that has not returned is named in the log.
      has_page: whether tasks report the stacks of their steps.

    Attributes:
      results: what its segments have returned.
      reports: metrics and counts of its tasks.
    """

    def __init__(
        self,
        program: BoundedProgram,
        session: SparkSession,
        reports: TaskReports,
        timeout: float,
        has_page: bool,
    ) -> None:
        self.program = program
        self.results = SegmentResults(program, self._forget)
        self.reports = reports
        self._session = session
        self._timeout = timeout
        self._has_page = has_page
        sinks = sinks_of(program.plan)
        self._frame_sinks = {label: of.sink for label, of in sinks.items() if isinstance(of.sink, FrameSink)}
        self._schemas: dict[str, Any] = {}
        self._is_cancelled = False
        self._is_over = threading.Event()

    def run(self) -> None:
        """Run to the end; on failure remove all output."""
        try:
            with self.results.committed(self.reports.committed):
                self._run_segments()
        except BaseException as error:
            self._discard()
            if isinstance(error, Exception):
                raise_original(error)
            raise
        finally:
            self._is_over.set()
            self._release()

    def _run_segments(self) -> None:
        """Run all segments, until no two tasks have read several attempts of one."""
        try:
            if self._frame_sinks:
                check_packages()
            self._schemas = {label: sink.schema(self._session) for label, sink in self._frame_sinks.items()}
            for number in self.results.to_run():
                self._run_segment(number, self.program.segments[number])
                if self._is_cancelled:
                    raise RunnerError("the run was cancelled")
        except BaseException:
            # Before what they have written is removed.
            self._is_over.set()
            self._cancel_jobs()
            raise

    def _run_segment(self, number: int, segment: Segment) -> None:
        """Describe a segment, and run it if the driver needs its results."""
        self._describe(number, segment)
        if not segment.is_eager:
            return
        try:
            rows = list(self._collect(number, segment))
            for label in self._frames_of(segment):
                rows += self._keep_frame(number, segment, label)
        except Exception as error:
            if not is_of_several_attempts(error):
                raise
            self.results.repeat({number})
        else:
            self.results.add_rows(number, rows)

    def cancel(self) -> None:
        """Let the run fail, on any thread."""
        self._is_cancelled = True

        def cancel_jobs() -> None:
            # At any one moment, no job may be running, and the next one about to start.
            while not self._is_over.is_set():
                self._cancel_jobs()
                self._is_over.wait(_CANCELS)

        threading.Thread(target=cancel_jobs, name="penstock cancel", daemon=True).start()

    def refresh(self) -> str:
        """Update the counts of the run, and return what it does as text; "" if that isn't known."""
        self.reports.update()
        return ""

    @abstractmethod
    def _describe(self, number: int, segment: Segment) -> None:
        """Describe the rows of a segment."""

    @abstractmethod
    def _collect(self, number: int, segment: Segment) -> Iterable[tuple[str, Any, bytes]]:
        """Run a segment; return the kind, the place and the bytes of the rows that are for the driver."""

    @abstractmethod
    def _keep_frame(self, number: int, segment: Segment, label: str) -> Iterable[tuple[str, Any, bytes]]:
        """Keep the rows of a DataFrame in the executors; return the rows of the attempts that they are of."""

    @abstractmethod
    def _forget(self, number: int) -> None:
        """Remove the rows of a segment, if there are any."""

    @abstractmethod
    def _cancel_jobs(self) -> None:
        """Cancel the running jobs, and wait until none of their tasks can write any more."""

    def _discard(self) -> None:
        """Remove the DataFrames that were written."""

    @abstractmethod
    def _release(self) -> None:
        """Remove what is kept in executors for this run."""

    @abstractmethod
    def frames(self) -> dict[str, Any]:
        """Return the DataFrames that were written, by the labels of their sinks."""

    def _frames_of(self, segment: Segment) -> dict[str, Pack]:
        """Return the functions that pack the rows of a segment's DataFrames, by the labels of their sinks."""
        labels = [label for label in segment.sinks if label in self._frame_sinks]
        return {label: self._frame_sinks[label].packer(self._schemas[label]) for label in labels}


def uses_of(segment: Segment, frames: int) -> int:
    """Return how often the rows of a segment are read: by other segments, by the driver, and for DataFrames."""
    return len(segment.groupings) + len(segment.stores_for) + segment.is_eager + frames


def pickled_splits(program: BoundedProgram, number: int, cores: int) -> tuple[list[bytes], int]:
    """Return a source's splits, pickled, and the number of partitions for them: several in one if there are many."""
    desired = 0

    def wanted(size: int) -> int:
        nonlocal desired
        desired = max(cores, size // SPLIT_BYTES)
        return desired

    rows = SegmentProgram.of(program, number).split(wanted)
    if program.segments[number].is_of_one_task:
        return rows, 1
    return rows, max(1, min(len(rows), max(desired, cores * TASKS_PER_CORE)))
