"""Lags as percentiles, against all of them sorted."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sdk.sources.lag_sketch import PERCENTILES, LagSketch
from penstock.windowing.timestamp import MIN_MICROS

SECOND = 1_000_000


@given(st.lists(st.integers(-5 * SECOND, 10**12), min_size=1, max_size=60), st.sampled_from(PERCENTILES))
def test_a_percentile_is_within_a_fifteenth_of_the_true_lag(lags, percentile):
    """Of bundles small enough that each element counts; early elements have no lag."""
    sketch = LagSketch()
    sketch.observe([-lag for lag in lags], now=0)
    true = max(sorted(lags)[math.ceil(percentile * len(lags) - 1e-9) - 1], 0)

    found = sketch.lag(percentile)

    assert found is not None
    assert true * (1 - 1 / 1000) <= found <= true * 16 / 15 + 1


def test_of_a_large_bundle_a_sample_stands_for_all():
    """A hundred thousand elements cost no more than sixty-four, and count like themselves."""
    sketch = LagSketch()
    sketch.observe([-SECOND * (i % 100) for i in range(99_991)], now=0)
    sketch.observe(-200 * SECOND, now=0, elements=30_000)

    assert 100 < len(sketch._counts) + 100 < 200
    assert sketch.lag(0.5) == pytest.approx(65 * SECOND, rel=0.15)
    assert sketch.lag(0.9) == pytest.approx(200 * SECOND, rel=1 / 15)


def test_an_hour_with_a_backlog_is_forgotten():
    """As many elements later again, at most, the lag is that of today."""
    sketch = LagSketch()
    for _ in range(100):
        sketch.observe(-3600 * SECOND, now=0, elements=10_000)
    for _ in range(100):
        sketch.observe(-2 * SECOND, now=0, elements=10_000)

    assert sketch.lag(0.99) == pytest.approx(2 * SECOND, rel=1 / 15)


def test_two_sketches_add_up():
    """Merging is counting what both have seen."""
    one, other = LagSketch(), LagSketch()
    one.observe([-SECOND] * 10, now=0)
    other.observe([-9 * SECOND] * 30, now=0)
    one.merge(other)

    assert one.lag(0.2) == pytest.approx(SECOND, rel=1 / 15)
    assert one.lag(0.5) == pytest.approx(9 * SECOND, rel=1 / 15)


def test_percentile_watermarks_are_never_behind_the_watermark_and_never_go_back():
    """With any changes of the lags."""
    sketch = LagSketch()
    assert {0.5: MIN_MICROS} == sketch.watermarks(now=0, low=MIN_MICROS, percentiles=[0.5])

    sketch.observe([0] * 10, now=SECOND)
    first = sketch.watermarks(now=100 * SECOND, low=0, percentiles=[0.5])
    sketch.observe(0, now=90 * SECOND, elements=1000)

    assert first == sketch.watermarks(now=101 * SECOND, low=0, percentiles=[0.5])
    assert {0.5: 100 * SECOND} == sketch.watermarks(now=101 * SECOND, low=100 * SECOND, percentiles=[0.5])
