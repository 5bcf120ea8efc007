"""What is seen of every pane at a sink: value, timestamp, window, pane info and sign, in each mode.

Two scripts with early, on-time, late and closing panes: one for windows that stay as they are,
and one in which a late element joins two sessions.  Each value is another power of two, so that
a sum says what is in it.  A line is sign and value, window, timestamp unless it is the window's
end, timing, both indexes, first and last.
"""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from support.pipelines.recording import Recording, record, seconds, shown_window
from transcripts.pipeline_player import Rows

import penstock as beam
from penstock.testing import TestPipeline, TestStream
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark, Repeatedly
from penstock.windowing import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
    WindowFn,
)

DISCARDING, ACCUMULATING, RETRACTING = AccumulationMode
EARLIEST, LATEST = TimestampCombiner.OUTPUT_AT_EARLIEST, TimestampCombiner.OUTPUT_AT_LATEST


def happened(*pairs: tuple[int, int]) -> list[TimestampedValue]:
    """Values of the one key, and when."""
    return [TimestampedValue(("k", value), time) for value, time in pairs]


def arrivals() -> TestStream:
    """Early for [0, 10), then as many on time, late, and too few to fire when the window expires."""
    return (
        TestStream()
        .add_elements(happened((1, 1), (2, 4)))
        .add_elements(happened((4, 6)))
        .advance_watermark_to(10)
        .add_elements(happened((8, 8)))
        .add_elements(happened((16, 9)))
        .add_elements(happened((32, 3)))
        .advance_watermark_to(36)
    )


def two_visits() -> TestStream:
    """[0, 7) and [10, 17), both on time; what comes at 6 joins them; the last one waits for the closing."""
    return (
        TestStream()
        .add_elements(happened((1, 0), (2, 2)))
        .add_elements(happened((4, 10), (8, 12)))
        .advance_watermark_to(17)
        .add_elements(happened((16, 6)))
        .add_elements(happened((32, 5)))
        .add_elements(happened((64, 1)))
        .advance_watermark_to(37)
    )


def sums(stream: Any, window_fn: WindowFn, mode: AccumulationMode, combiner: Any = None) -> Any:
    """Early and late panes for each two elements; windows are kept for twenty seconds."""
    windowing = beam.WindowInto(
        window_fn,
        trigger=AfterWatermark(early=AfterCount(2), late=AfterCount(2)),
        accumulation_mode=mode,
        timestamp_combiner=combiner,
        allowed_lateness=20,
    )
    return stream | windowing | beam.CombinePerKey(sum) | beam.Values()


FIXED = {
    DISCARDING: [
        "+3 [0, 10) EARLY 0/-1 first",
        "+4 [0, 10) ON_TIME 1/0",
        "+24 [0, 10) LATE 2/1",
        "+32 [0, 10) LATE 3/2 last",
    ],
    ACCUMULATING: [
        "+3 [0, 10) EARLY 0/-1 first",
        "+7 [0, 10) ON_TIME 1/0",
        "+31 [0, 10) LATE 2/1",
        "+63 [0, 10) LATE 3/2 last",
    ],
    RETRACTING: [
        "+3 [0, 10) EARLY 0/-1 first",
        "-3 [0, 10) EARLY 0/-1 first",
        "+7 [0, 10) ON_TIME 1/0",
        "-7 [0, 10) ON_TIME 1/0",
        "+31 [0, 10) LATE 2/1",
        "-31 [0, 10) LATE 2/1",
        "+63 [0, 10) LATE 3/2 last",
    ],
}

