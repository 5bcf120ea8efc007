"""WindowOperator: what comes out of a grouping, when, and with which timestamp."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.execution.stages import SECOND, GroupingAlone, Row, bundle, row, window

import penstock as beam
from penstock.runners.execution.windows import cell_table
from penstock.sdk.elements.bundle import GLOBAL_WINDOWS
from penstock.sdk.elements.element_wrappers import WindowedValue
from penstock.sdk.errors import PenstockError
from penstock.triggers import ONLY_PANE
from penstock.windowing import (
    BoundedWindow,
    CalendarDays,
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    Sessions,
    SlidingWindows,
    Timestamp,
    TimestampCombiner,
    WindowFn,
)

EOW = TimestampCombiner.OUTPUT_AT_EOW
EARLIEST = TimestampCombiner.OUTPUT_AT_EARLIEST
LATEST = TimestampCombiner.OUTPUT_AT_LATEST
TRANSFORMED = TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED


def summed(window_fn: WindowFn, combiner: TimestampCombiner = EOW) -> GroupingAlone:
    return GroupingAlone(beam.WindowInto(window_fn, timestamp_combiner=combiner), beam.CombinePerKey(sum))


def seconds(rows: Iterable[Row]) -> list[tuple[Any, float, Any]]:
    """Value, timestamp in seconds, and the one window."""
    return [(value, micros / SECOND, own) for value, micros, (own,), _, _ in rows]


# Windows that don't merge


def test_windows_come_out_in_order_of_their_ends() -> None:
    """In any order of input."""
    grouping = summed(FixedWindows(60)).process(bundle(*(row(("a", i), 60 * i) for i in (3, 1, 2))))
    assert [("a", 1), ("a", 2), ("a", 3)] == [r[0] for r in grouping.results()]


def test_a_result_is_the_only_pane_of_its_window() -> None:
    """With the sign +1."""
    grouping = summed(FixedWindows(60)).process(bundle(row(("a", 1), 5)))
    assert [(ONLY_PANE, 1)] == [(r[3], r[4]) for r in grouping.results()]


def test_a_plain_grouping_gives_all_values_of_a_key_and_window() -> None:
    """As a list, in the order in which they came."""
    grouping = GroupingAlone(beam.WindowInto(SlidingWindows(60, 30)), beam.GroupByKey())
    grouping.process(bundle(row(("a", 1), 40), row(("b", 2), 10)), bundle(row(("a", 3), 50)))
    assert [
        (("b", [2]), 29.999999, window(-30, 30)),
        (("a", [1, 3]), 59.999999, window(0, 60)),
        (("b", [2]), 59.999999, window(0, 60)),
        (("a", [1, 3]), 89.999999, window(30, 90)),
    ] == seconds(grouping.results())


def test_a_flush_ends_time_and_begins_anew() -> None:
    """For a runner that brings one range of keys after the other."""
    grouping = summed(FixedWindows(60)).process(bundle(row(("a", 1), 5)))
    assert [("a", 1)] == [value for made in grouping.operator.flush() for value in made.values]
    grouping.process(bundle(row(("b", 2), 5)))
    assert [("b", 2)] == [value for made in grouping.operator.flush() for value in made.values]


def test_many_results_come_in_several_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one window each, or of merged ones as they come."""
    monkeypatch.setattr(cell_table, "BUNDLE_SIZE", 2)
    monkeypatch.setattr(cell_table, "MERGED_WINDOWS", 2)
    for window_fn in (FixedWindows(60), Sessions(60)):
        grouping = summed(window_fn).process(bundle(*(row((i, i), 5) for i in range(5))))
        assert [2, 2, 1] == [len(made) for made in grouping.operator.flush()]


def test_nothing_comes_out_of_nothing() -> None:
    """Whether windows merge or not."""
    assert [] == summed(FixedWindows(60)).results()
    assert [] == summed(Sessions(60)).results()


# Timestamps


