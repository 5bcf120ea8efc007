"""A job from the flags of a pipeline: where its checkpoints go, and who runs it."""

from __future__ import annotations

import atexit
import queue
import tempfile
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING

import attrs

from ...sdk.errors import CheckpointMismatchError, OptionsError, PenstockError
from ...sdk.graph import Graph
from ...sdk.metrics import MetricResults
from ...sdk.options import PipelineOptions, ProgressOptions, StreamingOptions
from ...sdk.redaction import logger_of
from ...sdk.runner import PipelineResult, seconds_to_wait
from ...windowing.duration import DurationTypes
from ..execution.background_thread import BackgroundRun
from ..execution.checkpoints.catalog import OWNER
from ..execution.checkpoints.storage import Disk, disk_of
from ..execution.checkpoints.store import SnapshotStore
from ..execution.clock import ProcessingTime, steady_time
from ..execution.plan.execution_graph import cut, whole
from ..execution.plan.fusion import fuse
from ..execution.sinks.committer import committing_often, with_dead_letters
from ..execution.streaming_options import check_streaming_flags, refuse_memory
from .job.checkpoint_coordinator import CheckpointSettings
from .job.control_requests import Answer, Inbox
from .job.job import Job, JobSettings
from .job.progress import JobProgress
from .job.restart_strategy import Restarts
from .job.signals import stopping_on_signals
from .job.status import Vitals
from .productions.job import ProductionJob, Productions
from .workers.forked import ForkedWorkers
from .workers.pool import Workers, WorkersInThisProcess
from .workers.processes import slots_of, start_of
from .workers.spawned import SpawnedWorkers

if TYPE_CHECKING:
    from .job.prometheus import MetricsPort

_logger = logger_of(__name__)

# Seconds: how often a thread that waits looks up, and how long a cancelled job may take to end.
_SLICE = 0.2
_LAST_WORDS = 3.0

# What a signal brings about.
_WITH_SAVEPOINT = "the pipeline stops with a savepoint, and the next start goes on from there"
_WITH_LOGS = "the pipeline stops; the next start resumes from its logs"
_BY_DRAINING = "the pipeline reads nothing more, and finishes what it has"


def job_of(graph: Graph, options: PipelineOptions) -> Job:
    """The job that the flags describe.  Raises `OptionsError` for flags that contradict each other."""
    check_streaming_flags(options)
    streaming = options.view_as(StreamingOptions)
    parallelism = streaming.parallelism
    pause = streaming.checkpoint_min_pause
    if streaming.checkpoint_mode == "unaligned" and (loops := graph.loops()):
        raise OptionsError(
            f"option --checkpoint_mode=unaligned: barriers don't overtake in a loop, and {loops[0].label} is one; "
            "use --checkpoint_mode=aligned"
        )
    if streaming.recovery == "region":
        _check_regions(graph, streaming)
    is_by_barriers = streaming.delivery == "barriers"
    store = _store_of(graph, streaming) if is_by_barriers else None
    graph = with_dead_letters(graph, options)
    often = not graph.is_bounded and (store is not None or not is_by_barriers)
    plan = fuse(committing_often(graph) if often else graph)
    plan = attrs.evolve(plan, compares_keys=not streaming.allow_new_key_types)
    execution_graph = whole(plan) if parallelism == 1 else cut(plan, parallelism)
    slots = slots_of(streaming)
    if slots > 1:
        refuse_memory(streaming.checkpoint_dir, f"{slots} workers would each have their own")
    time_by_wall = ProcessingTime()
    runs: Workers = (
        WorkersInThisProcess(time_by_wall, timeout=streaming.worker_timeout)
        if slots == 1
        else _processes(slots, streaming, time_by_wall)
    )
    settings = JobSettings(
        CheckpointSettings(
            interval=_micros(streaming.checkpoint_interval),
            timeout=_micros(streaming.checkpoint_timeout),
            min_pause=None if pause is None else _micros(pause),
        ),
        unaligned=streaming.checkpoint_mode == "unaligned",
        stops_the_world=streaming.checkpoint_mode == "synchronous",
        restarts=Restarts(streaming.max_restarts, streaming.restart_delay),
        allow_dropped_state=streaming.allow_dropped_state,
        allow_changed_sources=streaming.allow_changed_sources,
        recovers_regions=streaming.recovery == "region",
    )
    if is_by_barriers:
        inbox = _inbox_of(None if store is None else store.disk, streaming)
        job = Job(execution_graph, runs, settings, store, steady_time, time.sleep, inbox=inbox, time=time_by_wall)
        if store is not None and streaming.checkpoint_dir is None:
            job.temporary = store.directory
        return job
    productions = _productions_of(streaming)
    inbox = _inbox_of(productions.disk, streaming)
    job = ProductionJob(
        execution_graph, runs, settings, productions, steady_time, time.sleep, inbox=inbox, time=time_by_wall
    )
    if streaming.checkpoint_dir is None:
        job.temporary = productions.directory
    return job


