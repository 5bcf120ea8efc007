"""(k) JSON lines of a declared type, counted by key and minute, against the same with the json module by hand."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from harness.inputs import click_file
from harness.keeping_sink import KeepingSink
from harness.timing import Ratio, compare

import penstock as beam


class Click(msgspec.Struct):
    """A click of a user, at so many seconds since 1970."""

    user: str
    at: int
    value: int


def pipeline(path: Path) -> KeepingSink:
    sink = KeepingSink()
    with beam.Pipeline() as p:
        (
            p
            | beam.io.ReadFromJson(path, type=Click)
            | beam.WithTimestamps("at")
            | beam.WindowInto(beam.window.FixedWindows(60))
            | beam.GroupBy("user").aggregate_field("user", beam.combiners.CountCombineFn(), "count")
            | beam.io.Write(sink)
        )
    return sink


def by_hand(path: Path) -> dict[tuple[str, int], int]:
    counts: dict[tuple[str, int], int] = {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            click = json.loads(line)
            cell = click["user"], click["at"] // 60
            counts[cell] = counts.get(cell, 0) + 1
    return counts


def run() -> list[Ratio]:
    path = click_file()
    return [
        compare(
            "(k) JSON lines by key and minute",
            lambda: pipeline(path),
            lambda: by_hand(path),
            0.35,
            result=lambda sink: {
                (key, int(window.start) // 60): count for (key, window), count in sink.by_key_and_window().items()
            },
        )
    ]
