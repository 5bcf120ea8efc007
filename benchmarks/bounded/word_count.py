"""(b) The words of a file of 100 MB, counted, against a plain Python program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.inputs import word_file
from harness.keeping_sink import KeepingSink
from harness.timing import Ratio, compare

import penstock as beam


def pipeline(path: Path, runner: Any = "local") -> KeepingSink:
    sink = KeepingSink()
    with beam.Pipeline(runner) as p:
        (
            p
            | beam.io.ReadFromText(path)
            | beam.FlatMap(str.split)
            | beam.combiners.Count.PerElement()
            | beam.io.Write(sink)
        )
    return sink


def by_hand(path: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            for word in line.split():
                counts[word] = counts.get(word, 0) + 1
    return counts


def comparable(sink: KeepingSink) -> dict[str, int]:
    return dict(sink.values())


def run() -> list[Ratio]:
    path = word_file()
    return [
        compare(
            "(b) word count of 100 MB",
            lambda: pipeline(path),
            lambda: by_hand(path),
            1.5,
            result=comparable,
        )
    ]
