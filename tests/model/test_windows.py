"""Windows: assigned, merged and grouped by; the library's, and the user's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock.sdk.errors import PenstockError
from penstock.testing import TestWindowedValue
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark
from penstock.windowing import (
    GLOBAL_WINDOW,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    BoundedWindow,
    CalendarDays,
    CalendarMonths,
    CalendarYears,
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    Timestamp,
    TimestampCombiner,
    TimestampedValue,
    WindowFn,
)


def stamped(*times: Any) -> beam.Create:
    """Pairs of one key, whose values are their times."""
    return beam.Create([TimestampedValue(("k", t), t) for t in times])


def grouped(pcoll: Any, label: str, window_fn: WindowFn, **settings: Any) -> Any:
    """The sorted values of each window of the key."""
    return (
        pcoll
        | f"{label} windows" >> beam.WindowInto(window_fn, **settings)
        | f"{label} groups" >> beam.GroupByKey()
        | f"{label} sorted" >> beam.MapTuple(lambda k, values: sorted(values))
    )


def in_window(values: Any, start: Any, end: Any) -> TestWindowedValue:
    window = IntervalWindow(start, end)
    return TestWindowedValue(values, window.max_timestamp(), [window])


def at(text: str) -> Timestamp:
    return Timestamp.from_rfc3339(text)


# --- The library's


def test_fixed_sliding_and_session_windows(pipeline: Any) -> None:
    """Each time is in the windows that contain it; sessions end with a gap."""
    with pipeline as p:
        times = p | stamped(1, 9.5, 10, 14, 40)
        fixed = [in_window([1, 9.5], 0, 10), in_window([10, 14], 10, 20), in_window([40], 40, 50)]
        check(fixed, grouped(times, "fixed", FixedWindows(10)), reify_windows=True)
        offset = [in_window([1], -5, 5), in_window([9.5, 10, 14], 5, 15), in_window([40], 35, 45)]
        check(offset, grouped(times, "offset", FixedWindows(10, offset=5)), reify_windows=True)
        sliding = [
            in_window([1], -5, 5),
            in_window([1, 9.5], 0, 10),
            in_window([9.5, 10, 14], 5, 15),
            in_window([10, 14], 10, 20),
            in_window([40], 35, 45),
            in_window([40], 40, 50),
        ]
        check(sliding, grouped(times, "sliding", SlidingWindows(10, 5)), reify_windows=True)
        sessions = [in_window([1], 1, 6), in_window([9.5, 10, 14], 9.5, 19), in_window([40], 40, 45)]
        check(sessions, grouped(times, "sessions", Sessions(5)), reify_windows=True)
        everything = TestWindowedValue([1, 9.5, 10, 14, 40], GLOBAL_WINDOW.max_timestamp(), [GLOBAL_WINDOW])
        check([everything], grouped(times, "global", GlobalWindows()), reify_windows=True)


def test_calendar_windows_are_of_a_place(pipeline: Any) -> None:
    """Days of 23 hours, months and years that begin at local midnight."""
    times = [at(t).seconds() for t in ("2024-03-30T23:30:00Z", "2024-03-31T21:30:00Z", "2024-03-31T22:30:00Z")]
    with pipeline as p:
        pairs = p | stamped(*times)
        days = [
            in_window(times[:2], at("2024-03-31T00:00:00+01:00"), at("2024-04-01T00:00:00+02:00")),
            in_window(times[2:], at("2024-04-01T00:00:00+02:00"), at("2024-04-02T00:00:00+02:00")),
        ]
        check(days, grouped(pairs, "days", CalendarDays(time_zone="Europe/Berlin")), reify_windows=True)
        months = [
            in_window(times[:2], at("2024-03-01T00:00:00+01:00"), at("2024-04-01T00:00:00+02:00")),
            in_window(times[2:], at("2024-04-01T00:00:00+02:00"), at("2024-05-01T00:00:00+02:00")),
        ]
        check(months, grouped(pairs, "months", CalendarMonths(time_zone="Europe/Berlin")), reify_windows=True)
        years = [in_window(times, at("2024-01-01T00:00:00Z"), at("2025-01-01T00:00:00Z"))]
        check(years, grouped(pairs, "years", CalendarYears()), reify_windows=True)


def test_windows_reach_back_before_1970_and_to_the_beginning_of_time(pipeline: Any) -> None:
    """Elements without a timestamp are at that time; their window contains it."""
    with pipeline as p:
        early = p | stamped(-1, -10, -11)
        expected = [in_window([-10, -1], -10, 0), in_window([-11], -20, -10)]
        check(expected, grouped(early, "early", FixedWindows(10)), reify_windows=True)
        never = p | "never" >> beam.Create([("k", 1), ("k", 2)])
        unstamped = never | "fixed" >> beam.WindowInto(FixedWindows(60)) | beam.GroupByKey()
        holds = unstamped | beam.Map(lambda pair, w=beam.DoFn.WindowParam: (sorted(pair[1]), w.start <= MIN_TIMESTAMP))
        check([([1, 2], True)], holds)


def test_windows_at_the_end_of_time_are_grouped_like_others(pipeline: Any) -> None:
    """Though they reach beyond it; their results are at the end."""
    with pipeline as p:
        late = p | stamped(MAX_TIMESTAMP)
        for window_fn in (FixedWindows(60), SlidingWindows(60, 30), Sessions(60)):
            name = type(window_fn).__name__
            sums = (
                late | f"{name} windows" >> beam.WindowInto(window_fn) | f"{name} sum" >> beam.combiners.Count.PerKey()
            )
            stamps = sums | f"{name} stamps" >> beam.Map(lambda pair, t=beam.DoFn.TimestampParam: (*pair, t))
            check([("k", 1, MAX_TIMESTAMP)] * len(window_fn.assign_micros(MAX_TIMESTAMP.micros)), stamps)


def test_a_time_between_sliding_windows_is_in_none_and_dropped(pipeline: Any) -> None:
    """Where the period exceeds the size; whether it is grouped or not."""
    with pipeline as p:
        windowed = p | stamped(1, 7, 12) | beam.WindowInto(SlidingWindows(size=5, period=10))
        check([("k", 13)], windowed | "global" >> beam.WindowInto(GlobalWindows()) | beam.CombinePerKey(sum))
        check([("k", 1), ("k", 12)], windowed | "grouped" >> beam.CombinePerKey(sum))
        check([("k", 1), ("k", 12)], windowed | "mapped" >> beam.Map(lambda pair: pair))


def test_sessions_of_different_keys_do_not_merge(pipeline: Any) -> None:
    """Each key has its own."""
    events = [("ann", 0), ("bob", 4), ("ann", 8), ("bob", 20)]
    with pipeline as p:
        pairs = p | beam.Create([TimestampedValue((key, t), t) for key, t in events])
        sums = pairs | beam.WindowInto(Sessions(10)) | beam.combiners.Count.PerKey()
        expected = [in_window(("ann", 2), 0, 18), in_window(("bob", 1), 4, 14), in_window(("bob", 1), 20, 30)]
        check(expected, sums, reify_windows=True)


def test_elements_may_be_windowed_again(pipeline: Any) -> None:
    """By their timestamps; a result's is the end of its window."""
    with pipeline as p:
        by_ten = (
            p | stamped(1, 12, 13, 31) | "ten" >> beam.WindowInto(FixedWindows(10)) | "1" >> beam.CombinePerKey(sum)
        )
        by_twenty = by_ten | "twenty" >> beam.WindowInto(FixedWindows(20)) | "2" >> beam.CombinePerKey(max)
        check([in_window(("k", 25), 0, 20), in_window(("k", 31), 20, 40)], by_twenty, reify_windows=True)


