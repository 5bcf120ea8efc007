"""Plays transcripts to whole pipelines: a stream step by step, and many batches at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from support.programs.moments import Moment, moment
from transcripts.runner import Element, Pane, Step, Transcript

import penstock as beam
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.options import PipelineOptions
from penstock.sdk.runner import Runner
from penstock.sdk.sink import Sink, SinkContext, SinkSpec, SinkWriter
from penstock.testing import TestPipeline, TestStream
from penstock.windowing import GLOBAL_WINDOW, TimestampedValue
from penstock.windowing.duration import Duration
from penstock.windowing.timestamp import Timestamp

# A row at the sink: its value, timestamp, windows, pane info and sign.
Row = tuple[Any, int, Any, Any, int]

# What a value at the sink begins with: which of three things it is.
PANE, LATE, STEP = "pane", "late", "step"


class StreamPlayer:
    """A pipeline that has run through the whole script of a transcript, with a TestStream.

    After each step the stream's second output says that it is over.  That goes straight to the
    same sink as the panes, between those that had come by then and those that come later: so
    the step that a pane belongs to, and with it the processing time, is what the sink has seen.

    Args:
      runner: one that takes a TestStream.
      as_columns: whether the elements are columns when they reach the windows.
    """

    def __init__(self, transcript: Transcript, runner: Runner | str, as_columns: bool = False) -> None:
        self.dropped = 0
        sink = Rows()
        with TestPipeline(runner=runner, options=UNSAFE) as p:
            outputs = p | script_of(transcript)
            panes, late = (label >> beam.Map(lambda pair, label=label: (label, pair)) for label in (PANE, LATE))
            elements = outputs["elements"] | InColumns() if as_columns else outputs["elements"]
            grouped = elements | "windows" >> window_into(transcript) | grouping(transcript, is_late=True)
            steps = outputs["steps"] | "same windows" >> beam.WindowInto(transcript.windowing.window_fn)
            (grouped[None] | panes, grouped["late"] | late, steps) | beam.Flatten() | beam.io.Write(sink)
        self._steps = _by_step(sink.rows())

    def elements(self, elements: list[Element]) -> list[Pane]:
        return self._next()

    def watermark(self, micros: int) -> list[Pane]:
        return self._next()

    def processing_time(self, micros: int) -> list[Pane]:
        return self._next()

    def percentile(self, share: float, micros: int) -> list[Pane]:
        return self._next()

    def signal(self, name: str) -> list[Pane]:
        return self._next()

    def _next(self) -> list[Pane]:
        rows = next(self._steps)
        self.dropped += sum(row[0][0] == LATE for row in rows)
        return [pane_of(row) for row in rows if row[0][0] == PANE]


def _by_step(rows: Iterable[Row]) -> Iterator[list[Row]]:
    seen: list[Row] = []
    for row in rows:
        if row[0][0] == STEP:
            yield seen
            seen = []
        else:
            seen.append(row)


def script_of(transcript: Transcript) -> TestStream:
    """Its steps, with a word after each of them."""
    stream, now = TestStream(output_tags=["elements", "steps"]), 0
    for number, step in enumerate(transcript.steps):
        if step.kind == "processing_time":
            stream.advance_processing_time(Duration.of_micros(step.what - now))
            now = step.what
        else:
            _add(stream, step)
        stream.add_elements([(STEP, number)], "steps")
    return stream


def _add(stream: TestStream, step: Step) -> None:
    if step.kind == "elements":
        stream.add_elements(stamped(step), "elements")
    elif step.kind == "watermark":
        stream.advance_watermark_to(Timestamp.of_micros(step.what), "elements")
    elif step.kind == "percentile":
        share, micros = step.what
        stream.advance_percentile_watermark_to(share, Timestamp.of_micros(micros), "elements")
    else:
        stream.signal(step.what)


def in_batches(
    transcripts: Sequence[Transcript], runner: Runner | str, as_columns: bool = False
) -> dict[str, list[Pane]]:
    """All panes of each transcript, whose elements are the whole input; in one run of one pipeline.

    Each is a branch of its own.  Branches with the same windows share a sink, since on Spark
    each sink is a job.
    """
    names = [str(transcript) for transcript in transcripts]
    inputs = [[pair for step in t.steps if step.kind == "elements" for pair in stamped(step)] for t in transcripts]
    sinks: list[Rows] = []
    with TestPipeline(runner=runner, options=UNSAFE) as p:
        # One element holds the input of a transcript, so that this stays in order.
        elements = p | beam.Create(list(zip(names, inputs))) | beam.ParDo(Dealt()).with_outputs(*names)
        by_windows = sorted(transcripts, key=lambda t: t.window)
        for window, alike in groupby(by_windows, key=lambda t: t.window):
            branches = []
            for t in alike:
                own = elements[str(t)] | f"{t} columns" >> InColumns() if as_columns else elements[str(t)]
                panes = own | f"{t} windows" >> window_into(t) | f"{t} group" >> grouping(t)
                branches.append(panes | f"{t} named" >> beam.Map(lambda pair, name: (name, pair), str(t)))
            sinks.append(Rows())
            branches | f"{window} together" >> beam.Flatten() | f"{window} written" >> beam.io.Write(sinks[-1])
    found: dict[str, list[Pane]] = {name: [] for name in names}
    for sink in sinks:
        for row in sink.rows():
            found[row[0][0]].append(pane_of(row))
    return found


class Dealt(beam.DoFn):
    """The elements of a transcript, in the output that bears its name."""

    def process(self, element: Any) -> Iterator[Any]:
        name, pairs = element
        return (beam.TaggedOutput(name, pair) for pair in pairs)


# What both are made of

# A transcript may be about what comes after a trigger has finished.
UNSAFE = PipelineOptions(allow_unsafe_triggers=True)


def stamped(step: Step) -> list[TimestampedValue]:
    """The pairs that come in a step."""
    return [TimestampedValue((e.key, e.value), Timestamp.of_micros(e.timestamp)) for e in step.what]


class InColumns(beam.PTransform):
    """The same pairs, as columns of keys and values."""

    def expand(self, pcoll: Any) -> Any:
        rows = pcoll | beam.MapTuple(lambda key, value: beam.Row(key=key, value=value))
        return rows | "Pairs" >> beam.Map((beam.col("key"), beam.col("value")))


def window_into(transcript: Transcript) -> beam.WindowInto:
    """The windowing of a transcript."""
    windowing = transcript.windowing
    return beam.WindowInto(
        windowing.window_fn,
        trigger=windowing.trigger,
        accumulation_mode=windowing.accumulation_mode,
        timestamp_combiner=windowing.timestamp_combiner,
        allowed_lateness=windowing.allowed_lateness,
    )


def grouping(transcript: Transcript, is_late: bool = False) -> Any:
    """The grouping of a transcript, perhaps with the late data as its second output."""
    fn = transcript.combine_fn
    made = beam.GroupByKey() if fn is None else beam.CombinePerKey(fn)
    return made.with_late_data(LATE) if is_late else made


def pane_of(row: Row) -> Pane:
    """The pane that a row at a sink is."""
    (_, (key, value)), micros, (window,), info, sign = row
    interval = None if window == GLOBAL_WINDOW else (window.start_micros, window.end_micros)
    return Pane(key, value, interval, micros, info, sign)


class Rows(Sink[Any]):
    """Everything that comes to it, with all that can be seen of it there; from whichever process it comes."""

    spec = SinkSpec(accepts_retractions=True)

    def __init__(self) -> None:
        self._by_transaction: dict[str, list[tuple[Moment, Row]]] = {}

    def __copy__(self) -> Rows:
        return self

    def rows(self) -> list[Row]:
        """The committed panes, in order of arrival."""
        rows = [row for rows in self._by_transaction.values() for row in rows]
        return [row for _, row in sorted(rows, key=lambda timed: timed[0])]

    def by_transaction(self) -> list[tuple[str, list[Row]]]:
        """The rows of each transaction, in the order in which they were committed."""
        return [(transaction, self.of(transaction)) for transaction in self._by_transaction]

    def of(self, transaction: str) -> list[Row]:
        """The rows of a transaction, in the order in which they came."""
        return [row for _, row in sorted(self._by_transaction.get(transaction, ()), key=lambda timed: timed[0])]

    def prepare(self, context: SinkContext) -> None:
        pass

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return RowsWriter()

    def commit(self, context: SinkContext, staged: Sequence[list[tuple[Moment, Row]]]) -> None:
        self._by_transaction[context.transaction] = [row for rows in staged for row in rows]

    def abort(self, context: SinkContext) -> None:
        self._by_transaction.pop(context.transaction, None)


class RowsWriter(SinkWriter[Any]):
    def __init__(self) -> None:
        self._rows: list[tuple[Moment, Row]] = []

    def write(self, bundle: Bundle) -> None:
        self._rows += [(moment(), row) for row in bundle.rows()]

    def stage(self) -> list[tuple[Moment, Row]]:
        return self._rows

    def discard(self) -> None:
        pass