class MinuteLater(FixedWindows):
    """Moves timestamps on."""

    def get_transformed_output_time(self, window: BoundedWindow, input_timestamp: Timestamp) -> Timestamp:
        return input_timestamp + 60


class SessionsMinuteLater(Sessions):
    get_transformed_output_time = MinuteLater.get_transformed_output_time


@pytest.mark.parametrize(
    ("combiner", "fixed", "session"),
    [(EOW, 59.999999, 66.999999), (EARLIEST, 5, 5), (LATEST, 7, 7), (TRANSFORMED, 65, 65)],
)
def test_the_timestamp_combiner_says_which_timestamp_a_result_has(
    combiner: TimestampCombiner, fixed: float, session: float
) -> None:
    """Over several bundles."""
    bundles = [bundle(row(("a", 1), 6), row(("a", 2), 5)), bundle(row(("a", 3), 7))]
    assert [(("a", 6), fixed, window(0, 60))] == seconds(summed(MinuteLater(60), combiner).process(*bundles).results())
    merged = summed(SessionsMinuteLater(60), combiner).process(*bundles)
    assert [(("a", 6), session, window(5, 67))] == seconds(merged.results())


def test_a_timestamp_belongs_to_its_key() -> None:
    """Not to the window as a whole."""
    grouping = summed(FixedWindows(60), EARLIEST).process(bundle(row(("a", 1), 6), row(("b", 2), 5)))
    assert [(("a", 1), 6, window(0, 60)), (("b", 2), 5, window(0, 60))] == seconds(grouping.results())


# Windows that merge


def test_elements_within_the_gap_are_one_session() -> None:
    """From the first to a gap after the last, out of order and over bundles."""
    grouping = summed(Sessions(10))
    grouping.process(bundle(row(("a", 1), 20), row(("b", 2), 14)), bundle(row(("a", 4), 5), row(("a", 8), 14)))
    assert [
        (("a", 13), 29.999999, window(5, 30)),
        (("b", 2), 23.999999, window(14, 24)),
    ] == seconds(grouping.results())


def test_elements_exactly_a_gap_apart_are_two_sessions() -> None:
    """Windows that only touch stay apart."""
    grouping = summed(Sessions(10)).process(bundle(row(("a", 1), 0), row(("a", 2), 10)))
    assert [("a", 1), ("a", 2)] == [r[0] for r in grouping.results()]


def test_windows_that_are_wider_than_their_gap_merge_as_they_are() -> None:
    """A function may have given them, or an earlier grouping."""
    wide = (window(0, 100),)
    grouping = GroupingAlone(
        beam.WindowInto(Sessions(10)),
        beam.Map(lambda x: WindowedValue(("a", x), 3, wide) if x == 1 else ("a", x)),
        beam.CombinePerKey(sum),
    )
    grouping.process(bundle(row(1, 50), row(2, 95), row(4, 100), row(8, 110), row(16, 20)))
    assert [
        (("a", 23), 109.999999, window(0, 110)),
        (("a", 8), 119.999999, window(110, 120)),
    ] == seconds(grouping.results())


class ByKind(WindowFn):
    """Windows of which only those merge that end at the same time; they become the widest of them."""

    def __init__(self, merges: Callable[[list[Any]], Iterable[tuple[Any, Any]]] | None = None) -> None:
        self.merges = merges

    def assign_windows(self, context: WindowFn.AssignContext) -> list[IntervalWindow]:
        start = int(context.timestamp)
        return [IntervalWindow(start, start - start % 60 + 60)]

    def merge_windows(self, merge_context: WindowFn.MergeContext) -> None:
        if self.merges is not None:
            for sources, result in self.merges(merge_context.windows):
                merge_context.merge(sources, result)
            return
        by_end: dict[Any, list[Any]] = {}
        for own in merge_context.windows:
            by_end.setdefault(own.end, []).append(own)
        for same in by_end.values():
            merge_context.merge(same, min(same))


