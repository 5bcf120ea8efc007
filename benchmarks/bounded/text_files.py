"""(i) Text files in, text files out, on one worker: parsing, computing and formatting, against loops that do the same.

The loops read with `open()`, compute in dictionaries, and write formatted lines: what a Python programmer writes
without a framework.  Both sides parse and format with the same functions or expressions.  A run over an empty file is
the start-up, and is subtracted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.inputs import event_file, scratch_directory, word_file
from harness.streams import RunningSum
from harness.timing import Ratio, compare

import penstock as beam

GAP = 60

Pipeline = Callable[[Any, Path, str], Any]
Loop = Callable[[Path, Path], None]


def parse(line: str) -> beam.window.TimestampedValue[tuple[str, int]]:
    key, seconds, value = line.split(",")
    return beam.window.TimestampedValue((key, int(value)), int(seconds))


def parse_pair(line: str) -> tuple[str, int]:
    key, _, value = line.split(",")
    return key, int(value)


def line_of(pair: tuple[Any, int]) -> str:
    return f"{pair[0]},{pair[1]}"


def line_of_minute(pair: tuple[str, int], window: Any = beam.DoFn.WindowParam) -> str:
    return f"{pair[0]},{window.start.micros // 60_000_000},{pair[1]}"


def line_of_session(pair: tuple[str, int], window: Any = beam.DoFn.WindowParam) -> str:
    return f"{pair[0]},{window.start.micros // 1_000_000},{window.end.micros // 1_000_000},{pair[1]}"


def word_count(p: Any, source: Path, target: str) -> Any:
    return (
        p
        | beam.io.ReadFromText(source)
        | beam.FlatMap(str.split)
        | beam.combiners.Count.PerElement()
        | beam.Map(line_of)
        | beam.io.WriteToText(target)
    )


def words_by_hand(source: Path, target: Path) -> None:
    counts: dict[str, int] = {}
    with source.open(encoding="utf-8") as file:
        for line in file:
            for word in line.split():
                counts[word] = counts.get(word, 0) + 1
    with target.open("w", encoding="utf-8") as file:
        for word, count in counts.items():
            file.write(f"{word},{count}\n")


def windowed_sums(p: Any, source: Path, target: str) -> Any:
    return (
        p
        | beam.io.ReadFromText(source)
        | "parse" >> beam.Map(parse)
        | beam.WindowInto(beam.window.FixedWindows(60))
        | beam.CombinePerKey(sum)
        | beam.Map(line_of_minute)
        | beam.io.WriteToText(target)
    )


def sums_by_hand(source: Path, target: Path) -> None:
    sums: dict[tuple[str, int], int] = {}
    with source.open(encoding="utf-8") as file:
        for line in file:
            key, seconds, value = line.split(",")
            cell = key, int(seconds) // 60
            sums[cell] = sums.get(cell, 0) + int(value)
    with target.open("w", encoding="utf-8") as file:
        for (key, minute), total in sums.items():
            file.write(f"{key},{minute},{total}\n")


def sessions(p: Any, source: Path, target: str) -> Any:
    return (
        p
        | beam.io.ReadFromText(source)
        | "parse" >> beam.Map(parse)
        | beam.WindowInto(beam.window.Sessions(GAP))
        | beam.CombinePerKey(sum)
        | beam.Map(line_of_session)
        | beam.io.WriteToText(target)
    )


def sessions_by_hand(source: Path, target: Path) -> None:
    by_key: dict[str, list[tuple[int, int]]] = {}
    with source.open(encoding="utf-8") as file:
        for line in file:
            key, seconds, value = line.split(",")
            by_key.setdefault(key, []).append((int(seconds), int(value)))
    with target.open("w", encoding="utf-8") as file:
        for key, entries in by_key.items():
            entries.sort()
            start, total = entries[0][0], 0
            end = start + GAP
            for seconds, value in entries:
                if seconds >= end:
                    file.write(f"{key},{start},{end},{total}\n")
                    start, total = seconds, 0
                end = seconds + GAP
                total += value
            file.write(f"{key},{start},{end},{total}\n")


def running_sum(p: Any, source: Path, target: str) -> Any:
    return (
        p
        | beam.io.ReadFromText(source)
        | "parse" >> beam.Map(parse_pair)
        | beam.ParDo(RunningSum())
        | beam.Map(line_of)
        | beam.io.WriteToText(target)
    )


def running_sum_by_hand(source: Path, target: Path) -> None:
    sums: dict[str, int] = {}
    with source.open(encoding="utf-8") as lines, target.open("w", encoding="utf-8") as file:
        for line in lines:
            key, _, value = line.split(",")
            total = sums[key] = sums.get(key, 0) + int(value)
            file.write(f"{key},{total}\n")


def written(directory: Path) -> list[str]:
    """All lines of a directory's files, sorted; the files are removed."""
    lines: list[str] = []
    for path in directory.iterdir():
        lines += path.read_text(encoding="utf-8").splitlines()
        path.unlink()
    return sorted(lines)


def against_loop(
    name: str, pipeline: Pipeline, loop: Callable[[Path, Path], None], source: Path, limit: float
) -> Ratio:
    with tempfile.TemporaryDirectory(dir=scratch_directory()) as temporary:
        ours, theirs = Path(temporary, "ours"), Path(temporary, "theirs")
        theirs.mkdir()
        empty = Path(temporary, "empty")
        empty.touch()

        def run_pipeline(source: Path = source, target: Path = ours) -> Path:
            with beam.Pipeline() as p:
                _ = pipeline(p, source, str(target / "lines"))
            return target

        def run_empty() -> None:
            run_pipeline(empty, Path(temporary, "of_empty"))

        def run_loop() -> Path:
            loop(source, theirs / "lines")
            return theirs

        return compare(name, run_pipeline, run_loop, limit, result=written, of_both=True, start_up=run_empty)


def run() -> list[Ratio]:
    words, events = word_file(), event_file()
    return [
        against_loop("(i) text: word count of 100 MB", word_count, words_by_hand, words, 1.15),
        against_loop("(i) text: sums by key and minute", windowed_sums, sums_by_hand, events, 1.35),
        against_loop(f"(i) text: sessions with a gap of {GAP} s", sessions, sessions_by_hand, events, 1.8),
        against_loop("(i) text: running sum, a DoFn with state", running_sum, running_sum_by_hand, events, 2.0),
    ]
