"""A program as in Beam's documentation, with few annotations."""

import argparse
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import penstock as beam
from penstock import pvalue
from penstock.metrics import Metrics
from penstock.options.pipeline_options import PipelineOptions, SetupOptions
from penstock.testing.test_pipeline import TestPipeline
from penstock.testing.test_stream import TestStream
from penstock.testing.util import assert_that, equal_to
from penstock.transforms.trigger import AccumulationMode, AfterCount, AfterProcessingTime, AfterWatermark, Repeatedly
from penstock.transforms.window import FixedWindows, GlobalWindow, SlidingWindows, TimestampedValue
from penstock.utils.windowed_value import WindowedValue


class WordExtractingDoFn(beam.DoFn):
    def __init__(self):
        self.words = Metrics.counter(self.__class__, "words")

    def process(self, element):
        self.words.inc()
        return re.findall(r"[\w']+", element, re.UNICODE)


class AddTimestampDoFn(beam.DoFn):
    def process(
        self, element: dict[str, Any], window=beam.DoFn.WindowParam, ts=beam.DoFn.TimestampParam
    ) -> Iterable[TimestampedValue[dict[str, Any]]]:
        yield TimestampedValue(element, element["ts"])


class Batch(beam.DoFn):
    def start_bundle(self) -> None:
        self.items: list[str] = []

    def process(self, element: str) -> None:
        self.items.append(element)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield WindowedValue(self.items, 0, [GlobalWindow()])


class FormatDoFn(beam.DoFn):
    def process(self, element: tuple[str, int], window: Any = beam.DoFn.WindowParam):
        yield {"word": element[0], "count": element[1], "start": window.start.to_utc_datetime().isoformat()}


@beam.typehints.with_input_types(str)
@beam.typehints.with_output_types(tuple[str, int])
class PairDoFn(beam.DoFn):
    def process(self, element):
        yield element, 1


class Splitter(beam.DoFn):
    def process(self, element):
        if len(element) < 3:
            yield pvalue.TaggedOutput("short", element)
        else:
            yield beam.pvalue.TaggedOutput("long", element)
        yield element


@beam.typehints.with_output_types(tuple[str, int])
class CountWords(beam.PTransform):
    def expand(self, pcoll):
        def count_ones(word_ones):
            (word, ones) = word_ones
            return (word, sum(ones))

        return (
            pcoll
            | "split" >> (beam.ParDo(WordExtractingDoFn()).with_output_types(str))
            | "pair_with_one" >> beam.Map(lambda x: (x, 1))
            | "group" >> beam.GroupByKey()
            | "count" >> beam.Map(count_ones)
        )


class AverageFn(beam.CombineFn):
    def create_accumulator(self):
        return (0.0, 0)

    def add_input(self, sum_count, input):
        (total, count) = sum_count
        return total + input, count + 1

    def merge_accumulators(self, accumulators):
        sums, counts = zip(*accumulators)
        return sum(sums), sum(counts)

    def extract_output(self, sum_count):
        (total, count) = sum_count
        return total / count if count else float("NaN")


class MyOptions(PipelineOptions):
    @classmethod
    def _add_argparse_args(cls, parser):
        parser.add_argument("--input", default="gs://x")


def format_result(word, count):
    return f"{word}: {count}"


def filter_using_length(word, lower_bound, upper_bound=float("inf")):
    if lower_bound <= len(word) <= upper_bound:
        yield word


def cross_join(left: str, rights: Iterable[int]) -> Iterator[tuple[str, int]]:
    for x in rights:
        yield (left, x)


def join_info(name_info):
    (name, info) = name_info
    return f"{name}; {sorted(info['emails'])}; {sorted(info['phones'])}"