def _check_regions(graph: Graph, streaming: StreamingOptions) -> None:
    """Raises `OptionsError` where nothing less than the whole graph could start again."""
    reasons = [
        (streaming.parallelism < 2, f"--parallelism={streaming.parallelism} there is one subtask, which is the graph"),
        (streaming.delivery != "barriers", f"--delivery={streaming.delivery} nobody goes back anyway"),
        (
            streaming.checkpoint_mode == "unaligned",
            "--checkpoint_mode=unaligned a checkpoint holds what is in the channels, which would come twice",
        ),
        (
            graph.is_bounded and streaming.checkpoint_dir is None,
            "an input that ends, and no --checkpoint_dir, there is no checkpoint to go back to",
        ),
    ]
    for applies, why in reasons:
        if applies:
            raise OptionsError(f"option --recovery=region: with {why}; use --recovery=graph")
    if loops := graph.loops():
        raise OptionsError(
            f"option --recovery=region: a loop goes back as a whole, and {loops[0].label} is one; use --recovery=graph"
        )


def _productions_of(streaming: StreamingOptions) -> Productions:
    """Where productions are logged.  Without a directory they don't outlive the program, but whichever worker dies."""
    if streaming.checkpoint_mode != "aligned":
        raise OptionsError(
            f"option --checkpoint_mode={streaming.checkpoint_mode}: with --delivery={streaming.delivery} there are no "
            "barriers; leave it out, or use --delivery=barriers"
        )
    if streaming.allow_dropped_state:
        raise OptionsError(
            f"option --allow_dropped_state: with --delivery={streaming.delivery} a pipeline goes on with the same "
            "steps only; leave it out, or use --delivery=barriers"
        )
    directory = streaming.checkpoint_dir
    is_kept = directory is not None
    directory = str(directory or tempfile.mkdtemp(prefix="penstock-productions-")).rstrip("/")
    disk = disk_of(directory)
    if not disk.can_append:
        raise OptionsError(
            f"option --delivery={streaming.delivery}: files can't be appended to in {directory}; expected a directory "
            "of a local disk as --checkpoint_dir, or --delivery=barriers"
        )
    return Productions(
        disk, directory, is_kept, streaming.delivery, allow_untrusted=streaming.allow_untrusted_checkpoints
    )


def _processes(slots: int, streaming: StreamingOptions, clock: ProcessingTime) -> Workers:
    """Workers in processes of their own, started as the platform can."""
    how = start_of(slots, streaming)
    kind = ForkedWorkers if how == "fork" else SpawnedWorkers
    return kind(slots, clock, streaming.worker_timeout)


def _store_of(graph: Graph, streaming: StreamingOptions) -> SnapshotStore | None:
    directory = streaming.checkpoint_dir
    if directory is None:
        if not graph.unbounded_reads():
            return None
        # Sinks publish with checkpoints, and a stream has no end to publish at.
        directory = tempfile.mkdtemp(prefix="penstock-checkpoints-")
    disk = disk_of(directory)
    if disk.exists(f"{str(directory).rstrip('/')}/{OWNER}"):
        raise CheckpointMismatchError(
            f"{directory} has logs of productions, of --delivery=strong or weak; go on with that, or give another "
            "--checkpoint_dir"
        )
    return SnapshotStore(
        disk,
        str(directory).rstrip("/"),
        retain=streaming.checkpoint_retention,
        allow_untrusted=streaming.allow_untrusted_checkpoints,
    )


def _inbox_of(disk: Disk | None, streaming: StreamingOptions) -> Inbox | None:
    if disk is None or streaming.checkpoint_dir is None:
        return None
    return Inbox(disk, str(streaming.checkpoint_dir).rstrip("/"), streaming.allow_untrusted_checkpoints)


def run_to_the_end(job: Job, options: PipelineOptions) -> None:
    """Run a job of a bounded pipeline in this thread.

    With a checkpoint_dir a signal stops it with a savepoint.  Without one there is nothing to go on from, and half of
    a bounded input is no result: signals do what they do to any program.
    """
    with Observers(job, options):
        if options.view_as(StreamingOptions).checkpoint_dir is None:
            job.run()
            return
        with stopping_on_signals(job.savepoint, _how_it_stops(options), job.waits_for):
            job.run()


