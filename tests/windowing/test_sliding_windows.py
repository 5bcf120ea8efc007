import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.windowing import IntervalWindow, SlidingWindows


def test_a_timestamp_is_in_every_window_around_it_latest_first():
    expected = (IntervalWindow(10, 25), IntervalWindow(5, 20), IntervalWindow(0, 15))
    assert expected == SlidingWindows(15, 5).assign_micros(11_000_000)


def test_a_window_includes_its_start_and_excludes_its_end():
    fn = SlidingWindows(10, 5)
    assert (IntervalWindow(10, 20), IntervalWindow(5, 15)) == fn.assign_micros(10_000_000)
    assert (IntervalWindow(5, 15), IntervalWindow(0, 10)) == fn.assign_micros(9_999_999)


def test_an_offset_moves_all_windows():
    assert (IntervalWindow(1, 11), IntervalWindow(-4, 6)) == SlidingWindows(10, 5, offset=6).assign_micros(2_000_000)


def test_a_period_longer_than_the_size_leaves_gaps():
    fn = SlidingWindows(5, 10)
    assert [(IntervalWindow(0, 5),), ()] == [fn.assign_micros(4_000_000), fn.assign_micros(5_000_000)]


@given(st.integers(1, 50), st.integers(1, 50), st.integers(-50, 50), st.integers(-1000, 1000))
def test_the_windows_are_all_of_those_that_hold_the_timestamp(size, period, offset, second):
    starts = [offset % period + period * n for n in range(-1200, 1200)]
    expected = {IntervalWindow(s, s + size) for s in starts if s <= second < s + size}
    assigned = SlidingWindows(size, period, offset).assign_micros(second * 1_000_000)
    assert (expected, len(expected)) == (set(assigned), len(assigned))


@pytest.mark.parametrize(("size", "period", "name"), [(0, 5, "size"), (5, 0, "period"), (5, -1, "period")])
def test_arguments_that_are_not_positive_are_refused(size, period, name):
    with pytest.raises(ValueError, match=f"{name} must be positive"):
        SlidingWindows(size, period)
