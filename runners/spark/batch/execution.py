"""A batch run on Spark: segments in the order of their dependencies, and the commit of their sinks.

Subclasses say what holds the rows of a segment: an RDD, or a DataFrame of Spark Connect.
"""

from __future__ import annotations

import pickle
import threading
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ....sdk import graph
from ....sdk.errors import RunnerError
from ....sdk.metrics import MetricsContainer
from ....sdk.redaction import logger_of
from ....sdk.sources.bounded import BoundedSource
from ....sdk.spark_interfaces import FrameSink
from ....sdk.user_code.serialization import dumps, local_modules_by_value
from ...execution.counters import Counts
from ...execution.plan.fusion import Plan, Source
from ...execution.plan.segments import Segment, cut, dependencies
from ...execution.sinks.committer import SinkCommitter, sinks_of
from ...execution.sinks.run_records import recorded
from ...execution.user_errors import guarded
from ..attempts import all_read, joined, mixed
from ..dataframes import Pack, check_packages
from ..jobs import is_of_several_attempts, raise_original
from .partition_function import Reports, TaskTraffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_logger = logger_of(__name__)

# The size of a task's input, in bytes, if the source is large enough.
SPLIT_BYTES = 64 << 20

# The most tasks for each core, if a source has many small splits.
TASKS_PER_CORE = 4

# How often a segment runs again because several attempts of its tasks were read.
MOST_REPETITIONS = 3

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
    """One run of a plan on Spark.

    Args:
      partitions: the number of partitions of a shuffle.
      timeout: seconds after which a call that has not returned is named in the log.
      has_page: whether tasks report the stacks of their steps.

    Attributes:
      reports: metrics and counts of its tasks.
      segments: the segments of the plan, in the order in which they run.
    """

    def __init__(
        self,
        plan: Plan,
        session: SparkSession,
        partitions: int,
        reports: TaskReports,
        timeout: float,
        has_page: bool,
    ) -> None:
        self.plan = plan
        self.partitions = partitions
        self.reports = reports
        self.transaction = uuid.uuid4().hex[:12]
        self._session = session
        self._timeout = timeout
        self._has_page = has_page
        self.segments = tuple(cut(plan))
        self._dependencies = dependencies(self.segments)
        # What the driver has kept of each segment, by its number.
        self._kept: dict[int, _Kept] = {}
        self._repetitions = Counter[int]()
        sinks = sinks_of(plan)
        self._frame_sinks = {label: of.sink for label, of in sinks.items() if isinstance(of.sink, FrameSink)}
        self._schemas: dict[str, Any] = {}
        self._is_cancelled = False
        self._is_over = threading.Event()

    def run(self) -> None:
        """Run to the end; on failure remove all output."""
        with recorded(self.plan, self.reports.committed) as committer:
            self._run_and_commit(committer)

    def _run_and_commit(self, committer: SinkCommitter) -> None:
        try:
            committer.begin(self.transaction)
            if self._frame_sinks:
                check_packages()
            self._schemas = {label: sink.schema(self._session) for label, sink in self._frame_sinks.items()}
            self._run_segments()
            committer.publish(self.transaction, self._staged(committer.labels))
            committer.close()
        except BaseException as error:
            self._is_over.set()
            self._cancel_jobs()
            self._discard()
            committer.abort()
            if isinstance(error, Exception):
                raise_original(error)
            raise
        finally:
            self._is_over.set()
            self._release()

    def _run_segments(self) -> None:
        """Run all segments, until no two tasks have read several attempts of one."""
        waiting = set(range(len(self.segments)))
        while waiting:
            number = min(waiting)
            waiting.remove(number)
            waiting |= self._to_repeat(self._run_segment(number, self.segments[number]))
            if self._is_cancelled:
                raise RunnerError("the run was cancelled")

    def _run_segment(self, number: int, segment: Segment) -> set[int]:
        """Describe a segment, and run it if the driver needs its results.

        Returns:
          The segments of which several attempts were read.
        """
        self._describe(number, segment)
        if not segment.is_eager:
            return set()
        kept = _Kept()
        try:
            kept.add(self._collect(number, segment))
            for label in self._frames_of(segment):
                kept.add(self._keep_frame(number, segment, label))
        except Exception as error:
            if is_of_several_attempts(error):
                return {number}
            raise
        self._kept[number] = kept
        return mixed(joined(each.read for each in self._kept.values()))

    def _to_repeat(self, found: set[int]) -> set[int]:
        """Return the segments of which several attempts were read, and those behind them; forget their results.

        Args:
          found: the former.

        Raises `RunnerError` for a segment that has run too often.
        """
        for number in sorted(found):
            self._repetitions[number] += 1
            label = self.segments[number].label
            if self._repetitions[number] > MOST_REPETITIONS:
                raise RunnerError(
                    f"{label}: in each of {MOST_REPETITIONS + 1} runs Spark computed a task again, with other output, "
                    "after other tasks had read the output of an earlier attempt; expected one attempt's output only. "
                    "Check whether executors are being lost, and whether functions return something else for the same "
                    "element while spark.speculation repeats slow tasks"
                )
            _logger.warning(
                "%s: Spark has computed a task again, with other output, after tasks had read the output of an earlier "
                "attempt; running this segment again, and all segments that depend on it",
                label,
            )
        behind = set(found)
        for number, needed in enumerate(self._dependencies):
            if needed & behind:
                behind.add(number)
        for number in behind:
            self._kept.pop(number, None)
            self._forget(number)
        return behind

    def _staged(self, labels: Iterable[str]) -> dict[str, list[Any]]:
        """Return the tokens of each sink."""
        staged: dict[str, list[Any]] = {label: [] for label in labels}
        for _, kept in sorted(self._kept.items()):
            for label, tokens in kept.staged.items():
                staged[label] += tokens
        return staged

    def _side_inputs_of(self, segment: Segment) -> dict[int, list[bytes]]:
        """Return the blocks of a segment's side inputs."""
        made = [kept.side_outputs for _, kept in sorted(self._kept.items())]
        return {i: [block for each in made for block in each.get(i, ())] for i in segment.side_inputs}

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


