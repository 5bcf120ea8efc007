"""Maintains a view, in processes that are killed: `python killed_view.py URL RUNNER`.

It runs until there is a file called `drain`.
"""

from __future__ import annotations

import pathlib
import sys

import penstock as beam
from penstock.examples import maintained_view
from penstock.options.pipeline_options import PipelineOptions

# Milliseconds.
LOOK = 100


# The options of a run, by runner.
FLAGS = {
    "local": {"checkpoint_interval": 0.1, "parallelism": 2, "max_restarts": 1000, "restart_delay": 0.01},
    "spark-microbatch": {"spark_master": "local[2]"},
}


def main(url: str, runner: str) -> None:
    """Maintain the view, until it is told to drain."""
    p = beam.Pipeline(runner, options=PipelineOptions([], checkpoint_dir="kept", **FLAGS[runner]))
    maintained_view.build(p, url)
    result = p.run()
    while not pathlib.Path("drain").exists():
        result.wait_until_finish(LOOK)
    print("ended:", result.drain(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
