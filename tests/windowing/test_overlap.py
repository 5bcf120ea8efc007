"""Overlap: windows merged at once are those that are merged one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.windowing import IntervalWindow
from penstock.windowing.overlap import overlapping, overlapping_runs


def windows() -> st.SearchStrategy[list[IntervalWindow]]:
    pairs = st.tuples(st.integers(-50, 50), st.integers(1, 20))
    return st.lists(pairs.map(lambda pair: IntervalWindow.of_micros(pair[0], pair[0] + pair[1])), max_size=20)


def one_by_one(found: list[IntervalWindow]) -> list[IntervalWindow]:
    apart: list[IntervalWindow] = []
    for window in found:
        first, last = overlapping(apart, window)
        together = [window, *apart[first:last]]
        apart[first:last] = [IntervalWindow.of_micros(min(w[0] for w in together), max(w[1] for w in together))]
    return apart


@given(windows())
def test_the_windows_are_the_same_at_once_and_one_by_one(found: list[IntervalWindow]) -> None:
    """In whichever order they come; every item is in the run that it lies within."""
    runs = overlapping_runs(sorted((w[0], w[1] - w[0], w) for w in found))
    assert [(start, end) for start, end, _ in runs] == one_by_one(found)
    assert sorted(found) == sorted(w for start, end, own in runs for w in own if start <= w[0] and w[1] <= end)


def test_windows_that_touch_are_apart() -> None:
    """At once, and one by one."""
    first, second = IntervalWindow.of_micros(0, 10), IntervalWindow.of_micros(10, 20)
    assert [(0, 10, ["a"]), (10, 20, ["b"])] == overlapping_runs([(0, 10, "a"), (10, 10, "b")])
    assert ((1, 1), (0, 0)) == (overlapping([first], second), overlapping([second], first))