def test_an_element_of_two_windows_is_two_elements_when_it_is_windowed_again(pipeline: Any) -> None:
    """Assigning windows makes a copy for each of them (Dataflow Model, figure 3)."""
    with pipeline as p:
        sliding = p | stamped(7) | "sliding" >> beam.WindowInto(SlidingWindows(10, 5))
        everything = sliding | "global" >> beam.WindowInto(GlobalWindows()) | beam.combiners.Count.PerKey()
        check([("k", 2)], everything)


def test_the_windows_of_another_windowinto_are_taken(pipeline: Any) -> None:
    """With all of its settings."""
    first = beam.WindowInto(FixedWindows(10), timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST)
    with pipeline as p:
        sums = p | stamped(3, 4) | beam.WindowInto(first) | beam.CombinePerKey(sum)
        check([TestWindowedValue(("k", 7), 3, [IntervalWindow(0, 10)])], sums, reify_windows=True)


# --- Timestamps of results


class Transformed(FixedWindows):
    """Windows whose elements count as later than they are."""

    def get_transformed_output_time(self, window: BoundedWindow, input_timestamp: Timestamp) -> Timestamp:
        return input_timestamp + 2


END, LATEST, EARLIEST, TRANSFORMED = (
    TimestampCombiner.OUTPUT_AT_EOW,
    TimestampCombiner.OUTPUT_AT_LATEST,
    TimestampCombiner.OUTPUT_AT_EARLIEST,
    TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED,
)


