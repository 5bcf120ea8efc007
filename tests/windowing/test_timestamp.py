import copy
import pickle
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.windowing import (
    MAX_MICROS,
    MAX_TIMESTAMP,
    MIN_MICROS,
    MIN_TIMESTAMP,
    Duration,
    Timestamp,
    micros_of,
)

all_micros = st.integers(MIN_MICROS, MAX_MICROS)


@pytest.mark.parametrize(
    ("timestamp", "micros"),
    [
        (Timestamp(), 0),
        (Timestamp(5), 5_000_000),
        (Timestamp(1.5), 1_500_000),
        (Timestamp(-1.5), -1_500_000),
        (Timestamp(1.001), 1_001_000),
        (Timestamp(1, 5), 1_000_005),
        (Timestamp(1, 5_000, Timestamp.NANOS_PRECISION), 1_000_005),
        (Timestamp(1, 5, 3), 1_005_000),
        (Timestamp(micros=7), 7),
        (Timestamp(np.int64(3)), 3_000_000),
        (Timestamp(np.float32(0.5)), 500_000),
    ],
)
def test_a_timestamp_is_microseconds_inside(timestamp, micros):
    assert micros == timestamp.micros


@pytest.mark.parametrize("wrong", ["5", None, Duration(5), timedelta(seconds=5), [5]])
def test_what_is_no_number_is_refused_by_type(wrong):
    with pytest.raises(TypeError, match="expected a timestamp in seconds, got"):
        Timestamp.of(wrong)


def test_a_refusal_guesses_what_was_meant():
    with pytest.raises(TypeError) as caught:
        Timestamp("2020-01-01T00:00:00Z")
    expected = (
        "expected a timestamp in seconds, got '2020-01-01T00:00:00Z' of type str; "
        "did you mean Timestamp.from_rfc3339(...)?"
    )
    assert expected == str(caught.value)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf"), 1e13, -1e13, 10**13])
def test_what_is_no_instant_is_refused_by_value(wrong):
    with pytest.raises(ValueError):
        Timestamp.of(wrong)


def test_milliseconds_passed_as_seconds_are_noticed():
    with pytest.raises(ValueError, match="is it in milliseconds or microseconds, perhaps"):
        Timestamp(1_700_000_000_000_000)


def test_nanoseconds_are_not_lost_silently():
    precise = Timestamp(0, 1, Timestamp.NANOS_PRECISION)

    assert (9, 1, 0) == (precise.precision(), precise.nanos, precise.to_precision(6, True).micros)
    for lossy in (lambda: precise.micros, precise.to_utc_datetime, lambda: precise.to_precision(6)):
        with pytest.raises(ValueError, match="microsecond|cannot be represented exactly"):
            lossy()


def test_an_instant_has_up_to_nine_digits():
    """As in Beam: arithmetic keeps them, and text and protos have them."""
    precise = Timestamp(1, 123456789, Timestamp.NANOS_PRECISION)

    assert ("Timestamp(1.123456789)", "Timestamp(1.500)") == (repr(precise), repr(Timestamp(1, 500, 3)))
    assert "1970-01-01T00:00:01.123456789Z" == precise.to_rfc3339()
    for same in (
        Timestamp.from_rfc3339(precise.to_rfc3339()),
        Timestamp.from_proto(precise.to_proto()),
        precise + 1 - Duration(1),
        precise.successor().predecessor(),
        pickle.loads(pickle.dumps(precise)),
    ):
        assert (precise, 9) == (same, same.precision())
    assert Timestamp(1.123456) < precise < Timestamp(1.123457)
    assert hash(Timestamp(1.5)) == hash(Timestamp(1, 500, 3))
    assert Duration(3) == precise + 3 - precise
    with pytest.raises(ValueError, match="sub-microsecond precision"):
        precise - Timestamp(1)


@pytest.mark.parametrize("wrong", [{"precision": 10}, {"precision": 9, "micros": 1}, {"subseconds": 1, "micros": 1}])
def test_digits_that_contradict_are_refused(wrong):
    with pytest.raises(ValueError):
        Timestamp(0, **wrong)


def test_an_instant_cannot_be_negated():
    with pytest.raises(TypeError, match="bad operand type for unary -: 'Timestamp'"):
        -Timestamp(1.5)


def test_the_ends_of_time_are_beams():
    assert (-9223372036854775000, 9223372036854775000) == (MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros)


def test_the_ends_of_time_stay_where_they_are():
    assert MAX_TIMESTAMP == MAX_TIMESTAMP + 1 == MAX_TIMESTAMP.successor()
    assert MIN_TIMESTAMP == MIN_TIMESTAMP - 1 == MIN_TIMESTAMP.predecessor()


def test_other_arithmetic_out_of_range_is_an_error():
    with pytest.raises(ValueError):
        MAX_TIMESTAMP.predecessor() + 1
    with pytest.raises(ValueError):
        MIN_TIMESTAMP + 2**50


def test_arithmetic_with_durations_and_numbers():
    assert Timestamp(15) == Timestamp(10) + 5 == 5 + Timestamp(10) == Duration(5) + Timestamp(10)
    assert Timestamp(9.5) == Timestamp(10) - 0.5
    assert Timestamp(3) == Timestamp(1) + np.int64(2)
    difference = Timestamp(10) - Timestamp(4)
    assert (Duration, Duration(6)) == (type(difference), difference)
    assert Duration(0.1) == Timestamp(10_000_000.1) % 1


