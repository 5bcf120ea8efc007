"""Autocomplete: for each prefix, the most frequent words that begin with it."""

import argparse
import os
import re

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from samples import DATA, WriteOrPrint


class TopCompletions(beam.PTransform):
    """The completions of each prefix: from words to `(prefix, [(count, word), ...])`, the most frequent first."""

    def __init__(self, n, longest_prefix):
        super().__init__()
        self.n = n
        self.longest_prefix = longest_prefix

    def expand(self, words):
        return (
            words
            | beam.combiners.Count.PerElement()
            | beam.FlatMapTuple(self.prefixes)
            | beam.combiners.Top.LargestPerKey(self.n)
        )

    def prefixes(self, word, n):
        for end in range(1, min(len(word), self.longest_prefix) + 1):
            yield word[:end], (n, word)


def run(argv=None):
    parser = argparse.ArgumentParser(description="Print completions of prefixes.")
    parser.add_argument("--input", default=os.path.join(DATA, "sonnets", "*.txt"), help="Text files, as a pattern.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    parser.add_argument("--completions", type=int, default=3, help="How many words for each prefix.")
    parser.add_argument("--longest_prefix", type=int, default=2, help="Longest prefix, in letters.")
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        (
            p
            | beam.io.ReadFromText(args.input)
            | "Words" >> beam.FlatMap(lambda line: re.findall(r"[a-z]+", line.lower()))
            | TopCompletions(args.completions, args.longest_prefix)
            | "Format" >> beam.MapTuple(lambda prefix, top: f"{prefix}: {' '.join(word for _, word in top)}")
            | WriteOrPrint(args.output)
        )


if __name__ == "__main__":
    run()
