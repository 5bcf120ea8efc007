"""A batch run on Spark: segments in the order of their dependencies, and the commit of their sinks.

Subclasses say what holds the rows of a segment: an RDD, or a DataFrame of Spark Connect.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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

# The most segments that run within one job: each of its tasks is sent the functions of all of them.
_IN_A_JOB = 64

# The most segments that the name of a job names.
_NAMED = 3

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
        self.results = SegmentResults(program, self._forget_all)
        self.reports = reports
        self._session = session
        self._timeout = timeout
        self._has_page = has_page
        sinks = sinks_of(program.plan)
        self._frame_sinks = {label: of.sink for label, of in sinks.items() if isinstance(of.sink, FrameSink)}
        self._schemas: dict[str, Any] = {}
        self._is_cancelled = False
        self._is_over = threading.Event()
        # The segments whose rows were computed.
        self._computed: set[int] = set()

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
            self._run_jobs()
        except BaseException:
            # Before what they have written is removed.
            self._is_over.set()
            self._cancel_jobs()
            raise

    def _run_jobs(self) -> None:
        """Describe all segments, and run those whose results the driver needs: side inputs first, then all others."""
        segments, described = self.program.segments, list[int]()
        while True:
            for number in self.results.take_ready():
                self._describe(number, segments[number])
                if segments[number].is_eager:
                    described.append(number)
            if not described:
                return
            needed = [] if self.results.is_complete else [i for i in described if segments[i].side_outputs]
            job = self._side_by_side(needed or described)
            self._run_job(job)
            if self._is_cancelled:
                raise RunnerError("the run was cancelled")
            # Those that are to run again are described again.
            described = [i for i in described if i not in job and self.results.is_taken(i)]

    def _side_by_side(self, numbers: Sequence[int]) -> list[int]:
        """Return segments to run within one job, the first of these among them.

        Of segments that read the same kept rows, one runs before the others: two executors would compute the rows, and
        what functions return may differ.  A DataFrame has a job of its own.
        """
        job: list[int] = []
        reading: set[int] = set()
        for number in numbers:
            shared = {i for i in self._lineage(number) if self._is_kept(i)} - self._computed
            if (job and self._frames_of(self.program.segments[number])) or shared & reading:
                continue
            reading |= shared
            job.append(number)
            if self._frames_of(self.program.segments[number]) or len(job) == _IN_A_JOB:
                break
        return job

    def _lineage(self, number: int) -> set[int]:
        """Return a segment and those whose rows it reads, directly or not."""
        found, todo = set[int](), [number]
        while todo:
            number = todo.pop()
            if number not in found:
                found.add(number)
                todo += () if self.program.is_source(number) else self.program.senders(number)[1]
        return found

    def _is_kept(self, number: int) -> bool:
        """Return True if executors keep the rows of a segment, since they are read several times."""
        segment = self.program.segments[number]
        return uses_of(segment, len(self._frames_of(segment))) > 1

    def _run_job(self, job: Sequence[int]) -> None:
        segments = self.program.segments
        rows: dict[int, list[tuple[str, Any, bytes]]] = {number: [] for number in job}
        try:
            for number, *row in self._collect(job):
                rows[number].append((row[0], row[1], row[2]))
            for number in job:
                for label in self._frames_of(segments[number]):
                    rows[number] += self._keep_frame(number, segments[number], label)
        except Exception as error:
            if not is_of_several_attempts(error):
                raise
            self.results.repeat(job)
        else:
            self._computed |= {i for number in job for i in self._lineage(number)}
            self.results.add_all(rows)
            self._release_side_inputs()

    def _release_side_inputs(self) -> None:
        """Remove side inputs from the executors that no job will read any more."""

    def _forget_all(self, number: int) -> None:
        self._computed.discard(number)
        self._forget(number)

    def _coming(self) -> set[int]:
        """Return the segments that tasks of coming jobs may run."""
        eager = (i for i, each in enumerate(self.program.segments) if each.is_eager and not self.results.has(i))
        return {of for i in eager for of in self._lineage(i)}

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
    def _collect(self, numbers: Sequence[int]) -> Iterable[tuple[int, str, Any, bytes]]:
        """Run segments within one job; return their rows for the driver: the segment, kind, place and bytes."""

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


def job_name(labels: Sequence[str]) -> str:
    """Return the name of a job of segments with these labels.

    >>> job_name(["read → write"]), job_name(["a", "b", "c", "d", "e"])
    ('read → write', 'a, b, c and 2 more')
    """
    more = len(labels) - _NAMED
    return ", ".join(labels[:_NAMED]) + (f" and {more} more" if more > 0 else "")


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
