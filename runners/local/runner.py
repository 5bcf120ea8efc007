"""Local runner: runs a pipeline without a JVM, in the calling process or in workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...sdk.graph import Graph
from ...sdk.metrics import MetricResults, MetricsContainer
from ...sdk.options import MicroBatchOptions, PipelineOptions, StreamingOptions
from ...sdk.runner import Capability, FinishedResult, PipelineResult, PipelineSimulation
from ...sdk.runs.run_transform import TransformRunner
from ...sdk.spark_interfaces import refuse_frames
from ..execution.streaming_options import check_streaming_flags, parallelism_of, refuse_unheeded, start_method_of

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

            # It imports while this process imports and plans.
            begin_template(f"{__package__}.{'workers.process_loop' if streams else 'batch.workers'}")
        if streams:
            return self._stream(graph, options)
        from .batch.launch import run_batch

        return run_batch(graph, options, has_workers)

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
        not graph.is_batch
        or streaming.checkpoint_dir is not None
        or streaming.delivery != "barriers"
        or streaming.recovery != "graph"
        or streaming.state_backend != "memory"
    )
