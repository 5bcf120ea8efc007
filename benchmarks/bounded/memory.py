"""Memory: a file of 1 GB, its words counted and written, in a process of its own."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from harness.inputs import large_word_file, word_file
from harness.processes import output_of_program, peak_memory
from harness.timing import Quantity

import penstock as beam
from bounded.word_count import by_hand


def write_counts(source: str, target: str) -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.io.ReadFromText(source)
            | beam.FlatMap(str.split)
            | beam.combiners.Count.PerElement()
            | beam.MapTuple(lambda word, count: f"{word} {count}")
            | beam.io.WriteToText(target)
        )


def run() -> list[Quantity]:
    copies = 10
    path = large_word_file(copies)
    with tempfile.TemporaryDirectory() as directory:
        peak = float(output_of_program(__file__, str(path), f"{directory}/counts"))
        lines = [line for part in Path(directory).iterdir() for line in part.read_text().splitlines()]
    counts = {word: int(count) for word, count in map(str.split, lines)}
    assert counts == {word: count * copies for word, count in by_hand(word_file()).items()}, "the results differ"
    return [Quantity("word count of 1 GB, peak memory", peak, 300, "MB")]


if __name__ == "__main__":
    write_counts(*sys.argv[1:])
    print(peak_memory())
