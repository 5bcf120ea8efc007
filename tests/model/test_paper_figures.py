"""The Dataflow paper's running example, figures 6 to 14: every pane, and when it comes.

Ten integers for one key, with the times at which they happened and at which they arrived
(figure 5).  In a batch the order of their arrival doesn't matter, and the watermark moves
once, from the beginning of time to its end, after the last of them: figures 6 and 10.  The
others are what a stream says while they arrive.  A pane is written with the time at which it
comes; each script is also run in the accumulation modes that the paper doesn't draw, whose
panes follow from the rules.
"""

from __future__ import annotations

import csv
import pathlib
from typing import Any

import pytest
from support.pipelines.checks import check
from support.pipelines.recording import SECOND, Arrives, Change, Happening, Tick, Watermark, record, with_times
from support.runners.local_variants import SideBySide

import penstock as beam
from penstock.testing import TestPipeline, TestStream, TestWindowedValue, assert_that, equal_to_per_window
from penstock.triggers import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    DefaultTrigger,
    PaneInfo,
    PaneInfoTiming,
    Repeatedly,
)
from penstock.windowing import GLOBAL_WINDOW, FixedWindows, IntervalWindow, Sessions, TimestampedValue

DISCARDING, ACCUMULATING, RETRACTING = AccumulationMode
DAY = 24 * 60 * 60


def at(clock: str) -> int:
    """A time of that day, such as "12:03:39", in seconds."""
    hours, minutes, seconds = map(int, clock.split(":"))
    return (hours * 60 + minutes) * 60 + seconds


def between(start: str, end: str) -> IntervalWindow:
    return IntervalWindow(at(start), at(end))


# In the order in which they arrived: the value, when it happened, and when it arrived.
POINTS = [
    (5, "12:00:26", "12:05:19"),
    (7, "12:02:24", "12:05:39"),
    (3, "12:03:39", "12:06:13"),
    (4, "12:03:47", "12:06:39"),
    (3, "12:04:21", "12:06:52"),
    (8, "12:03:06", "12:07:06"),
    (3, "12:06:39", "12:07:19"),
    (9, "12:01:25", "12:08:19"),
    (8, "12:07:26", "12:08:39"),
    (1, "12:07:46", "12:08:52"),
]
FIGURE_5 = [TimestampedValue(("team", value), at(happened)) for value, happened, _ in POINTS]

FIGURE_10 = {
    between("12:00:00", "12:02:00"): 14,
    between("12:02:00", "12:04:00"): 22,
    between("12:04:00", "12:06:00"): 3,
    between("12:06:00", "12:08:00"): 12,
}

# The watermark passes the end of every window once, and nothing is late.
ONLY_PANE = PaneInfo(is_first=True, is_last=True, timing=PaneInfoTiming.ON_TIME, index=0, nonspeculative_index=0)


def test_figure_6_sums_everything_in_one_pane_of_the_global_window(pipeline: Any) -> None:
    """51, at the end of time."""
    with pipeline as p:
        total = p | beam.Create(FIGURE_5) | beam.CombinePerKey(sum)
        expected = TestWindowedValue(("team", 51), GLOBAL_WINDOW.max_timestamp(), [GLOBAL_WINDOW], ONLY_PANE)
        check([expected], total, reify_windows=True)


def test_figure_10_sums_each_two_minutes_in_one_pane(pipeline: Any) -> None:
    """14, 22, 3 and 12, each at the end of its window."""
    with pipeline as p:
        totals = p | beam.Create(FIGURE_5) | beam.WindowInto(FixedWindows(120)) | beam.CombinePerKey(sum)
        expected = [
            TestWindowedValue(("team", total), window.max_timestamp(), [window], ONLY_PANE)
            for window, total in FIGURE_10.items()
        ]
        check(expected, totals, reify_windows=True)


def test_figure_10_holds_the_same_values_without_a_combiner(pipeline: Any) -> None:
    """The values that each sum consists of."""
    with pipeline as p:
        groups = p | beam.Create(FIGURE_5) | beam.WindowInto(FixedWindows(120)) | beam.GroupByKey()
        expected = {
            between("12:00:00", "12:02:00"): [("team", [5, 9])],
            between("12:02:00", "12:04:00"): [("team", [3, 4, 7, 8])],
            between("12:04:00", "12:06:00"): [("team", [3])],
            between("12:06:00", "12:08:00"): [("team", [1, 3, 8])],
        }
        in_order = groups | beam.MapTuple(lambda key, values: (key, sorted(values)))
        assert_that(in_order, equal_to_per_window(expected))