def timestamps(pcoll: Any, label: str) -> Any:
    """(sum, timestamp in seconds) of each result, summed and grouped alike."""
    seconds = beam.MapTuple(lambda k, total, t=beam.DoFn.TimestampParam: (total, t.micros / 1e6))
    sums = pcoll | f"{label} sum" >> beam.CombinePerKey(sum) | f"{label} sum at" >> seconds
    groups = (
        pcoll
        | f"{label} group" >> beam.GroupByKey()
        | f"{label} sum of group" >> beam.MapTuple(lambda k, values: (k, sum(values)))
        | f"{label} group at" >> seconds
    )
    return (sums, groups) | f"{label} both" >> beam.Flatten()


@pytest.mark.parametrize(
    ("combiner", "fixed", "merged"),
    [
        (END, [9.999999, 19.999999], [17.999999, 37.999999]),
        (EARLIEST, [3, 12], [3, 32]),
        (LATEST, [8, 12], [12, 32]),
        (TRANSFORMED, [5, 14], [3, 32]),
    ],
    ids=["end", "earliest", "latest", "transformed"],
)
def test_a_result_has_the_timestamp_that_the_combiner_says(
    pipeline: Any, combiner: TimestampCombiner, fixed: list[float], merged: list[float]
) -> None:
    """Of windows that merge and those that don't, combined or grouped."""
    with pipeline as p:
        in_fixed = p | "1" >> stamped(8, 3, 12) | "f" >> beam.WindowInto(Transformed(10), timestamp_combiner=combiner)
        check([(11, fixed[0]), (12, fixed[1])] * 2, timestamps(in_fixed, "fixed"))
        in_sessions = (
            p | "2" >> stamped(8, 3, 12, 32) | "s" >> beam.WindowInto(Sessions(6), timestamp_combiner=combiner)
        )
        check([(23, merged[0]), (32, merged[1])] * 2, timestamps(in_sessions, "sessions"))


@pytest.mark.parametrize("combiner", [END, EARLIEST, LATEST], ids=["end", "earliest", "latest"])
def test_timestamps_of_overlapping_windows_are_kept_apart(pipeline: Any, combiner: TimestampCombiner) -> None:
    """Each window has its own."""
    expected = {
        END: [(3, 4.999999), (10, 9.999999), (7, 14.999999)],
        EARLIEST: [(3, 3), (10, 3), (7, 7)],
        LATEST: [(3, 3), (10, 7), (7, 7)],
    }
    with pipeline as p:
        windowed = p | stamped(3, 7) | beam.WindowInto(SlidingWindows(10, 5), timestamp_combiner=combiner)
        check(expected[combiner] * 2, timestamps(windowed, "sliding"))


# --- The user's own


