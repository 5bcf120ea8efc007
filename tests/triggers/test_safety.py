"""Triggers that may leave data behind, and their refusal by a grouping."""

from __future__ import annotations

import logging

import pytest

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
    UnsafeTriggerError,
    check_safe,
)

SAFE, MAY_FINISH = DataLossReason.NO_POTENTIAL_LOSS, DataLossReason.MAY_FINISH
TWO, FOREVER = AfterCount(2), Repeatedly(AfterCount(2))


@pytest.mark.parametrize(
    ("trigger", "without_lateness", "with_lateness"),
    [
        (DefaultTrigger(), SAFE, SAFE),
        (Always(), SAFE, SAFE),
        (Never(), SAFE, SAFE),
        (TWO, MAY_FINISH, MAY_FINISH),
        (AfterSize(2), MAY_FINISH, MAY_FINISH),
        (AfterProcessingTime(2), MAY_FINISH, MAY_FINISH),
        (AfterSignal("flush"), MAY_FINISH, MAY_FINISH),
        (AfterWatermarkPercentile(0.9), MAY_FINISH, MAY_FINISH),
        (FOREVER, SAFE, SAFE),
        (AfterWatermark(), SAFE, MAY_FINISH),
        (AfterWatermark(early=TWO), SAFE, MAY_FINISH),
        (AfterWatermark(late=TWO), SAFE, SAFE),
        (AfterAny(TWO, DefaultTrigger()), MAY_FINISH, MAY_FINISH),
        (AfterAny(FOREVER, DefaultTrigger()), SAFE, SAFE),
        (AfterAny(FOREVER, AfterWatermark()), SAFE, MAY_FINISH),
        (AfterAll(TWO, DefaultTrigger()), SAFE, SAFE),
        (AfterAll(TWO, AfterProcessingTime(2)), MAY_FINISH, MAY_FINISH),
        (AfterAll(TWO, AfterWatermark()), SAFE, MAY_FINISH),
        (AfterEach(TWO, TWO), MAY_FINISH, MAY_FINISH),
        (AfterEach(TWO, FOREVER), SAFE, SAFE),
        (OrFinally(FOREVER, TWO), MAY_FINISH, MAY_FINISH),
        (OrFinally(FOREVER, FOREVER), SAFE, SAFE),
        (OrFinally(FOREVER, AfterWatermark()), SAFE, MAY_FINISH),
        (OrFinally(FOREVER, AfterWatermark(early=TWO)), SAFE, MAY_FINISH),
        (OrFinally(FOREVER, AfterWatermark(late=TWO)), SAFE, SAFE),
        (OrFinally(FOREVER, DefaultTrigger()), SAFE, SAFE),
        (OrFinally(FOREVER, AfterAll(TWO, AfterWatermark())), SAFE, MAY_FINISH),
        (OrFinally(FOREVER, AfterAny(TWO, AfterWatermark())), MAY_FINISH, MAY_FINISH),
        (OrFinally(FOREVER, Never()), SAFE, SAFE),
        (OrFinally(TWO, Never()), MAY_FINISH, MAY_FINISH),
        (AfterEach(OrFinally(FOREVER, AfterWatermark()), Repeatedly(AfterWatermark())), SAFE, SAFE),
    ],
    ids=repr,
)
def test_which_triggers_may_leave_data_behind(trigger, without_lateness, with_lateness):
    assert without_lateness == trigger.may_lose_data(WindowingStrategy(allowed_lateness=0))
    assert with_lateness == trigger.may_lose_data(WindowingStrategy(allowed_lateness=1))


def test_an_unsafe_trigger_is_refused_by_the_label_of_its_grouping():
    message = r"Totals/Sum: Unsafe trigger: `AfterCount\(2\)` may lose data\. Reason: MAY_FINISH\."
    with pytest.raises(UnsafeTriggerError, match=message):
        check_safe(WindowingStrategy(trigger=TWO), False, "Totals/Sum")


def test_an_unsafe_trigger_that_is_allowed_is_warned_of(caplog):
    with caplog.at_level(logging.WARNING):
        check_safe(WindowingStrategy(trigger=TWO), True, "Sum")
    assert ["Sum: Unsafe trigger: `AfterCount(2)` may lose data."] == [
        m.partition(" Reason")[0] for m in caplog.messages
    ]


def test_a_safe_trigger_passes_without_a_word(caplog):
    check_safe(WindowingStrategy(trigger=FOREVER), False, "Sum")
    assert [] == caplog.messages