# 1, 2 and 32 are in [-5, 5), all of them in [0, 10), and 4, 8 and 16 in [5, 15), which is complete and expires at once.
SLIDING = {
    DISCARDING: [
        "+3 [0, 10) EARLY 0/-1 first",
        "+3 [-5, 5) EARLY 0/-1 first",
        "+0 [-5, 5) ON_TIME 1/0",
        "+4 [0, 10) ON_TIME 1/0",
        "+12 [5, 15) EARLY 0/-1 first",
        "+24 [0, 10) LATE 2/1",
        "+16 [5, 15) ON_TIME 1/0 last",
        "+32 [-5, 5) LATE 2/1 last",
        "+32 [0, 10) LATE 3/2 last",
    ],
    ACCUMULATING: [
        "+3 [0, 10) EARLY 0/-1 first",
        "+3 [-5, 5) EARLY 0/-1 first",
        "+3 [-5, 5) ON_TIME 1/0",
        "+7 [0, 10) ON_TIME 1/0",
        "+12 [5, 15) EARLY 0/-1 first",
        "+31 [0, 10) LATE 2/1",
        "+28 [5, 15) ON_TIME 1/0 last",
        "+35 [-5, 5) LATE 2/1 last",
        "+63 [0, 10) LATE 3/2 last",
    ],
    # The pane on time of [-5, 5) would say what stands, and isn't there.
    RETRACTING: [
        "+3 [0, 10) EARLY 0/-1 first",
        "+3 [-5, 5) EARLY 0/-1 first",
        "-3 [0, 10) EARLY 0/-1 first",
        "+7 [0, 10) ON_TIME 1/0",
        "+12 [5, 15) EARLY 0/-1 first",
        "-7 [0, 10) ON_TIME 1/0",
        "+31 [0, 10) LATE 2/1",
        "-12 [5, 15) EARLY 0/-1 first",
        "+28 [5, 15) ON_TIME 1/0 last",
        "-3 [-5, 5) EARLY 0/-1 first",
        "+35 [-5, 5) LATE 1/0 last",
        "-31 [0, 10) LATE 2/1",
        "+63 [0, 10) LATE 3/2 last",
    ],
}

SESSIONS = {
    DISCARDING: [
        "+3 [0, 7) EARLY 0/-1 first",
        "+12 [10, 17) EARLY 0/-1 first",
        "+0 [0, 7) ON_TIME 1/0",
        "+0 [10, 17) ON_TIME 1/0",
        "+48 [0, 17) LATE 0/0 first",
        "+64 [0, 17) LATE 1/1 last",
    ],
    ACCUMULATING: [
        "+3 [0, 7) EARLY 0/-1 first",
        "+12 [10, 17) EARLY 0/-1 first",
        "+3 [0, 7) ON_TIME 1/0",
        "+12 [10, 17) ON_TIME 1/0",
        "+63 [0, 17) LATE 0/0 first",
        "+127 [0, 17) LATE 1/1 last",
    ],
    RETRACTING: [
        "+3 [0, 7) EARLY 0/-1 first",
        "+12 [10, 17) EARLY 0/-1 first",
        "-3 [0, 7) EARLY 0/-1 first",
        "-12 [10, 17) EARLY 0/-1 first",
        "+63 [0, 17) LATE 0/0 first",
        "-63 [0, 17) LATE 0/0 first",
        "+127 [0, 17) LATE 1/1 last",
    ],
}

# What is behind the watermark does not count: late panes are at the end of their window, or where what they replace is.
FIXED_AT_EARLIEST = {
    DISCARDING: [
        "+3 [0, 10) @ 1 EARLY 0/-1 first",
        "+4 [0, 10) @ 6 ON_TIME 1/0",
        "+24 [0, 10) LATE 2/1",
        "+32 [0, 10) LATE 3/2 last",
    ],
    ACCUMULATING: [
        "+3 [0, 10) @ 1 EARLY 0/-1 first",
        "+7 [0, 10) @ 1 ON_TIME 1/0",
        "+31 [0, 10) LATE 2/1",
        "+63 [0, 10) LATE 3/2 last",
    ],
    RETRACTING: [
        "+3 [0, 10) @ 1 EARLY 0/-1 first",
        "-3 [0, 10) @ 1 EARLY 0/-1 first",
        "+7 [0, 10) @ 1 ON_TIME 1/0",
        "-7 [0, 10) @ 1 ON_TIME 1/0",
        "+31 [0, 10) @ 1 LATE 2/1",
        "-31 [0, 10) @ 1 LATE 2/1",
        "+63 [0, 10) @ 1 LATE 3/2 last",
    ],
}

