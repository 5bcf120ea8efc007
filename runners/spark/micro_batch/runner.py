"""SparkMicroBatchRunner: runs a pipeline on Spark as a sequence of micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from ....sdk.errors import UnsupportedError
from ....sdk.graph import Graph, Read
from ....sdk.metrics import MetricResults
from ....sdk.options import PipelineOptions, StreamingOptions
from ....sdk.runner import Capability, PipelineResult, RunState, seconds_to_wait
from ....sdk.runs.run_transform import TransformRunner
from ....sdk.sources.scripted_source import Script
from ....sdk.sources.unbounded import UnboundedSource
from ....sdk.spark_interfaces import BoundedFrame, UnboundedFrame, refuse_frames
from ....windowing.duration import DurationTypes
from ...execution.background_thread import BackgroundRun
from ...execution.counters import loads_of
from ...execution.page.description import described_graph
from ...execution.page.event_log import Events
from ...execution.plan.fusion import fuse
from ...execution.progress import progress_of
from ...execution.streaming.observation import Observe
from ..installed import what_is_missing
from ..page import IN_MICRO_BATCHES, SparkPage, SparkProgress
from .options import settings_of, store_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .commit_log import Reached
    from .query import MicroBatchQuery

# The interval, in seconds, at which a run is cancelled until it ends.
_CANCEL_SECONDS = 1.0


class SparkMicroBatchRunner(TransformRunner):
    """`--runner=spark-microbatch`.

    Args:
      spark_session: the session to run in.  By default the active session, or one that is started with
        `--spark_master` and `--spark_conf`, and stopped at the end.
      reached: called at each failpoint of `commit_log`, for tests of failures there.
    """

    name = "spark-microbatch"

    def __init__(self, spark_session: SparkSession | None = None, reached: Reached | None = None) -> None:
        self._session = spark_session
        self._reached = reached

    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        """Run a bounded pipeline or a script to the end, and start any other pipeline."""
        from ...execution.clock import ProcessingTime
        from ...execution.plan.execution_graph import cut
        from ...execution.sinks.committer import committing_often, with_dead_letters
        from ..remote import remote_session
        from ..remote_jobs import default_parallelism
        from ..session import find_session, partitions_of, pickle_named
        from .query import MicroBatchQuery

        for head in graph.loops():
            raise UnsupportedError(f"{head.label}: --runner=spark-microbatch has no loops; --runner=local runs them")
        refuse_frames(graph, self.name)
        _check_clock(graph)
        settings = settings_of(options, self._reached)
        graph = with_dead_letters(graph, options)
        if graph.unbounded_reads():
            graph = committing_often(graph)
        if settings.available_now:
            _check_ends(graph)
        pickle_named(options)
        partitions = partitions_of(options)
        remote = remote_session(options, self._session)
        session, is_ours = remote or find_session(options, self._session)
        query = None
        try:
            if remote is not None:
                _check_remote(graph)
            store = store_of(options, session)
            cores = default_parallelism(session) if remote is not None else session.sparkContext.defaultParallelism
            parallelism = partitions or cores
            plan = attrs.evolve(fuse(graph), compares_keys=settings.compares_keys)
            tasks = cut(plan, parallelism, by_level=True)
            query = MicroBatchQuery(tasks, session, store, ProcessingTime(), settings)
        finally:
            if query is None and is_ours:
                session.stop()
        result = MicroBatchResult(query, session if is_ours else None, options)
        if not graph.unbounded_reads():
            result.wait_until_finish()
        return result

    @classmethod
    def missing(cls) -> str | None:
        return what_is_missing()

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
            Capability.STATE_READS: "yes",
            Capability.DATAFRAMES: "yes, FromSpark only",
            Capability.STREAMING_DATAFRAMES: "yes",
        }


def _check_remote(graph: Graph) -> None:
    """Raise `UnsupportedError` for DataFrames, whose rows a batch over Spark Connect can't read."""
    for transform in graph.transforms:
        source = transform.primitive.source if isinstance(transform.primitive, Read) else None
        if isinstance(source, (BoundedFrame, UnboundedFrame)):
            raise UnsupportedError(
                f"{transform.label}: --runner=spark-microbatch reads no DataFrames over Spark Connect, whose server "
                "calls the function for each batch. Read from a source of penstock's, or run the program with "
                "spark-submit in the cluster, without --spark_remote and SPARK_REMOTE; --runner=spark-batch reads "
                "bounded ones"
            )