@pytest.mark.parametrize(("combiner", "timestamp"), [(EOW, 59.999999), (EARLIEST, 5), (LATEST, 30)])
def test_windows_merge_as_the_users_function_says(combiner: TimestampCombiner, timestamp: float) -> None:
    """By any criterion."""
    grouping = summed(ByKind(), combiner)
    grouping.process(bundle(row(("a", 1), 5), row(("a", 2), 30)), bundle(row(("a", 4), 5), row(("a", 8), 70)))
    (first, second) = seconds(grouping.results())
    assert (("a", 7), timestamp, window(5, 60)) == first
    assert (("a", 8), window(70, 120)) == (second[0], second[2])


@pytest.mark.parametrize(
    "merges",
    [
        lambda windows: [([window(7, 8)], window(0, 60))],
        lambda windows: [(windows, window(0, 60)), (windows, window(0, 60))],
    ],
)
def test_merging_what_isnt_there_is_an_error_that_names_both(merges: Any) -> None:
    """The grouping, and the window."""
    grouping = GroupingAlone(beam.WindowInto(ByKind(merges)), "sum" >> beam.CombinePerKey(sum))
    grouping.process(bundle(row(("a", 1), 5)))
    with pytest.raises(PenstockError, match=r"sum: .*merge_windows merged \[.*, which is not among the windows"):
        grouping.results()


# Errors, and what a run leaves


class Broken(beam.CombineFn):
    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def extract_output(self, accumulator: int) -> int:
        raise LookupError("nothing there")


@pytest.mark.parametrize("window_fn", [FixedWindows(60), Sessions(60)])
def test_a_combiner_that_cannot_extract_is_named(window_fn: WindowFn) -> None:
    """Long after the element that it fails on."""
    grouping = GroupingAlone(beam.WindowInto(window_fn), "broken" >> beam.CombinePerKey(Broken()))
    grouping.process(bundle(row(("a", 1), 5)))
    with pytest.raises(LookupError, match="nothing there .*while running 'broken'"):
        grouping.results()


# What was folded elsewhere


@pytest.mark.parametrize("combiner", [EOW, EARLIEST, LATEST])
@pytest.mark.parametrize(
    "grouping_of", [beam.GroupByKey, lambda: beam.CombinePerKey(sum), lambda: beam.CombinePerKey(len)]
)
def test_cells_of_several_operators_merge_to_what_one_would_hold(
    combiner: TimestampCombiner, grouping_of: Callable[[], Any]
) -> None:
    """As they do behind a shuffle."""

    def grouping() -> GroupingAlone:
        return GroupingAlone(beam.WindowInto(FixedWindows(60), timestamp_combiner=combiner), grouping_of())

    parts = [bundle(row(("a", 1), 7), row(("b", 2), 70)), bundle(row(("a", 3), 5), row(("c", 4), 5))]
    expected = grouping().process(*parts).results()
    merged = grouping()
    for part in parts:
        for cells in grouping().process(part).operator.cells.take():
            stamps = list(cells.stamps.values())
            merged.operator.merge(cells.window, list(cells.accumulators), list(cells.accumulators.values()), stamps)
    assert sorted(expected) == sorted(merged.results())


@pytest.mark.parametrize("combiner", [EOW, EARLIEST, LATEST])
def test_sessions_of_several_operators_merge_to_what_one_would_hold(combiner: TimestampCombiner) -> None:
    """Also where they overlap only together."""
    parts = [
        bundle(row(("a", 1), 0), row(("a", 2), 16), row(("b", 4), 5)),
        bundle(row(("a", 8), 8), row(("a", 16), 50)),
    ]
    expected = summed(Sessions(10), combiner).process(*parts).results()
    merged = summed(Sessions(10), combiner)
    for part in parts:
        for key, windows in summed(Sessions(10), combiner).process(part).operator.take_merged():
            merged.operator.put_merged([key] * len(windows), windows)
    assert sorted(expected, key=repr) == sorted(merged.results(), key=repr)


# Any events, in any windows, against a computation by hand


