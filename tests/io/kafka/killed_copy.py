"""Copies numbers between topics, in processes that are killed: `python killed_copy.py RUNNER SERVERS IN OUT`.

It runs until there is a file called `drain`.
"""

from __future__ import annotations

import pathlib
import sys

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

# Milliseconds.
LOOK = 100


# The options of a run, by runner.
FLAGS = {
    "local": {"checkpoint_interval": 0.1, "parallelism": 2, "max_restarts": 1000, "restart_delay": 0.01},
    "spark-microbatch": {"spark_master": "local[2]"},
}


def main(runner: str, servers: str, source: str, target: str) -> None:
    """Copy the numbers until it is told to drain."""
    p = beam.Pipeline(runner, options=PipelineOptions([], checkpoint_dir="kept", **FLAGS[runner]))
    config = {"bootstrap.servers": servers}
    read = beam.io.ReadFromKafka(config | {"auto.offset.reset": "earliest"}, source, timestamp_policy="CreateTime")
    _ = p | read | beam.Reshuffle() | beam.io.WriteToKafka(config, target)
    result = p.run()
    while not pathlib.Path("drain").exists():
        result.wait_until_finish(LOOK)
    print("ended:", result.drain(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
