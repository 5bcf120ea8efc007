"""SparkBatchRunner: runs a bounded pipeline on Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ....sdk.graph import Graph
from ....sdk.metrics import MetricResults
from ....sdk.options import PageOptions, PipelineOptions, StreamingOptions
from ....sdk.runner import Capability, FinishedResult, PipelineResult
from ....sdk.runs.run_transform import TransformRunner
from ....sdk.spark_interfaces import HasFrames
from ...execution.batch.bounded_program import BOUNDED_CAPABILITIES, check_bounded
from ...execution.counters import loads_of
from ...execution.page.description import described_segments
from ...execution.page.event_log import Events
from ...execution.plan.fusion import fuse, shrinks
from ...execution.progress import progress_of
from ...execution.sinks.committer import with_dead_letters
from ...execution.streaming.observation import Observed
from ...execution.stuck_calls import CallWatch
from ..installed import what_is_missing
from ..page import IN_BATCH, SparkPage, SparkProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .execution import BatchExecution


class SparkBatchRunner(TransformRunner):
    """`--runner=spark-batch`.

    Args:
      spark_session: the session to run in, which may be one of Spark Connect.  By default the active session, or one
        that is started with `--spark_master` or `--spark_remote`, and `--spark_conf`, and stopped at the end.
    """

    name = "spark-batch"

    def __init__(self, spark_session: SparkSession | None = None) -> None:
        self._session = spark_session

    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        """Run to the end.  Raises the error that made the run fail."""
        from ..remote import remote_session
        from ..session import find_session, partitions_of, pickle_named
        from .segment_frames import SparkConnectExecution
        from .segment_rdds import SparkBatchExecution

        check_bounded(graph, options, self.name)
        plan = fuse(with_dead_letters(graph, options), shrinks)
        frames: dict[str, Any] = {}
        pickle_named(options)
        partitions = partitions_of(options)
        remote = remote_session(options, self._session)
        session, is_ours = find_session(options, self._session) if remote is None else remote
        try:
            timeout = options.view_as(StreamingOptions).worker_timeout
            kind = SparkBatchExecution if remote is None else SparkConnectExecution
            has_page = options.view_as(PageOptions).ui_port is not None
            execution: BatchExecution = kind(plan, session, partitions, timeout, has_page)
            reports = execution.reports
            page, began = self._page(execution), time.monotonic()
            progress = progress_of(reports.counts, plan, options, refresh=execution.refresh)
            with page.served(page.open(options)), CallWatch(timeout), progress:
                execution.run()
            frames = execution.frames()
            reports.update()
            loads = loads_of(reports.counts, time.monotonic() - began)
            metrics = MetricResults(reports.metrics, None, reports.counts.seconds, loads)
            return SparkBatchResult(metrics, frames)
        finally:
            # DataFrames need their session.
            if is_ours and not frames:
                session.stop()

    def _page(self, execution: BatchExecution) -> SparkPage:
        reports, program = execution.reports, execution.program

        def progress() -> SparkProgress:
            reports.update()
            stacks = {program.segments[number].label: own for number, own in reports.stacks().items()}
            traffic = reports.traffic()
            observed = [Observed(traffic=traffic.edges, shuffles=traffic.shuffles)]
            return SparkProgress(None, reports.counts, reports.metrics, observed=observed, stacks=stacks)

        graph = described_segments(program.plan, program.segments, program.partitions)
        return SparkPage(graph, progress, {"cancel": execution.cancel}, Events(), IN_BATCH)

    @classmethod
    def capabilities(cls) -> Mapping[str, str]:
        return {**BOUNDED_CAPABILITIES, Capability.DATAFRAMES: "yes"}

    @classmethod
    def missing(cls) -> str | None:
        return what_is_missing()


class SparkBatchResult(FinishedResult, HasFrames):
    """A finished run, with the DataFrames that it has written, by the labels of their sinks."""

    def __init__(self, metrics: MetricResults, frames: Mapping[str, Any]) -> None:
        super().__init__(metrics)
        self._frames = frames

    def frame(self, label: str) -> Any:
        return self._frames[label]