def build(argv: list[str] | None = None) -> beam.Pipeline:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="counts")
    known_args, pipeline_args = parser.parse_known_args(argv)
    options = PipelineOptions(pipeline_args)
    options.view_as(SetupOptions).save_main_session = True
    p = beam.Pipeline(options=options)
    lines = p | "Read" >> beam.io.ReadFromText(options.view_as(MyOptions).input)
    counts = (
        lines
        | "Split" >> beam.ParDo(WordExtractingDoFn()).with_output_types(str)
        | "PairWithOne" >> beam.Map(lambda x: (x, 1))
        | "GroupAndSum" >> beam.CombinePerKey(sum)
    )
    output = counts | "Format" >> beam.MapTuple(format_result)
    _ = output | "Write" >> beam.io.WriteToText(known_args.output)
    top = beam.combiners.TopCombineFn(10, key=lambda kv: kv[1])
    _ = counts | "top" >> beam.CombineGlobally(top).without_defaults()
    lengths = lines | beam.Map(len)
    mean = pvalue.AsSingleton(lengths | beam.CombineGlobally(beam.combiners.MeanCombineFn()))
    _ = lines | beam.FlatMap(filter_using_length, 0, 3)
    _ = lines | "longer" >> beam.FlatMap(filter_using_length, lower_bound=mean)
    short, long_ = lines | beam.ParDo(Splitter()).with_outputs("short", "long")
    _, _, _ = lines | "three" >> beam.ParDo(Splitter()).with_outputs("short", "long", main="main")
    _ = lines | beam.FlatMap(cross_join, rights=pvalue.AsIter(lengths))
    windowed = (
        lines
        | beam.Map(lambda line: TimestampedValue(line, 3))
        | beam.WindowInto(
            FixedWindows(60),
            trigger=Repeatedly(AfterCount(3)),
            accumulation_mode=AccumulationMode.DISCARDING,
        )
        | "ones" >> beam.Map(lambda w: (w, 1))
        | "sums" >> beam.CombinePerKey(sum)
        | beam.ParDo(FormatDoFn())
    )
    _ = windowed | beam.Map(json.dumps) | "w2" >> beam.io.WriteToText("x")
    events = p | "ev" >> beam.Create([{"ts": 3.0, "user": "a"}]) | beam.ParDo(AddTimestampDoFn())
    sessions = events | "users" >> beam.Map(lambda e: (e["user"], e)) | beam.WindowInto(beam.window.Sessions(30))
    _ = sessions | "gbk" >> beam.GroupByKey() | beam.MapTuple(lambda user, es: (user, len(list(es))))
    _ = lines | beam.ParDo(Batch())
    _ = (lines | "c" >> CountWords()) | "print" >> beam.Map(print)
    emails = p | "e" >> beam.Create([("amy", "amy@x"), ("bob", "b@x")])
    phones = p | "p" >> beam.Create([("amy", "111"), ("bob", "222")])
    _ = {"emails": emails, "phones": phones} | beam.CoGroupByKey() | "j" >> beam.Map(join_info)
    _ = (short, long_, lines) | beam.Flatten()
    parts = lines | beam.Partition(lambda s, n: len(s) % n, 10)
    _ = parts[9] | "average" >> beam.Map(len) | beam.CombineGlobally(AverageFn())
    _ = lines | beam.Filter(lambda line, prefix: line.startswith(prefix), prefix=pvalue.AsSingleton(lines))
    cells = lines | "cells" >> beam.Map(lambda line: line.split(",")) | beam.Filter(lambda c: c[0] != "x")
    _ = cells | "dicts" >> beam.Map(lambda cols: dict(zip(["a", "b"], cols)))
    _ = cells | "pairs" >> beam.Map(tuple) | "of cells" >> beam.GroupByKey()
    rows = lines | beam.Map(json.loads) | "rows" >> beam.Map(lambda d: beam.Row(**d))
    _ = rows | beam.Select("a", b=lambda r: r.b + 1)
    _ = lengths | "parity" >> beam.Map(lambda x: (x % 2, x)) | beam.CombinePerKey(max) | "swap" >> beam.KvSwap()
    _ = lengths | beam.combiners.Top.Of(3) | "flat" >> beam.FlatMap(lambda xs: xs)
    return p


def test():
    build(["--auto_unique_labels", f"--input={__file__}"])
    with TestPipeline() as p:
        out = p | beam.Create(["a b"]) | CountWords()
        assert_that(out, equal_to([("a", 1), ("b", 1)]))
        stream = TestStream().advance_watermark_to(0).add_elements([TimestampedValue("a", 1), "b"])
        counts = (
            p
            | stream.advance_processing_time(10).advance_watermark_to_infinity()
            | beam.WindowInto(
                SlidingWindows(10, 5),
                trigger=AfterWatermark(late=AfterProcessingTime(5)),
                allowed_lateness=10,
                accumulation_mode=AccumulationMode.ACCUMULATING,
            )
            | beam.combiners.Count.Globally().without_defaults()
        )
        assert_that(counts, equal_to([2, 2]), label="counts")


if __name__ == "__main__":
    build().run().wait_until_finish()
