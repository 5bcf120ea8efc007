import pickle
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.windowing import (
    MAX_MICROS,
    MIN_MICROS,
    CalendarDays,
    CalendarMonths,
    CalendarYears,
    IntervalWindow,
    Timestamp,
)

# Zones whose midnights were skipped, repeated, moved by half an hour, or lost with a whole day.
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Toronto",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Africa/Cairo",
]
zones = st.sampled_from(ZONES)
window_fns = st.one_of(
    st.builds(CalendarDays, st.integers(1, 40), zones, st.dates()),
    st.builds(CalendarMonths, st.integers(1, 40), st.integers(1, 28), zones, st.dates()),
    st.builds(CalendarYears, st.integers(1, 40), st.integers(1, 12), st.integers(1, 28), zones, st.dates()),
)
EARLIEST, LATEST = datetime(1850, 1, 1), datetime(2100, 1, 1)
timestamps = st.datetimes(EARLIEST, LATEST, timezones=st.just(UTC)).map(
    lambda dt: Timestamp.from_utc_datetime(dt).micros
)


def micros(text):
    return Timestamp.from_rfc3339(text).micros


def window(start, end):
    return IntervalWindow.of_micros(micros(start), micros(end))


def test_a_day_begins_at_midnight_in_utc_unless_told_otherwise():
    expected = window("2024-03-31T00:00:00Z", "2024-04-01T00:00:00Z")
    assert (expected,) == CalendarDays().assign_micros(micros("2024-03-31T12:34:56Z"))


@pytest.mark.parametrize(
    ("now", "start", "end"),
    [
        ("2024-03-31T12:00:00Z", "2024-03-31T00:00:00+01:00", "2024-04-01T00:00:00+02:00"),
        ("2024-10-27T12:00:00Z", "2024-10-27T00:00:00+02:00", "2024-10-28T00:00:00+01:00"),
        ("2024-07-01T22:00:00Z", "2024-07-02T00:00:00+02:00", "2024-07-03T00:00:00+02:00"),
    ],
)
def test_a_day_lasts_from_midnight_to_midnight_however_many_hours_that_is(now, start, end):
    assert (window(start, end),) == CalendarDays(time_zone="Europe/Berlin").assign_micros(micros(now))


def test_a_day_without_a_midnight_begins_when_the_clocks_change():
    # In 2018 the clocks of Sao Paulo went from midnight of November 4 to one o'clock.
    expected = window("2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z")
    assert (expected,) == CalendarDays(time_zone="America/Sao_Paulo").assign_micros(micros("2018-11-04T12:00:00Z"))


def test_a_day_begins_before_half_past_midnight_where_the_clocks_skipped_to_it():
    # In 1919 the clocks of Toronto went from 23:30 of March 30 to 00:30 of March 31.
    [day] = CalendarDays(time_zone="America/Toronto").assign_micros(micros("1919-03-31T12:00:00Z"))
    assert micros("1919-03-31T04:30:00Z") == day.start_micros