# --- While they arrive

ARRIVALS: list[Happening] = [
    Arrives(at(arrived), ((("team", value), at(happened)),)) for value, happened, arrived in POINTS
]
# Processing time goes by from minute to minute.
MINUTES: list[Happening] = [Tick(at(f"12:{minute:02}:00")) for minute in range(5, 11)]
HEURISTIC_WATERMARK: list[Happening] = [
    Watermark(at("12:00:00"), at("12:00:00")),
    Watermark(at("12:05:50"), at("12:02:00")),
    Watermark(at("12:07:30"), at("12:04:00")),
    Watermark(at("12:07:40"), at("12:06:00")),
    Watermark(at("12:08:56"), at("12:09:00")),
]
SCRIPT = [*ARRIVALS, *MINUTES, *HEURISTIC_WATERMARK]

PERIOD = AfterProcessingTime(align_to=60)


def clock(seconds: Any) -> str:
    """A time of that day, without the seconds if there are none."""
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")


def panes(
    runner: Any, window_fn: Any, trigger: Any, mode: AccumulationMode, script: list[Happening] = SCRIPT
) -> list[str]:
    """The panes of a run as the paper writes them, with their windows unless there is but one."""
    windowing = beam.WindowInto(window_fn, trigger=trigger, accumulation_mode=mode, allowed_lateness=DAY)
    changes = with_times(script, lambda numbers: numbers | windowing | beam.CombinePerKey(sum), runner)
    return [shown(when, change) for when, change in changes]


def shown(when: Any, change: Change) -> str:
    key, total = change.value
    assert "team" == key
    assert 1 == len(change.windows)
    assert change.windows[0].max_micros == change.micros
    window: Any = change.windows[0]
    place = ""
    if window != GLOBAL_WINDOW:
        place = f"[{clock(window.start_micros // SECOND)}, {clock(window.end_micros // SECOND)}) "
    return f"{place}{'-' if change.sign < 0 else ''}{total}@{when if when == 'end' else clock(when)}"


def test_the_points_are_those_of_figure_5() -> None:
    """As the file beside the paper has them."""
    figure_5 = pathlib.Path(__file__).parent / "figure5.csv"
    with figure_5.open() as file:
        assert [(int(value), *times) for value, *times in list(csv.reader(file))[1:]] == POINTS


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ACCUMULATING, ["12@12:06", "22@12:07", "33@12:08", "51@12:09"]),  # figure 7
        (DISCARDING, ["12@12:06", "10@12:07", "11@12:08", "18@12:09"]),  # figure 8
        (RETRACTING, ["12@12:06", "-12@12:07", "22@12:07", "-22@12:08", "33@12:08", "-33@12:09", "51@12:09"]),
    ],
)
def test_figures_7_and_8_have_a_pane_every_minute(
    streaming_runner: Any, mode: AccumulationMode, expected: list[str]
) -> None:
    """In the global window; there is no further pane at the end of the window."""
    assert expected == panes(streaming_runner, beam.window.GlobalWindows(), Repeatedly(PERIOD), mode)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # Figure 9.
        (DISCARDING, ["12@12:05:39", "7@12:06:39", "11@12:07:06", "12@12:08:19", "9@12:08:52"]),
        (ACCUMULATING, ["12@12:05:39", "19@12:06:39", "30@12:07:06", "42@12:08:19", "51@12:08:52"]),
        (
            RETRACTING,
            [
                "12@12:05:39",
                *("-12@12:06:39", "19@12:06:39"),
                *("-19@12:07:06", "30@12:07:06"),
                *("-30@12:08:19", "42@12:08:19"),
                *("-42@12:08:52", "51@12:08:52"),
            ],
        ),
    ],
)
def test_figure_9_has_a_pane_for_every_two_elements(
    streaming_runner: Any, mode: AccumulationMode, expected: list[str]
) -> None:
    """Each comes with the second of the two."""
    assert expected == panes(streaming_runner, beam.window.GlobalWindows(), Repeatedly(AfterCount(2)), mode)


