"""Many transcripts in one stream: for a runner to which each event is costly, as micro-batches are.

Transcripts whose clocks, percentiles and signals move alike are branches of one pipeline.  Round by round
each of them does its next step; nothing brings the branches together, so that a micro-batch holds a round.
After each round a mark goes to a sink of its own, in the same transaction as what the round has put out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import attrs
from transcripts.pipeline_player import LATE, PANE, UNSAFE, Row, Rows, grouping, pane_of, stamped, window_into
from transcripts.runner import Element, Pane, Step, Transcript

import penstock as beam
from penstock.sdk.options import PipelineOptions
from penstock.sdk.runner import Runner
from penstock.testing import TestPipeline, TestStream
from penstock.windowing.duration import Duration
from penstock.windowing.timestamp import Timestamp

# The stream's outputs besides those of the transcripts: what parts the rounds, and what marks them.
PART, MARK = "part", "mark"


@attrs.define
class Round:
    """A simultaneous step: of all transcripts, or of some, by their number and that of the step."""

    common: Step | None = None
    steps: list[tuple[int, int, Step]] = attrs.field(factory=list)
    common_number: list[int] = attrs.field(factory=list)


def alike(transcripts: Iterable[Transcript]) -> list[list[Transcript]]:
    """Transcripts that can be played together."""
    groups: dict[Any, list[Transcript]] = {}
    for transcript in transcripts:
        groups.setdefault(tuple((step.kind, step.what) for step in _common(transcript)), []).append(transcript)
    return list(groups.values())


def _common(transcript: Transcript) -> list[Step]:
    return [step for step in transcript.steps if _is_common(step)]


def _is_common(step: Step) -> bool:
    return step.kind not in ("elements", "watermark")


def rounds_of(transcripts: Sequence[Transcript]) -> Iterator[Round]:
    """Return the steps of all transcripts, round by round."""
    sections: list[list[list[tuple[int, int, Step]]]] = []
    for number, transcript in enumerate(transcripts):
        own: list[list[tuple[int, int, Step]]] = [[]]
        for i, step in enumerate(transcript.steps):
            if _is_common(step):
                own.append([])
            else:
                own[-1].append((number, i, step))
        sections.append(own)
    common = _common(transcripts[0])
    numbers = [[i for i, step in enumerate(t.steps) if _is_common(step)] for t in transcripts]
    for k in range(len(common) + 1):
        for steps in zip_longest(*(own[k] for own in sections)):
            yield Round(steps=[step for step in steps if step is not None])
        if k < len(common):
            yield Round(common[k], common_number=[own[k] for own in numbers])


def script_of(transcripts: Sequence[Transcript], rounds: Sequence[Round]) -> TestStream:
    """The script of all of them."""
    stream = TestStream(output_tags=[*(f"t{i}" for i in range(len(transcripts))), PART, MARK])
    now = 0
    for number, round in enumerate(rounds):
        step = round.common
        if step is not None and step.kind == "processing_time":
            stream.advance_processing_time(Duration.of_micros(step.what - now))
            now = step.what
        elif step is not None and step.kind == "percentile":
            stream.advance_percentile_watermark_to(step.what[0], Timestamp.of_micros(step.what[1]), "t0")
        elif step is not None:
            stream.signal(step.what)
        stream.advance_watermark_to(number, PART)
        for i, _, own in round.steps:
            if own.kind == "elements":
                stream.add_elements(stamped(own), f"t{i}")
            else:
                stream.advance_watermark_to(Timestamp.of_micros(own.what), f"t{i}")
        stream.add_elements([number], MARK)
    return stream


class Played:
    """A transcript that has been played: its rows, step by step."""

    def __init__(self, steps: int) -> None:
        self.dropped = 0
        self.rows: list[list[Row]] = [[] for _ in range(steps)]
        self._next = 0

    def _step(self, *what: Any) -> list[Pane]:
        rows = self.rows[self._next]
        self._next += 1
        self.dropped += sum(row[0][0] == LATE for row in rows)
        return [pane_of(row) for row in rows if row[0][0] == PANE]

    def elements(self, elements: list[Element]) -> list[Pane]:
        return self._step()

    watermark = processing_time = percentile = signal = _step


def played(transcripts: Sequence[Transcript], runner: Runner | str, options: PipelineOptions = UNSAFE) -> list[Played]:
    """Play transcripts that are alike, in one run."""
    rounds = list(rounds_of(transcripts))
    sinks, marks = [Rows() for _ in transcripts], Rows()
    with TestPipeline(runner=runner, options=options) as p:
        outputs = p | script_of(transcripts, rounds)
        outputs[MARK] | "marks" >> beam.io.Write(marks)
        for i, transcript in enumerate(transcripts):
            grouped = (
                outputs[f"t{i}"]
                | f"{i} windows" >> window_into(transcript)
                | f"{i} group" >> grouping(transcript, is_late=True)
            )
            named = [
                grouped[tag] | f"{i} {name}" >> beam.Map(lambda pair, name: (name, pair), name)
                for tag, name in ((None, PANE), ("late", LATE))
            ]
            named | f"{i} together" >> beam.Flatten() | f"{i} written" >> beam.io.Write(sinks[i])
    found = [Played(len(transcript.steps)) for transcript in transcripts]
    seen, done = dict.fromkeys(range(len(transcripts)), -1), 0
    for transaction, rows in marks.by_transaction():
        # What comes without a mark came of what happened to all, just before the next mark.
        number = rows[0][0] if rows else done
        if number >= len(rounds):
            break
        done = number + 1 if rows else done
        round = rounds[number]
        current = {i: step for i, step, _ in round.steps} | dict(enumerate(round.common_number))
        for i, sink in enumerate(sinks):
            step = current.get(i, seen[i] + 1)
            for row in sink.of(transaction):
                found[i].rows[min(step, len(found[i].rows) - 1)].append(row)
        if rows:
            seen |= current
    return found
