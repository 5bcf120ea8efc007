"""The Dataflow paper's running example in batch: figures 6 and 10, exactly.

Ten integers for one key, with the times at which they happened (figure 5).  In a batch the
order of their arrival doesn't matter, and the watermark moves once, from the beginning of time to
its end, after the last of them.
"""

from __future__ import annotations

from typing import Any

from checks import check

import penstock as beam
from penstock.testing import TestWindowedValue, assert_that, equal_to_per_window
from penstock.triggers import PaneInfo, PaneInfoTiming
from penstock.windowing import GLOBAL_WINDOW, FixedWindows, IntervalWindow, TimestampedValue


def at(clock: str) -> int:
    """A time of that day, such as "12:03:39", in seconds."""
    hours, minutes, seconds = map(int, clock.split(":"))
    return (hours * 60 + minutes) * 60 + seconds


def between(start: str, end: str) -> IntervalWindow:
    return IntervalWindow(at(start), at(end))


# In the order in which they arrived.
FIGURE_5 = [
    TimestampedValue(("team", value), at(clock))
    for value, clock in [
        (5, "12:00:26"),
        (7, "12:02:24"),
        (3, "12:03:39"),
        (4, "12:03:47"),
        (3, "12:04:21"),
        (8, "12:03:06"),
        (3, "12:06:39"),
        (9, "12:01:25"),
        (8, "12:07:26"),
        (1, "12:07:46"),
    ]
]

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
    """What each sum is made of."""
    with pipeline as p:
        groups = p | beam.Create(FIGURE_5) | beam.WindowInto(FixedWindows(120)) | beam.GroupByKey()
        expected = {
            between("12:00:00", "12:02:00"): [("team", [5, 9])],
            between("12:02:00", "12:04:00"): [("team", [3, 4, 7, 8])],
            between("12:04:00", "12:06:00"): [("team", [3])],
            between("12:06:00", "12:08:00"): [("team", [1, 3, 8])],
        }
        in_order = groups | beam.MapTuple(lambda key, values: (key, sorted(values)))
        assert_that(in_order, equal_to_per_window(expected), use_global_window=False)