FIXED_AT_LATEST = {
    DISCARDING: [
        "+3 [0, 10) @ 4 EARLY 0/-1 first",
        "+4 [0, 10) @ 6 ON_TIME 1/0",
        "+24 [0, 10) LATE 2/1",
        "+32 [0, 10) LATE 3/2 last",
    ],
    ACCUMULATING: [
        "+3 [0, 10) @ 4 EARLY 0/-1 first",
        "+7 [0, 10) @ 6 ON_TIME 1/0",
        "+31 [0, 10) LATE 2/1",
        "+63 [0, 10) LATE 3/2 last",
    ],
    RETRACTING: [
        "+3 [0, 10) @ 4 EARLY 0/-1 first",
        "-3 [0, 10) @ 4 EARLY 0/-1 first",
        "+7 [0, 10) @ 6 ON_TIME 1/0",
        "-7 [0, 10) @ 6 ON_TIME 1/0",
        "+31 [0, 10) @ 6 LATE 2/1",
        "-31 [0, 10) @ 6 LATE 2/1",
        "+63 [0, 10) @ 6 LATE 3/2 last",
    ],
}

# An empty pane is at the end of its window.
SESSIONS_AT_LATEST = {
    DISCARDING: [
        "+3 [0, 7) @ 2 EARLY 0/-1 first",
        "+12 [10, 17) @ 12 EARLY 0/-1 first",
        "+0 [0, 7) ON_TIME 1/0",
        "+0 [10, 17) ON_TIME 1/0",
        "+48 [0, 17) LATE 0/0 first",
        "+64 [0, 17) LATE 1/1 last",
    ],
    ACCUMULATING: [
        "+3 [0, 7) @ 2 EARLY 0/-1 first",
        "+12 [10, 17) @ 12 EARLY 0/-1 first",
        "+3 [0, 7) @ 2 ON_TIME 1/0",
        "+12 [10, 17) @ 12 ON_TIME 1/0",
        "+63 [0, 17) LATE 0/0 first",
        "+127 [0, 17) LATE 1/1 last",
    ],
    RETRACTING: [
        "+3 [0, 7) @ 2 EARLY 0/-1 first",
        "+12 [10, 17) @ 12 EARLY 0/-1 first",
        "-3 [0, 7) @ 2 EARLY 0/-1 first",
        "-12 [10, 17) @ 12 EARLY 0/-1 first",
        "+63 [0, 17) LATE 0/0 first",
        "-63 [0, 17) LATE 0/0 first",
        "+127 [0, 17) LATE 1/1 last",
    ],
}

WINDOWS: dict[str, tuple[Callable[[], TestStream], WindowFn, Any, dict[AccumulationMode, list[str]]]] = {
    "fixed": (arrivals, FixedWindows(10), None, FIXED),
    "fixed, at the earliest": (arrivals, FixedWindows(10), EARLIEST, FIXED_AT_EARLIEST),
    "fixed, at the latest": (arrivals, FixedWindows(10), LATEST, FIXED_AT_LATEST),
    "sliding": (arrivals, SlidingWindows(10, 5), None, SLIDING),
    "sessions": (two_visits, Sessions(5), None, SESSIONS),
    "sessions, at the latest": (two_visits, Sessions(5), LATEST, SESSIONS_AT_LATEST),
}

each_mode = pytest.mark.parametrize("mode", AccumulationMode, ids=lambda mode: mode.name.lower())


@each_mode
@pytest.mark.parametrize("windows", WINDOWS)
def test_every_pane_is_seen_with_its_timestamp_window_info_and_sign(windows: str, mode: AccumulationMode) -> None:
    """Early, on time, late and closing ones, in the order in which they come."""
    stream, window_fn, combiner, expected = WINDOWS[windows]
    with TestPipeline() as p:
        changes = record(sums(p | stream(), window_fn, mode, combiner))
    assert expected[mode] == changes.shown()


# --- On the way there


@each_mode
@pytest.mark.parametrize("windows", WINDOWS)
def test_a_map_and_a_flatten_change_nothing_but_values(windows: str, mode: AccumulationMode) -> None:
    """The rest comes to the sink as the grouping gave it."""
    stream, window_fn, combiner, expected = WINDOWS[windows]
    with TestPipeline() as p:
        totals = sums(p | stream(), window_fn, mode, combiner)
        halves = totals | beam.Map(lambda total: total / 2)
        changes = record((halves,) | beam.Flatten() | "back" >> beam.Map(lambda half: int(half * 2)))
    assert expected[mode] == changes.shown()


