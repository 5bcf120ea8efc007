"""Launch a job: build it from the options of a pipeline, and run it in this thread or in the background."""

from __future__ import annotations

import atexit
import queue
import tempfile
import time
from collections.abc import Callable

import attrs

from ...sdk.errors import CheckpointMismatchError, PenstockError
from ...sdk.graph import Graph
from ...sdk.metrics import MetricResults, SubtaskLoad
from ...sdk.options import PipelineOptions, ProgressOptions, StreamingOptions
from ...sdk.redaction import logger_of
from ...sdk.runner import PipelineResult, RunState, seconds_to_wait
from ...windowing.duration import DurationTypes
from ..execution.background_thread import BackgroundRun
from ..execution.checkpoints.catalog import OWNER
from ..execution.checkpoints.control_requests import Answer, RequestInbox
from ..execution.checkpoints.storage import disk_of
from ..execution.checkpoints.store import SnapshotStore
from ..execution.clock import ProcessingTime, steady_time
from ..execution.page.event_log import EventLog, Events
from ..execution.plan.execution_graph import cut, whole
from ..execution.plan.fusion import fuse
from ..execution.sinks.committer import committing_often, with_dead_letters
from ..execution.streaming.state_settings import state_settings_of
from ..execution.streaming_options import check_streaming_flags, parallelism_of, refuse_memory
from .combinations import Combination, check_combination
from .job.barrier_delivery import BarrierDelivery
from .job.checkpoint_coordinator import CheckpointSettings
from .job.context import JobSettings
from .job.delivery import Delivery
from .job.job import Job
from .job.restart_strategy import RestartStrategy
from .job_page import JobPage
from .monitoring.observers import Observers
from .monitoring.progress import JobProgress
from .productions.delivery import ProductionDelivery
from .productions.directory import Productions
from .signals import stopping_on_signals
from .workers.pool import WorkersInThisProcess
from .workers.process_pool import WorkersInProcesses
from .workers.processes import slots_of, start_of

_logger = logger_of(__name__)

# In seconds: how often a waiting thread checks whether the job has ended, and how long a cancelled job may take to end.
_CHECK_INTERVAL = 0.2
_CANCEL_TIMEOUT = 3.0

# What a signal does.
_WITH_SAVEPOINT = "the pipeline stops with a savepoint, and the next start resumes from it"
_WITH_LOGS = "the pipeline stops; the next start resumes from its logs"
_BY_DRAINING = "the pipeline stops reading, and processes what it has read"
_AT_ONCE = "the pipeline stops, and the next start repeats the work after the last checkpoint"


def job_of(graph: Graph, options: PipelineOptions) -> Job:
    """Return the job that the options describe.  Raises `OptionsError` for options that contradict each other."""
    check_streaming_flags(options)
    streaming = options.view_as(StreamingOptions)
    check_combination(Combination.of(graph, streaming))
    parallelism = parallelism_of(streaming)
    pause, alignment_timeout = streaming.checkpoint_min_pause, streaming.alignment_timeout
    directory, delivery = _delivery_of(graph, streaming)
    graph = with_dead_letters(graph, options)
    often = not graph.is_bounded and directory is not None
    plan = fuse(committing_often(graph) if often else graph)
    plan = attrs.evolve(plan, compares_keys=not streaming.allow_new_key_types)
    slots = slots_of(streaming)
    if slots > 1:
        refuse_memory(streaming.checkpoint_dir, f"{slots} workers would each have their own")
    time_by_wall = ProcessingTime()
    is_kept = streaming.checkpoint_dir is not None
    disk = disk_of(directory) if directory is not None and is_kept else None
    return Job(
        whole(plan) if parallelism == 1 else cut(plan, parallelism),
        WorkersInThisProcess(time_by_wall, timeout=streaming.worker_timeout)
        if slots == 1
        else WorkersInProcesses(slots, time_by_wall, streaming.worker_timeout, start_of(slots, streaming)),
        JobSettings(
            CheckpointSettings(
                interval=_micros(streaming.checkpoint_interval),
                timeout=_micros(streaming.checkpoint_timeout),
                min_pause=None if pause is None else _micros(pause),
                alignment_timeout=None if alignment_timeout is None else _micros(alignment_timeout),
            ),
            unaligned=streaming.checkpoint_mode == "unaligned",
            restarts=RestartStrategy(streaming.max_restarts, streaming.restart_delay),
            allow_dropped_state=streaming.allow_dropped_state,
            allow_changed_sources=streaming.allow_changed_sources,
            recovers_regions=streaming.recovery == "region",
            state=state_settings_of(streaming),
        ),
        delivery,
        steady_time,
        time.sleep,
        inbox=None if disk is None else RequestInbox(disk, str(directory), streaming.allow_untrusted_checkpoints),
        time=time_by_wall,
        events=None if disk is None else Events(EventLog(disk, str(directory))),
        temporary=None if is_kept else directory,
    )


