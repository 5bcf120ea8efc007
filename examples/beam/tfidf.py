"""TF-IDF: the words that distinguish each document from the others.

A word's weight in a document is its share of the document's words, times the logarithm of the inverse share of
documents that contain it.
"""

import argparse
import math
import os
import re

import apache_beam as beam
from apache_beam.io import fileio
from apache_beam.options.pipeline_options import PipelineOptions
from samples import DATA, WriteOrPrint


class ReadDocuments(beam.PTransform):
    """The files that a pattern matches, as pairs of name and text."""

    def __init__(self, pattern):
        super().__init__()
        self.pattern = pattern

    def expand(self, p):
        return (
            p
            | fileio.MatchFiles(self.pattern)
            | fileio.ReadMatches()
            | beam.Map(lambda file: (os.path.basename(file.metadata.path), file.read_utf8()))
        )


class TfIdf(beam.PTransform):
    """The weights of words: from `(document, text)` to `(document, (weight, word))`."""

    def expand(self, documents):
        documents_in_all = documents | "CountDocuments" >> beam.combiners.Count.Globally()
        words = documents | beam.FlatMapTuple(
            lambda name, text: [(name, word) for word in re.findall(r"[a-z']+", text.lower())]
        )
        length = words | "Lengths" >> beam.combiners.Count.PerKey()
        documents_with = words | beam.Distinct() | beam.KvSwap() | "DocumentsWithWord" >> beam.combiners.Count.PerKey()
        return (
            words
            | "Occurrences" >> beam.combiners.Count.PerElement()
            | beam.Map(
                self.weigh,
                length=beam.pvalue.AsDict(length),
                documents_with=beam.pvalue.AsDict(documents_with),
                documents_in_all=beam.pvalue.AsSingleton(documents_in_all),
            )
        )

    @staticmethod
    def weigh(counted, length, documents_with, documents_in_all):
        (document, word), occurrences = counted
        share = occurrences / length[document]
        return document, (share * math.log(documents_in_all / documents_with[word]), word)


def run(argv=None):
    parser = argparse.ArgumentParser(description="Print the words that distinguish documents.")
    parser.add_argument("--input", default=os.path.join(DATA, "sonnets", "*.txt"), help="Documents, as a pattern.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    parser.add_argument("--words", type=int, default=3, help="How many words of each document.")
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        (
            p
            | "Read" >> ReadDocuments(args.input)
            | "Weigh" >> TfIdf()
            | "Heaviest" >> beam.combiners.Top.LargestPerKey(args.words)
            | "Format"
            >> beam.MapTuple(lambda name, top: f"{name}: {', '.join(f'{word} {weight:.4f}' for weight, word in top)}")
            | "Write" >> WriteOrPrint(args.output)
        )


if __name__ == "__main__":
    run()