class Seen(beam.DoFn):
    """A description of an element at the sink, as a line like those above."""

    def process(
        self,
        element: Any,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
        sign: Any = beam.DoFn.SignParam,
    ) -> Any:
        at = "" if timestamp == window.max_timestamp() else f" @ {seconds(timestamp.micros)}"
        ends = " first" * pane.is_first + " last" * pane.is_last
        index = f"{pane.timing.name} {pane.index}/{pane.nonspeculative_index}"
        yield f"{'-' if sign < 0 else '+'}{element} {shown_window(window)}{at} {index}{ends}"


@each_mode
@pytest.mark.parametrize("windows", WINDOWS)
def test_a_dofn_is_told_all_that_a_sink_would_see(windows: str, mode: AccumulationMode) -> None:
    """By its parameters."""
    stream, window_fn, combiner, expected = WINDOWS[windows]
    with TestPipeline() as p:
        changes = record(sums(p | stream(), window_fn, mode, combiner) | beam.ParDo(Seen()))
    assert expected[mode] == [change.value for change in changes.changes]


IN_NEW_WINDOWS = {
    DISCARDING: [
        "+3 [0, 100) @ 9.999999 EARLY 0/-1 first",
        "+4 [0, 100) @ 9.999999 ON_TIME 1/0",
        "+24 [0, 100) @ 9.999999 LATE 2/1",
        "+32 [0, 100) @ 9.999999 LATE 3/2 last",
    ],
    ACCUMULATING: [
        "+3 [0, 100) @ 9.999999 EARLY 0/-1 first",
        "+7 [0, 100) @ 9.999999 ON_TIME 1/0",
        "+31 [0, 100) @ 9.999999 LATE 2/1",
        "+63 [0, 100) @ 9.999999 LATE 3/2 last",
    ],
    RETRACTING: [
        "+3 [0, 100) @ 9.999999 EARLY 0/-1 first",
        "-3 [0, 100) @ 9.999999 EARLY 0/-1 first",
        "+7 [0, 100) @ 9.999999 ON_TIME 1/0",
        "-7 [0, 100) @ 9.999999 ON_TIME 1/0",
        "+31 [0, 100) @ 9.999999 LATE 2/1",
        "-31 [0, 100) @ 9.999999 LATE 2/1",
        "+63 [0, 100) @ 9.999999 LATE 3/2 last",
    ],
}


@each_mode
def test_another_windowinto_changes_nothing_but_windows(mode: AccumulationMode) -> None:
    """They are those of the pane's timestamp; its info and its sign are what they were."""
    with TestPipeline() as p:
        totals = sums(p | arrivals(), FixedWindows(10), mode)
        changes = record(totals | "again" >> beam.WindowInto(FixedWindows(100)))
    assert IN_NEW_WINDOWS[mode] == changes.shown()


SUMMED_AGAIN = {
    DISCARDING: [
        "+3 [0, 100) EARLY 0/-1 first",
        "+4 [0, 100) EARLY 1/-1",
        "+24 [0, 100) EARLY 2/-1",
        "+32 [0, 100) EARLY 3/-1",
    ],
    # What accumulates is counted again with each pane, as in Beam.
    ACCUMULATING: [
        "+3 [0, 100) EARLY 0/-1 first",
        "+10 [0, 100) EARLY 1/-1",
        "+41 [0, 100) EARLY 2/-1",
        "+104 [0, 100) EARLY 3/-1",
    ],
    RETRACTING: [
        "+3 [0, 100) EARLY 0/-1 first",
        "-3 [0, 100) EARLY 0/-1 first",
        "+7 [0, 100) EARLY 1/-1",
        "-7 [0, 100) EARLY 1/-1",
        "+31 [0, 100) EARLY 2/-1",
        "-31 [0, 100) EARLY 2/-1",
        "+63 [0, 100) EARLY 3/-1",
    ],
}


@each_mode
def test_a_grouping_of_panes_has_panes_of_its_own(mode: AccumulationMode) -> None:
    """For each pane that comes, and each that is taken back; nothing is left of a sum of nothing."""
    as_they_come = beam.WindowInto(
        FixedWindows(100), trigger=Repeatedly(AfterCount(1)), accumulation_mode=mode, allowed_lateness=20
    )
    with TestPipeline() as p:
        pairs = sums(p | arrivals(), FixedWindows(10), mode) | beam.WithKeys("all")
        totals = pairs | "again" >> as_they_come | "sum again" >> beam.CombinePerKey(sum)
        changes = record(totals | "total" >> beam.Values())
    assert SUMMED_AGAIN[mode] == changes.shown()


