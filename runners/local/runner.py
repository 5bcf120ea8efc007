"""Local runner: runs a pipeline without a JVM, in the calling process or in workers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ...sdk.graph import Graph
from ...sdk.metrics import MetricResults, MetricsContainer, scoped
from ...sdk.options import MicroBatchOptions, PageOptions, PipelineOptions, StreamingOptions
from ...sdk.run_transform import TransformRunner
from ...sdk.runner import Capability, FinishedResult, PipelineResult, PipelineSimulation
from ...sdk.spark_interfaces import refuse_frames
from ..execution.counters import Counts, loads_of
from ..execution.gc_tuning import rarely_collected
from ..execution.plan.fusion import fuse, shrinks
from ..execution.progress import progress_of
from ..execution.sinks.committer import with_dead_letters
from ..execution.streaming_options import check_streaming_flags, parallelism_of, refuse_unheeded, start_method_of
from ..execution.stuck_calls import CallWatch
from .in_process import in_process, is_batch


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
            begin_template(f"{__package__}.{'workers.process_loop' if streams else 'batch_workers'}")
        if streams:
            return self._stream(graph, options)
        container = MetricsContainer()
        if has_workers:
            return self._run_parallel(graph, options)
        began = time.monotonic()
        with rarely_collected(), CallWatch(streaming.worker_timeout):
            run = in_process(with_dead_letters(graph, options), container)
            with scoped(container, seconds=run.counts.seconds), progress_of(run.counts, run.plan, options):
                run.run()
        return FinishedResult(_results(container, run.counts, began))

    def _run_parallel(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        # A small pipeline runs in less time than the import takes.
        from .parallel_run import ParallelRun, settings_of

        container, began = MetricsContainer(), time.monotonic()
        plan = fuse(with_dead_letters(graph, options), shrinks)
        run = ParallelRun(plan, container, settings_of(options.view_as(StreamingOptions)))
        with progress_of(run.counts, plan, options, refresh=run.refresh):
            run.run()
        return FinishedResult(_results(container, run.counts, began))

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

    @classmethod
    def capabilities(cls) -> Mapping[Capability, str]:
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
            Capability.TEST_STREAM: "yes",
            Capability.UNBOUNDED_SOURCES: "yes",
            Capability.LOOPS: "yes",
            Capability.STATE_READS: "yes",
        }


def _results(metrics: MetricsContainer, counts: Counts, began: float) -> MetricResults:
    """Return the results of a bounded run that began then, in seconds."""
    return MetricResults(metrics, None, counts.seconds, loads_of(counts, time.monotonic() - began))


def is_streamed(graph: Graph, options: PipelineOptions) -> bool:
    """Return True if a pipeline runs as a job: for unbounded sources, some flags, or a script or loop in subtasks."""
    streaming = options.view_as(StreamingOptions)
    return bool(
        graph.unbounded_reads()
        or (parallelism_of(streaming) > 1 and not is_batch(graph))
        or streaming.checkpoint_dir is not None
        or streaming.delivery != "barriers"
        or streaming.recovery != "graph"
        or streaming.metrics_port is not None
        or streaming.health_port is not None
        or options.view_as(PageOptions).ui_port is not None
    )
