import pickle
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from penstock.windowing import Duration, Timestamp

micros = st.integers(-(10**15), 10**15)


@given(micros, micros)
def test_timestamps_and_durations_compare_by_their_microseconds(a, b):
    timestamp, duration = Timestamp.of_micros(a), Duration.of_micros(b)
    expected = (a < b, a == b, a > b)
    assert expected == (timestamp < duration, timestamp == duration, timestamp > duration)
    assert a != b or hash(timestamp) == hash(duration)


def test_fractions_are_numbers_of_seconds():
    assert Timestamp(0.25) == Timestamp(Fraction(1, 4))


def test_pickles_keep_the_class():
    assert [Timestamp, Duration] == [type(pickle.loads(pickle.dumps(x))) for x in (Timestamp(1), Duration(1))]