def test_a_day_that_a_place_left_out_has_no_window():
    # Samoa went from December 29 to December 31 of 2011.
    fn = CalendarDays(time_zone="Pacific/Apia")
    change = micros("2011-12-30T10:00:00Z")
    [before], [after] = fn.assign_micros(change - 1), fn.assign_micros(change)
    assert (change, change) == (before.end_micros, after.start_micros)
    assert [24, 24] == [(w.end_micros - w.start_micros) // 3_600_000_000 for w in (before, after)]


@pytest.mark.parametrize(
    ("fn", "start", "end"),
    [
        (CalendarDays(7, start=date(2024, 1, 1)), "2024-02-26T00:00:00Z", "2024-03-04T00:00:00Z"),
        (CalendarDays(7, start=date(2034, 1, 2)), "2024-02-26T00:00:00Z", "2024-03-04T00:00:00Z"),
        (CalendarMonths(), "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"),
        (CalendarMonths(3), "2024-01-01T00:00:00Z", "2024-04-01T00:00:00Z"),
        (CalendarMonths(3, start=date(2024, 2, 1)), "2024-02-01T00:00:00Z", "2024-05-01T00:00:00Z"),
        (CalendarMonths(day_of_month=15), "2024-02-15T00:00:00Z", "2024-03-15T00:00:00Z"),
        (CalendarMonths(time_zone="Asia/Tokyo"), "2024-02-01T00:00:00+09:00", "2024-03-01T00:00:00+09:00"),
        (CalendarYears(), "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"),
        (CalendarYears(1, 7), "2023-07-01T00:00:00Z", "2024-07-01T00:00:00Z"),
        (CalendarYears(10), "2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z"),
        (CalendarYears(10, start=date(1999, 5, 5)), "2019-01-01T00:00:00Z", "2029-01-01T00:00:00Z"),
        (CalendarYears(1, 2, 29 - 1), "2024-02-28T00:00:00Z", "2025-02-28T00:00:00Z"),
    ],
)
def test_windows_of_several_days_months_and_years(fn, start, end):
    assert (window(start, end),) == fn.assign_micros(micros("2024-02-29T12:00:00Z"))


@given(window_fns, timestamps)
def test_windows_tile_time(fn, now):
    [here] = fn.assign_micros(now)
    assert here.start_micros <= now < here.end_micros
    [again] = fn.assign_micros(here.start_micros)
    [last] = fn.assign_micros(here.end_micros - 1)
    [before] = fn.assign_micros(here.start_micros - 1)
    [after] = fn.assign_micros(here.end_micros)
    assert (here, here) == (again, last)
    assert (here.start_micros, here.end_micros) == (before.end_micros, after.start_micros)


@given(zones, timestamps)
def test_a_day_has_one_date_except_where_clocks_were_put_back_over_midnight(zone, now):
    [day] = CalendarDays(time_zone=zone).assign_micros(now)
    local = Timestamp.of_micros(now).to_utc_datetime(has_tz=True).astimezone(ZoneInfo(zone))
    first = day.start.to_utc_datetime(has_tz=True).astimezone(ZoneInfo(zone))
    assert first.date() - local.date() in (timedelta(0), timedelta(1))
    assert first.date() == local.date() or local.hour == 23


@given(window_fns, timestamps, timestamps)
def test_what_was_asked_before_makes_no_difference(fn, first, second):
    fresh = pickle.loads(pickle.dumps(fn))
    fn.assign_micros(first)
    fn.assign_micros(second)
    assert fresh.assign_micros(first) == fn.assign_micros(first)


def test_the_ends_of_time_belong_to_the_first_and_the_last_window():
    for fn in (CalendarDays(time_zone="Pacific/Apia"), CalendarMonths(), CalendarYears(), CalendarYears(20_000)):
        [first], [last] = fn.assign_micros(MIN_MICROS), fn.assign_micros(MAX_MICROS)
        assert (MIN_MICROS, MAX_MICROS + 1) == (first.start_micros, last.end_micros)
        [before], [after] = fn.assign_micros(MIN_MICROS + 1), fn.assign_micros(MAX_MICROS - 1)
        assert (first, last) == (before, after)


def test_a_second_look_at_a_window_gives_the_same_object():
    fn = CalendarDays(time_zone="Europe/Berlin")
    assert fn.assign_micros(1_000_000) is fn.assign_micros(2_000_000)


def test_a_zone_may_be_an_object():
    assert CalendarDays(time_zone="Asia/Tokyo") == CalendarDays(time_zone=ZoneInfo("Asia/Tokyo"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CalendarDays(0), "n must be an integer of at least 1, got 0"),
        (lambda: CalendarDays(1.5), "n must be an integer of at least 1, got 1.5"),
        (lambda: CalendarMonths(True), "n must be an integer of at least 1, got True"),
        (lambda: CalendarMonths(day_of_month=31), "day_of_month must be an integer from 1 to 28, got 31"),
        (lambda: CalendarYears(month_of_year=13), "month_of_year must be an integer from 1 to 12, got 13"),
        (lambda: CalendarYears(1, 2, 29), "day_of_month must be an integer from 1 to 28, got 29"),
        (lambda: CalendarYears(1, 12, 32), "day_of_month must be an integer from 1 to 31, got 32"),
        (lambda: CalendarDays(start="2020-01-01"), "start must be a datetime.date, got '2020-01-01'"),
        (lambda: CalendarDays(time_zone="Mars/Olympus"), "time_zone must be a name such as 'Europe/Berlin'"),
        (lambda: CalendarDays(time_zone=None), "time_zone must be a name such as 'Europe/Berlin'"),
    ],
)
def test_arguments_that_make_no_calendar_are_refused(build, message):
    with pytest.raises(ValueError) as caught:
        build()
    assert str(caught.value).startswith(message)