@pytest.mark.parametrize("mode", list(AccumulationMode))
def test_figure_10_is_the_same_whatever_the_mode(pipeline: Any, mode: AccumulationMode) -> None:
    """A window that has one pane has nothing to accumulate or to retract."""
    with pipeline as p:
        windowing = beam.WindowInto(FixedWindows(120), trigger=DefaultTrigger(), accumulation_mode=mode)
        totals = p | beam.Create(FIGURE_5) | windowing | beam.CombinePerKey(sum)
        expected = [
            TestWindowedValue(("team", total), window.max_timestamp(), [window], ONLY_PANE)
            for window, total in FIGURE_10.items()
        ]
        check(expected, totals, reify_windows=True)


MICRO_BATCHES: list[Happening] = []
for minute in (5, 6, 7, 8):
    batch = [(("team", v), at(happened)) for v, happened, arrived in POINTS if arrived.startswith(f"12:{minute:02}")]
    MICRO_BATCHES.append(Arrives(at(f"12:{minute + 1:02}:00"), tuple(batch)))
    MICRO_BATCHES.append(Watermark(at(f"12:{minute + 1:02}:00"), max(time for _, time in batch)))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # Figure 11.
        (
            ACCUMULATING,
            [
                "[12:00, 12:02) 5@12:06",
                "[12:02, 12:04) 7@12:06",
                "[12:02, 12:04) 14@12:07",
                "[12:04, 12:06) 3@12:07",
                "[12:02, 12:04) 22@12:08",
                "[12:06, 12:08) 3@12:08",
                "[12:00, 12:02) 14@12:09",
                "[12:06, 12:08) 12@12:09",
            ],
        ),
        (
            DISCARDING,
            [
                "[12:00, 12:02) 5@12:06",
                "[12:02, 12:04) 7@12:06",
                "[12:02, 12:04) 7@12:07",
                "[12:04, 12:06) 3@12:07",
                "[12:02, 12:04) 8@12:08",
                "[12:06, 12:08) 3@12:08",
                "[12:00, 12:02) 9@12:09",
                "[12:06, 12:08) 9@12:09",
            ],
        ),
        (
            RETRACTING,
            [
                "[12:00, 12:02) 5@12:06",
                "[12:02, 12:04) 7@12:06",
                "[12:02, 12:04) -7@12:07",
                "[12:02, 12:04) 14@12:07",
                "[12:04, 12:06) 3@12:07",
                "[12:02, 12:04) -14@12:08",
                "[12:02, 12:04) 22@12:08",
                "[12:06, 12:08) 3@12:08",
                "[12:00, 12:02) -5@12:09",
                "[12:00, 12:02) 14@12:09",
                "[12:06, 12:08) -3@12:09",
                "[12:06, 12:08) 12@12:09",
            ],
        ),
    ],
)
def test_figure_11_has_panes_for_each_micro_batch(
    streaming_runner: Any, mode: AccumulationMode, expected: list[str]
) -> None:
    """A minute of arrivals is one bundle; what it touched comes out with it."""
    assert expected == panes(streaming_runner, FixedWindows(120), Always(), mode, MICRO_BATCHES)


@pytest.mark.parametrize("trigger", [DefaultTrigger(), AfterWatermark(late=AfterCount(1))], ids=repr)
@pytest.mark.parametrize(
    ("mode", "late"),
    [
        (ACCUMULATING, ["[12:00, 12:02) 14@12:08:19"]),  # figure 12
        (DISCARDING, ["[12:00, 12:02) 9@12:08:19"]),
        (RETRACTING, ["[12:00, 12:02) -5@12:08:19", "[12:00, 12:02) 14@12:08:19"]),
    ],
)
def test_figure_12_has_a_pane_at_the_watermark_and_one_for_late_data(
    streaming_runner: Any, trigger: Any, mode: AccumulationMode, late: list[str]
) -> None:
    """The nine is late."""
    expected = [
        "[12:00, 12:02) 5@12:05:50",
        "[12:02, 12:04) 22@12:07:30",
        "[12:04, 12:06) 3@12:07:40",
        *late,
        "[12:06, 12:08) 12@12:08:56",
    ]
    assert expected == panes(streaming_runner, FixedWindows(120), trigger, mode)


