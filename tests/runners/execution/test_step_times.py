"""Time of steps: transforms of one fused stage are told apart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.counters import Counts


def slow(number: int) -> int:
    """Take six milliseconds."""
    time.sleep(0.006)
    return number


def fast(number: int) -> int:
    """Take one millisecond."""
    time.sleep(0.001)
    return number


def build(p: beam.Pipeline, numbers: Any) -> None:
    """Two functions in one stage, one of which takes six times as long."""
    _ = p | "Numbers" >> numbers | "Slow" >> beam.Map(slow) | "Fast" >> beam.Map(fast)


def assert_told_apart(seconds: dict[str, float]) -> None:
    """Check the times of `build` for 200 elements.  A sleep is never shorter, and longer where the machine is busy."""
    assert seconds["Slow"] > 0.6
    assert 0.1 < seconds["Fast"] < seconds["Slow"]


@pytest.mark.parametrize(
    "flags",
    [{}, {"metrics_port": 0}, {"parallelism": 2}, {"delivery": "weak"}],
    ids=["batch", "batch with metrics", "workers", "job"],
)
def test_a_plain_run_reports_the_time_of_each_transform(flags: dict[str, Any]) -> None:
    """In the process, in workers, and as a job."""
    p = beam.Pipeline(options=PipelineOptions(**flags))
    build(p, beam.Create(range(200)))

    assert_told_apart(p.run().metrics().step_seconds())


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_stream_reports_the_time_of_each_transform(parallelism: int) -> None:
    """Also where a bundle has one element."""
    p = beam.Pipeline(options=PipelineOptions(parallelism=parallelism))
    build(p, beam.io.GenerateSequence(0, 200, 100, 1, partitions=parallelism))
    result = p.run()
    result.wait_until_finish()

    assert_told_apart(result.metrics().step_seconds())


def generated(number: int) -> Iterator[int]:
    """Take six milliseconds for the first of two outputs."""
    time.sleep(0.006)
    yield number
    yield number


def test_the_time_of_a_generator_is_that_of_its_transform() -> None:
    """Though the transforms behind it take its outputs one by one."""
    p = beam.Pipeline()
    _ = p | beam.Create(range(100)) | "Slow" >> beam.FlatMap(generated) | "Fast" >> beam.Map(fast)
    seconds = p.run().metrics().step_seconds()
    assert seconds["Slow"] > 0.3
    assert 0.1 < seconds["Fast"] < seconds["Slow"]


def test_the_time_behind_a_grouping_is_that_of_its_transform() -> None:
    """And that of the grouping doesn't contain it."""
    p = beam.Pipeline()
    pairs = p | beam.Create(range(100)) | beam.WithKeys(lambda n: n)
    _ = pairs | "Sum" >> beam.CombinePerKey(sum) | "Slow" >> beam.MapTuple(lambda key, _: slow(key))
    seconds = p.run().metrics().step_seconds()
    assert seconds["Slow"] > 0.5
    assert seconds["Sum"] < seconds["Slow"] / 4


def test_the_time_of_a_pipeline_within_a_function_is_that_of_its_transform() -> None:
    """And the steps of the inner one are none of the outer one's."""

    def nested(number: int) -> int:
        with beam.Pipeline() as inner:
            _ = inner | beam.Create(range(50)) | "Inner" >> beam.Map(slow)
        return number

    p = beam.Pipeline()
    _ = p | beam.Create([1, 2]) | "Outer" >> beam.Map(nested)
    seconds = p.run().metrics().step_seconds()
    assert seconds["Outer"] > 0.3
    assert "Inner" not in seconds


def test_times_change_nothing_that_compares_counts() -> None:
    """Two runs of one pipeline have equal counts, and other times."""
    one, other = Counts(), Counts()
    one.spend("Slow", 1.0)
    assert one == other
