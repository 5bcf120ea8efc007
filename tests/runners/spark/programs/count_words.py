"""A user's program with a module beside it: shuffles, side inputs, sinks, and a class as key and value."""

from __future__ import annotations

import argparse
import json
import sys

from word_cleaning import Clean, Longest, Word

import penstock as beam
from penstock.sdk.metrics import Metrics

LINES = ["The cat, the dog", "and the bird.", "A cat? No: a dog!", "birds and cats"] * 25


def counted(word: Word) -> Word:
    Metrics.counter("words", "seen").inc()
    return word


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    own, flags = parser.parse_known_args(argv)
    p = beam.Pipeline(argv=flags)
    words = p | "lines" >> beam.Create(LINES) | beam.ParDo(Clean()) | beam.Map(counted)
    stop_words = p | "stop words" >> beam.Create(["the", "a"])
    kept = words | beam.Filter(lambda word, stop: word.text not in stop, stop=beam.pvalue.AsList(stop_words))
    counts = kept | beam.combiners.Count.PerElement()
    longest = kept | beam.CombineGlobally(Longest())
    (
        counts
        | beam.MapTuple(
            lambda word, n, best: f"{word.text} {n}{' *' if word == best else ''}",
            beam.pvalue.AsSingleton(longest),
        )
        | "write counts" >> beam.io.WriteToText(own.output + "-counts", ".txt")
    )
    (
        kept
        | beam.Map(lambda word: (word.length, word))
        | beam.GroupByKey()
        | beam.MapTuple(lambda length, group: f"{length} {','.join(sorted({word.text for word in group}))}")
        | "write lengths" >> beam.io.WriteToText(own.output + "-lengths", ".txt")
    )
    result = p.run()
    result.wait_until_finish()
    (seen,) = result.metrics().query()["counters"]
    with open(own.output + "-metrics.json", "w", encoding="utf-8") as file:
        json.dump({"seen": seen.committed}, file)


if __name__ == "__main__":
    main(sys.argv[1:])
