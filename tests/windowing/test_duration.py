import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.windowing import Duration, Timestamp

spans = st.integers(-(10**15), 10**15).map(Duration.of_micros)


def test_a_duration_is_microseconds_inside():
    assert [1_500_000, 1, -2_000_000] == [x.micros for x in (Duration(1.5), Duration(micros=1), Duration(-2))]


@given(spans, spans)
def test_what_is_added_can_be_taken_away(a, b):
    opposite = -a
    assert a == a + b - b == -opposite


def test_arithmetic_with_numbers():
    expected = [Duration(7), Duration(7), Duration(3), Duration(-3), Duration(10), Duration(10), Duration(1)]
    five = Duration(5)
    assert expected == [five + 2, 2 + five, five - 2, 2 - five, five * 2, 2 * five, five % 2]


def test_durations_compare_with_numbers():
    assert Duration(5) == 5 == Duration(5.0)
    assert Duration(5) < 6
    assert 4 < Duration(5)
    assert {5} == {Duration(5), 5}


def test_a_timestamp_is_no_duration():
    with pytest.raises(TypeError, match="expected a duration in seconds"):
        Duration.of(Timestamp(5))


@pytest.mark.parametrize("wrong", ["5", None])
def test_what_is_no_number_is_refused(wrong):
    with pytest.raises(TypeError):
        Duration(wrong)
    with pytest.raises(TypeError):
        Duration(5) + wrong


def test_infinity_is_refused():
    with pytest.raises(ValueError):
        Duration(float("inf"))


def test_a_duration_is_shown_as_beam_shows_it():
    assert "Duration(-1.500000)" == repr(Duration(-1.5))


@given(spans)
def test_durations_are_pickled(span):
    assert span == pickle.loads(pickle.dumps(span))
