"""Copies numbers between streams, in processes that are killed: `python killed_copy.py RUNNER URL IN OUT`.

It runs until there is a file called `drain`.
"""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from kills.killed_copy import FLAGS

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions


def main(runner: str, url: str, source: str, target: str) -> None:
    """Copy the numbers until it is told to drain."""
    p = beam.Pipeline(runner, options=PipelineOptions([], checkpoint_dir="kept", **FLAGS[runner]))
    write = beam.io.WriteToNats(url, f"{target}.n", data=lambda message: message.data)
    _ = p | beam.io.ReadFromNats(url, source, durable="copy") | beam.Reshuffle() | write
    result = p.run()
    while not pathlib.Path("drain").exists():
        result.wait_until_finish(100)
    print("ended:", result.drain(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
