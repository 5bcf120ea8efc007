"""Local runner: runs a pipeline without a JVM, in the calling process or in workers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ...sdk.graph import Graph
from ...sdk.metrics import MetricResults, MetricsContainer
from ...sdk.options import MicroBatchOptions, PageOptions, PipelineOptions, StreamingOptions
from ...sdk.run_transform import TransformRunner
from ...sdk.runner import Capability, FinishedResult, PipelineResult, PipelineSimulation
from ...sdk.spark_interfaces import refuse_frames
from ..execution.counters import loads_of
from ..execution.gc_tuning import rarely_collected
from ..execution.plan.fusion import fuse, in_place, shrinks
from ..execution.progress import progress_of
from ..execution.sinks.committer import with_dead_letters
from ..execution.streaming_options import check_streaming_flags, parallelism_of, refuse_unheeded, start_method_of
from ..execution.stuck_calls import CallWatch
from .batch.run import BatchRun, RunInThisProcess, is_batch

if TYPE_CHECKING:
    from ...sdk.drawing.panes import PaneRecording


class LocalStreamingRunner(TransformRunner):
    """The runner of `--runner=local`, which is the default."""

    name = "local"

    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        """Run a pipeline: to its end, unless it has an unbounded source.  Raises the error that it fails with."""
        refuse_frames(graph, self.name)
        check_streaming_flags(options)
        refuse_unheeded(options.view_as(MicroBatchOptions).changed(), self.name, "spark-microbatch")
        streaming = options.view_as(StreamingOptions)
        has_workers = parallelism_of(streaming) > 1 and streaming.workers != 1
        streams = is_streamed(graph, options)
        if has_workers and start_method_of(streaming) == "forkserver":
            from .workers.template import begin_template

            # It imports while this process plans.
            begin_template(f"{__package__}.{'workers.process_loop' if streams else 'batch.workers'}")
        if streams:
            return self._stream(graph, options)
        return self._run_batch(graph, options, has_workers)

    def _run_batch(self, graph: Graph, options: PipelineOptions, has_workers: bool) -> PipelineResult:
        streaming = options.view_as(StreamingOptions)
        graph = with_dead_letters(graph, options)
        container, began = MetricsContainer(), time.monotonic()
        run: BatchRun
        if has_workers:
            # A small pipeline runs in less time than the import takes.
            from .batch.worker_tasks import RunInWorkers, settings_of

            run = RunInWorkers(fuse(graph, shrinks), container, settings_of(streaming))
        else:
            run = RunInThisProcess(fuse(graph, in_place), container)
        watching: AbstractContextManager[Any] = progress_of(run.counts, run.program.plan, options, refresh=run.refresh)
        page = options.view_as(PageOptions)
        if any(port is not None for port in (page.ui_port, streaming.metrics_port, streaming.health_port)):
            # They take longer to import than a small pipeline runs.
            from .batch.monitored import MonitoredBatch
            from .monitoring.observers import Observers

            watching = Observers(MonitoredBatch(run), watching, options)
        with rarely_collected(), CallWatch(streaming.worker_timeout, run.note_call), watching:
            run.run()
        loads = loads_of(run.counts, time.monotonic() - began)
        return FinishedResult(MetricResults(container, None, run.counts.seconds, loads), run.state)

    def _stream(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        from .launch import StreamingResult, job_of, loads_of_job, run_to_the_end

        job = job_of(graph, options)
        if not graph.unbounded_reads():
            run_to_the_end(job, options)
            committed, loads = job.status.committed, loads_of_job(job)
            metrics = MetricResults(committed.user_metrics, None, committed.counts.seconds, loads)
            return FinishedResult(metrics, job.state, job.committed_state)
        return StreamingResult(job, options)

    def simulation(self, graph: Graph, **settings: Any) -> PipelineSimulation:
        """Return a simulation; `settings` are those of `SimulationSettings`."""
        from .simulation.run import Simulation, SimulationSettings

        return Simulation(graph, SimulationSettings(**settings))

    def recordings(
        self,
        graph: Graph,
        options: PipelineOptions,
        step: str | None,
        metrics: MetricsContainer,
        events: int | None = None,
    ) -> list[PaneRecording]:
        from .recorded_run import record_panes

        return record_panes(graph, options, step, metrics, events)

    @classmethod
    def capabilities(cls) -> Mapping[str, str]:
        return {
            Capability.BOUNDED_SOURCES: "yes",
            Capability.WINDOWS: "yes",
            Capability.SIDE_INPUTS: "yes",
            Capability.TRIGGERS: "yes",
            Capability.ACCUMULATION: "yes",
            Capability.STATE_AND_TIMERS: "yes",
            Capability.COLUMNS: "yes",
            Capability.SINKS: "yes",
            Capability.ASYNC_CALLS: "yes",
            Capability.NATS: "yes",
            Capability.MQTT: "yes",
            Capability.PUBSUB: "yes",
            Capability.BIGQUERY: "yes",
            Capability.TEST_STREAM: "yes",
            Capability.UNBOUNDED_SOURCES: "yes",
            Capability.LOOPS: "yes",
            Capability.STATE_READS: "yes",
        }


def is_streamed(graph: Graph, options: PipelineOptions) -> bool:
    """Return True if a pipeline runs as a job: for unbounded sources, a script, a loop, or some flags."""
    streaming = options.view_as(StreamingOptions)
    return bool(
        not is_batch(graph)
        or streaming.checkpoint_dir is not None
        or streaming.delivery != "barriers"
        or streaming.recovery != "graph"
    )
