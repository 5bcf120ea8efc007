"""Copies numbers from a subscription to a topic, and to a table, in processes that are killed.

`python killed_copy.py RUNNER SUBSCRIPTION TOPIC` runs until there is a file called `drain`.
"""

from __future__ import annotations

import pathlib
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from kills.killed_copy import FLAGS

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions


def main(runner: str, subscription: str, topic: str) -> None:
    """Copy the numbers until it is told to drain."""
    p = beam.Pipeline(runner, options=PipelineOptions([], checkpoint_dir="kept", **FLAGS[runner]))
    numbers = p | beam.io.ReadFromPubSub(subscription=subscription) | beam.Map(int) | beam.Reshuffle()
    _ = numbers | beam.Map(lambda n: b"%d" % n) | beam.io.WriteToPubSub(topic)
    # A number that came twice would have two rows.
    rows = numbers | "Row" >> beam.Map(lambda n: {"id": uuid.uuid4().hex, "n": n})
    _ = rows | beam.io.WriteToSQLite("out.db", "numbers", "id", {"id": str, "n": int})
    result = p.run()
    while not pathlib.Path("drain").exists():
        result.wait_until_finish(100)
    print("ended:", result.drain(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