def _delivery_of(graph: Graph, streaming: StreamingOptions) -> tuple[str | None, Delivery]:
    """Return the directory of checkpoints or logs, or None; and the delivery.

    Without `--checkpoint_dir` the directory is a temporary one, whose contents survive failures of workers only.
    """
    kept = streaming.checkpoint_dir
    directory = None if kept is None else str(kept).rstrip("/")
    allow_untrusted = streaming.allow_untrusted_checkpoints
    if streaming.delivery != "barriers":
        directory = directory or tempfile.mkdtemp(prefix="penstock-productions-")
        logs = Productions(disk_of(directory), directory, kept is not None, streaming.delivery, allow_untrusted)
        return directory, ProductionDelivery(logs)
    if directory is None and not graph.unbounded_reads():
        return None, BarrierDelivery(None)
    # A stream has no end to publish at, so its sinks publish with checkpoints.
    directory = directory or tempfile.mkdtemp(prefix="penstock-checkpoints-")
    disk = disk_of(directory)
    if disk.exists(f"{directory}/{OWNER}"):
        raise CheckpointMismatchError(
            f"{directory} has logs of productions, of --delivery=strong or weak; resume with that, or give another "
            "--checkpoint_dir"
        )
    retain = streaming.checkpoint_retention
    return directory, BarrierDelivery(SnapshotStore(disk, directory, retain=retain, allow_untrusted=allow_untrusted))


def run_to_the_end(job: Job, options: PipelineOptions) -> None:
    """Run a job of a bounded pipeline in this thread.

    With a checkpoint_dir a signal stops it with a savepoint.  Without one a signal ends the program, as usual: the
    results of half of the input would be wrong.
    """
    with observers_of(job, options):
        if options.view_as(StreamingOptions).checkpoint_dir is None:
            job.run()
            return
        with stopping_on_signals(*_stop_of(job, options), job.stuck_steps):
            job.run()


def loads_of_job(job: Job) -> list[SubtaskLoad]:
    """Return the load of each subtask of a job since its last restart."""
    loads = []
    for id, spent in sorted(job.status.times.items()):
        passed = max(1, spent.passed)
        busy = min(1.0, spent.busy / passed)
        backpressured = min(1.0 - busy, spent.backpressured / passed)
        stage = job.execution_graph.tasks[id.task].label
        loads.append(SubtaskLoad(stage, id.index, busy, backpressured, max(0.0, 1.0 - busy - backpressured)))
    return loads


def _stop_of(job: Job, options: PipelineOptions) -> tuple[Callable[[], None], str]:
    """Return what a signal does to a job, and how it is described."""
    streaming = options.view_as(StreamingOptions)
    how = streaming.on_signal or ("drain" if streaming.checkpoint_dir is None else "savepoint")
    if how == "savepoint":
        return job.stop_with_savepoint, _WITH_SAVEPOINT if streaming.delivery == "barriers" else _WITH_LOGS
    return (job.drain, _BY_DRAINING) if how == "drain" else (job.cancel, _AT_ONCE)


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def observers_of(job: Job, options: PipelineOptions) -> Observers:
    """Return what watches a job, as far as the options ask for it."""
    page = JobPage(job)
    progress = JobProgress(page.current_status, job.execution_graph, options.view_as(ProgressOptions).progress)
    return Observers(page, progress, options, is_asked_by_files=True)


