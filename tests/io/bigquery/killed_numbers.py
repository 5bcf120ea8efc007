"""Writes numbers into a table, in processes that are killed: `python killed_numbers.py TABLE METHOD RUNNER`.

It runs until there is a file called `drain`.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

# Milliseconds.
LOOK = 100

# The options of a run, by runner.
FLAGS: dict[str, dict[str, Any]] = {
    "local": {"checkpoint_interval": 0.2, "parallelism": 2, "max_restarts": 1000, "restart_delay": 0.01},
    "spark-microbatch": {"spark_master": "local[2]"},
}


def main(table: str, method: str, runner: str) -> None:
    """Write numbers until it is told to drain."""
    p = beam.Pipeline(runner, options=PipelineOptions([], checkpoint_dir="kept", **FLAGS[runner]))
    rows = (
        p
        | beam.io.GenerateSequence(0, elements_per_period=10, period=0.1)
        | beam.Reshuffle()
        | beam.Map(lambda n: {"n": n})
    )
    every = 0.3 if method == "FILE_LOADS" else None
    _ = rows | beam.io.WriteToBigQuery(table, schema="n:INTEGER", method=method, triggering_frequency=every)
    result = p.run()
    while not pathlib.Path("drain").exists():
        result.wait_until_finish(LOOK)
    print("ended:", result.drain(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
