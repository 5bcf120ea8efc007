"""Minimal word count: read lines, split them into words, count the words."""

import argparse
import os
import re

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from samples import DATA, WriteOrPrint


def run(argv=None):
    parser = argparse.ArgumentParser(description="Count words.")
    parser.add_argument("--input", default=os.path.join(DATA, "sonnets", "*.txt"), help="Text files, as a pattern.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        (
            p
            | beam.io.ReadFromText(args.input)
            | beam.FlatMap(lambda line: re.findall(r"[a-z']+", line.lower()))
            | beam.combiners.Count.PerElement()
            | beam.MapTuple(lambda word, n: f"{word}: {n}")
            | WriteOrPrint(args.output)
        )


if __name__ == "__main__":
    run()
