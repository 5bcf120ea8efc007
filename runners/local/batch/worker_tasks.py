"""Tasks of a bounded pipeline in worker processes: scheduled, and retried when workers die."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from types import FrameType
from typing import TYPE_CHECKING, Any

from ....frozen import frozen
from ....sdk.errors import PenstockError
from ....sdk.metrics import MetricsContainer
from ....sdk.options import StreamingOptions
from ....sdk.redaction import logger_of
from ...execution.batch.bounded_program import BoundedProgram, splits_of
from ...execution.batch.file_tasks import CompletedTask, PartitionedProgram, ShuffledFiles
from ...execution.batch.schedule import Schedule
from ...execution.counters import Counts
from ...execution.error_transport import local
from ...execution.plan.fusion import Plan, Source
from ...execution.sinks.committer import sinks_of
from ...execution.streaming_options import parallelism_of
from ..workers.processes import WorkerDied, slots_of, start_of
from .run import BatchRun
from .task_reports import TaskReport, total
from .workers import BatchWorkers, Begin, Partition, Report, TaskFailed, Wanted

if TYPE_CHECKING:
    from ...execution.streaming.observation import Observe

_logger = logger_of(__name__)

# Splits of a source for each partition: with several, no worker waits long for the last.  With 4 of them, two workers
# took 6% longer for a GroupByKey of five million pairs.
_SPLITS = 8

# Seconds between two checks of the workers' heartbeats, at most.
_LOOK = 0.2


@frozen
class WorkerSettings:
    """Settings of a bounded run in several processes.

    Attributes:
      partitions: of each shuffle.
      workers: the number of processes.
      start: the start method of processes, "forkserver" or "spawn".
      timeout: seconds until a worker that hangs is killed, and a call of it that doesn't return is reported.
      retries: how often a segment's tasks are retried when their workers die.
    """

    partitions: int
    workers: int
    start: str = "forkserver"
    timeout: float = 10.0
    retries: int = 3


def settings_of(streaming: StreamingOptions) -> WorkerSettings:
    """Return the settings of the flags."""
    workers = slots_of(streaming)
    start = start_of(workers, streaming)
    parallelism = parallelism_of(streaming)
    return WorkerSettings(parallelism, workers, start, streaming.worker_timeout, streaming.max_restarts)


class RunInWorkers(BatchRun):
    """Run as tasks of one segment each, in worker processes.  The counts are as of the last `refresh`."""

    def __init__(self, plan: Plan, metrics: MetricsContainer, settings: WorkerSettings) -> None:
        super().__init__(BoundedProgram(plan, settings.partitions), metrics)
        # Counts of complete tasks and of this process; and the reports of tasks in progress, by worker.
        self._completed = Counts()
        self._in_progress: dict[int, TaskReport] = {}
        self._lock = threading.Lock()
        self._settings = settings
        # Tokens that complete tasks have staged, by label of the sink.
        self._tokens: dict[str, list[Any]] = {label: [] for label in sinks_of(plan)}
        self._attempts = map(str, count())
        # Names of tasks by worker, and numbers of dead workers by segment.
        self._attempt_of: dict[int, str] = {}
        self._deaths: dict[int, int] = {}
        # By worker, the tasks that it has completed; and by segment and worker, the elements that those have read.
        self._tasks_of = Counter[int]()
        self._read = Counter[tuple[int, int]]()
        self._schedule = Schedule((), lambda number: ())
        self._workers: BatchWorkers | None = None
        self._turns = 0

    def _run_tasks(self) -> None:
        with _directory() as directory:
            self._partitioned = self._prepared(directory)
            self._files = ShuffledFiles(self._partitioned)
            self._schedule = Schedule(self.program.segments, self._files.partitions_of)
            self._run_in_workers(directory)
        self.refresh()

    def _prepared(self, directory: str) -> PartitionedProgram:
        program = self.program
        splits = {
            number: [splits] if segment.is_of_one_task else [[split] for split in splits]
            for number, segment in enumerate(program.segments)
            if isinstance(segment.root, Source)
            for splits in [splits_of(segment, program.partitions * _SPLITS)]
        }
        return PartitionedProgram(program, splits, directory)

    def _run_in_workers(self, directory: str) -> None:
        settings, is_monitored = self._settings, self._observation is not None
        arguments = settings.workers, settings.start, settings.timeout, is_monitored
        workers = self._workers = BatchWorkers(self._partitioned, *arguments)
        try:
            with _ended_by_sigterm(workers.kill, directory):
                workers.start()
                self.has_begun = True
                self._begin_tasks(workers)
                while not self._schedule.is_over:
                    try:
                        for number, report in workers.poll(_LOOK):
                            self._process(workers, number, report)
                    except WorkerDied as death:
                        self._retry(workers, death)
                    self._begin_tasks(workers)
                    self._look_up()
        finally:
            workers.end()

    def _look_up(self) -> None:
        """Note that the run makes progress, and do what its page asks for."""
        self._turns += 1
        if self._observation is not None:
            self._observation.exchange(self)
            self._check_cancelled()

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
        elif isinstance(report, TaskReport):
            self._in_progress[worker] = report
            if report.observed is not None:
                self._observed.append((worker, report.observed))
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
            where = f"it was running {self.program.segments[segment].label}"
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
                os.remove(os.path.join(self._partitioned.directory, self._attempt_of[worker]))
        self._schedule.lose(worker)
        self._in_progress.pop(worker, None)
        workers.replace(worker)
        if self._observation is not None:
            self._observation.restarted()

    def _complete(self, worker: int, task: CompletedTask) -> None:
        self._files.add(task)
        with self._lock:
            self._metrics.merge(task.metrics)
            self._completed.add(task.counts)
            self._in_progress.pop(worker, None)
        self._tasks_of[worker] += 1
        self._read[task.segment, worker] += _elements_in(task.counts)
        for label, token in task.staged:
            self._tokens[label].append(pickle.loads(token))
        self._schedule.complete(worker)
        while self._schedule.completed:
            self._files.remove_after(self._schedule.completed.pop())

    def _staged(self) -> Mapping[str, Sequence[Any]]:
        return self._tokens

    def send(self, wanted: Observe) -> None:
        assert self._workers is not None
        for worker in range(self._workers.slots):
            self._workers.send(worker, wanted)

    # For any thread

    def reported(self) -> TaskReport:
        with self._lock:
            return total([TaskReport(self._completed, self._metrics), *list(self._in_progress.values())])

    def refresh(self) -> str:
        self.counts.take(self.reported().counts)
        return f"{self.parallelism} workers"

    @property
    def turns(self) -> int:
        return self._turns

    @property
    def parallelism(self) -> int:
        return self._settings.workers

    def partitions(self) -> list[tuple[int, int, int]]:
        return self._schedule.progress()

    def workers(self) -> list[tuple[int, int | None, int]]:
        pids = [] if self._workers is None else self._workers.pids
        return [(pid, self._schedule.segment_of(n), self._tasks_of[n]) for n, pid in enumerate(pids)]

    def elements_read(self) -> Mapping[tuple[int, int], int]:
        read = Counter(self._read)
        for worker, report in list(self._in_progress.items()):
            if (segment := self._schedule.segment_of(worker)) is not None:
                read[segment, worker] += _elements_in(report.counts)
        return read

    def stuck_steps(self) -> list[str]:
        of_workers = [] if self._workers is None else self._workers.stuck_steps()
        return [*super().stuck_steps(), *of_workers]


def _elements_in(counts: Counts) -> int:
    return sum(count.read for count in counts.steps.values())


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
