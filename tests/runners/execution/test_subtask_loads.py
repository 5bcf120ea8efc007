"""Load per subtask in `result.metrics()`: shares of time in which it was busy, backpressured and idle."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from support.runners.running_pages import busy

import penstock as beam
from penstock.metrics import SubtaskLoad
from penstock.options.pipeline_options import PipelineOptions


def pair(number: int) -> tuple[int, int]:
    """Take two milliseconds."""
    return busy(busy(number)) % 3, number


def loads_of(build: Callable[[beam.Pipeline], Any], **flags: Any) -> tuple[list[SubtaskLoad], float]:
    """Run a pipeline, and return the loads, and the seconds that it took."""
    p = beam.Pipeline(options=PipelineOptions(**flags))
    build(p)
    began = time.monotonic()
    result = p.run()
    result.wait_until_finish()
    return result.metrics().subtask_loads(), time.monotonic() - began


def slow_pairs(p: beam.Pipeline) -> None:
    """A slow stage before the shuffle, and a fast one behind it."""
    pairs = p | "Numbers" >> beam.Create(range(300), reshuffle=False) | "Pair" >> beam.Map(pair)
    _ = pairs | "Group" >> beam.GroupByKey() | "Keys" >> beam.Keys()


BOTH = ["Numbers/Values → Pair + Group", "Group → Keys"]
SHUFFLED = ["Numbers/Values → Pair → Group", "Group → Keys"]
STREAMED = ["Numbers/Values → Pair", "Group → Keys"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param({}, [(stage, 0) for stage in BOTH], id="batch"),
        pytest.param({"parallelism": 2}, [(stage, number) for stage in SHUFFLED for number in (0, 1)], id="workers"),
        pytest.param({"metrics_port": 0}, [(stage, 0) for stage in BOTH], id="batch with metrics"),
        pytest.param({"delivery": "weak"}, [("Numbers/Values → Pair → Group → Keys", 0)], id="job"),
        pytest.param(
            {"delivery": "weak", "parallelism": 2},
            [(stage, number) for stage in STREAMED for number in (0, 1)],
            id="job of workers",
        ),
        pytest.param(
            {"runner": "spark-batch", "spark_shuffle_partitions": 2},
            [(stage, number) for stage in SHUFFLED for number in (0, 1)],
            id="spark",
            marks=pytest.mark.spark,
        ),
    ],
)
def test_a_plain_run_reports_the_load_of_each_subtask(
    flags: dict[str, Any], expected: list[tuple[str, int]], request: pytest.FixtureRequest
) -> None:
    """By stage and number, in the order of the stages; shares add up to 1.

    The slow stage has been busy for as long as its functions took, whatever else the machine did.
    """
    if "runner" in flags:
        request.getfixturevalue("spark")

    loads, seconds = loads_of(slow_pairs, **flags)

    found = [(load.stage, load.subtask) for load in loads]
    if flags.get("parallelism") == 2 and "delivery" not in flags:
        # A worker that found no partition of a short stage left has no part in it.
        expected = [each for each in expected if each in found or each[0] != BOTH[1]]
    assert expected == found
    assert [1.0] * len(loads) == pytest.approx([load.busy + load.backpressured + load.idle for load in loads])
    slow = sum(load.busy for load in loads if load.stage == loads[0].stage)
    assert slow > sum(load.busy for load in loads) / 2
    assert slow * seconds > 0.9 * 0.6


def test_a_script_is_one_subtask() -> None:
    """It runs in the calling process."""

    def build(p: beam.Pipeline) -> None:
        script = beam.testing.TestStream().add_elements(list(range(100))).advance_watermark_to_infinity()
        _ = p | "Script" >> script | "Pair" >> beam.Map(pair)

    (load,), seconds = loads_of(build)

    assert ("Script → Pair", 0, 0.0) == (load.stage, load.subtask, load.backpressured)
    assert load.busy * seconds > 0.9 * 0.2


def test_a_source_that_is_faster_than_its_sink_is_backpressured() -> None:
    """In a stream: the source waits, and the subtask that is skewed is busy."""

    def slow(pair: tuple[int, int]) -> tuple[int, int]:
        time.sleep(0.002)
        return pair

    def build(p: beam.Pipeline) -> None:
        numbers = p | "Read" >> beam.io.GenerateSequence(0, 60_000, 10**7, 1, partitions=2)
        small = numbers | "Few" >> beam.Map(lambda n: (0, n if n % 50 else 0)) | "Mix" >> beam.Reshuffle()
        _ = small | "Slow" >> beam.Filter(lambda pair: not pair[1]) | "Sleep" >> beam.Map(slow)

    loads, seconds = loads_of(build, parallelism=2)

    source = [load for load in loads if load.stage.startswith("Read")]
    assert [1.0] * len(loads) == pytest.approx([load.busy + load.backpressured + load.idle for load in loads])
    # Both subtasks sleep for 1.2 s, of which at most one second's elements wait on the channels.
    assert max(load.backpressured for load in source) * seconds > 0.2, loads
    assert max(load.busy for load in loads if "Sleep" in load.stage) * seconds > 0.9 * 1.2, loads
    assert {0.0} == {load.backpressured for load in loads if "Sleep" in load.stage}
