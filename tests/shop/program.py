"""The application of `examples/shop` until there is a file `drain`: `program.py URL SERVERS PRICES LAKE`."""

from __future__ import annotations

import pathlib
import sys

import penstock as beam
from penstock.examples.shop.application import build
from penstock.options.pipeline_options import PipelineOptions


def main(url: str, servers: str, prices: str, lake: str) -> None:
    """Run until it is told to drain."""
    flags = {"checkpoint_interval": 0.5, "parallelism": 2, "max_restarts": 1000, "restart_delay": 0.5}
    p = beam.Pipeline("local", options=PipelineOptions([], checkpoint_dir="kept", **flags))
    build(p, url, servers, prices, lake)
    result = p.run()
    while not pathlib.Path("drain").exists():
        result.wait_until_finish(200)
    print("ended:", result.drain(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
