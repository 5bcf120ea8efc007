"""Calls of async DoFns in micro-batches: each batch waits for its own."""

from __future__ import annotations

import asyncio
from typing import Any

from support.pipelines.recording import Recording

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.windowing import FixedWindows


def test_answers_of_each_batch_are_grouped_with_it(spark: Any, tmp_path: Any) -> None:
    """Each answer once, none of them late, and a failed call has a dead letter."""

    async def ask(n: int) -> int:
        await asyncio.sleep(0.001 * (n % 7))
        if n == 31:
            raise ConnectionError(n)
        return n

    options = PipelineOptions([], checkpoint_dir=str(tmp_path / "kept"), max_records_per_batch=40)
    recording, failures = Recording(), Recording()
    with beam.Pipeline(SparkMicroBatchRunner(spark), options=options) as p:
        numbers = p | beam.io.GenerateSequence(0, 100, 1000, 1, start_time=0)
        good, bad = numbers | beam.AsyncMap(ask, concurrency=10).with_exception_handling()
        windowed = good | beam.WindowInto(FixedWindows(0.02))
        _ = windowed | beam.CombineGlobally(sum).without_defaults() | beam.io.Write(recording)
        _ = bad | beam.Map(lambda letter: letter[0]) | "Failures" >> beam.io.Write(failures)
    expected = [sum(n for n in range(start, start + 20) if n != 31) for start in range(0, 100, 20)]
    assert expected == sorted(change.value for change in recording.changes)
    assert [31] == [change.value for change in failures.changes]