def _how_it_stops(options: PipelineOptions) -> str:
    """Say what a signal brings about where there is a checkpoint_dir."""
    return _WITH_SAVEPOINT if options.view_as(StreamingOptions).delivery == "barriers" else _WITH_LOGS


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


class Observers(AbstractContextManager["Observers"]):
    """Who looks at a job while it runs: Prometheus, and people at a terminal; as the flags say.

    Attributes:
      metrics_url: where metrics are served; None if they aren't.
    """

    def __init__(self, job: Job, options: PipelineOptions) -> None:
        wanted = options.view_as(ProgressOptions).progress

        def vitals() -> Vitals:
            return attrs.evolve(job.vitals, now=job.time_at_a_glance())

        self._progress = JobProgress(vitals, job.execution_graph, wanted)
        streaming = options.view_as(StreamingOptions)
        self._port: MetricsPort | None = None
        if streaming.metrics_port is not None:
            # What serves takes long to import.
            from .job.prometheus import MetricsPort

            self._port = MetricsPort(vitals, streaming.metrics_port, streaming.metrics_host)
        self.metrics_url = None if self._port is None else self._port.url

    def __enter__(self) -> Observers:
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.__exit__(kind, error, traceback)
        if self._port is not None:
            self._port.close()


class StreamingResult(PipelineResult):
    """A job that runs in a thread beside the one that started it.

    While the main thread waits for its end, SIGTERM and Ctrl-C stop it: with a savepoint, from which the next start
    with that checkpoint_dir goes on, or, with `--delivery=strong` or `weak`, with all that its logs have; drained, if
    there is no such directory.  Once more ends the program at once.

    Attributes:
      metrics_url: where metrics are served; None without `--metrics_port`.
    """

    def __init__(self, job: Job, options: PipelineOptions) -> None:
        self._job = job
        has_directory = options.view_as(StreamingOptions).checkpoint_dir is not None
        self._stop = (job.savepoint, _how_it_stops(options)) if has_directory else (job.drain, _BY_DRAINING)
        self._observers = Observers(job, options)
        self.metrics_url = self._observers.metrics_url
        # Else workers would be ended behind the job's back, which would start others.
        atexit.register(self._leave)
        self._run = BackgroundRun("penstock job", self._work)

    def _leave(self) -> None:
        self._job.cancel()
        self._run.join(_LAST_WORDS)
        # Whoever is still there would be waited for.
        self._job.kill_workers()

    def _work(self) -> None:
        try:
            with self._observers:
                self._job.run()
        finally:
            atexit.unregister(self._leave)

    @property
    def state(self) -> str:
        return self._job.state

    def wait_until_finish(self, duration: DurationTypes | None = None) -> str:
        with stopping_on_signals(*self._stop, self._job.waits_for):
            try:
                self._run.wait(seconds_to_wait(duration))
            except KeyboardInterrupt:
                self._job.cancel()
                self._run.join(_LAST_WORDS)
                raise
        return self.state

    def cancel(self) -> str:
        """Stop at once; what isn't committed is gone, and a next start with that checkpoint_dir does it again."""
        self._job.cancel()
        return self.wait_until_finish()

    def drain(self) -> str:
        """Have the sources stop; windows and timers fire, sinks commit."""
        self._job.drain()
        return self.wait_until_finish()

    def stop_with_savepoint(self) -> str:
        """Take a savepoint, from which the next start goes on, and stop."""
        self._job.savepoint()
        return self.wait_until_finish()

    def savepoint(self, duration: float | None = None) -> int:
        """Take a savepoint, and go on.

        Args:
          duration: how long to wait for it, in milliseconds.

        Returns the savepoint's epoch.  Raises `PenstockError` if it failed, or wasn't complete in time.
        """
        answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._job.take_savepoint(answers.put)
        until = None if duration is None else time.monotonic() + duration / 1000
        while True:
            try:
                answer = answers.get(timeout=_SLICE)
                break
            except queue.Empty:
                if not self._run.is_alive and answers.empty():
                    raise PenstockError(f"no savepoint was taken: the job has ended, {self.state}") from None
                if until is not None and time.monotonic() >= until:
                    raise PenstockError(f"no savepoint was complete within {duration} ms; it may still be") from None
        if not answer.is_done or answer.epoch is None:
            raise PenstockError(answer.text)
        return answer.epoch

    def metrics(self) -> MetricResults:
        vitals = self._job.vitals
        return MetricResults(vitals.committed.metrics, vitals.attempted.metrics)