PERIOD_UNTIL_WATERMARK = AfterWatermark(early=PERIOD, late=AfterCount(1))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # Figure 13.
        (
            ACCUMULATING,
            [
                "[12:00, 12:02) 5@12:05:50",
                "[12:02, 12:04) 7@12:06",
                "[12:02, 12:04) 14@12:07",
                "[12:04, 12:06) 3@12:07",
                "[12:02, 12:04) 22@12:07:30",
                "[12:04, 12:06) 3@12:07:40",
                "[12:06, 12:08) 3@12:08",
                "[12:00, 12:02) 14@12:08:19",
                "[12:06, 12:08) 12@12:08:56",
            ],
        ),
        # The pane on time of [12:04, 12:06) has nothing new to say, and says so.
        (
            DISCARDING,
            [
                "[12:00, 12:02) 5@12:05:50",
                "[12:02, 12:04) 7@12:06",
                "[12:02, 12:04) 7@12:07",
                "[12:04, 12:06) 3@12:07",
                "[12:02, 12:04) 8@12:07:30",
                "[12:04, 12:06) 0@12:07:40",
                "[12:06, 12:08) 3@12:08",
                "[12:00, 12:02) 9@12:08:19",
                "[12:06, 12:08) 9@12:08:56",
            ],
        ),
        # Here it says nothing: what stands is right.
        (
            RETRACTING,
            [
                "[12:00, 12:02) 5@12:05:50",
                "[12:02, 12:04) 7@12:06",
                "[12:02, 12:04) -7@12:07",
                "[12:02, 12:04) 14@12:07",
                "[12:04, 12:06) 3@12:07",
                "[12:02, 12:04) -14@12:07:30",
                "[12:02, 12:04) 22@12:07:30",
                "[12:06, 12:08) 3@12:08",
                "[12:00, 12:02) -5@12:08:19",
                "[12:00, 12:02) 14@12:08:19",
                "[12:06, 12:08) -3@12:08:56",
                "[12:06, 12:08) 12@12:08:56",
            ],
        ),
    ],
)
def test_figure_13_has_early_panes_too(streaming_runner: Any, mode: AccumulationMode, expected: list[str]) -> None:
    """Every minute until the watermark passes."""
    found = panes(streaming_runner, FixedWindows(120), PERIOD_UNTIL_WATERMARK, mode)
    if isinstance(streaming_runner, SideBySide) and streaming_runner.variant.state_memory is not None:
        # Of windows on disk that are due together none is the first.
        expected, found = (
            sorted(these, key=lambda text: (text.rpartition("@")[2], text.partition(" ")[0]))
            for these in (expected, found)
        )
    assert expected == found


FIRST, SECOND_ONE, THIRD = "[12:00:26, 12:01:26)", "[12:02:24, 12:03:24)", "[12:03:39, 12:05:21)"
BOTH, ALL_THREE, FOURTH = "[12:02:24, 12:05:21)", "[12:00:26, 12:05:21)", "[12:06:39, 12:08:46)"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # Figure 14.
        (
            RETRACTING,
            [
                f"{FIRST} 5@12:05:50",
                f"{SECOND_ONE} 7@12:06",
                f"{THIRD} 10@12:07",
                f"{SECOND_ONE} -7@12:07:40",
                f"{THIRD} -10@12:07:40",
                f"{BOTH} 25@12:07:40",
                "[12:06:39, 12:07:39) 3@12:08",
                f"{FIRST} -5@12:08:19",
                f"{BOTH} -25@12:08:19",
                f"{ALL_THREE} 39@12:08:19",
                "[12:06:39, 12:07:39) -3@12:08:56",
                f"{FOURTH} 12@12:08:56",
            ],
        ),
        (
            ACCUMULATING,
            [
                f"{FIRST} 5@12:05:50",
                f"{SECOND_ONE} 7@12:06",
                f"{THIRD} 10@12:07",
                f"{BOTH} 25@12:07:40",
                "[12:06:39, 12:07:39) 3@12:08",
                f"{ALL_THREE} 39@12:08:19",
                f"{FOURTH} 12@12:08:56",
            ],
        ),
        (
            DISCARDING,
            [
                f"{FIRST} 5@12:05:50",
                f"{SECOND_ONE} 7@12:06",
                f"{THIRD} 10@12:07",
                f"{BOTH} 8@12:07:40",
                "[12:06:39, 12:07:39) 3@12:08",
                f"{ALL_THREE} 9@12:08:19",
                f"{FOURTH} 9@12:08:56",
            ],
        ),
    ],
)
def test_figure_14_merges_sessions_and_takes_back_what_it_said_of_them(
    streaming_runner: Any, mode: AccumulationMode, expected: list[str]
) -> None:
    """A retraction has the window that its value was emitted for."""
    assert expected == panes(streaming_runner, Sessions(60), PERIOD_UNTIL_WATERMARK, mode)


