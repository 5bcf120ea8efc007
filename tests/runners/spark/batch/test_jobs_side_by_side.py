"""The jobs of a run in batch: as few as the plan allows, and side inputs in the executors as long as one reads them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from support.runners.batch_execution import BatchInThisProcess
from support.runners.segments import MemorySink

import penstock as beam
from penstock.runners.execution.plan.fusion import fuse, shrinks
from penstock.runners.spark.batch.segment_rdds import SparkBatchExecution


def flattened(p: Any) -> None:
    parts = [p | f"Create {i}" >> beam.Create([i]) for i in range(50)]
    _ = parts | beam.Flatten() | beam.io.Write(MemorySink())


def grouped(p: Any) -> None:
    numbers = p | beam.Create(range(100))
    for i in range(10):
        pairs = numbers | f"Pair {i}" >> beam.Map(lambda n, i=i: (n % (i + 1), n))
        _ = pairs | f"Sum {i}" >> beam.CombinePerKey(sum) | f"Write {i}" >> beam.io.Write(MemorySink())


def chained(p: Any) -> None:
    numbers = p | beam.Create(range(10))
    total = p | "Start" >> beam.Create([1])
    for i in range(3):
        added = numbers | f"Add {i}" >> beam.Map(lambda n, t: n + t, beam.pvalue.AsSingleton(total))
        total = added | f"Total {i}" >> beam.CombineGlobally(sum)
        _ = added | f"Write {i}" >> beam.io.Write(MemorySink())


def separate(p: Any) -> None:
    for i in range(4):
        side = p | f"Side {i}" >> beam.Create([i])
        main = p | f"Create {i}" >> beam.Create([1, 2])
        _ = (
            main
            | f"Times {i}" >> beam.Map(lambda n, t: n * t, beam.pvalue.AsSingleton(side))
            | f"Write {i}" >> (beam.io.Write(MemorySink()))
        )


# By what is built, the number of segments with results for the driver in each job.
JOBS: dict[str, tuple[Callable[[Any], None], list[int]]] = {
    "a sink behind a Flatten": (flattened, [50]),
    # The first one computes the rows that all groupings read.
    "sinks behind groupings": (grouped, [1, 9]),
    "side inputs that need each other": (chained, []),
    "side inputs that don't": (separate, [4, 4]),
}


@pytest.mark.parametrize("name", JOBS)
def test_segments_run_in_few_jobs(name: str) -> None:
    """None of which has two that read the same rows before these are kept."""
    build, sizes = JOBS[name]
    p = beam.Pipeline()
    build(p)
    run = BatchInThisProcess(p)
    run.run()

    if sizes:
        assert sizes == list(map(len, run.jobs))
    assert sorted(i for i, each in enumerate(run.program.segments) if each.is_eager) == sorted(chain(*run.jobs))
    for number, job in enumerate(run.jobs):
        done = {i for before in run.jobs[:number] for i in before}
        for i in job:
            wanted = run.program.segments[i].side_inputs
            makers = {n for n, each in enumerate(run.program.segments) if wanted.intersection(each.side_outputs)}
            assert makers <= done


def jobs_of(spark: Any, build: Callable[[Any], None]) -> tuple[SparkBatchExecution, list[str]]:
    """Run a pipeline; return the run, and the descriptions of its jobs."""
    p = beam.Pipeline()
    build(p)
    execution = SparkBatchExecution(fuse(p.graph(), shrinks), spark)
    described: list[str] = []
    run = execution.jobs.run

    def noted(description: str, job: Any) -> Any:
        described.append(description)
        return run(description, job)

    execution.jobs.run = noted  # type: ignore[method-assign]
    execution.run()
    return execution, described


def test_fifty_sources_are_one_job_of_spark(spark: Any) -> None:
    """With a name that says so."""
    execution, described = jobs_of(spark, flattened)
    tracker = spark.sparkContext.statusTracker()

    assert 1 == len(tracker.getJobIdsForGroup(f"penstock-{execution.program.transaction}"))
    (name,) = described
    assert name.endswith(" and 47 more")


def test_a_side_input_is_broadcast_once_and_released_after_its_last_job(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two segments that read it the second waits for another side input, of which the default is made by a third."""
    events: list[str] = []
    broadcast = type(spark.sparkContext).broadcast

    def noted(context: Any, value: Any) -> Any:
        made = broadcast(context, value)
        destroy, number = made.destroy, sum(event.startswith("broadcast") for event in events)
        made.destroy = lambda: (events.append(f"destroy {number}"), destroy())
        events.append(f"broadcast {number}")
        return made

    def build(p: Any) -> None:
        numbers = p | beam.Create(range(10))
        side = beam.pvalue.AsSingleton(p | "Side" >> beam.Create([1]))
        added = numbers | "Add" >> beam.Map(lambda n, s: n + s, side)
        total = beam.pvalue.AsSingleton(added | beam.CombineGlobally(sum))
        _ = numbers | "Both" >> beam.Map(lambda n, s, t: n + s + t, side, total) | beam.io.Write(MemorySink())

    monkeypatch.setattr(type(spark.sparkContext), "broadcast", noted)
    jobs_of(spark, build)
    assert ["broadcast 0", "broadcast 1", "destroy 1", "broadcast 2"] == events[:4]
    assert ["destroy 0", "destroy 2"] == sorted(events[4:])
