"""Writes numbers to files in a store, in processes that are killed: `python killed_numbers.py DIRECTORY`.

It runs until there is a file called `drain`.
"""

from __future__ import annotations

import pathlib
import sys

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

# Milliseconds.
LOOK = 100


def main(directory: str) -> None:
    """Write numbers until it is told to drain."""
    flags = {"checkpoint_interval": 0.2, "max_restarts": 1000, "restart_delay": 0.01}
    p = beam.Pipeline(options=PipelineOptions([], checkpoint_dir=f"{directory}/kept", **flags))
    numbers = p | beam.io.GenerateSequence(0, elements_per_period=10, period=0.1)
    _ = numbers | beam.Map(str) | beam.io.WriteToText(f"{directory}/out", ".txt")
    result = p.run()
    while not pathlib.Path("drain").exists():
        result.wait_until_finish(LOOK)
    print("ended:", result.drain(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