def test_the_panes_of_figure_14_are_numbered_anew_after_a_merge(streaming_runner: Any) -> None:
    """A merged window is a new window; what is taken back has the numbers that it had."""
    windowing = beam.WindowInto(
        Sessions(60), trigger=PERIOD_UNTIL_WATERMARK, accumulation_mode=RETRACTING, allowed_lateness=DAY
    )
    changes = with_times(SCRIPT, lambda numbers: numbers | windowing | beam.CombinePerKey(sum), streaming_runner)
    found = [
        (c.sign * c.value[1], c.pane.timing.name, c.pane.index, c.pane.nonspeculative_index, c.pane.is_last)
        for _, c in changes
    ]
    expected = [
        (5, "ON_TIME", 0, 0, False),
        (7, "EARLY", 0, -1, False),
        (10, "EARLY", 0, -1, False),
        (-7, "EARLY", 0, -1, False),
        (-10, "EARLY", 0, -1, False),
        (25, "ON_TIME", 0, 0, False),
        (3, "EARLY", 0, -1, False),
        (-5, "ON_TIME", 0, 0, False),
        (-25, "ON_TIME", 0, 0, False),
        (39, "LATE", 0, 0, False),
        (-3, "EARLY", 0, -1, False),
        (12, "ON_TIME", 0, 0, False),
    ]
    assert expected == found


def length_class(window: Any) -> str:
    return "long" if window.end - window.start >= 120 else "short"


class ByLengthClass(beam.PTransform):
    """How many sessions there are of each length class."""

    def expand(self, sessions: Any) -> Any:
        return (
            sessions
            | beam.Map(lambda _, window=beam.DoFn.WindowParam: length_class(window))
            | beam.WindowInto(
                beam.window.GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=RETRACTING
            )
            | beam.combiners.Count.PerElement()
        )


def test_a_grouping_after_figure_14_ends_with_the_counts_of_a_batch(streaming_runner: Any) -> None:
    """That is what retractions are for: of four short sessions that it saw, two long ones are left."""
    stream = TestStream()
    for happening in sorted(SCRIPT, key=lambda h: h.at):
        if isinstance(happening, Arrives):
            stream.add_elements([TimestampedValue(value, time) for value, time in happening.elements])
        elif isinstance(happening, Watermark):
            stream.advance_watermark_to(happening.to)
    with TestPipeline(streaming_runner) as p:
        sessions = (
            p
            | stream
            | beam.WindowInto(
                Sessions(60),
                trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
                accumulation_mode=RETRACTING,
                allowed_lateness=DAY,
            )
            | beam.CombinePerKey(sum)
        )
        streamed = record(sessions | ByLengthClass())
    with TestPipeline(streaming_runner) as p:
        sessions = p | beam.Create(FIGURE_5) | beam.WindowInto(Sessions(60)) | beam.CombinePerKey(sum)
        windowed = sessions | beam.Map(lambda _, window=beam.DoFn.WindowParam: length_class(window))
        counts = windowed | "all" >> beam.WindowInto(beam.window.GlobalWindows()) | beam.combiners.Count.PerElement()
        batch = record(counts)
    assert {("long", 2): 1} == {value: n for (value, _), n in batch.net().items()}
    assert batch.net() == streamed.net()
    # It was not so from the beginning.
    assert (1, ("short", 2)) in streamed.signed()
    assert (-1, ("short", 2)) in streamed.signed()
