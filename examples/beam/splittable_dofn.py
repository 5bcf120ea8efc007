"""Splittable DoFn: a file is a range of bytes, and a runner may process parts of the range at the same time.

A part reads the lines that begin within it, so each line is read exactly once, wherever the range is split.
"""

import argparse
import glob
import os

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.core import RestrictionProvider
from samples import DATA, WriteOrPrint


class ByteRanges(RestrictionProvider):
    """The bytes of a file, split into parts of `part` bytes."""

    def __init__(self, part):
        self.part = part

    def initial_restriction(self, path):
        return OffsetRange(0, os.path.getsize(path))

    def create_tracker(self, restriction):
        return OffsetRestrictionTracker(restriction)

    def split(self, path, restriction):
        return restriction.split(self.part)

    def restriction_size(self, path, restriction):
        return restriction.size()


class ReadLines(beam.DoFn):
    """Emit the lines of a file, as `(file, offset, line)`."""

    def process(self, path, tracker=beam.DoFn.RestrictionParam(ByteRanges(part=100))):
        with open(path, "rb") as file:
            start = tracker.current_restriction().start
            if start:
                # The line in which the range begins belongs to the range before it.
                file.seek(start - 1)
                file.readline()
            position = file.tell()
            while tracker.try_claim(position):
                line = file.readline()
                if not line:
                    break
                yield os.path.basename(path), position, line.decode().rstrip("\n")
                position = file.tell()


def run(argv=None):
    parser = argparse.ArgumentParser(description="Read lines by ranges of bytes.")
    parser.add_argument("--input", default=os.path.join(DATA, "sonnets", "*.txt"), help="Text files, as a pattern.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        (
            p
            | "Files" >> beam.Create(sorted(glob.glob(args.input)))
            | "Read" >> beam.ParDo(ReadLines())
            | "Format" >> beam.Map(lambda read: f"{read[0]} {read[1]:3}: {read[2]}")
            | "Write" >> WriteOrPrint(args.output)
        )


if __name__ == "__main__":
    run()
