"""Windowed word count: how often each word occurs in each ten minutes of event time."""

import argparse
import os
import re
import zlib

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from samples import DATA, WriteOrPrint

NINE_O_CLOCK = 1_700_038_800


def in_the_hour(line):
    """Return the line with a time between nine and ten o'clock, the same in each run."""
    return TimestampedValue(line, NINE_O_CLOCK + zlib.crc32(line.encode()) % 3600)


def with_window(counted, window=beam.DoFn.WindowParam):
    word, n = counted
    start, end = window.start.to_utc_datetime(), window.end.to_utc_datetime()
    return f"{start:%H:%M} to {end:%H:%M} {word}: {n}"


def run(argv=None):
    parser = argparse.ArgumentParser(description="Count words by window.")
    parser.add_argument("--input", default=os.path.join(DATA, "sonnets", "*.txt"), help="Text files, as a pattern.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    parser.add_argument("--window_minutes", type=int, default=10, help="Size of the windows.")
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        (
            p
            | beam.io.ReadFromText(args.input)
            | "Timestamps" >> beam.Map(in_the_hour)
            | beam.WindowInto(FixedWindows(args.window_minutes * 60))
            | beam.FlatMap(lambda line: re.findall(r"[a-z']+", line.lower()))
            | beam.combiners.Count.PerElement()
            | "Frequent" >> beam.Filter(lambda counted: counted[1] > 2)
            | "Format" >> beam.Map(with_window)
            | WriteOrPrint(args.output)
        )


if __name__ == "__main__":
    run()
