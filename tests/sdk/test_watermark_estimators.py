"""Each policy for watermarks, under Beam's names."""

import pickle

import pytest

from penstock.io.watermark_estimators import (
    BoundedOutOfOrdernessWatermarkEstimator,
    ManualWatermarkEstimator,
    MonotonicWatermarkEstimator,
    WalltimeWatermarkEstimator,
)
from penstock.windowing import Timestamp
from penstock.windowing.timestamp import MIN_MICROS

PROVIDERS = [
    MonotonicWatermarkEstimator.default_provider(),
    BoundedOutOfOrdernessWatermarkEstimator.default_provider(3),
    ManualWatermarkEstimator.default_provider(),
    WalltimeWatermarkEstimator.default_provider(),
]


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: getattr(p.make, "__name__", "Bounded"))
def test_an_estimator_goes_on_from_the_state_of_another(provider):
    """As after a failure; provider and state travel as pickles."""
    provider = pickle.loads(pickle.dumps(provider))
    first = provider.create_watermark_estimator(provider.initial_estimator_state(None, None))
    assert first.current_watermark() is None
    first.observe_all([5_000_000, 7_000_000])
    if isinstance(first, ManualWatermarkEstimator):
        first.set_watermark(Timestamp(6))
    at = first.at(Timestamp(9))
    second = provider.create_watermark_estimator(pickle.loads(pickle.dumps(first.get_estimator_state())))

    assert MIN_MICROS < at == second.at(Timestamp(9))


def test_a_monotonic_one_follows_the_last_timestamp_and_takes_none_that_goes_back():
    """Whether alone or within a bundle; the message says what to use instead."""
    estimator = MonotonicWatermarkEstimator(None)
    assert MIN_MICROS == estimator.at(Timestamp(9))
    estimator.observe_all([1, 2, 2, 5])
    assert 5 == estimator.at(Timestamp(9))
    estimator.observe_all(5)
    estimator.observe_all([])
    for wrong in (4, [4, 6], [6, 5]):
        with pytest.raises(ValueError, match="BoundedOutOfOrderness"):
            MonotonicWatermarkEstimator(Timestamp(micros=5)).observe_all(wrong)


def test_a_bounded_one_stays_behind_the_latest_timestamp():
    """By its bound, and never before the beginning of time."""
    estimator = BoundedOutOfOrdernessWatermarkEstimator(2)
    estimator.observe_all(10_000_000)
    estimator.observe_all([9_000_000, 8_000_000])
    estimator.observe_all([])
    assert 8_000_000 == estimator.at(Timestamp(100))

    estimator = BoundedOutOfOrdernessWatermarkEstimator(2)
    estimator.observe_all(MIN_MICROS)
    assert MIN_MICROS == estimator.at(Timestamp(100))
    with pytest.raises(ValueError, match="0 or more, got -1"):
        BoundedOutOfOrdernessWatermarkEstimator.default_provider(-1)


def test_a_manual_one_is_where_it_was_set_and_does_not_go_back():
    """Elements don't move it."""
    estimator = ManualWatermarkEstimator(Timestamp(3))
    estimator.observe_all([9_000_000])
    estimator.set_watermark(Timestamp(4))
    assert 4_000_000 == estimator.at(Timestamp(100))
    with pytest.raises(ValueError, match="can't go back"):
        estimator.set_watermark(Timestamp(3))
    with pytest.raises(ValueError, match="expected a Timestamp, got 5"):
        estimator.set_watermark(5)


def test_wall_time_is_what_it_is_told_and_does_not_go_back():
    """It has no clock of its own."""
    estimator = WalltimeWatermarkEstimator()
    estimator.observe_all([9_000_000])

    assert [5_000_000, 5_000_000, 6_000_000] == [estimator.at(Timestamp(s)) for s in (5, 4, 6)]
    assert Timestamp(6) == estimator.current_watermark()
