"""Numbers at a rate: the same from any offset, at any time and with any number of partitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines.unbounded_readers import check_replay, elements, polled

import penstock as beam
from penstock.io import GenerateSequence
from penstock.io.watermark_estimators import MonotonicWatermarkEstimator
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.windowing import Timestamp
from penstock.windowing.timestamp import MAX_MICROS, MIN_MICROS


def source(*args, **options):
    return GenerateSequence(*args, **options).source


@given(
    elements=st.integers(1, 7),
    period=st.integers(1, 5),
    partitions=st.integers(1, 3),
    stop=st.integers(0, 30),
    step=st.integers(1, 4),
)
def test_every_number_comes_once_at_its_time_in_any_partition(elements, period, partitions, stop, step):
    """Each partition replays from any offset; all together they are the sequence up to now."""
    made = source(100, 100 + stop, elements, period, partitions=partitions, start_time=1000)
    now = 1004
    values = [value for p in made.partitions() for value in check_replay(made, p, now, step)]

    expected = [100 + i for i in range(stop) if 1000 + i * period / elements < now + 0.000001]
    assert expected == sorted(values)


def test_a_number_happens_when_it_is_due_and_comes_no_earlier():
    """Two in a second: the first at once, the others each half a second later."""
    reader = source(0, None, 2, 1).open(0, None)
    assert MIN_MICROS == reader.watermark(Timestamp(9))

    assert [(0, 10_000_000)] == elements(reader.poll(10, Timestamp(10)))
    assert [] == elements(reader.poll(10, Timestamp(10.4)))
    assert [(1, 10_500_000), (2, 11_000_000)] == elements(reader.poll(10, Timestamp(11.2)))


def test_the_watermark_follows_the_clock_up_to_what_is_due_next():
    """Nothing that happened before it can come."""
    reader = source(0, 3, 1, 10, start_time=100).open(0, None)
    reader.poll(10, Timestamp(100))

    assert [105_000_000, 110_000_000] == [reader.watermark(Timestamp(now)) for now in (105, 125)]
    assert [1, 2] == polled(reader, 125)
    assert reader.is_finished()
    assert MAX_MICROS == reader.watermark(Timestamp(125))


def test_a_reader_that_was_away_catches_up():
    """Numbers that became due meanwhile are read at once, with the timestamps at which they were due."""
    made = source(0, None, 1, 1)
    reader = made.open(0, None)
    reader.poll(1, Timestamp(10))
    again = made.open(0, reader.offset())

    assert [(1, 11_000_000), (2, 12_000_000)] == elements(again.poll(2, Timestamp(60)))
    assert None is again.backlog()


def test_a_clock_that_is_set_forward_brings_no_flood():
    """A sequence that began when it was first read keeps its rate, also for a batch that is read elsewhere."""
    made = source(0, None, 1, 1)
    reader = made.open(0, None)
    reader.poll(10, Timestamp(10))
    before = reader.offset()
    reader.time_jumped(3_600_000_000)

    assert [(1, 3_611_000_000)] == elements(reader.poll(10, Timestamp(3_611)))
    assert [(1, 3_611_000_000)] == elements(next(made.open(0, before).read_to(reader.offset(), Timestamp(3_611))))


def test_numbers_that_are_due_at_fixed_times_catch_up_with_a_clock_that_is_set_forward():
    """The schedule is the user's."""
    reader = source(0, None, 1, 1, start_time=10).open(0, None)
    reader.poll(10, Timestamp(10))
    reader.time_jumped(2_000_000)

    assert [(1, 11_000_000), (2, 12_000_000)] == elements(reader.poll(10, Timestamp(12)))


def test_without_a_rate_and_a_stop_there_are_as_many_as_are_asked_for():
    """They happen when they are read; partitions take every so manieth."""
    made = source(5, partitions=2)

    assert [(6, 3_000_000), (8, 3_000_000)] == elements(made.open(1, None).poll(2, Timestamp(3)))
    assert 3_000_000 == made.open(1, None).watermark(Timestamp(3))
    assert [8] == made.open(1, (3, None)).poll(1, Timestamp(3)).values


def test_event_times_of_ones_own_need_a_word_on_their_order():
    """The watermark is then that of the estimator."""
    with pytest.raises(ValueError, match="GenerateSequence: with a timestamp_fn give a watermark_estimator"):
        GenerateSequence(0, timestamp_fn=float)
    provider = MonotonicWatermarkEstimator.default_provider()
    reader = source(0, timestamp_fn=lambda n: n * 10, watermark_estimator=provider).open(0, None)

    assert [(0, 0), (1, 10_000_000)] == elements(reader.poll(2, Timestamp(3)))
    assert 10_000_000 == reader.watermark(Timestamp(99))


def test_with_a_stop_and_without_a_rate_it_is_bounded():
    """And runs on any runner; with event times, too."""
    with TestPipeline() as p:
        numbers = p | GenerateSequence(2, 5, timestamp_fn=float)
        assert numbers.is_bounded
        timed = numbers | beam.Map(lambda n, timestamp=beam.DoFn.TimestampParam: (n, timestamp.micros))
        assert_that(timed, equal_to([(2, 2_000_000), (3, 3_000_000), (4, 4_000_000)]))

    assert not (beam.Pipeline() | GenerateSequence(2, 5, 1, 1)).is_bounded


def test_half_a_rate_is_none():
    """And nothing comes at a rate of zero."""
    with pytest.raises(ValueError, match="got 3 and None; give both"):
        GenerateSequence(0, None, 3)
    with pytest.raises(ValueError, match="more than 0, got 0 every 1 seconds"):
        GenerateSequence(0, None, 0, 1)
    with pytest.raises(TypeError, match="start must be a whole number, got 'a'"):
        GenerateSequence("a")
    with pytest.raises(TypeError, match=r"elements_per_period must be a whole number, got 0\.5"):
        GenerateSequence(0, elements_per_period=0.5, period=1)
    with pytest.raises(ValueError, match="partitions must be 1 or more"):
        GenerateSequence(0, partitions=0)
