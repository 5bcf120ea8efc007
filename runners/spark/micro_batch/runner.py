"""SparkMicroBatchRunner: runs a pipeline on Spark as a sequence of micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from ....sdk.errors import UnsupportedError
from ....sdk.graph import Graph, Read
from ....sdk.metrics import MetricResults
from ....sdk.options import PipelineOptions
from ....sdk.runner import Capability, PipelineResult, Runner, seconds_to_wait
from ....sdk.sources.scripted_source import Script
from ....sdk.sources.unbounded import UnboundedSource
from ....sdk.spark_interfaces import UnboundedFrame, refuse_frames
from ....windowing.duration import DurationTypes
from ...execution.background_thread import BackgroundRun
from ...execution.plan.fusion import fuse
from ...execution.progress import progress_of
from .failpoints import Reached, go_on
from .options import settings_of, store_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...execution.checkpoints.store import SnapshotStore
    from .query import MicroBatchQuery, QuerySettings

# Seconds: how often a run is cancelled that doesn't end.
_AGAIN = 1.0


class SparkMicroBatchRunner(Runner):
    """`--runner=spark-microbatch`.

    Args:
      spark_session: the session to run in.  Without one it takes the active session, or
        starts one by `--spark_master` and `--spark_conf` and stops it again.
      reached: is told of each of the points in `failpoints.py`; for tests of what happens when a run fails there.
    """

    name = "spark-microbatch"

    def __init__(self, spark_session: SparkSession | None = None, reached: Reached = go_on) -> None:
        self._session = spark_session
        self._reached = reached

    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        """Run a bounded pipeline, or a script, to the end; start any other one."""
        from ...execution.sinks.committer import with_dead_letters
        from ..session import find_session, partitions_of

        for head in graph.loops():
            raise UnsupportedError(f"{head.label}: --runner=spark-microbatch has no loops; --runner=local runs them")
        refuse_frames(graph, self.name)
        _check_clock(graph)
        settings = settings_of(options, self._reached)
        graph = with_dead_letters(graph, options)
        for read in graph.unbounded_reads():
            primitive = read.primitive
            if isinstance(primitive, Read) and isinstance(primitive.source, UnboundedSource):
                _check_replayable(read.label, primitive.source)
        partitions = partitions_of(options)
        session, is_ours = find_session(options, self._session)
        query = None
        try:
            store = store_of(options, session)
            shards = partitions or session.sparkContext.defaultParallelism
            query = _query(graph, shards, session, store, settings)
        finally:
            if query is None and is_ours:
                session.stop()
        result = MicroBatchResult(query, session if is_ours else None, options)
        if not graph.unbounded_reads():
            result.wait_until_finish()
        return result

    @classmethod
    def capabilities(cls) -> Mapping[Capability, str]:
        return {
            Capability.BOUNDED_SOURCES: "yes",
            Capability.WINDOWS: "yes",
            Capability.SIDE_INPUTS: "yes",
            Capability.TRIGGERS: "yes",
            Capability.ACCUMULATION: "yes",
            Capability.STATE_AND_TIMERS: "yes",
            Capability.SINKS: "yes",
            Capability.TEST_STREAM: "yes",
            Capability.UNBOUNDED_SOURCES: "yes",
            Capability.DATAFRAMES: "yes, read; a stream makes none",
            Capability.STREAMING_DATAFRAMES: "yes",
        }


def _check_clock(graph: Graph) -> None:
    reads = [(t.label, t.primitive.source) for t in graph.transforms if isinstance(t.primitive, Read)]
    scripts = [label for label, source in reads if isinstance(source, Script)]
    streams = [label for label, source in reads if isinstance(source, UnboundedFrame)]
    if scripts and streams:
        raise UnsupportedError(
            f"{streams[0]}: a streaming DataFrame comes when it comes, but {scripts[0]} says what time it is; "
            "test the transforms with one of them at a time"
        )


def _check_replayable(label: str, source: UnboundedSource[Any]) -> None:
    if not source.replayable:
        raise UnsupportedError(
            f"{label}: its source can't be read again, and --runner=spark-microbatch reads what a batch is given after "
            "it has been planned; --runner=local reads it"
        )


def _query(
    graph: Graph, shards: int, session: SparkSession, store: SnapshotStore, settings: QuerySettings
) -> MicroBatchQuery:
    from ...execution.clock import ProcessingTime
    from ...execution.plan.execution_graph import cut
    from .query import MicroBatchQuery

    return MicroBatchQuery(
        cut(attrs.evolve(fuse(graph), compares_keys=settings.compares_keys), shards, by_level=True),
        session,
        store,
        ProcessingTime(),
        settings,
    )


class MicroBatchResult(PipelineResult):
    """A run of micro-batches, in a thread beside the one that started it.

    Args:
      session: to be stopped when it is over; None if others have it too.
    """

    def __init__(self, query: MicroBatchQuery, session: SparkSession | None, options: PipelineOptions) -> None:
        self._query = query
        self._session = session
        self._options = options
        self._run = BackgroundRun("penstock micro-batches", self._work)

    def _work(self) -> None:
        query = self._query
        try:
            with progress_of(query.counts, query.plan, self._options, refresh=lambda: query.activity):
                query.run()
        finally:
            if self._session is not None:
                self._session.stop()

    @property
    def state(self) -> str:
        return self._query.state

    def wait_until_finish(self, duration: DurationTypes | None = None) -> str:
        try:
            self._run.wait(seconds_to_wait(duration))
        except KeyboardInterrupt:
            self._query.cancel()
            raise
        return self.state

    def cancel(self) -> str:
        """Stop at once; what isn't committed is gone, and a next start with that checkpoint_dir does it again."""
        self._query.cancel()
        # What has only begun in that moment wasn't there yet to be cancelled.
        while not self._run.wait(_AGAIN):
            self._query.cancel()
        return self.state

    def drain(self) -> str:
        """Have the sources stop; windows and timers fire, sinks publish."""
        self._query.drain()
        return self.wait_until_finish()

    def metrics(self) -> MetricResults:
        return MetricResults(self._query.metrics)
