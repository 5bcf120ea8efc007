"""Percentile watermarks of a subtask: the least of its inputs'."""

from __future__ import annotations

import pytest
from support.pipelines.recording import recorded
from support.runners.local_variants import VARIANTS, runner_of

import penstock as beam
from penstock.runners.execution.streaming.percentile_watermarks import Percentiles
from penstock.testing import TestStream
from penstock.triggers import AccumulationMode, AfterWatermarkPercentile, Repeatedly
from penstock.windowing import FixedWindows


def test_it_is_the_least_and_each_share_by_itself() -> None:
    """Nothing is known before every input has said something."""
    percentiles = Percentiles(["a", "b"])
    percentiles.advance("a", 0.9, 7)
    percentiles.advance("a", 0.5, 9)
    assert {} == percentiles.moved()
    percentiles.advance("b", 0.9, 5)
    assert {0.9: 5} == percentiles.moved()


def test_it_never_goes_back_and_is_told_once() -> None:
    """With any input."""
    percentiles = Percentiles(["a"])
    percentiles.advance("a", 0.9, 7)
    assert {0.9: 7} == percentiles.moved()
    percentiles.advance("a", 0.9, 3)
    assert {} == percentiles.moved()


def test_an_idle_input_does_not_hold_the_percentile_until_it_is_active() -> None:
    """Then it has to catch up before anything moves on."""
    percentiles = Percentiles(["a", "b"])
    percentiles.advance("a", 0.9, 7)
    percentiles.set_idle("b", True)
    assert {0.9: 7} == percentiles.moved()
    percentiles.set_idle("b", False)
    percentiles.advance("a", 0.9, 9)
    percentiles.advance("b", 0.9, 3)
    assert {} == percentiles.moved()
    percentiles.advance("b", 0.9, 8)
    assert {0.9: 8} == percentiles.moved()


@pytest.mark.parametrize("variant", VARIANTS)
def test_subtasks_that_read_nothing_hold_no_percentile_back(variant: str) -> None:
    """A script is played by one of them."""
    stream = TestStream().add_elements([beam.window.TimestampedValue(("a", 1), 5)])
    stream.advance_percentile_watermark_to(0.9, 10).advance_watermark_to_infinity()
    windows = beam.WindowInto(
        FixedWindows(10),
        trigger=Repeatedly(AfterWatermarkPercentile(0.9)),
        accumulation_mode=AccumulationMode.DISCARDING,
    )
    found = recorded(lambda p: p | stream | windows | beam.CombinePerKey(sum), runner_of(variant))
    assert ["+('a', 1) [0, 10) EARLY 0/-1 first"] == found.shown()
