"""MergeWindows: the two halves of the window operator make the same of a key's windows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.execution.groupings import fold_of

import penstock as beam
from penstock.runners.execution.windows.combining import Fold
from penstock.runners.execution.windows.merging import BulkMerge, MergedWindow, merged
from penstock.runners.execution.windows.triggered_operator import TriggeredWindows
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import PenstockError
from penstock.triggers import AccumulationMode, AfterWatermark
from penstock.windowing import IntervalWindow, Sessions, TimestampCombiner, WindowFn
from penstock.windowing.overlap import overlapping_runs

GAP = 10


class BySessions(WindowFn):
    """Sessions whose runner knows nothing of their overlap."""

    def assign_windows(self, context: WindowFn.AssignContext) -> Any:
        return Sessions(GAP).assign_micros(context.timestamp.micros)

    def merge_windows(self, merge_context: WindowFn.MergeContext) -> None:
        Sessions(GAP).merge_windows(merge_context)


def fold(window_fn: WindowFn, combiner: TimestampCombiner) -> Fold:
    return fold_of(
        beam.CombinePerKey(sum),
        window_fn,
        timestamp_combiner=combiner,
        trigger=AfterWatermark(),
        accumulation_mode=AccumulationMode.DISCARDING,
    )


def at_once(window_fn: WindowFn, combiner: TimestampCombiner, micros: list[int], waiting: int) -> list[MergedWindow]:
    """With as many of the elements as `waiting` says folded before."""
    merge = BulkMerge(fold(window_fn, combiner))

    def pending(times: list[int]) -> list[Any]:
        flat: list[Any] = []
        for time in times:
            (window,) = window_fn.assign_micros(time)
            if window_fn.merges_by_overlap:
                stamp = () if combiner is TimestampCombiner.OUTPUT_AT_EOW else (time,)
                flat += [window[0], window[1] - window[0], time, *stamp]  # type: ignore[index]
            else:
                flat.append((window, window, time, time))
        return flat

    return merge.folded(pending(micros[waiting:]), merge.folded(pending(micros[:waiting]), []))


def one_by_one(window_fn: WindowFn, combiner: TimestampCombiner, micros: list[int]) -> list[MergedWindow]:
    windows = TriggeredWindows(fold(window_fn, combiner))
    for time in micros:
        windows.process(Bundle([("k", time)], time, window_fn.assign_micros(time)))
    return [(state.window, state.accumulator, state.stamp) for state in windows.table.of_key("k")]


@given(st.lists(st.integers(0, 100_000_000), max_size=12), st.integers(0, 12), st.sampled_from(TimestampCombiner))
def test_windows_values_and_timestamps_are_the_same_at_once_and_one_by_one(
    micros: list[int], waiting: int, combiner: TimestampCombiner
) -> None:
    """By overlap and by a user's function; also with windows that have merged before."""
    expected = sorted(at_once(Sessions(GAP), combiner, micros, 0))
    assert expected == sorted(at_once(Sessions(GAP), combiner, micros, waiting))
    assert expected == sorted(at_once(BySessions(), combiner, micros, waiting))
    assert expected == sorted(one_by_one(Sessions(GAP), combiner, micros))
    assert expected == sorted(one_by_one(BySessions(), combiner, micros))


class Merges(WindowFn):
    """Merges what a test says."""

    def __init__(self, *merges: tuple[list[IntervalWindow], IntervalWindow]) -> None:
        self.merges = merges

    def merge_windows(self, merge_context: WindowFn.MergeContext) -> None:
        for sources, result in self.merges:
            merge_context.merge(sources, result)


A, B, C, AB, ABC = (IntervalWindow(0, end) for end in (1, 2, 3, 4, 5))


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 20), st.integers(-3, 3))))
@pytest.mark.parametrize(
    "transform",
    [
        beam.GroupByKey(),
        beam.CombinePerKey(sum),
        beam.CombinePerKey(max),
        beam.combiners.Count.PerKey(),
        beam.combiners.Top.LargestPerKey(2),
    ],
    ids=["values", "sum", "max", "count", "largest"],
)
def test_runs_are_folded_as_their_values_are(transform: beam.PTransform, elements: list[tuple[int, int, int]]) -> None:
    """Windows that only touch, empty ones and those within another one among them."""
    own = fold_of(transform, Sessions(5))
    merge = BulkMerge(own)
    spans = sorted(elements, key=lambda span: span[0])
    expected = [((begin, end), own.extracted(own.of(values)), None) for begin, end, values in overlapping_runs(spans)]
    entries = [part for span in elements for part in span]
    folded = merge.folded(entries, [])
    assert expected == [(window, own.extracted(accumulator), stamp) for window, accumulator, stamp in folded]
    values: list[Any] = []
    timestamps: list[int] = []
    windows: list[Any] = []
    merge.emit_runs("k", entries, values, timestamps, windows)
    assert [("k", result) for _, result, _ in expected] == values
    assert [(window,) for window, _, _ in expected] == windows
    assert [window.max_micros for (window,) in windows] == timestamps


def test_a_result_may_be_merged_again() -> None:
    """The window that was merged in between is none of the results."""
    fn = Merges(([A, B], AB), ([AB, C], ABC))
    assert [(ABC, [1, 2, 3])] == merged(fn, [(A, 1), (B, 2), (C, 3)])


def test_a_result_takes_up_the_window_that_it_is_equal_to() -> None:
    """One that is there, and not among those that merge."""
    assert [(C, [3, 1, 2])] == merged(Merges(([A, B], C)), [(A, 1), (B, 2), (C, 3)])


def test_a_window_cannot_be_merged_twice() -> None:
    """The error names it."""
    fn = Merges(([A, B], AB), ([A, C], ABC))
    with pytest.raises(PenstockError, match=r"merge_windows merged \[0.0, 1.0\), which .* was merged before"):
        merged(fn, [(A, 1), (B, 2), (C, 3)])