class ByValue(NonMergingWindowFn):
    """A window as long as the element's value says."""

    def assign_windows(self, context: WindowFn.AssignContext) -> list[BoundedWindow]:
        _, seconds = context.element
        return [IntervalWindow(context.timestamp, context.timestamp + seconds)] if seconds else []


class BeamsByValue(beam.window.NonMergingWindowFn):
    """The same under Beam's names."""

    def assign(self, context: Any) -> Any:
        _, seconds = context.element
        return [IntervalWindow(context.timestamp, context.timestamp + seconds)] if seconds else []

    def get_window_coder(self) -> Any:
        return beam.coders.IntervalWindowCoder()


class Shift(BoundedWindow):
    def __init__(self, end: Any, crew: str) -> None:
        super().__init__(end)
        self.crew = crew


class Shifts(NonMergingWindowFn):
    """Windows of a class of the user's, two for each element."""

    def assign_windows(self, context: WindowFn.AssignContext) -> list[BoundedWindow]:
        end = (context.timestamp.seconds() // 10 + 1) * 10
        return [Shift(end, "red"), Shift(end, "blue")]


def test_a_users_function_may_assign_windows_by_the_element(pipeline: Any) -> None:
    """Overriding assign_windows, or Beam's assign; an element without windows is dropped."""
    pairs = beam.Create([TimestampedValue(("k", n), t) for t, n in [(0, 5), (0, 5), (3, 7), (4, 0)]])
    with pipeline as p:
        for label, window_fn in [("ours", ByValue()), ("Beam's", BeamsByValue())]:
            sums = p | label >> pairs | f"{label} windows" >> beam.WindowInto(window_fn)
            expected = [in_window(("k", 10), 0, 5), in_window(("k", 7), 3, 10)]
            check(expected, sums | f"{label} sum" >> beam.CombinePerKey(sum), reify_windows=True)


def test_windows_may_be_of_a_class_of_the_users(pipeline: Any) -> None:
    """Equal where their attributes are."""
    with pipeline as p:
        sums = p | stamped(1, 2, 11) | beam.WindowInto(Shifts()) | beam.CombinePerKey(sum)
        seen = sums | beam.Map(lambda pair, w=beam.DoFn.WindowParam: (w.crew, float(w.end), pair[1]))
        check([("red", 10, 3), ("blue", 10, 3), ("red", 20, 11), ("blue", 20, 11)], seen)


class Twice(FixedWindows):
    """A subclass of one of the library's, that assigns another window as well."""

    def assign_windows(self, context: WindowFn.AssignContext) -> list[BoundedWindow]:
        return [*super().assign_windows(context), IntervalWindow(0, 1000)]


def test_a_subclass_may_assign_more_than_its_base(pipeline: Any) -> None:
    """Nothing is taken for granted of it."""
    with pipeline as p:
        sums = p | stamped(1, 11) | beam.WindowInto(Twice(10)) | beam.CombinePerKey(sum)
        check([in_window(("k", 1), 0, 10), in_window(("k", 11), 10, 20), in_window(("k", 12), 0, 1000)], sums, True)


class Minutes(WindowFn):
    """Windows of ten seconds, of which those that begin in one minute become that minute."""

    def assign_windows(self, context: WindowFn.AssignContext) -> list[BoundedWindow]:
        return [IntervalWindow(context.timestamp, context.timestamp + 10)]

    def merge_windows(self, context: WindowFn.MergeContext) -> None:
        minutes: dict[int, list[Any]] = {}
        for window in context.windows:
            minutes.setdefault(window.start.seconds() // 60, []).append(window)
        for minute, windows in minutes.items():
            context.merge(windows, IntervalWindow(minute * 60, minute * 60 + 60))


class BeamsMinutes(beam.window.WindowFn):
    """The same under Beam's names."""

    def assign(self, context: Any) -> Any:
        return [IntervalWindow(context.timestamp, context.timestamp + 10)]

    def merge(self, context: Any) -> None:
        Minutes().merge_windows(context)

    def is_merging(self) -> bool:
        return True


def test_a_users_function_may_merge_windows(pipeline: Any) -> None:
    """Overriding merge_windows, or Beam's merge; combined or grouped."""
    with pipeline as p:
        for label, window_fn in [("ours", Minutes()), ("Beam's", BeamsMinutes())]:
            times = p | label >> stamped(1, 30, 59, 61, 200)
            expected = [in_window([1, 30, 59], 0, 60), in_window([61], 60, 120), in_window([200], 180, 240)]
            check(expected, grouped(times, label, window_fn), reify_windows=True)
            sums = times | f"{label} again" >> beam.WindowInto(window_fn) | f"{label} sum" >> beam.CombinePerKey(sum)
            check([("k", 90), ("k", 61), ("k", 200)], sums)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned None, expected a list of windows; did you forget to return it?"),
        (IntervalWindow(0, 1), "did you forget the brackets around it?"),
        ([(0, 1)], r"returned a list that holds \(0, 1\).*did you mean an IntervalWindow?"),
    ],
    ids=["None", "window", "tuple"],
)
def test_a_window_function_that_returns_no_windows_is_an_error(pipeline: Any, returned: Any, message: str) -> None:
    """It names the transform, and guesses at the cause."""

    class Wrong(NonMergingWindowFn):
        def assign_windows(self, context: WindowFn.AssignContext) -> Any:
            return returned

    _ = pipeline | beam.Create([("k", 1)]) | "my windows" >> beam.WindowInto(Wrong()) | beam.GroupByKey()
    with pytest.raises(TypeError, match=message) as error:
        pipeline.run()
    assert "my windows" == error.value.transform


