"""Copies rows from a table to another, in processes that are killed: `python killed_copy.py FORMAT DIRECTORY`.

It runs until there is a file called `drain`.  With `--key` it maintains the number of rows of each word, by its key.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from support.io.lakehouse_tables import WORDS, table_of

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly

# Milliseconds.
LOOK = 100

# The options of a run, by runner.
FLAGS = {
    "local": {"checkpoint_interval": 0.2, "parallelism": 2, "max_restarts": 1000, "restart_delay": 0.01},
    "spark-microbatch": {"spark_master": "local[2]"},
}


def main() -> None:
    """Copy the rows until it is told to drain."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("format")
    parser.add_argument("directory")
    parser.add_argument("--key", default="")
    parser.add_argument("--checkpoints", default="kept")
    parser.add_argument("--catalog")
    parser.add_argument("--runner", default="local")
    parser.add_argument("--files", help="Where the rows are written to files of text, too.")
    given = parser.parse_args()
    options = PipelineOptions([], checkpoint_dir=given.checkpoints, **FLAGS[given.runner])
    p = beam.Pipeline(given.runner, options=options)
    source, target = (table_of(given.format, given.directory, name, given.catalog) for name in ("in", "out"))
    if given.key:
        trigger = {"trigger": Repeatedly(AfterCount(1)), "accumulation_mode": AccumulationMode.RETRACTING}
        rows = (
            p
            | source.read_changes(poll_interval=0.05)
            | beam.Map(lambda row: row.word)
            | beam.WindowInto(beam.window.GlobalWindows(), **trigger)
            | beam.combiners.Count.PerElement()
            | beam.MapTuple(lambda word, n: beam.Row(word=word, n=n))
        )
    else:
        rows = p | source.read(streaming=True, poll_interval=0.05) | beam.Reshuffle()
    _ = rows | target.write(WORDS, key=given.key or None, compact_every=5)
    if given.files:
        _ = rows | beam.Map(lambda row: str(row.n)) | beam.io.WriteToText(given.files, ".txt")
    result = p.run()
    while not pathlib.Path("drain").exists():
        result.wait_until_finish(LOOK)
    print("ended:", result.drain(), flush=True)


if __name__ == "__main__":
    main()
