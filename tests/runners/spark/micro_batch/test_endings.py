"""The end of a run of micro-batches, waiting for it, and starting it again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
from support.pipelines.recording import Recording
from support.programs.running_program import PATIENCE, wait_until

import penstock as beam
from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.runners.spark.micro_batch.query import MicroBatchQuery, QuerySettings
from penstock.sdk.options import PipelineOptions
from penstock.sdk.runner import PipelineState
from penstock.testing import TestStream
from penstock.windowing import FixedWindows, TimestampedValue

# Long ago, so that there is always a backlog of numbers.
START = 1_700_000_000


def endless(p: Any, start_time: int = START) -> Any:
    """An unbounded sequence of numbers."""
    return p | beam.io.GenerateSequence(0, None, 100, 1, partitions=2, start_time=start_time)


@pytest.fixture
def start(spark: Any, tmp_path: Path) -> Callable[..., Any]:
    """`start(sink, build, **options)` starts a pipeline with checkpoints in one directory."""

    def start(sink: Recording, build: Callable[[Any], Any] = endless, **options: Any) -> Any:
        given = PipelineOptions([], checkpoint_dir=str(tmp_path / "kept"), **{"max_records_per_batch": 20, **options})
        p = beam.Pipeline(SparkMicroBatchRunner(spark), options=given)
        build(p) | beam.io.Write(sink)
        return p.run()

    return start


def numbers(sink: Recording) -> list[int]:
    return sorted(change.value for change in sink.changes)


def test_a_cancelled_stream_resumes_and_a_drained_one_ends(
    start: Callable[..., Any],
) -> None:
    """Waiting doesn't stop the run, and every number is output once, however often the run was stopped."""
    sink = Recording()
    first = start(sink)
    assert PipelineState.RUNNING == first.wait_until_finish(1)
    wait_until(lambda: sink.changes, "the first batch")
    assert PipelineState.CANCELLED == first.cancel()
    assert PipelineState.CANCELLED == first.wait_until_finish()
    before = len(sink.changes)

    second = start(sink)
    wait_until(lambda: len(sink.changes) > before, "another batch")
    assert PipelineState.DRAINED == second.drain()

    found = numbers(sink)
    assert list(range(len(found))) == found
    assert before < len(found)


class Stuck(beam.DoFn):
    """Takes a minute, and writes a file if it reaches its end."""

    def __init__(self, note: str) -> None:
        self.note = note

    def process(self, element: Any) -> Any:
        time.sleep(60)
        Path(self.note).touch()
        yield element


def test_a_batch_that_begins_when_it_is_cancelled_is_not_waited_for(spark: Any, tmp_path: Path) -> None:
    """Its job started just after the cancellation, and once ran to its end."""
    planned, cancelled = threading.Event(), threading.Event()

    def reached(point: str, batch: int) -> None:
        # Only the driver has the events.
        if point == "after-plan":
            planned.set()
            assert cancelled.wait(PATIENCE)

    p = beam.Pipeline(SparkMicroBatchRunner(spark, reached=DriverOnly(reached)), options=PipelineOptions([]))
    _ = endless(p) | beam.ParDo(Stuck(str(tmp_path / "note")))
    result = p.run()
    assert planned.wait(PATIENCE)
    result._query.cancel()
    cancelled.set()

    assert PipelineState.CANCELLED == result.cancel()
    assert not (tmp_path / "note").exists()


class DriverOnly:
    """A function for the failpoints of the driver, which isn't pickled for workers."""

    def __init__(self, function: Callable[[str, int], None]) -> None:
        self._function = function

    def __call__(self, point: str, batch: int) -> None:
        self._function(point, batch)

    def __reduce__(self) -> Any:
        return type(None), ()


def test_draining_a_stream_closes_its_windows(start: Callable[..., Any]) -> None:
    """The source isn't at its end, but its windows have the elements that were read."""
    sink, seen = Recording(), Recording()

    def build(p: Any) -> Any:
        read = endless(p)
        read | "seen" >> beam.io.Write(seen)
        windows = beam.WindowInto(FixedWindows(1_000_000_000))
        return read | windows | beam.combiners.Count.Globally().without_defaults()

    result = start(sink, build)
    wait_until(lambda: seen.changes, "a batch")
    assert [] == sink.changes
    assert PipelineState.DRAINED == result.drain()

    assert [len(seen.changes)] == [change.value for change in sink.changes]


def test_an_available_now_run_reads_what_the_one_before_has_not(start: Callable[..., Any]) -> None:
    """`--available_now` ends by itself, and the next run reads nothing twice."""
    sink, ten_seconds_ago = Recording(), int(time.time()) - 10

    def run() -> Any:
        options = {"available_now": True, "max_records_per_batch": 400}
        return start(sink, lambda p: endless(p, ten_seconds_ago), **options).wait_until_finish()

    assert PipelineState.DONE == run()
    first = numbers(sink)
    assert PipelineState.DONE == run()

    assert list(range(len(first))) == first
    assert 1000 <= len(first)
    found = numbers(sink)
    assert list(range(len(found))) == found


@attrs.define
class Clock:
    """A clock that sleeping advances."""

    now: int = START * 1_000_000

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1_000_000)


def test_a_batch_begins_an_interval_after_the_one_before(spark: Any, tmp_path: Path) -> None:
    """A late batch starts at once, and a hundred numbers arrive in a second in any case."""
    clock, times, sink = Clock(), [], Recording()
    p = beam.Pipeline("spark-microbatch")
    p | beam.io.GenerateSequence(0, 300, 100, 1, start_time=START) | beam.io.Write(sink)

    def reached(point: str, batch: int) -> None:
        if point == "after-plan":
            times.append(clock.now)

    graph = p.graph()
    store = SnapshotStore(disk_of(str(tmp_path)), str(tmp_path))
    execution_graph = cut(fuse(graph, lambda *_: False), 2, by_level=True)
    query = MicroBatchQuery(
        execution_graph, spark, store, clock, QuerySettings(interval=1_000_000, reached=reached), clock.sleep
    )
    query.run()

    assert list(range(300)) == numbers(sink)
    assert all(later - earlier >= 1_000_000 for earlier, later in pairwise(times))
    assert 4 <= len(times) <= 6


def test_a_script_ends_the_run(start: Callable[..., Any]) -> None:
    """When it is exhausted, even if its watermark was never at the end of time."""
    sink = Recording()

    def build(p: Any) -> Any:
        stream = TestStream().add_elements([TimestampedValue(("a", 1), 0), TimestampedValue(("a", 2), 1)])
        return p | stream | beam.WindowInto(FixedWindows(10)) | beam.CombinePerKey(sum)

    assert PipelineState.DONE == start(sink, build).wait_until_finish()
    assert [("a", 3)] == [change.value for change in sink.changes]


def test_state_of_a_removed_step_may_be_dropped(start: Callable[..., Any]) -> None:
    """With `--allow_dropped_state`."""

    def counted(label: str) -> Callable[[Any], Any]:
        return lambda p: (
            endless(p) | beam.WindowInto(FixedWindows(10)) | beam.WithKeys("n") | label >> beam.combiners.Count.PerKey()
        )

    sink = Recording()
    first = start(sink, counted("before"), max_records_per_batch=1500)
    wait_until(lambda: sink.changes, "a window")
    first.cancel()

    again = Recording()
    second = start(again, counted("after"), max_records_per_batch=1500, allow_dropped_state=True)
    wait_until(lambda: again.changes, "a window")
    assert PipelineState.DRAINED == second.drain()