class Pairwise(WindowFn):
    """Windows of ten seconds that merge where they overlap, two at a time."""

    def assign_windows(self, context: WindowFn.AssignContext) -> list[BoundedWindow]:
        return [IntervalWindow(context.timestamp, context.timestamp + 10)]

    def merge_windows(self, context: WindowFn.MergeContext) -> None:
        (last, *others) = sorted(context.windows)
        for window in others:
            if window.start < last.end:
                context.merge([last, window], last.union(window))
                last = last.union(window)
            else:
                last = window


def test_a_merged_window_may_be_merged_again(pipeline: Any) -> None:
    """At once at the end of a bounded input, and one by one with a trigger that looks at elements."""
    settings = {"trigger": AfterWatermark(early=AfterCount(100)), "accumulation_mode": AccumulationMode.DISCARDING}
    with pipeline as p:
        times = p | stamped(1, 15, 30, 8)
        expected = [in_window([1, 8, 15], 1, 25), in_window([30], 30, 40)]
        check(expected, grouped(times, "at once", Pairwise()), reify_windows=True)
        check(expected, grouped(times, "one by one", Pairwise(), **settings), reify_windows=True)


class Greedy(Minutes):
    """Merges a window that isn't there."""

    def merge_windows(self, context: WindowFn.MergeContext) -> None:
        context.merge([IntervalWindow(7, 8)], IntervalWindow(0, 60))


def test_merging_a_window_that_is_not_there_is_an_error(pipeline: Any) -> None:
    """It names the transform and the window."""
    _ = pipeline | stamped(1) | beam.WindowInto(Greedy()) | "group" >> beam.GroupByKey()
    with pytest.raises(PenstockError, match=r"group: .*Greedy.*merge_windows merged \[7.0, 8.0\), which is not among"):
        pipeline.run()


def test_what_iterates_lazily_is_as_good_as_a_list(pipeline: Any) -> None:
    """A generator of windows."""

    class Lazy(NonMergingWindowFn):
        def assign_windows(self, context: WindowFn.AssignContext) -> Iterable[BoundedWindow]:
            yield IntervalWindow(0, 10)
            yield IntervalWindow(0, 20)

    with pipeline as p:
        check([("k", 3), ("k", 3)], p | stamped(1, 2) | beam.WindowInto(Lazy()) | beam.CombinePerKey(sum))
