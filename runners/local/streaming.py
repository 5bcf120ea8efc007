"""A job from the flags of a pipeline: where its checkpoints go, and who runs it."""

from __future__ import annotations

import tempfile
import threading
import time

from ...sdk.errors import OptionsError
from ...sdk.graph import Graph, GroupByKeyAndWindow
from ...sdk.metrics import MetricResults
from ...sdk.options import PipelineOptions, StreamingOptions
from ...sdk.runner import PipelineResult
from ..execution.disk import disk_of
from ..execution.fusion import fuse
from ..execution.snapshot_store import SnapshotStore
from .clock import time_of_day
from .coordinator import CheckpointSettings
from .execution_graph import cut, whole
from .forked_workers import ForkedWorkers
from .job import Job, JobSettings
from .restarts import Restarts
from .workers import Workers, WorkersInThisProcess


def job_of(graph: Graph, options: PipelineOptions) -> Job:
    """The job that the flags describe.  Raises `OptionsError` for flags that contradict each other."""
    streaming = options.view_as(StreamingOptions)
    parallelism, workers = streaming.parallelism, streaming.workers
    for name in ("parallelism", "workers", "checkpoint_retention"):
        value = getattr(streaming, name)
        if value is not None and value < 1:
            raise OptionsError(f"option --{name}: expected at least 1, got {value}")
    for name in ("checkpoint_interval", "checkpoint_timeout"):
        if getattr(streaming, name) <= 0:
            raise OptionsError(f"option --{name}: expected more than 0 seconds, got {getattr(streaming, name)}")
    if streaming.checkpoint_mode == "unaligned" and (loops := graph.loops()):
        raise OptionsError(
            f"option --checkpoint_mode=unaligned: barriers don't overtake in a loop, and {loops[0].label} is one; "
            "use --checkpoint_mode=aligned"
        )
    plan = fuse(graph, _never)
    execution_graph = whole(plan) if parallelism == 1 else cut(plan, parallelism)
    slots = min(workers or parallelism, parallelism)
    runs: Workers = WorkersInThisProcess(time_of_day) if slots == 1 else ForkedWorkers(slots, time_of_day)
    settings = JobSettings(
        CheckpointSettings(
            interval=_micros(streaming.checkpoint_interval),
            timeout=_micros(streaming.checkpoint_timeout),
            min_pause=_micros(streaming.checkpoint_min_pause),
        ),
        unaligned=streaming.checkpoint_mode == "unaligned",
        stops_the_world=streaming.checkpoint_mode == "synchronous",
        restarts=Restarts(streaming.max_restarts, streaming.restart_delay),
        allow_dropped_state=streaming.allow_dropped_state,
    )
    return Job(execution_graph, runs, settings, _store_of(graph, streaming), time_of_day, time.sleep)


def _store_of(graph: Graph, streaming: StreamingOptions) -> SnapshotStore | None:
    directory = streaming.checkpoint_dir
    if directory is None:
        if not graph.unbounded_reads():
            return None
        # Sinks publish with checkpoints, and a stream has no end to publish at.
        directory = tempfile.mkdtemp(prefix="penstock-checkpoints-")
    return SnapshotStore(
        disk_of(directory),
        str(directory).rstrip("/"),
        retain=streaming.checkpoint_retention,
        allow_untrusted=streaming.allow_untrusted_checkpoints,
    )


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _never(grouping: GroupByKeyAndWindow) -> bool:
    return False


class StreamingResult(PipelineResult):
    """A job that runs in a thread beside the one that started it."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="penstock job", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._job.run()
        except BaseException as error:
            self._error = error

    @property
    def state(self) -> str:
        return self._job.state

    def wait_until_finish(self, duration: float | None = None) -> str:
        self._thread.join(None if duration is None else duration / 1000)
        if not self._thread.is_alive() and self._error is not None:
            error, self._error = self._error, None
            raise error
        return self.state

    def cancel(self) -> str:
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

    def metrics(self) -> MetricResults:
        return MetricResults(self._job.metrics)
