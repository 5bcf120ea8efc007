"""Micro-batches on Spark against hand-written Structured Streaming, in one session.

(a) sum per key and window, 100,000 events a batch: against `transformWithState`
(b) 10,000 keys changed a batch: a state of a million keys against one of 100,000
(c) the least time of a nearly empty batch: against an empty `foreachBatch` with one shuffle
(d) available-now over a million events: against the Spark batch runner

The comparison is of elapsed time, as medians of batches, since a small batch is mostly waiting.  (a) also compares the
CPU time of the driver, its JVM and the Python workers together, and (d) compares this time only.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import attrs
from harness.processes import cpu_of_this_and_children
from harness.spark_session import started_session
from harness.timing import Figure, Figures, Ratio, Result, compare

import penstock as beam
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.spark.micro_batch.commit_log import WriteAhead
from penstock.runners.spark.micro_batch.spark_job import MicroBatches
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.options import PipelineOptions
from spark import streams_by_hand
from spark.batched_pairs import STRIDE, BatchedPairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 24 * 60 * 60
BATCH = 100_000
# The first batches warm up workers and the JVM, the last one closes the window.
WARM_UP = 3

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@attrs.define
class Batches:
    """Measurements of a stream, in seconds, with one entry for each batch."""

    commits: list[float] = attrs.field(factory=list)
    cpu_at_commits: list[float] = attrs.field(factory=list)
    parts: dict[str, list[float]] = attrs.field(factory=dict)

    @property
    def seconds(self) -> list[float]:
        """The times between commits, without the first ones and the last."""
        return _steps(self.commits)

    @property
    def cpu_seconds(self) -> list[float]:
        """The same in CPU time."""
        return _steps(self.cpu_at_commits)


def _steps(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)][WARM_UP - 1 : -1]


@contextmanager
def watched() -> Iterator[Batches]:
    """Measure the batches of the streams that run in this context."""
    seen = Batches()
    watched = [(WriteAhead, "write", "plan"), (MicroBatches, "run", "job"), (SnapshotStore, "commit", "commit")]
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in watched]

    def timed(original: Any, part: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            before = time.perf_counter()
            result = original(*arguments, **named)
            after = time.perf_counter()
            seen.parts.setdefault(part, []).append(after - before)
            if part == "commit":
                seen.commits.append(after)
                seen.cpu_at_commits.append(cpu_of_this_and_children())
            elif part == "job":
                for name in ("loading", "working", "saving"):
                    tasks: dict[int, float] = {}
                    for own in result:
                        tasks[own.id.task] = max(tasks.get(own.id.task, 0.0), getattr(own.seconds, name))
                    seen.parts.setdefault(name, []).append(sum(tasks.values()))
            return result

        return call

    for (owner, name, original), (_, _, part) in zip(originals, watched):
        setattr(owner, name, timed(original, part))
    try:
        yield seen
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


class TotalSink(beam.io.Sink[Any]):
    """Keeps the number of published sums, and their total, as `found`."""

    def __init__(self) -> None:
        self._published: dict[str, tuple[int, int]] = {}

    @property
    def found(self) -> tuple[int, int]:
        """Of all transactions: there is one for each batch."""
        counts, totals = zip(*self._published.values(), strict=True)
        return sum(counts), sum(totals)

    def prepare(self, context: beam.io.SinkContext) -> None:
        pass

    def open_writer(self, context: beam.io.SinkContext) -> beam.io.SinkWriter[Any]:
        return _TotalWriter()

    def commit(self, context: beam.io.SinkContext, staged: Sequence[Any]) -> None:
        self._published[context.transaction] = sum(count for count, _ in staged), sum(total for _, total in staged)

    def abort(self, context: beam.io.SinkContext) -> None:
        pass


class _TotalWriter(beam.io.SinkWriter[Any]):
    def __init__(self) -> None:
        self.count = self.total = 0

    def write(self, bundle: Bundle) -> None:
        self.count += len(bundle)
        self.total += sum(total for _, total in bundle.values)

    def stage(self) -> tuple[int, int]:
        return self.count, self.total

    def discard(self) -> None:
        self.count = self.total = 0


def sums(session: SparkSession, keys: int, sizes: Sequence[int]) -> tuple[Batches, tuple[int, int]]:
    """Sum `BatchedPairs` in windows of a day with the micro-batch runner; return its batches and its output."""
    from penstock.runners.spark import SparkMicroBatchRunner

    sink = TotalSink()
    with tempfile.TemporaryDirectory() as directory, watched() as batches:
        options = PipelineOptions([], checkpoint_dir=directory, available_now=True)
        p = beam.Pipeline(SparkMicroBatchRunner(session), options=options)
        source = BatchedPairs(keys, sizes, session.sparkContext.defaultParallelism)
        (
            p
            | beam.io.Read(source)
            | beam.WindowInto(beam.window.FixedWindows(DAY))
            | beam.CombinePerKey(sum)
            | beam.io.Write(sink)
        )
        p.run().wait_until_finish()
    return batches, sink.found


def against_transform_with_state(session: SparkSession, keys: int, limit: int) -> Iterator[Ratio]:
    """(a)"""
    by_hand = streams_by_hand.sums(session, keys, BATCH, 3 if keys == BATCH else 5)
    batches, found = sums(session, keys, [BATCH] * 10)
    assert (keys, sum(range(10 * BATCH))) == found, f"{found}: the results differ"
    assert by_hand.found == (keys, sum(range(by_hand.batches * BATCH))), f"{by_hand.found}: the results differ"
    name = f"(a) sums of {keys:,} keys, by hand"
    yield Ratio(f"{name}: clock", median(batches.seconds), median(by_hand.seconds), 1 / limit)
    yield Ratio(f"{name}: CPU", median(batches.cpu_seconds), median(by_hand.cpu_seconds), 1 / limit)


def by_state(session: SparkSession) -> Ratio:
    """(b)"""
    changed = [10_000] * 15
    seconds = {}
    for keys in (100_000, 1_000_000):
        batches, _ = sums(session, keys, [keys, *changed])
        seconds[keys] = median(batches.seconds)
    return Ratio("(b) 10,000 of 1,000,000 keys, of 100,000", seconds[1_000_000], seconds[100_000], 1.2)


# By the names of `watched`, the parts of a batch.
PARTS = {
    "plan": "plan and write-ahead log",
    "job": "Spark's job",
    "loading": "of that, loading state in subtasks",
    "working": "of that, processing in subtasks",
    "saving": "of that, writing and syncing state",
    "commit": "writing the manifest, removing old ones",
}


def nearly_empty(session: SparkSession) -> Iterator[Result]:
    """(c)"""
    by_hand = streams_by_hand.empty(session, 30)
    batches, _ = sums(session, 2, [2] * 30)
    yield Ratio("(c) a nearly empty batch, foreachBatch", min(batches.seconds), min(by_hand), 1.5)
    # Loading, working and saving are parts of the job: those of each task's slowest subtask.
    for part, name in PARTS.items():
        yield Figures(name, {"least": Figure(min(batches.parts[part]) * 1000, "ms", limit=1000)})


def available_now(session: SparkSession) -> Ratio:
    """(d)"""
    from penstock.runners.spark import SparkBatchRunner, SparkMicroBatchRunner

    def minutely(runner: Any, **numbers: Any) -> tuple[int, int]:
        sink = TotalSink()
        with tempfile.TemporaryDirectory() as directory:
            options = PipelineOptions([], checkpoint_dir=directory, available_now=True)
            p = beam.Pipeline(runner, options=options)
            (
                p
                | beam.io.GenerateSequence(0, stop=1_000_000, **numbers)
                | beam.Map(lambda n: (n * STRIDE % 10_000, n))
                | beam.WindowInto(beam.window.FixedWindows(60))
                | beam.CombinePerKey(sum)
                | beam.io.Write(sink)
            )
            p.run().wait_until_finish()
        return sink.found

    return compare(
        "(d) available now, a million; Spark batch",
        lambda: minutely(
            SparkMicroBatchRunner(session), elements_per_period=1_000_000, period=3600, start_time=0, partitions=2
        ),
        lambda: minutely(SparkBatchRunner(session), timestamp_fn=lambda n: n * 3600 / 1_000_000),
        2.0,
        clock=cpu_of_this_and_children,
        warm_up=1,
    )


def run() -> Iterator[Result]:
    session = started_session()
    session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    session.conf.set("spark.sql.shuffle.partitions", session.sparkContext.defaultParallelism)
    try:
        yield from nearly_empty(session)
        yield by_state(session)
        yield available_now(session)
        yield from against_transform_with_state(session, 10_000, 8)
        yield from against_transform_with_state(session, 100_000, 20)
    finally:
        session.stop()
