import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.windowing import GLOBAL_WINDOW, Duration, IntervalWindow, Sessions, WindowFn


class Merging(WindowFn.MergeContext):
    """Does with the windows what a runner does."""

    def merge(self, to_be_merged, merge_result):
        for window in to_be_merged:
            self.windows.remove(window)
        self.windows.append(merge_result)


def merged(fn, windows):
    context = Merging(windows)
    fn.merge(context)
    return sorted(context.windows)


def sessions_of(fn, seconds):
    return merged(fn, [window for second in seconds for window in fn.assign_micros(second * 1_000_000)])


def test_elements_within_the_gap_are_in_one_session():
    assert [IntervalWindow(2, 15), IntervalWindow(30, 35)] == sessions_of(Sessions(5), [30, 10, 2, 6])


def test_elements_exactly_a_gap_apart_are_in_two_sessions():
    assert [IntervalWindow(0, 5), IntervalWindow(5, 10)] == sessions_of(Sessions(5), [0, 5])


def test_a_late_element_joins_two_sessions():
    apart = [IntervalWindow(0, 10), IntervalWindow(15, 25)]
    assert [IntervalWindow(0, 25)] == merged(Sessions(10), [*apart, IntervalWindow(8, 18)])


def test_a_session_inside_another_does_not_shorten_it():
    windows = [IntervalWindow(0, 100), IntervalWindow(10, 20), IntervalWindow(90, 110)]
    assert [IntervalWindow(0, 110)] == merged(Sessions(10), windows)


def test_windows_that_stand_alone_are_left_alone():
    class Refusing(WindowFn.MergeContext):
        def merge(self, to_be_merged, merge_result):
            raise AssertionError(merge_result)

    Sessions(5).merge_windows(Refusing([IntervalWindow(0, 5), IntervalWindow(5, 10)]))
    Sessions(5).merge_windows(Refusing([]))


@given(st.lists(st.integers(-100, 100), max_size=30), st.integers(1, 20), st.randoms(use_true_random=False))
def test_the_order_of_elements_and_of_merges_does_not_matter(seconds, gap, random):
    fn = Sessions(gap)
    at_once = sessions_of(fn, seconds)
    random.shuffle(seconds)
    one_by_one = []
    for second in seconds:
        one_by_one = merged(fn, [*one_by_one, *fn.assign_micros(second * 1_000_000)])
    assert at_once == one_by_one


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=30), st.integers(1, 20))
def test_sessions_are_runs_of_elements_closer_than_the_gap(seconds, gap):
    runs = []
    for second in sorted(seconds):
        if runs and second - runs[-1][-1] < gap:
            runs[-1].append(second)
        else:
            runs.append([second])
    expected = [IntervalWindow(run[0], run[-1] + gap) for run in runs]
    assert expected == sorted(set(sessions_of(Sessions(gap), seconds)))


def test_the_gap_can_be_read():
    assert (Duration(5), 5_000_000) == (Sessions(5).gap_size, Sessions(5).gap_micros)


def test_sessions_merge_by_overlap():
    assert (True, True) == (Sessions(5).is_merging, Sessions(5).merges_by_overlap)


@pytest.mark.parametrize("gap", [0, -1])
def test_a_gap_that_is_not_positive_is_refused(gap):
    with pytest.raises(ValueError, match="gap_size must be positive"):
        Sessions(gap)


def test_other_windows_cannot_be_merged():
    with pytest.raises(TypeError, match="IntervalWindows only, got GlobalWindow"):
        Sessions(5).merge(Merging([GLOBAL_WINDOW]))