def test_what_equals_nothing_is_taken_back_downstream(make_pipeline: Callable[..., Any]) -> None:
    """A pair with what is no number in it is another one whenever it is made, or comes out of a shuffle."""
    as_they_come = beam.WindowInto(
        GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.RETRACTING
    )
    sink = Rows()
    with make_pipeline() as p:
        totals = p | beam.Create([("k", 1), ("k", 2), ("k", 4)]) | as_they_come | beam.CombinePerKey(sum)
        ratios = totals | beam.MapTuple(lambda _, total: ("all", ("ratio", float("nan") if total < 7 else total)))
        ratios | beam.GroupByKey() | beam.Map(repr) | beam.io.Write(sink)
    net: Counter[str] = Counter()
    for value, _, _, _, sign in sink.rows():
        net[value] += sign
    assert Counter({"('all', [('ratio', 7)])": 1}) == +net == Counter({k: n for k, n in net.items() if n})


# --- In a changelog


def logged(directory: pathlib.Path, totals: Any) -> None:
    totals | beam.io.WriteToChangelog(directory / "changes", ".jsonl")


def lines_in(directory: pathlib.Path) -> list[Any]:
    """The lines of the one file."""
    (file,) = directory.iterdir()
    return [json.loads(line) for line in file.read_text().splitlines()]


def lines_of(changes: Recording) -> list[Any]:
    """Return the changes in a changelog as lines."""
    found = []
    for change in changes.changes:
        (window,) = change.windows
        pane = change.pane
        found.append(
            {
                "op": "+" if change.sign > 0 else "-",
                "value": change.value,
                "timestamp": change.micros / 1_000_000,
                "window": {"start": window.start.micros / 1_000_000, "end": window.end.micros / 1_000_000},
                "pane": {
                    "timing": pane.timing.name,
                    "index": pane.index,
                    "first": pane.is_first,
                    "last": pane.is_last,
                },
            }
        )
    return found


def text(op: str, value: int, pane: str, window: str = '{"start":0,"end":10}', timestamp: str = "9.999999") -> str:
    """A line of a changelog, as it stands in the file."""
    return f'{{"op":"{op}","value":{value},"timestamp":{timestamp},"window":{window},"pane":{{{pane}}}}}'


FIRST = '"timing":"EARLY","index":0,"first":true,"last":false'
SECOND = '"timing":"ON_TIME","index":1,"first":false,"last":false'
THIRD = '"timing":"LATE","index":2,"first":false,"last":false'
LAST = '"timing":"LATE","index":3,"first":false,"last":true'

CHANGELOG = {
    DISCARDING: [text("+", 3, FIRST), text("+", 4, SECOND), text("+", 24, THIRD), text("+", 32, LAST)],
    ACCUMULATING: [text("+", 3, FIRST), text("+", 7, SECOND), text("+", 31, THIRD), text("+", 63, LAST)],
    RETRACTING: [
        text("+", 3, FIRST),
        text("-", 3, FIRST),
        text("+", 7, SECOND),
        text("-", 7, SECOND),
        text("+", 31, THIRD),
        text("-", 31, THIRD),
        text("+", 63, LAST),
    ],
}


@each_mode
def test_a_changelog_has_a_line_for_every_pane(mode: AccumulationMode, tmp_path: pathlib.Path) -> None:
    """With its sign, timestamp, window and info, letter by letter."""
    with TestPipeline() as p:
        logged(tmp_path, sums(p | arrivals(), FixedWindows(10), mode))
    (file,) = tmp_path.iterdir()
    assert CHANGELOG[mode] == file.read_text().splitlines()


@each_mode
@pytest.mark.parametrize("windows", WINDOWS)
def test_a_changelog_says_what_any_sink_sees(windows: str, mode: AccumulationMode, tmp_path: pathlib.Path) -> None:
    """In every kind of window; a sink beside it is given the same."""
    stream, window_fn, combiner, expected = WINDOWS[windows]
    with TestPipeline() as p:
        totals = sums(p | stream(), window_fn, mode, combiner)
        logged(tmp_path, totals)
        changes = record(totals)
    assert expected[mode] == changes.shown()
    assert lines_of(changes) == lines_in(tmp_path)
