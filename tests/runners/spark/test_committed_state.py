"""`result.state("step")` on Spark: of micro-batches, and refused in batch."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from support.programs.running_program import wait_until

import penstock as beam
from penstock.runners.spark import SparkBatchRunner, SparkMicroBatchRunner
from penstock.sdk.errors import StateNotFoundError, UnsupportedError


def test_a_committed_batch_is_read(spark: Any, tmp_path: pathlib.Path) -> None:
    """While the stream runs, and after it was cancelled."""
    flags = [f"--checkpoint_dir={tmp_path}", "--batch_interval=0.1", "--spark_shuffle_partitions=2", "--no_progress"]
    flags += ["--allow_unsafe_triggers"]
    p = beam.Pipeline(SparkMicroBatchRunner(spark_session=spark), argv=flags)
    numbers = p | beam.io.GenerateSequence(0, elements_per_period=5, period=0.05)
    _ = numbers | beam.Map(lambda n: (n % 3, 1)) | "Sum" >> beam.CombinePerKey(sum)
    result: Any = p.run()
    try:
        wait_until(lambda: _sum_of(result, 1) > 0, "a batch")
        first = _sum_of(result, 1)
        wait_until(lambda: _sum_of(result, 1) > first, "another batch")
    finally:
        result.cancel()
    state = result.state("Sum")
    assert {0, 1, 2} == set(state.keys())
    assert state.get(1) > first
    with pytest.raises(StateNotFoundError, match="'Summ' is no step of the pipeline. Steps with keyed state: 'Sum'"):
        result.state("Summ")


def _sum_of(result: Any, key: int) -> int:
    try:
        found: int = result.state("Sum").get(key, 0)
    except StateNotFoundError:
        return 0
    return found


def test_a_run_in_batch_has_no_state_to_read(spark: Any) -> None:
    """It takes no checkpoints."""
    p = beam.Pipeline(SparkBatchRunner(spark_session=spark))
    _ = p | beam.Create([("a", 1)]) | "Sum" >> beam.CombinePerKey(sum)
    result = p.run()
    with pytest.raises(UnsupportedError, match="Sum: its state can't be read, because this run takes no checkpoints"):
        result.state("Sum")
