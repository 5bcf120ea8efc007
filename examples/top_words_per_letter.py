"""The most frequent words of each first letter: side inputs.

A function that looks at one element at a time sometimes needs to know something of all of
them, or of another collection.  A side input is that: a whole PCollection as an argument.
Here are two.  One is small and given, the words to leave out.  The other is computed by
the same pipeline: the number of all words, of which each word is a share.  The step that
needs it waits until it is there.
"""

from __future__ import annotations

import argparse
import keyword
import re
from collections.abc import Sequence

import penstock as beam
from penstock.examples.wordcount import STANDARD_LIBRARY

LETTERS = re.compile(r"[a-z]+")
PYTHON = [word.lower() for word in keyword.kwlist]

Counted = tuple[str, int]


def split(line: str) -> list[str]:
    """The words of a line, in small letters."""
    return LETTERS.findall(line.lower())


def is_wanted(counted: Counted, unwanted: list[str]) -> bool:
    """Whether a word is not among those to leave out."""
    return counted[0] not in unwanted


def by_letter(word: str, n: int) -> tuple[str, Counted]:
    """Keyed by the first letter."""
    return word[0], (word, n)


def often(counted: Counted) -> tuple[int, str]:
    """The sort key of a word: its frequency, then the word itself, so that no two are equal."""
    word, n = counted
    return n, word


def as_line(letter: str, words: list[Counted], total: int) -> str:
    """The words of a letter, with their share in all words."""
    return f"{letter}: " + ", ".join(f"{word} {n / total:.3%}" for word, n in words)


def run(argv: Sequence[str] | None = None) -> str:
    """Find the words; a pattern for the files that hold them."""
    parser = argparse.ArgumentParser(description="The most frequent words of each first letter.", allow_abbrev=False)
    parser.add_argument("--input", default=STANDARD_LIBRARY, help="The files to read, as a pattern.")
    parser.add_argument("--output", default="top_words", help="What the names of the results begin with.")
    parser.add_argument("--words", type=int, default=3, help="How many words for each letter.")
    parser.add_argument("--leave_out", nargs="*", default=PYTHON, help="Words that don't count: Python's own.")
    ours, for_the_pipeline = parser.parse_known_args(argv)

    with beam.Pipeline(options=beam.options.PipelineOptions(for_the_pipeline)) as p:
        unwanted = p | "LeaveOut" >> beam.Create(ours.leave_out)
        counted = (
            p
            | "Read" >> beam.io.ReadFromText(ours.input)
            | "Split" >> beam.FlatMap(split)
            | "Count" >> beam.combiners.Count.PerElement()
            | "Wanted" >> beam.Filter(is_wanted, beam.pvalue.AsList(unwanted))
        )
        total = counted | "Numbers" >> beam.Values() | "Total" >> beam.CombineGlobally(sum)
        (
            counted
            | "ByLetter" >> beam.MapTuple(by_letter)
            | "Top" >> beam.combiners.Top.PerKey(ours.words, key=often)
            | "Format" >> beam.MapTuple(as_line, total=beam.pvalue.AsSingleton(total))
            | "Write" >> beam.io.WriteToText(ours.output, file_name_suffix=".txt")
        )
    return f"{ours.output}-*.txt"


if __name__ == "__main__":
    print("Written:", run())
