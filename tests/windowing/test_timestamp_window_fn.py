"""Laws of every built-in window function."""

import pickle

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.windowing import (
    MAX_MICROS,
    MIN_MICROS,
    BoundedWindow,
    CalendarDays,
    CalendarMonths,
    CalendarYears,
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
)
from penstock.windowing.buckets import bucketing

spans = st.integers(1, 10_000) | st.integers(1, 10**12).map(lambda n: n / 1_000_000)
offsets = st.integers(-10_000, 10_000)
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu"])
window_fns = st.one_of(
    st.just(GlobalWindows()),
    st.builds(FixedWindows, spans, offsets),
    st.builds(SlidingWindows, st.integers(1, 100), st.integers(1, 100), offsets),
    st.builds(Sessions, spans),
    st.builds(CalendarDays, st.integers(1, 40), zones),
    st.builds(CalendarMonths, st.integers(1, 40), st.integers(1, 28), zones),
    st.builds(CalendarYears, st.integers(1, 40), st.integers(1, 12), st.integers(1, 28), zones),
)
# Near the epoch, near today, and anywhere.
timestamps = (
    st.integers(-(10**9), 10**9)
    | st.integers(-(10**16), 10**16)
    | st.integers(MIN_MICROS, MAX_MICROS - 2 * 86_400_000_000)
)


@given(window_fns, timestamps)
def test_every_timestamp_lies_in_its_windows(fn, micros):
    for window in fn.assign_micros(micros):
        assert isinstance(window, BoundedWindow)
        assert window.start.micros <= micros <= window.max_micros


@given(window_fns, st.lists(timestamps, min_size=2))
def test_timestamps_in_one_bucket_have_the_same_windows(fn, all_micros):
    bucket = bucketing(fn)
    if bucket is None:
        return
    windows = {}
    for micros in all_micros:
        for near in (micros, micros + 1, micros - micros % 1_000_000):
            if MIN_MICROS <= near <= MAX_MICROS:
                assigned = fn.assign_micros(near)
                assert assigned == windows.setdefault(bucket(near), assigned)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 30), st.integers(-200, 100))
def test_sliding_buckets_are_exact_where_windows_begin_and_end(size, period, offset, first):
    fn = SlidingWindows(size, period, offset)
    bucket = fn.bucket_of
    windows = {}
    for second in range(first, first + 100):
        for micros in (second * 1_000_000, second * 1_000_000 - 1):
            assigned = fn.assign_micros(micros)
            assert assigned == windows.setdefault(bucket(micros), assigned)
    # Neither is there a bucket too many.
    assert size < period or len(windows) == len(set(windows.values()))


@given(window_fns, st.lists(timestamps, min_size=1))
def test_the_buckets_of_an_array_are_those_of_its_timestamps(fn, all_micros):
    bucket = bucketing(fn)
    if bucket is not None:
        of_array = numpy.broadcast_to(bucket(numpy.array(all_micros)), len(all_micros))
        assert [bucket(micros) for micros in all_micros] == of_array.tolist()


def test_these_functions_have_buckets():
    fns = [GlobalWindows(), FixedWindows(60), SlidingWindows(60, 30), CalendarDays(), CalendarMonths(), CalendarYears()]
    assert None not in [bucketing(fn) for fn in fns]


def test_a_function_of_a_user_and_a_calendar_of_another_zone_have_no_buckets():
    class Own(FixedWindows):
        pass

    assert [None] * 3 == [bucketing(fn) for fn in (Own(60), Sessions(60), CalendarDays(1, "Europe/Berlin"))]


@given(window_fns, timestamps)
def test_window_functions_are_values(fn, micros):
    fn.assign_micros(micros)
    again = pickle.loads(pickle.dumps(fn))
    assert fn == again
    assert hash(fn) == hash(again)
    assert fn.assign_micros(micros) == again.assign_micros(micros)
    assert fn.depends_only_on_timestamp


def test_functions_differ_by_type_and_arguments():
    different = [
        GlobalWindows(),
        FixedWindows(60),
        FixedWindows(60, 1),
        SlidingWindows(60, 30),
        SlidingWindows(60, 60),
        Sessions(60),
        CalendarDays(),
        CalendarDays(2),
        CalendarDays(time_zone="Asia/Tokyo"),
        CalendarMonths(),
        CalendarYears(),
    ]
    assert len(different) == len(set(different))


@pytest.mark.parametrize(
    ("shown", "fn"),
    [
        ("GlobalWindows()", GlobalWindows()),
        ("FixedWindows(size=Duration(60), offset=Duration(0))", FixedWindows(60)),
        ("Sessions(gap_size=Duration(0.500000))", Sessions(0.5)),
    ],
)
def test_functions_show_their_arguments(shown, fn):
    assert shown == repr(fn)
