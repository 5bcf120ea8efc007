import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.windowing import MIN_MICROS, Duration, FixedWindows, IntervalWindow, Timestamp, WindowFn


@pytest.mark.parametrize(
    ("seconds", "window"),
    [(0, (0, 5)), (4.999999, (0, 5)), (5, (5, 10)), (-1, (-5, 0)), (-5, (-5, 0)), (-5.000001, (-10, -5))],
)
def test_a_timestamp_is_in_the_window_around_it(seconds, window):
    assert [IntervalWindow(*window)] == FixedWindows(5).assign(WindowFn.AssignContext(seconds))


@pytest.mark.parametrize("offset", [1, 6, -4, Duration(1), Timestamp(11)])
def test_an_offset_counts_modulo_the_size(offset):
    fn = FixedWindows(5, offset)
    assert FixedWindows(5, 1) == fn
    assert (IntervalWindow(-4, 1),) == fn.assign_micros(0)


def test_size_and_offset_can_be_read():
    assert (Duration(5), 1) == (FixedWindows(5, 1).size, FixedWindows(5, 1).offset)


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.integers(-(10**15), 10**15))
def test_windows_tile_time(size, offset, micros):
    fn = FixedWindows(Duration(micros=size), Duration(micros=offset))
    [window] = fn.assign_micros(micros)
    [following] = fn.assign_micros(window.end_micros)
    assert (size, window.end_micros) == (window.end_micros - window.start_micros, following.start_micros)


def test_the_beginning_of_time_has_a_window_that_begins_before_it():
    [window] = FixedWindows(60).assign_micros(MIN_MICROS)
    assert window.start_micros <= MIN_MICROS < window.end_micros


@pytest.mark.parametrize("size", [0, -5, 1e-9, Duration(0)])
def test_a_size_that_is_not_positive_is_refused(size):
    with pytest.raises(ValueError, match="size must be positive"):
        FixedWindows(size)


def test_a_size_that_is_no_number_is_refused():
    with pytest.raises(TypeError, match="got '60'"):
        FixedWindows("60")