class StreamingResult(PipelineResult):
    """A job that runs in the background.

    While the main thread waits for its end, SIGTERM and Ctrl-C stop it.  With a checkpoint_dir the next start with that
    directory resumes: from a savepoint, or, with `--delivery=strong` or `weak`, from the logs.  Without one the signal
    drains the job.  `--on_signal` changes that.  A second signal ends the program at once.

    Attributes:
      metrics_url: the URL of the metrics, or None without `--metrics_port`.
      health_url: the URL of /healthz and /readyz, without a path, or None without `--health_port`.
      ui_url, ui_token: the URL of the page, or None without `--ui_port`; and the token that allows its requests.
    """

    def __init__(self, job: Job, options: PipelineOptions) -> None:
        self._job = job
        self._stop = _stop_of(job, options)
        self._observers = observers_of(job, options)
        self.metrics_url = self._observers.metrics_url
        self.health_url = self._observers.health_url
        self.ui_url, self.ui_token = self._observers.page.url, self._observers.page.token
        # Otherwise the exiting program would end the workers, and the job would replace them.
        atexit.register(self._cancel_at_exit)
        self._run = BackgroundRun("penstock job", self._work)

    def _cancel_at_exit(self) -> None:
        self._job.cancel()
        self._run.join(_CANCEL_TIMEOUT)
        # The program would wait for the remaining workers.
        self._job.kill_workers()

    def _work(self) -> None:
        try:
            with self._observers:
                self._job.run()
        finally:
            atexit.unregister(self._cancel_at_exit)

    @property
    def state(self) -> RunState:
        return RunState(self._job.state, self._job.committed_state)

    def wait_until_finish(self, duration: DurationTypes | None = None) -> str:
        with stopping_on_signals(*self._stop, self._job.stuck_steps):
            try:
                self._run.wait(seconds_to_wait(duration))
            except KeyboardInterrupt:
                self._job.cancel()
                self._run.join(_CANCEL_TIMEOUT)
                raise
        return self.state

    def cancel(self) -> str:
        """Stop at once; uncommitted output is lost, and the next start with this checkpoint_dir produces it again."""
        self._job.cancel()
        return self.wait_until_finish()

    def drain(self) -> str:
        """Stop the sources; then windows and timers fire, and sinks commit."""
        self._job.drain()
        return self.wait_until_finish()

    def stop_with_savepoint(self) -> str:
        """Take a savepoint, from which the next start resumes, and stop."""
        self._job.stop_with_savepoint()
        return self.wait_until_finish()

    def savepoint(self, duration: float | None = None) -> int:
        """Take a savepoint, continue, and return the epoch of the savepoint.

        Args:
          duration: how long to wait for it, in milliseconds.

        Raises `PenstockError` if it failed, or was not complete in time.
        """
        answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._job.take_savepoint(answers.put)
        until = None if duration is None else time.monotonic() + duration / 1000
        while True:
            try:
                answer = answers.get(timeout=_CHECK_INTERVAL)
                break
            except queue.Empty:
                if not self._run.is_alive and answers.empty():
                    raise PenstockError(f"no savepoint was taken: the job has ended, {self.state}") from None
                if until is not None and time.monotonic() >= until:
                    raise PenstockError(
                        f"no savepoint was complete within {duration} ms; it may complete later"
                    ) from None
        if not answer.is_done or answer.epoch is None:
            raise PenstockError(answer.text)
        return answer.epoch

    def metrics(self) -> MetricResults:
        status = self._job.status
        committed, attempted = status.committed.user_metrics, status.attempted.user_metrics
        return MetricResults(committed, attempted, status.attempted.counts.seconds, loads_of_job(self._job))
