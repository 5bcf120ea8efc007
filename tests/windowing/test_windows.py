import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.windowing import (
    GLOBAL_WINDOW,
    GLOBAL_WINDOW_MAX_MICROS,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    BoundedWindow,
    Duration,
    GlobalWindow,
    IntervalWindow,
    Timestamp,
)

edges = st.integers(-50, 50)
intervals = st.tuples(edges, edges).map(lambda pair: IntervalWindow(min(pair), max(pair)))


class Shift(BoundedWindow):
    def __init__(self, end, crew):
        super().__init__(end)
        self.crew = crew


class NamedInterval(IntervalWindow):
    pass


class Tagged(IntervalWindow):
    """A window with a tag, of its first hour or day."""

    def __init__(self, tag, start, *, hours=1):
        super().__init__(start, end=start + hours * 3600)
        self.tag = tag

    def __eq__(self, other):
        return type(self) is type(other) and self.start == other.start and self.tag == other.tag

    def __hash__(self):
        return hash((self.start, self.tag))


class Unbounded(IntervalWindow):
    def __init__(self, tag):
        self.tag = tag


def test_a_subclass_of_an_interval_may_have_other_arguments():
    window = Tagged("a", 60, hours=2)
    assert (Timestamp(60), Timestamp(7260), "a") == (window.start, window.end, window.tag)
    assert (window, "a", 7_260_000_000) == (
        copy.deepcopy(window),
        pickle.loads(pickle.dumps(window)).tag,
        pickle.loads(pickle.dumps(window)).end_micros,
    )
    assert Tagged("b", 60) != Tagged("a", 60)
    with pytest.raises(TypeError, match=r"Unbounded.__init__ must call super\(\).__init__\(start, end\)"):
        Unbounded("a")
    with pytest.raises(ValueError, match="expected a window that ends after its start"):
        Tagged("a", 60, hours=-1)


def test_an_interval_has_a_start_and_an_end():
    window = IntervalWindow(1, Timestamp(2.5))
    assert (Timestamp(1), Timestamp(2.5)) == (window.start, window.end)
    assert (1_000_000, 2_500_000, 2_499_999) == (window.start_micros, window.end_micros, window.max_micros)
    assert Timestamp(micros=2_499_999) == window.max_timestamp()


def test_the_start_is_that_of_the_window_that_is_asked():
    first, second = IntervalWindow(0, 5), IntervalWindow(7, 9)
    expected = [Timestamp(0), Timestamp(7), Timestamp(0), Timestamp(0), Timestamp(7)]
    assert expected == [window.start for window in (first, second, first, first, second)]


def test_an_interval_is_a_bounded_window_and_a_tuple():
    assert isinstance(IntervalWindow(0, 1), BoundedWindow)
    assert (0, 1_000_000) == tuple(IntervalWindow(0, 1))


def test_an_interval_cannot_be_given_attributes():
    with pytest.raises(AttributeError):
        IntervalWindow(0, 1).name = "first"


def test_an_interval_is_shown_as_beam_shows_it():
    assert "[1.0, 2.5)" == repr(IntervalWindow(1, 2.5))


def test_an_interval_that_ends_before_it_starts_is_refused():
    with pytest.raises(ValueError, match="ends after its start, got start 2 and end 1"):
        IntervalWindow(2, 1)


def test_an_interval_out_of_range_is_refused():
    with pytest.raises(ValueError):
        IntervalWindow(0, 10**13)


@given(intervals, intervals)
def test_intervals_intersect_where_an_instant_is_in_both(a, b):
    def inside(window):
        return set(range(window.start.seconds(), window.end.seconds()))

    if inside(a) and inside(b):
        assert bool(inside(a) & inside(b)) == a.intersects(b) == b.intersects(a)
    assert inside(a) | inside(b) <= inside(a.union(b))


def test_intervals_are_ordered_by_start_and_then_by_end():
    windows = [IntervalWindow(1, 3), IntervalWindow(0, 9), IntervalWindow(1, 2)]
    assert [IntervalWindow(0, 9), IntervalWindow(1, 2), IntervalWindow(1, 3)] == sorted(windows)


@given(intervals)
def test_intervals_are_pickled_and_copied(window):
    for again in (pickle.loads(pickle.dumps(window)), copy.deepcopy(window)):
        assert (IntervalWindow, window) == (type(again), again)


def test_a_pickled_interval_is_small():
    windows = [IntervalWindow(60 * i, 60 * i + 60) for i in range(1000)]
    assert len(pickle.dumps(windows)) < 35_000


def test_an_interval_of_a_users_class_is_pickled_whole():
    window = NamedInterval(0, 1)
    window.name = "first"
    again = pickle.loads(pickle.dumps(window))
    assert (NamedInterval, window, "first") == (type(again), again, again.name)


def test_there_is_one_global_window():
    for same in (GlobalWindow(), pickle.loads(pickle.dumps(GLOBAL_WINDOW)), copy.deepcopy(GLOBAL_WINDOW)):
        assert GLOBAL_WINDOW is same
    assert {GLOBAL_WINDOW} == {GlobalWindow(), GlobalWindow()}


def test_the_global_window_ends_a_day_before_the_end_of_time():
    assert MAX_TIMESTAMP - Duration(86_400) == GLOBAL_WINDOW.max_timestamp()
    assert GLOBAL_WINDOW_MAX_MICROS == GLOBAL_WINDOW.max_micros == GLOBAL_WINDOW.end.micros - 1
    assert MIN_TIMESTAMP == GLOBAL_WINDOW.start


def test_the_global_window_is_shown_by_its_name():
    assert "GlobalWindow" == repr(GLOBAL_WINDOW)


def test_a_users_windows_are_equal_when_their_attributes_are():
    assert Shift(8, "red") == Shift(8, "red")
    assert Shift(8, "red") != Shift(8, "blue")
    assert 1 == len({Shift(8, "red"), pickle.loads(pickle.dumps(Shift(8, "red")))})


def test_a_users_window_ends_where_it_says():
    window = Shift(8, "red")
    assert (Timestamp(8), 7_999_999, "[?, 8.0)") == (window.end, window.max_micros, repr(window))


def test_a_users_window_may_say_otherwise_what_its_last_instant_is():
    class Open(Shift):
        def max_timestamp(self):
            return Timestamp(100)

    assert 100_000_000 == Open(8, "red").max_micros


def test_the_base_class_is_no_window():
    with pytest.raises(TypeError, match="base class"):
        BoundedWindow(5)


def test_the_window_of_the_minimum_timestamp_may_begin_before_it() -> None:
    """FixedWindows assigns such windows."""
    start = MIN_TIMESTAMP.micros // 1_000_000 - 5
    assert IntervalWindow(start, start + 20).end > MIN_TIMESTAMP
    with pytest.raises(ValueError, match="expected a timestamp within"):
        IntervalWindow(start - 20, start)
