"""Subtasks with less memory than state, on Spark: results are the same, and nothing is left on the disk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.pipelines.recording import record

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.sdk.userstate import BagStateSpec
from penstock.testing import TestPipeline, TestStream
from penstock.windowing import TimestampedValue


class Places(beam.DoFn):
    """The values of a key so far, and the number of directories of spilled state on this worker's disk."""

    BAG = BagStateSpec("bag")

    def process(self, element: Any, bag: Any = beam.DoFn.StateParam(BAG)) -> Iterable[Any]:
        key, value = element
        bag.add(value)
        local = [Path(place) for place in os.environ["SPARK_LOCAL_DIRS"].split(",")]
        yield "seen", (key, list(bag.read()))
        yield "spilled", sum(1 for place in local for _ in place.glob("penstock-spilled-*"))


def test_a_subtask_spills_state_beyond_its_memory(spark: Any) -> None:
    """To Spark's scratch directory, until the run ends."""
    keys = [f"key {n}" for n in range(50)]
    stream = TestStream()
    for round in range(2):
        for some in (keys[:25], keys[25:]):
            stream.add_elements([TimestampedValue((key, round), round) for key in some])
            stream.advance_watermark_to(round)
    stream.advance_watermark_to_infinity()

    runner = SparkMicroBatchRunner(spark_session=spark)
    with TestPipeline(runner, options=PipelineOptions(["--state_backend=rocksdb", "--state_memory=4KB"])) as p:
        pairs = p | stream | beam.WindowInto(beam.window.FixedWindows(100))
        grouped = record(pairs | beam.ParDo(Places()) | beam.GroupByKey())
    found = dict(change.value for change in grouped.changes)
    assert sorted((key, seen) for key in keys for seen in ([0], [0, 1])) == sorted(found["seen"])
    assert max(found["spilled"]) > 0