class _Kept:
    """What the driver has kept of a segment that has run.

    Attributes:
      staged: the tokens of each sink.
      side_outputs: the blocks of each PCollection that is a side input of others.
      read: by segment, the digests of the attempts that were read.
    """

    def __init__(self) -> None:
        self.staged: dict[str, list[Any]] = {}
        self.side_outputs: dict[int, list[bytes]] = {}
        self.read: dict[int, frozenset[bytes]] = {}

    def add(self, rows: Iterable[tuple[str, Any, bytes]]) -> None:
        """Add rows that tasks have returned to the driver."""
        attempts = []
        for kind, where, block in rows:
            if kind == "attempt":
                attempts.append(pickle.loads(block))
            elif kind == "sink":
                self.staged.setdefault(where, []).append(pickle.loads(block))
            else:
                self.side_outputs.setdefault(where, []).append(block)
        self.read = joined([self.read, all_read(attempts)])


def uses_of(segment: Segment, frames: int) -> int:
    """Return how often the rows of a segment are read: by other segments, by the driver, and for DataFrames."""
    return len(segment.groupings) + len(segment.stores_for) + segment.is_eager + frames


def pickled_splits(segment: Segment, cores: int) -> tuple[list[bytes], int]:
    """Return a source's splits, pickled, and the number of partitions for them: several in one if there are many."""
    root = segment.root
    assert isinstance(root, Source)
    primitive = root.transform.primitive
    assert isinstance(primitive, graph.Read)
    assert isinstance(primitive.source, BoundedSource)
    label = root.transform.label
    source = primitive.source
    desired = max(cores, (guarded(label, source.estimate_size) or 0) // SPLIT_BYTES)
    splits = guarded(label, lambda: source.split(1 if segment.is_of_one_task else desired))
    with local_modules_by_value():
        rows = [dumps(split, label) for split in splits]
    if segment.is_of_one_task:
        return rows, 1
    return rows, max(1, min(len(rows), max(desired, cores * TASKS_PER_CORE)))
