import pickle

import pytest

from penstock.windowing import Timestamp, TimestampedValue


@pytest.mark.parametrize("timestamp", [5, 5.0, Timestamp(5)])
def test_a_timestamp_may_be_written_in_three_ways(timestamp):
    value = TimestampedValue("a", timestamp)
    assert ("a", Timestamp(5), 5_000_000) == (value.value, value.timestamp, value.micros)


@pytest.mark.parametrize("timestamp", [10**13, -(10**13), 1e13, float("nan")])
def test_a_timestamp_out_of_range_is_refused(timestamp):
    with pytest.raises(ValueError):
        TimestampedValue("a", timestamp)


def test_a_text_is_no_timestamp():
    with pytest.raises(TypeError, match="expected a timestamp in seconds"):
        TimestampedValue("a", "5")


def test_values_are_equal_when_value_and_timestamp_are():
    assert TimestampedValue("a", 5) == TimestampedValue("a", Timestamp(5))
    assert TimestampedValue("a", 5) != TimestampedValue("a", 6)
    assert TimestampedValue("a", 5) != TimestampedValue("b", 5)
    assert {TimestampedValue("a", 5)} == {TimestampedValue("a", 5), TimestampedValue("a", 5.0)}


def test_values_are_pickled():
    value = TimestampedValue(["a"], 1.5)
    assert value == pickle.loads(pickle.dumps(value))


def test_a_value_shows_both_parts():
    assert "TimestampedValue('a', Timestamp(5))" == repr(TimestampedValue("a", 5))
