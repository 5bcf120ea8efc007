"""The continuation trigger, which a grouping passes on to the next."""

from __future__ import annotations

import pytest
from hypothesis import given

from penstock.sdk.windowing_strategy import WindowingStrategy
from penstock.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterSignal,
    AfterSize,
    AfterWatermark,
    AfterWatermarkPercentile,
    Always,
    DataLossReason,
    DefaultTrigger,
    Never,
    OrFinally,
    Repeatedly,
)
from triggers.some_triggers import OfAUser, triggers

TEN, ONE, SOON = AfterCount(10), AfterCount(1), AfterProcessingTime()


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (TEN, ONE),
        (AfterSize(10), ONE),
        (AfterSignal("flush"), ONE),
        (AfterProcessingTime(10, align_to=60), SOON),
        (DefaultTrigger(), DefaultTrigger()),
        (AfterWatermarkPercentile(0.9), AfterWatermarkPercentile(0.9)),
        (Always(), Always()),
        (Never(), Never()),
        (OfAUser(), OfAUser()),
        (Repeatedly(TEN), Repeatedly(ONE)),
        (AfterWatermark(), AfterWatermark()),
        (AfterWatermark(early=TEN, late=AfterProcessingTime(5)), AfterWatermark(early=ONE, late=SOON)),
        (AfterAny(TEN, AfterProcessingTime(5)), AfterAny(ONE, SOON)),
        (AfterAll(TEN, AfterWatermark()), AfterAll(ONE, AfterWatermark())),
        (AfterEach(TEN, AfterProcessingTime(5)), Repeatedly(AfterAny(ONE, SOON))),
        (OrFinally(Repeatedly(TEN), AfterWatermark()), Repeatedly(OrFinally(Repeatedly(ONE), AfterWatermark()))),
    ],
    ids=repr,
)
def test_the_continuation_lets_through_what_the_trigger_did(trigger, expected):
    assert expected == trigger.continuation()


@given(triggers())
def test_the_continuation_of_a_safe_trigger_is_safe(trigger):
    for lateness in (0, 60):
        windowing = WindowingStrategy(allowed_lateness=lateness)
        if trigger.may_lose_data(windowing) == DataLossReason.NO_POTENTIAL_LOSS:
            assert DataLossReason.NO_POTENTIAL_LOSS == trigger.continuation().may_lose_data(windowing)
