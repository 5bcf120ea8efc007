"""Transforms of the package."""

import logging
import re
import typing

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark, Repeatedly
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Duration

_LOGGER = logging.getLogger(__name__)


class WordStat(typing.NamedTuple):
    word: str
    count: int


class ExtractWords(beam.DoFn):
    """Words of a line; lines without words go to the output `empty`."""

    EMPTY = "empty"

    def __init__(self, pattern=r"[a-z']+"):
        self.pattern = pattern
        self.empty = Metrics.counter(self.__class__, "empty_lines")

    def setup(self):
        self.regex = re.compile(self.pattern)

    def process(self, element, stop_words=()):
        words = self.regex.findall(element.lower())
        if not words:
            self.empty.inc()
            yield beam.pvalue.TaggedOutput(self.EMPTY, element)
        for word in words:
            if word not in stop_words:
                yield word


class MeanLength(beam.CombineFn):
    def create_accumulator(self):
        return 0, 0

    def add_input(self, accumulator, word):
        return accumulator[0] + len(word), accumulator[1] + 1

    def merge_accumulators(self, accumulators):
        lengths, counts = zip(*accumulators)
        return sum(lengths), sum(counts)

    def extract_output(self, accumulator):
        return accumulator[0] / accumulator[1] if accumulator[1] else float("nan")


@beam.typehints.with_input_types(str)
@beam.typehints.with_output_types(WordStat)
class CountWords(beam.PTransform):
    def expand(self, pcoll):
        return (
            pcoll
            | "Pair" >> beam.Map(lambda word: (word, 1)).with_output_types(typing.Tuple[str, int])  # noqa: UP006
            | beam.CombinePerKey(sum)
            | beam.MapTuple(WordStat)
        )


@beam.ptransform_fn
def windowed_counts(pcoll, size, lateness=0):
    _LOGGER.debug("windows of %s seconds", size)
    return (
        pcoll
        | beam.WindowInto(
            FixedWindows(size),
            trigger=AfterWatermark(late=Repeatedly(AfterCount(1))),
            accumulation_mode=AccumulationMode.ACCUMULATING,
            allowed_lateness=Duration(seconds=lateness),
        )
        | CountWords()
    )
