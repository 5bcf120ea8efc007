"""(c) A sum for each key and minute, of a million events out of order, against one dictionary."""

from __future__ import annotations

from typing import Any

from harness.inputs import Event, events
from harness.keeping_sink import KeepingSink
from harness.timing import Ratio, compare

import penstock as beam


def pipeline(occurred: list[Event], runner: Any = "local") -> KeepingSink:
    sink = KeepingSink()
    with beam.Pipeline(runner) as p:
        (
            p
            | beam.Create(occurred)
            | beam.WithTimestamps(lambda event: event[1])
            | beam.Map(lambda event: (event[0], event[2]))
            | beam.WindowInto(beam.window.FixedWindows(60))
            | beam.CombinePerKey(sum)
            | beam.io.Write(sink)
        )
    return sink


def by_hand(occurred: list[Event]) -> dict[tuple[str, int], int]:
    sums: dict[tuple[str, int], int] = {}
    for key, seconds, value in occurred:
        cell = key, seconds // 60
        sums[cell] = sums.get(cell, 0) + value
    return sums


def comparable(sink: KeepingSink) -> dict[Any, Any]:
    return {(key, int(window.start) // 60): total for (key, window), total in sink.by_key_and_window().items()}


def run() -> list[Ratio]:
    occurred = events()
    return [
        compare(
            "(c) sums by key and minute",
            lambda: pipeline(occurred),
            lambda: by_hand(occurred),
            2.0,
            result=comparable,
        )
    ]
