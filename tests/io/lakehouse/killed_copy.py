"""Copies rows from a table to another, in processes that are killed: `python killed_copy.py FORMAT DIRECTORY KEY`.

It runs until there is a file called `drain`.  With a KEY it writes the number of rows of each word, by its key.
"""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from lakehouse_tables import table_of

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly

# Milliseconds.
LOOK = 100


def main(format: str, directory: str, key: str = "", checkpoints: str = "kept", catalog: str | None = None) -> None:
    """Copy the rows until it is told to drain."""
    flags = {"checkpoint_dir": checkpoints, "checkpoint_interval": 0.2, "parallelism": 2, "max_restarts": 1000}
    p = beam.Pipeline(options=PipelineOptions([], restart_delay=0.01, **flags))
    rows = p | table_of(format, directory, "in", catalog).read(streaming=True, poll_interval=0.05)
    if key:
        trigger = {"trigger": Repeatedly(AfterCount(1)), "accumulation_mode": AccumulationMode.RETRACTING}
        rows = (
            rows
            | beam.Map(lambda row: row.word)
            | beam.WindowInto(beam.window.GlobalWindows(), **trigger)
            | beam.combiners.Count.PerElement()
            | beam.MapTuple(lambda word, n: beam.Row(word=word, n=n))
        )
    else:
        rows = rows | beam.Reshuffle()
    _ = rows | table_of(format, directory, "out", catalog).write(key=key or None)
    result = p.run()
    while not pathlib.Path("drain").exists():
        result.wait_until_finish(LOOK)
    print("ended:", result.drain(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
