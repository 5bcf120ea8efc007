"""SparkMicroBatchRunner: runs a pipeline on Spark as a sequence of micro-batches."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...sdk.errors import OptionsError, UnsupportedError
from ...sdk.graph import Graph, GroupByKeyAndWindow
from ...sdk.metrics import MetricResults
from ...sdk.options import PipelineOptions, SparkOptions, StreamingOptions
from ...sdk.runner import PipelineResult, Runner
from ..execution.fusion import fuse
from ..execution.progress import progress_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .micro_batch_query import MicroBatchQuery


class SparkMicroBatchRunner(Runner):
    """`--runner=spark-microbatch`.

    Args:
      spark_session: the session to run in.  Without one it takes the active session, or
        starts one by `--spark_master` and `--spark_conf` and stops it again.
    """

    name = "spark-microbatch"

    def __init__(self, spark_session: SparkSession | None = None) -> None:
        self._session = spark_session

    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        """Run a bounded pipeline, or a script, to the end; start any other one."""
        from .session import find_session

        for head in graph.loops():
            raise UnsupportedError(f"{head.label}: --runner=spark-microbatch has no loops; --runner=local runs them")
        for read in graph.unbounded_reads():
            raise UnsupportedError(f"{read.label}: --runner=spark-microbatch has no unbounded sources yet")
        session, is_ours = find_session(options, self._session)
        try:
            query = self._query(graph, options, session)
            plan = query.plan
            with progress_of(query.counts, plan, options, refresh=lambda: query.activity):
                query.run()
            return MicroBatchResult(query)
        finally:
            if is_ours:
                session.stop()

    def _query(self, graph: Graph, options: PipelineOptions, session: SparkSession) -> MicroBatchQuery:
        from ..execution.clock import time_of_day
        from ..execution.disk import disk_of
        from ..execution.execution_graph import cut
        from ..execution.snapshot_store import SnapshotStore
        from .micro_batch_query import MicroBatchQuery, QuerySettings

        streaming = options.view_as(StreamingOptions)
        context = session.sparkContext
        shards = options.view_as(SparkOptions).spark_shuffle_partitions or context.defaultParallelism
        directory = streaming.checkpoint_dir
        if directory is None:
            if not (context.master or "").startswith("local"):
                raise OptionsError(
                    "--runner=spark-microbatch needs a --checkpoint_dir on a cluster: a path or URL that the driver "
                    "and all executors can reach"
                )
            directory = tempfile.mkdtemp(prefix="penstock-checkpoints-")
        store = SnapshotStore(
            disk_of(directory),
            str(directory).rstrip("/"),
            retain=streaming.checkpoint_retention,
            allow_untrusted=streaming.allow_untrusted_checkpoints,
        )
        settings = QuerySettings()
        return MicroBatchQuery(cut(fuse(graph, _never), shards, by_level=True), session, store, time_of_day, settings)

    @classmethod
    def capabilities(cls) -> Mapping[str, str]:
        return {
            "bounded sources": "yes",
            "event-time windows, merging windows": "yes",
            "side inputs, tagged outputs": "yes",
            "triggers, panes, allowed lateness, late data": "yes",
            "discarding, accumulating and retracting panes": "yes",
            "state and timers": "yes",
            "transactional sinks: files, SQL tables, changelogs": "yes",
            "TestStream": "yes",
            "unbounded sources": "no",
        }


def _never(grouping: GroupByKeyAndWindow) -> bool:
    return False


class MicroBatchResult(PipelineResult):
    """A run of micro-batches."""

    def __init__(self, query: MicroBatchQuery) -> None:
        self._query = query

    @property
    def state(self) -> str:
        return self._query.state

    def wait_until_finish(self, duration: float | None = None) -> str:
        return self.state

    def cancel(self) -> str:
        """Stop at once; what isn't committed is gone, and a next start with that checkpoint_dir does it again."""
        self._query.cancel()
        return self.wait_until_finish()

    def metrics(self) -> MetricResults:
        return MetricResults(self._query.metrics)
