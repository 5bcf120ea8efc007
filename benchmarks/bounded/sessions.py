"""(d) Sessions of each key, and their sums, against sorting each key's events and one scan."""

from __future__ import annotations

from typing import Any

from harness.inputs import Event, events
from harness.keeping_sink import KeepingSink
from harness.timing import Ratio, compare

import penstock as beam

GAP = 60


def pipeline(occurred: list[Event]) -> KeepingSink:
    sink = KeepingSink()
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(occurred)
            | beam.WithTimestamps(lambda event: event[1])
            | beam.Map(lambda event: (event[0], event[2]))
            | beam.WindowInto(beam.window.Sessions(GAP))
            | beam.CombinePerKey(sum)
            | beam.io.Write(sink)
        )
    return sink


def by_hand(occurred: list[Event]) -> dict[tuple[str, int, int], int]:
    by_key: dict[str, list[tuple[int, int]]] = {}
    for key, seconds, value in occurred:
        by_key.setdefault(key, []).append((seconds, value))
    sessions: dict[tuple[str, int, int], int] = {}
    for key, entries in by_key.items():
        entries.sort()
        start, total = entries[0][0], 0
        end = start + GAP
        for seconds, value in entries:
            if seconds >= end:
                sessions[key, start, end] = total
                start, total = seconds, 0
            end = seconds + GAP
            total += value
        sessions[key, start, end] = total
    return sessions


def comparable(sink: KeepingSink) -> dict[Any, Any]:
    return {
        (key, int(window.start), int(window.end)): total for (key, window), total in sink.by_key_and_window().items()
    }


def run() -> list[Ratio]:
    occurred = events()
    return [
        compare(
            f"(d) sessions with a gap of {GAP} s",
            lambda: pipeline(occurred),
            lambda: by_hand(occurred),
            2.5,
            result=comparable,
        )
    ]