def test_timestamps_cannot_be_added_to_each_other():
    with pytest.raises(TypeError):
        Timestamp(1) + Timestamp(1)
    with pytest.raises(TypeError):
        Duration(1) - Timestamp(1)


def test_floats_lose_no_precision_in_a_remainder():
    assert Duration(0) == Timestamp(10_000_000) % 0.1 == Timestamp(10_000_000) % 0.000005


@given(all_micros, all_micros)
def test_timestamps_are_ordered_as_their_microseconds(a, b):
    left, right = Timestamp.of_micros(a), Timestamp.of_micros(b)
    expected = (a < b, a <= b, a > b, a >= b, a == b, a != b)
    actual = (left < right, left <= right, left > right, left >= right, left == right, left != right)
    assert expected == actual


@given(st.floats(-9e12, 9e12) | st.integers(-(9 * 10**12), 9 * 10**12), all_micros)
def test_what_equals_a_number_has_its_hash(number, micros):
    for timestamp in (Timestamp(number), Timestamp.of_micros(micros)):
        for other in (number, micros / 1_000_000):
            assert timestamp != other or hash(timestamp) == hash(other)


def test_timestamps_compare_with_numbers():
    assert Timestamp(5) == 5
    assert Timestamp(5) < 5.5 < Timestamp(6)
    assert 4 < Timestamp(5) <= 5
    assert Timestamp(5) < float("inf")
    assert Timestamp(5) != "5"
    with pytest.raises(TypeError):
        sorted([Timestamp(5), "5"])


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [
        ("Timestamp(5)", Timestamp(5)),
        ("Timestamp(1.500000)", Timestamp(1.5)),
        ("Timestamp(-0.000001)", Timestamp(micros=-1)),
        ("Timestamp(-2)", Timestamp(-2)),
    ],
)
def test_a_timestamp_is_shown_as_beam_shows_it(text, timestamp):
    assert text == repr(timestamp)


@given(st.datetimes(timezones=st.just(UTC)))
def test_dates_and_texts_there_and_back(dt):
    timestamp = Timestamp.from_utc_datetime(dt)
    assert dt == timestamp.to_utc_datetime(has_tz=True)
    assert dt.replace(tzinfo=None) == timestamp.to_utc_datetime()
    assert timestamp == Timestamp.from_rfc3339(timestamp.to_rfc3339())


def test_a_text_in_another_zone_is_converted():
    assert Timestamp(0) == Timestamp.from_rfc3339("1970-01-01T02:00:00+02:00")


@pytest.mark.parametrize("wrong", ["yesterday", "1970-01-01T00:00:00", ""])
def test_a_text_that_names_no_instant_is_refused(wrong):
    with pytest.raises(ValueError, match="expected a time"):
        Timestamp.from_rfc3339(wrong)


def test_a_date_that_is_not_in_utc_is_refused():
    for dt in (datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=1)))):
        with pytest.raises(ValueError, match="expected a datetime in UTC"):
            Timestamp.from_utc_datetime(dt)


def test_the_ends_of_time_are_no_dates():
    with pytest.raises(OverflowError, match="years 1 to 9999"):
        MAX_TIMESTAMP.to_utc_datetime()


def test_protocol_buffers_are_read():
    assert Timestamp(1.5) == Timestamp.from_proto(SimpleNamespace(seconds=1, nanos=500_000_000))
    assert Duration(1.5) == Duration.from_proto(SimpleNamespace(seconds=1, nanos=500_000_000))


def test_seconds_are_rounded_down():
    assert (-2, -2, -1.5) == (Timestamp(-1.5).seconds(), int(Timestamp(-1.5)), float(Timestamp(-1.5)))


def test_now_is_between_two_looks_at_the_clock():
    before = datetime.now(UTC)
    now = Timestamp.now().to_utc_datetime(has_tz=True)
    assert before <= now <= datetime.now(UTC)


@given(all_micros)
def test_timestamps_are_pickled_and_copied(micros):
    timestamp = Timestamp.of_micros(micros)
    assert timestamp == pickle.loads(pickle.dumps(timestamp)) == copy.deepcopy(timestamp)


def test_micros_of_takes_what_stands_for_a_time():
    expected = [2_000_000, 500_000, 3_000_000, 4_000_000]
    assert expected == [micros_of(x) for x in (2, 0.5, Duration(3), Timestamp(4))]
    with pytest.raises(TypeError, match="a number of seconds, a Timestamp or a Duration"):
        micros_of("2")


def test_times_are_converted_to_protos_and_nanoseconds():
    for time in (Timestamp(-1.25), Timestamp(0), Timestamp(7, 500, 3)):
        assert time == Timestamp.from_proto(time.to_proto())
        assert time.nanos == 10**9 * time.seconds() + 10 ** (9 - time.precision()) * time.subseconds()
    for span in (Duration(-1.25), Duration(0), Duration(90)):
        assert span == Duration.from_proto(span.to_proto())
    assert Timestamp(micros=1) == Timestamp(0, 1000, Timestamp.NANOS_PRECISION)
    assert 6 == Timestamp(0).precision()
