from penstock.utils.windowed_value import WindowedValue
from penstock.windowing import (
    GLOBAL_WINDOW,
    MAX_MICROS,
    MIN_MICROS,
    MIN_TIMESTAMP,
    GlobalWindow,
    GlobalWindows,
    NonMergingWindowFn,
)


def test_all_of_time_is_in_the_global_window():
    assert [(GLOBAL_WINDOW,)] * 3 == [GlobalWindows().assign_micros(t) for t in (MIN_MICROS, 0, MAX_MICROS)]


def test_it_does_not_merge():
    assert isinstance(GlobalWindows(), NonMergingWindowFn)
    assert not GlobalWindows().is_merging


def test_a_value_is_put_into_the_global_window():
    """At the beginning of time, unless a timestamp is given."""
    expected = [WindowedValue("a", 5, [GlobalWindow()]), WindowedValue("b", MIN_TIMESTAMP, [GlobalWindow()])]
    assert expected == [GlobalWindows.windowed_value("a", 5), GlobalWindows.windowed_value("b")]
