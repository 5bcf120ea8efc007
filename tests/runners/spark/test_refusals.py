"""What the runners on Spark can't do is refused when the pipeline is to run, by name; no Spark is started for that."""

from __future__ import annotations

import pytest

import penstock as beam
from penstock.sdk.errors import UnsupportedError
from penstock.testing import TestPipeline, TestStream


@pytest.mark.parametrize("runner", ["spark-batch", "spark-microbatch"])
def test_a_loop_is_refused_by_name(runner: str) -> None:
    """And the runner that has loops is named."""
    with pytest.raises(UnsupportedError) as raised, TestPipeline(runner) as p:
        p | beam.Create([1]) | "Loop" >> beam.Feedback(beam.Map(lambda n: 2 * n), until=lambda n: n >= 20)

    assert f"Loop/Head: --runner={runner} has no loops; --runner=local runs them" == str(raised.value)


def test_a_script_is_refused_where_no_clock_moves() -> None:
    """By the runner of batches."""
    p = TestPipeline("spark-batch")
    p | "Script" >> TestStream().add_elements([1])

    with pytest.raises(UnsupportedError, match="Script: its output has no end.*spark-batch.*--runner=local"):
        p.run()