@attrs.frozen
class Event:
    key: str
    micros: int
    value: int


EVENTS = st.lists(
    st.builds(
        Event,
        st.sampled_from(["a", "b"]),
        # Few different times, some of them at the edges of windows.
        st.integers(-4, 24).map(lambda n: n * 5 * SECOND) | st.integers(-20 * SECOND, 120 * SECOND),
        st.integers(-100, 100),
    ),
    max_size=12,
)

WINDOW_FNS = [
    GlobalWindows(),
    FixedWindows(20),
    FixedWindows(30, 7),
    SlidingWindows(30, 10),
    SlidingWindows(10, 30),
    CalendarDays(),
    Sessions(10),
    Sessions(0.000001),
    ByKind(),
]


def by_hand(window_fn: WindowFn, combiner: TimestampCombiner, events: list[Event]) -> dict[Any, tuple[int, int]]:
    """Sum and timestamp for each key and window: every two windows of a key that overlap become one."""
    groups: dict[str, list[tuple[Any, list[Event]]]] = {}
    for event in events:
        context = WindowFn.AssignContext(Timestamp(micros=event.micros), (event.key, event.value), GlobalWindow())
        for own in window_fn.assign_windows(context):
            groups.setdefault(event.key, []).append((own, [event]))
    results = {}
    for key, apart in groups.items():
        for own, members in merged_by_hand(window_fn, apart):
            times = [event.micros for event in members]
            end = own.max_micros
            timestamp = {EOW: end, EARLIEST: min(times), LATEST: max(times), TRANSFORMED: min(times)}[combiner]
            results[key, own] = sum(event.value for event in members), timestamp
    return results


def merged_by_hand(window_fn: WindowFn, apart: list[tuple[Any, list[Event]]]) -> list[tuple[Any, list[Event]]]:
    together: list[tuple[Any, list[Event]]] = []
    for own, members in apart:
        for other, others in list(together):
            if belong_together(window_fn, own, other):
                together.remove((other, others))
                own = own if own == other else own.union(other)
                members = [*others, *members]
        together.append((own, members))
    # What has grown may overlap what it didn't before.
    return together if len(together) == len(apart) else merged_by_hand(window_fn, together)


def belong_together(window_fn: WindowFn, one: Any, other: Any) -> bool:
    if isinstance(window_fn, Sessions):
        return bool(one.intersects(other))
    if isinstance(window_fn, ByKind):
        return bool(one.end == other.end)
    return bool(one == other)


@given(
    events=EVENTS,
    window_fn=st.sampled_from(WINDOW_FNS),
    combiner=st.sampled_from(TimestampCombiner),
    cuts=st.lists(st.integers(0, 12), max_size=3),
    fused=st.booleans(),
)
def test_sums_are_those_computed_by_hand(
    events: list[Event], window_fn: WindowFn, combiner: TimestampCombiner, cuts: list[int], fused: bool
) -> None:
    """For any windows, timestamp combiner, bundles, and steps before the grouping."""
    windowed = beam.WindowInto(window_fn, timestamp_combiner=combiner)
    # With an operation between them, the windows come to the fold in a column.
    between = [] if fused else [beam.Map(lambda pair, w=beam.DoFn.WindowParam: pair)]
    grouping = GroupingAlone(windowed, *between, beam.CombinePerKey(sum))
    for part in split(events, cuts):
        grouping.process(bundle(*(((e.key, e.value), e.micros, GLOBAL_WINDOWS, ONLY_PANE, 1) for e in part)))
    rows = grouping.results()
    actual = {(value[0], own): (value[1], micros) for value, micros, (own,), _, _ in rows}
    assert len(rows) == len(actual)
    assert by_hand(window_fn, combiner, events) == actual


def split(events: list[Event], cuts: list[int]) -> list[list[Event]]:
    """The events in parts that aren't empty."""
    edges = [0, *sorted(cut for cut in cuts if cut < len(events)), len(events)]
    return [events[start:end] for start, end in pairwise(edges) if start < end]
