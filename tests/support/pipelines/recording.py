"""Recordings of a sink's input: values, timestamps, windows, panes, signs and arrival times.

with TestPipeline() as p:
    changes = record(p | TestStream()... | beam.CombinePerKey(sum))
assert [...] == changes.shown()
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
from support.programs.moments import Moment, moment

import penstock as beam
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sink import Sink, SinkContext, SinkSpec, SinkWriter
from penstock.testing import TestPipeline, TestStream
from penstock.triggers import PaneInfo
from penstock.windowing import GLOBAL_WINDOW, BoundedWindow, TimestampedValue

SECOND = 1_000_000


@attrs.frozen
class Change:
    """One element at the sink; `micros` is its timestamp."""

    value: Any
    micros: int
    windows: tuple[BoundedWindow, ...]
    pane: PaneInfo
    sign: int

    def __str__(self) -> str:
        """`+3 [0, 10) @ 9.999999 EARLY 0/-1 first`; without a timestamp at the end of the window."""
        (window,) = self.windows
        sign = "+" if self.sign > 0 else "-"
        stamp = "" if self.micros == window.max_micros else f" @ {seconds(self.micros)}"
        pane = self.pane
        ends = " first" * pane.is_first + " last" * pane.is_last
        number = f"{pane.timing.name} {pane.index}/{pane.nonspeculative_index}"
        return f"{sign}{self.value} {shown_window(window)}{stamp} {number}{ends}"


def seconds(micros: int) -> str:
    return str(micros // SECOND if micros % SECOND == 0 else micros / SECOND)


def shown_window(window: Any) -> str:
    if window == GLOBAL_WINDOW:
        return "global"
    return f"[{seconds(window.start_micros)}, {seconds(window.end_micros)})"


class Recording(Sink[Any]):
    """A sink that accepts retractions and records its input from all processes of this machine."""

    spec = SinkSpec(accepts_retractions=True)

    def __init__(self) -> None:
        self._committed: dict[Moment, Change] = {}

    def __copy__(self) -> Recording:
        return self

    @property
    def changes(self) -> list[Change]:
        """The committed changes, in order of arrival."""
        return [change for _, change in sorted(self._committed.items(), key=lambda timed: timed[0])]

    def prepare(self, context: SinkContext) -> None:
        pass

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _Writer()

    def commit(self, context: SinkContext, staged: Sequence[dict[Moment, Change]]) -> None:
        for changes in staged:
            self._committed |= changes

    def abort(self, context: SinkContext) -> None:
        pass

    def shown(self) -> list[str]:
        """Each change as a line."""
        return [str(change) for change in self.changes]

    def signed(self) -> list[tuple[int, Any]]:
        """Signs and values, in order."""
        return [(change.sign, change.value) for change in self.changes]

    def net(self, of: Callable[[Change], Any] = lambda change: (frozen(change.value), change.windows)) -> Counter[Any]:
        """The sum of the signs by value and window."""
        return net(self.changes, of)


class _Writer(SinkWriter[Any]):
    def __init__(self) -> None:
        self._changes: dict[Moment, Change] = {}

    def write(self, bundle: Bundle) -> None:
        for value, *rest in bundle.rows():
            self._changes[moment()] = Change(copy.deepcopy(value), *rest)

    def stage(self) -> dict[Moment, Change]:
        return self._changes

    def discard(self) -> None:
        pass


def record(pcoll: Any, label: str = "Record") -> Recording:
    """A sink for a PCollection."""
    sink = Recording()
    pcoll | label >> beam.io.Write(sink)
    return sink


def recorded(build: Callable[[Any], Any], runner: Any = None, into: Recording | None = None) -> Recording:
    """Run a pipeline and record its output.

    `build` is called with the pipeline, and gives the PCollection to look at, or several by
    their names; these have one sink, which may have been there before.
    """
    sink = Recording() if into is None else into
    with TestPipeline(runner) as p:
        found = build(p)
        for label, pcoll in (found if isinstance(found, dict) else {"Record": found}).items():
            pcoll | label >> beam.io.Write(sink)
    return sink


def whole(change: Change) -> Any:
    """A value with its timestamp and windows, to be counted."""
    return frozen(change.value), change.micros, change.windows


def net(changes: Iterable[Change], of: Callable[[Change], Any]) -> Counter[Any]:
    """Return the non-zero sums of signs."""
    total: Counter[Any] = Counter()
    for change in changes:
        total[of(change)] += change.sign
    return Counter({key: count for key, count in total.items() if count})


def frozen(value: Any) -> Any:
    """Return a hashable form of a value, in which lists have no order."""
    if isinstance(value, list):
        return ("list", *sorted(map(frozen, value), key=repr))
    if isinstance(value, tuple):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return ("dict", *sorted(((k, frozen(v)) for k, v in value.items()), key=repr))
    return value


# When things happen


@attrs.frozen
class Arrives:
    """Elements that arrive at this processing time, each with its event time in seconds."""

    at: float
    elements: tuple[tuple[Any, float], ...]


@attrs.frozen
class Watermark:
    """An advance of the watermark to `to` at this processing time."""

    at: float
    to: float


@attrs.frozen
class Tick:
    """An advance of the processing time without input."""

    at: float


Happening = Arrives | Watermark | Tick

# When what comes with the end of the stream has come.
AT_THE_END = "end"


def with_times(
    happenings: Iterable[Happening], pipeline: Callable[[Any], Any], runner: Any = None
) -> list[tuple[Any, Change]]:
    """Run a script; every change with the processing time at which it came.

    Nothing in a pipeline can look at the clock.  So the script's second output says what time
    it is, after everything that happens; it goes straight to the same sink, between the
    changes that had come by then and those that come later.
    """
    now = 0.0
    stream = TestStream(output_tags=["data", "clock"])
    for happening in sorted(happenings, key=lambda h: h.at):
        stream.advance_processing_time(happening.at - now)
        now = happening.at
        _tell(stream, now)
        if isinstance(happening, Arrives):
            stream.add_elements([TimestampedValue(value, time) for value, time in happening.elements], "data")
        elif isinstance(happening, Watermark):
            stream.advance_watermark_to(happening.to, "data")
        _tell(stream, now)
    with TestPipeline(runner) as p:
        outputs = p | stream
        sink = Recording()
        outputs["clock"] | "clock" >> beam.io.Write(sink)
        pipeline(outputs["data"]) | "data" >> beam.io.Write(sink)
    timed: list[tuple[Any, Change]] = []
    waiting: list[Change] = []
    for change in sink.changes:
        if isinstance(change.value, _Now):
            timed += [(change.value.time, earlier) for earlier in waiting]
            waiting = []
        else:
            waiting.append(change)
    return timed + [(AT_THE_END, change) for change in waiting]


@attrs.frozen
class _Now:
    time: float


def _tell(stream: TestStream, now: float) -> None:
    stream.add_elements([_Now(now)], "clock")
