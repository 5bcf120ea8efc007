"""Wordcount: how often each word occurs in some text files.

The shape of every pipeline: read, take apart, group, write.  Without `--input` it reads the
modules of Python's own standard library.
"""

from __future__ import annotations

import argparse
import re
import sysconfig
from collections.abc import Sequence

import penstock as beam

WORD = re.compile(r"\w+(?:'\w+)*")
STANDARD_LIBRARY = f"{sysconfig.get_path('stdlib')}/*.py"


def split(line: str) -> list[str]:
    """The words of a line."""
    return WORD.findall(line)


def run(argv: Sequence[str] | None = None) -> str:
    """Count the words; a pattern for the files that hold the counts."""
    parser = argparse.ArgumentParser(description="Count words.", allow_abbrev=False)
    parser.add_argument("--input", default=STANDARD_LIBRARY, help="The files to read, as a pattern.")
    parser.add_argument("--output", default="wordcount", help="What the names of the results begin with.")
    ours, for_the_pipeline = parser.parse_known_args(argv)

    with beam.Pipeline(options=beam.options.PipelineOptions(for_the_pipeline)) as p:
        (
            p
            | "Read" >> beam.io.ReadFromText(ours.input)
            | "Split" >> beam.FlatMap(split)
            | "Count" >> beam.combiners.Count.PerElement()
            | "Format" >> beam.MapTuple(lambda word, n: f"{word}: {n}")
            | "Write" >> beam.io.WriteToText(ours.output, file_name_suffix=".txt")
        )
    return f"{ours.output}-*.txt"


if __name__ == "__main__":
    print("Written:", run())
