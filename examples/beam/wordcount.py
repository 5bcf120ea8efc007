"""Word count with options of its own, a composite transform, and metrics."""

import os
import re

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from samples import DATA, WriteOrPrint


class WordCountOptions(PipelineOptions):
    """The program's flags: parsed, checked and listed by --help with those of the pipeline."""

    @classmethod
    def _add_argparse_args(cls, parser):
        parser.add_argument("--input", default=os.path.join(DATA, "sonnets", "*.txt"), help="Text files, as a pattern.")
        parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
        parser.add_argument("--min_length", type=int, default=5, help="Shorter words aren't counted.")


class ExtractWords(beam.DoFn):
    """Emit the words of a line, and measure them."""

    def __init__(self, min_length):
        self.min_length = min_length
        self.too_short = Metrics.counter(self.__class__, "too_short")
        self.lengths = Metrics.distribution(self.__class__, "lengths")

    def process(self, line):
        for word in re.findall(r"[a-z']+", line.lower()):
            self.lengths.update(len(word))
            if len(word) < self.min_length:
                self.too_short.inc()
            else:
                yield word


class CountWords(beam.PTransform):
    """Count the words of lines: from `str` to `(str, int)`."""

    def __init__(self, min_length):
        super().__init__()
        self.min_length = min_length

    def expand(self, lines):
        return lines | beam.ParDo(ExtractWords(self.min_length)) | beam.combiners.Count.PerElement()


def run(argv=None):
    options = PipelineOptions(argv).view_as(WordCountOptions)

    p = beam.Pipeline(options=options)
    (
        p
        | "Read" >> beam.io.ReadFromText(options.input)
        | "CountWords" >> CountWords(options.min_length)
        | "Frequent" >> beam.Filter(lambda counted: counted[1] > 1)
        | "Format" >> beam.MapTuple(lambda word, n: f"{word}: {n}")
        | "Write" >> WriteOrPrint(options.output)
    )
    result = p.run()
    result.wait_until_finish()

    metrics = result.metrics()
    (too_short,) = metrics.query(MetricsFilter().with_name("too_short"))["counters"]
    (lengths,) = metrics.query(MetricsFilter().with_name("lengths"))["distributions"]
    print(f"too short: {too_short.committed}")
    print(f"lengths: {lengths.committed.min} to {lengths.committed.max}, {lengths.committed.mean:.2f} on average")


if __name__ == "__main__":
    run()
