"""Run of a bounded pipeline on the batch engine, in worker processes."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from types import FrameType
from typing import Any

import attrs

from ...sdk.errors import PenstockError
from ...sdk.metrics import MetricsContainer
from ...sdk.options import StreamingOptions
from ...sdk.redaction import logger_of
from ..execution.batch.file_tasks import CompletedTask, PartitionedPlan, ShuffledFiles
from ..execution.batch.schedule import Schedule
from ..execution.counters import Counts
from ..execution.error_transport import local
from ..execution.plan.fusion import Plan, Source
from ..execution.plan.segments import cut
from ..execution.sinks.committer import sinks_of
from ..execution.streaming_options import parallelism_of
from ..execution.stuck_calls import CallWatch
from .batch_workers import BatchWorkers, Begin, Partition, Report, TaskFailed, Wanted
from .bounded_run import committed_at_end, splits_of
from .workers.processes import WorkerDied, slots_of, start_of

_logger = logger_of(__name__)

# Splits of a source for each partition: with several, no worker waits long for the last.  With 4 of them, two workers
# took 6% longer for a GroupByKey of five million pairs.
_SPLITS = 8

# Seconds between two checks of the workers' heartbeats, at most.
_LOOK = 0.2


@attrs.frozen
class ParallelSettings:
    """Settings of a bounded run in several processes.

    Attributes:
      partitions: of each shuffle.
      workers: the number of processes.
      start: the start method of processes, "forkserver" or "spawn".
      timeout: seconds until a worker that hangs is killed, and a call that doesn't return is reported.
      retries: how often a segment's tasks are retried when their workers die.
    """

    partitions: int
    workers: int
    start: str = "forkserver"
    timeout: float = 10.0
    retries: int = 3


def settings_of(streaming: StreamingOptions) -> ParallelSettings:
    """Return the settings of the flags."""
    workers = slots_of(streaming)
    start = start_of(workers, streaming)
    parallelism = parallelism_of(streaming)
    return ParallelSettings(parallelism, workers, start, streaming.worker_timeout, streaming.max_restarts)


class ParallelRun:
    """Run of a bounded plan.

    Attributes:
      counts: elements by step, as of the last `refresh`.
    """

    def __init__(self, plan: Plan, metrics: MetricsContainer, settings: ParallelSettings) -> None:
        self.plan = plan
        self.counts = Counts()
        self._metrics = metrics
        self._settings = settings
        self._transaction = uuid.uuid4().hex[:12]
        # Tokens that complete tasks have staged, by label of the sink.
        self._staged: dict[str, list[Any]] = {label: [] for label in sinks_of(plan)}
        # Counts of complete tasks, and of those in progress, by worker.
        self._completed = Counts()
        self._in_progress: dict[int, Counts] = {}
        self._attempts = map(str, count())
        # Names of tasks by worker, and numbers of dead workers by segment.
        self._attempt_of: dict[int, str] = {}
        self._deaths: dict[int, int] = {}

    def refresh(self) -> str:
        """Update `counts`; return the number of workers."""
        counts = Counts()
        for known in (self._completed, *list(self._in_progress.values())):
            counts.add(known)
        self.counts.take(counts)
        return f"{self._settings.workers} workers"

    def run(self) -> None:
        """Run to the end; on failure nothing that was written is left."""
        committed = committed_at_end(self.plan, self._transaction, lambda: self._staged, self._metrics)
        with committed, _directory() as directory:
            self._program = self._prepared(directory)
            self._files = ShuffledFiles(self._program)
            self._schedule = Schedule(self._program.segments, self._files.partitions_of)
            self._run_tasks(directory)
        self.refresh()

    def _prepared(self, directory: str) -> PartitionedPlan:
        segments = cut(self.plan)
        partitions = self._settings.partitions
        with CallWatch(self._settings.timeout):
            splits = {
                number: [splits_of(segment, 1)]
                if segment.is_of_one_task
                else [[split] for split in splits_of(segment, partitions * _SPLITS)]
                for number, segment in enumerate(segments)
                if isinstance(segment.root, Source)
            }
        return PartitionedPlan(self.plan, segments, splits, partitions, directory, self._transaction)

    def _run_tasks(self, directory: str) -> None:
        settings = self._settings
        workers = BatchWorkers(self._program, settings.workers, settings.start, settings.timeout)
        try:
            with _ended_by_sigterm(workers.kill, directory):
                workers.start()
                self._begin_tasks(workers)
                while not self._schedule.is_over:
                    try:
                        for number, report in workers.poll(_LOOK):
                            self._process(workers, number, report)
                    except WorkerDied as death:
                        self._retry(workers, death)
                    self._begin_tasks(workers)
        finally:
            workers.end()

    def _begin_tasks(self, workers: BatchWorkers) -> None:
        """Give tasks to idle workers, as far as there are any."""
        for worker in range(workers.slots):
            if self._schedule.segment_of(worker) is None:
                number = self._schedule.begin(worker)
                if number is None:
                    return
                attempt = self._attempt_of[worker] = next(self._attempts)
                workers.send(worker, Begin(number, attempt, self._files.side_inputs_of(number), worker))

    def _process(self, workers: BatchWorkers, worker: int, report: Report) -> None:
        if isinstance(report, Wanted):
            workers.send(worker, Partition(self._schedule.next(worker)))
        elif isinstance(report, Counts):
            self._in_progress[worker] = report
        elif isinstance(report, TaskFailed):
            error = local(report.error)
            raise error from error.__cause__
        else:
            self._complete(worker, report)

    def _retry(self, workers: BatchWorkers, death: WorkerDied) -> None:
        """Replace a worker that has died, and retry its task.  Raises `PenstockError` after the last retry."""
        worker = death.number
        assert worker is not None
        segment = self._schedule.segment_of(worker)
        if segment is not None:
            deaths = self._deaths[segment] = self._deaths.get(segment, 0) + 1
            where = f"it was running {self._program.segments[segment].label}"
            if deaths > self._settings.retries:
                tried = f", and --max_restarts={self._settings.retries} retries have failed" if deaths > 1 else ""
                raise PenstockError(f"{death}; {where}{tried}") from death
            _logger.warning(
                "%s; %s. Its partitions are processed again (retry %d of %d, --max_restarts)",
                death,
                where,
                deaths,
                self._settings.retries,
            )
            with suppress(FileNotFoundError):
                os.remove(os.path.join(self._program.directory, self._attempt_of[worker]))
        self._schedule.lose(worker)
        self._in_progress.pop(worker, None)
        workers.replace(worker)

    def _complete(self, worker: int, task: CompletedTask) -> None:
        self._files.add(task)
        self._metrics.merge(task.metrics)
        self._completed.add(task.counts)
        self._in_progress.pop(worker, None)
        for label, token in task.staged:
            self._staged[label].append(pickle.loads(token))
        self._schedule.complete(worker)
        while self._schedule.completed:
            self._files.remove_after(self._schedule.completed.pop())


@contextmanager
def _directory() -> Iterator[str]:
    """Make a directory for the blocks of shuffles, and remove it after the `with` block."""
    directory = tempfile.mkdtemp(prefix="penstock-batch-")
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _ended_by_sigterm(end: Callable[[], None], directory: str) -> Iterator[None]:
    """End the workers and remove the directory on SIGTERM in the `with` block, before this process ends.

    Handlers that the program has set are left alone.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        end()
        shutil.rmtree(directory, ignore_errors=True)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
