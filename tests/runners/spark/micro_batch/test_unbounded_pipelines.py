"""Unbounded sources in micro-batches: admission, restarts from planned and committed batches, and the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.pipelines.queue_source import Queue, queue_of
from support.pipelines.recording import Recording
from support.runners.drivers import Died, leave_open_transactions

import penstock as beam
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.runners.spark.micro_batch import query as micro_batch_query
from penstock.runners.spark.micro_batch.query import MicroBatchQuery
from penstock.sdk.errors import CheckpointMismatchError, UnsupportedError
from penstock.sdk.options import PipelineOptions
from penstock.sdk.runner import PipelineState
from penstock.windowing import FixedWindows

NUMBERS = 60


def sums(p: Any, label: str = "sum") -> Any:
    """Numbers with event times, summed by their last digit in windows of twenty seconds."""
    return (
        p
        | beam.io.GenerateSequence(
            0,
            stop=NUMBERS,
            elements_per_period=NUMBERS,
            period=1,
            start_time=0,
            partitions=2,
        )
        | beam.Map(lambda n: beam.window.TimestampedValue((n % 10, n), n))
        | beam.WindowInto(FixedWindows(20))
        | label >> beam.CombinePerKey(sum)
    )


EXPECTED = {
    (digit, sum(n for n in range(NUMBERS) if n % 10 == digit and n // 20 == window)): 1
    for digit in range(10)
    for window in range(NUMBERS // 20)
}


def by_value(sink: Recording) -> dict[Any, int]:
    return dict(sink.net(lambda change: change.value))


@pytest.fixture
def run(spark: Any, tmp_path: Path) -> Callable[..., Any]:
    """`run(sink, build, **options)` starts a pipeline with checkpoints in one directory."""

    def run(sink: Recording, build: Callable[[Any], Any] = sums, **options: Any) -> Any:
        given = PipelineOptions([], checkpoint_dir=str(tmp_path / "checkpoints"), max_records_per_batch=25, **options)
        p = beam.Pipeline(SparkMicroBatchRunner(spark), options=given)
        build(p) | beam.io.Write(sink)
        return p.run()

    return run


def test_a_stream_is_read_in_batches_within_the_admission_limits(run: Callable[..., Any]) -> None:
    """Its windows are those of a batch run."""
    sink = Recording()
    result = run(sink)

    assert PipelineState.DONE == result.wait_until_finish()
    assert EXPECTED == by_value(sink)
    # Sixty numbers, with at most 25 in a batch.
    assert result._query.batches >= 3


def die_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int) -> None:
    """Make a method raise `Died` at its `call`th call.  A dead driver cleans nothing up."""
    original, calls = getattr(owner, name), []

    def die(self: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == call:
            raise Died
        return original(self, *arguments)

    leave_open_transactions(monkeypatch)
    monkeypatch.setattr(owner, name, die)


POINTS = {
    "planned": (micro_batch_query.MicroBatches, "run"),
    "run": (MicroBatchQuery, "_commit"),
    "committed": (MicroBatchQuery, "_publish"),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_restarted_driver_continues_from_the_planned_or_committed_batch(
    run: Callable[..., Any], point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies before the job of its second batch, after it, or between the commit and the publication."""
    sink = Recording()
    die_at(monkeypatch, *POINTS[point], 2)
    with pytest.raises(Died):
        run(sink).wait_until_finish()
    monkeypatch.undo()

    assert PipelineState.DONE == run(sink).wait_until_finish()
    assert EXPECTED == by_value(sink)


@pytest.mark.parametrize("point", POINTS)
def test_elements_that_cannot_be_read_again_are_part_of_the_plan(
    run: Callable[..., Any], point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is lost, and none twice, wherever the driver dies; and each is taken from the queue once it is covered."""
    queue = queue_of(tmp_path / "queue", NUMBERS)
    sink, build = Recording(), lambda p: p | beam.io.Read(Queue(queue, NUMBERS)) | beam.Map(lambda n: n)
    die_at(monkeypatch, *POINTS[point], 2)
    with pytest.raises(Died):
        run(sink, build).wait_until_finish()
    assert NUMBERS - 25 <= len(list(queue.iterdir())) < NUMBERS
    monkeypatch.undo()

    assert PipelineState.DONE == run(sink, build).wait_until_finish()
    assert dict.fromkeys(range(NUMBERS), 1) == by_value(sink)
    assert [] == list(queue.iterdir())


def test_a_source_that_cannot_tell_what_is_available_is_refused(run: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"Read\(Queue\): its source doesn't tell what is available"):
        run(Recording(), lambda p: p | beam.io.Read(Queue(tmp_path, 1)), available_now=True)


def test_a_restart_may_have_another_parallelism(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each subtask finds its keys in the state that others have written."""
    sink = Recording()
    die_at(monkeypatch, *POINTS["run"], 3)
    with pytest.raises(Died):
        run(sink, spark_shuffle_partitions=3).wait_until_finish()
    monkeypatch.undo()

    assert PipelineState.DONE == run(sink, spark_shuffle_partitions=2).wait_until_finish()
    assert EXPECTED == by_value(sink)


def test_state_of_a_removed_step_is_refused(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by its label."""
    die_at(monkeypatch, *POINTS["run"], 2)
    with pytest.raises(Died):
        run(Recording()).wait_until_finish()
    monkeypatch.undo()

    with pytest.raises(CheckpointMismatchError, match=r"batch 1 has state of 'sum.*', which the pipeline doesn't"):
        run(Recording(), lambda p: sums(p, "total")).wait_until_finish()