def _check_clock(graph: Graph) -> None:
    reads = [(t.label, t.primitive.source) for t in graph.transforms if isinstance(t.primitive, Read)]
    scripts = [label for label, source in reads if isinstance(source, Script)]
    streams = [label for label, source in reads if isinstance(source, UnboundedFrame)]
    if scripts and streams:
        raise UnsupportedError(
            f"{streams[0]}: a streaming DataFrame uses the real clock, but {scripts[0]} controls the clock. Test the "
            "transforms with one of them at a time"
        )


def _check_ends(graph: Graph) -> None:
    for read in graph.unbounded_reads():
        source = read.primitive.source if isinstance(read.primitive, Read) else None
        if isinstance(source, UnboundedSource) and not source.replayable:
            raise UnsupportedError(
                f"{read.label}: its source doesn't tell what is available now, so --available_now can't end. Read "
                "without the flag, or a number of elements or for a time"
            )


class MicroBatchResult(PipelineResult):
    """A run of micro-batches in a thread of its own.

    Args:
      session: the session to stop at the end; None to leave it running.

    Attributes:
      ui_url, ui_token: the URL of the page, or None without `--ui_port`; and the token that allows its requests.
    """

    def __init__(self, query: MicroBatchQuery, session: SparkSession | None, options: PipelineOptions) -> None:
        self._query = query
        self._session = session
        self._options = options
        if options.view_as(StreamingOptions).checkpoint_dir is not None:
            query.events = Events(query.event_log())
        requests = {"drain": query.drain, "cancel": query.cancel}

        def observe(wanted: Observe) -> None:
            query.observe = wanted

        graph = described_graph(query.execution_graph)
        self._page = SparkPage(graph, self._progress, requests, query.events, IN_MICRO_BATCHES, observe)
        try:
            self._feed = self._page.open(options)
        except BaseException:
            if session is not None:
                session.stop()
            raise
        self.ui_url, self.ui_token = self._feed.url, self._feed.token
        self._run = BackgroundRun("penstock micro-batches", self._work)

    def _work(self) -> None:
        query = self._query
        try:
            progress = progress_of(query.counts, query.plan, self._options, refresh=lambda: query.activity)
            with self._page.served(self._feed), progress:
                query.run()
        finally:
            if self._session is not None:
                self._session.stop()

    def _progress(self) -> SparkProgress:
        query = self._query
        return SparkProgress(
            query.state,
            query.counts,
            query.metrics,
            query.watermarks(),
            query.loads,
            query.batches,
            tuple(query.observed.values()),
            query.stacks,
        )

    @property
    def state(self) -> RunState:
        return RunState(self._query.state, self._query.committed_state)

    def wait_until_finish(self, duration: DurationTypes | None = None) -> str:
        try:
            self._run.wait(seconds_to_wait(duration))
        except KeyboardInterrupt:
            self._query.cancel()
            raise
        return self.state

    def cancel(self) -> str:
        """Stop at once.  A later run with the same checkpoint_dir repeats the batch that is not committed."""
        self._query.cancel()
        # A job that starts at this moment escapes the first request.
        while not self._run.wait(_CANCEL_SECONDS):
            self._query.cancel()
        return self.state

    def drain(self) -> str:
        """End the unbounded sources, fire windows and timers, and publish."""
        self._query.drain()
        return self.wait_until_finish()

    def metrics(self) -> MetricResults:
        query = self._query
        return MetricResults(query.metrics, None, query.counts.seconds, loads_of(query.counts, query.seconds))
