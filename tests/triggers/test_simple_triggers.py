"""Each simple trigger alone."""

from __future__ import annotations

import pytest

from penstock.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterProcessingTime,
    AfterSignal,
    AfterSize,
    AfterWatermark,
    AfterWatermarkPercentile,
    Always,
    DefaultTrigger,
    Never,
    Repeatedly,
    Trigger,
    TriggerFn,
)
from triggers.harness import fires
from triggers.some_triggers import ONCE, ONE, only_the_last


@pytest.mark.parametrize("simple", ONCE, ids=str)
def test_a_simple_trigger_fires_once_and_has_finished(simple):
    script = [*simple.first, *simple.then, ONE, ONE, ONE]
    expected = [*only_the_last(simple.first), *[0] * (len(simple.then) + 3)]
    assert expected == fires(simple.trigger, script)


@pytest.mark.parametrize("trigger", [DefaultTrigger(), AfterWatermark(), AfterWatermarkPercentile(0.5)], ids=repr)
def test_nothing_fires_on_time_in_a_window_that_nothing_came_to(trigger):
    assert [0] == fires(trigger, [("watermark", 60)])


def test_the_default_trigger_fires_on_time_and_for_what_is_late():
    assert [0, 1, 1, 0] == fires(DefaultTrigger(), [ONE, ("watermark", 60), ONE, ("watermark", 90)])


def test_the_watermark_passes_when_it_reaches_the_last_instant_of_the_window():
    script = [ONE, ("watermark", 59.999999), ("watermark", 60)]
    assert [0, 0, 1] == fires(DefaultTrigger(), script)


def test_always_fires_for_each_bundle_and_never_does_not():
    script = [("bundle", "w", 3), ("watermark", 60), ("bundle", "w", 1)]
    assert ([1, 0, 1], [0, 0, 0]) == (fires(Always(), script), fires(Never(), script))


def test_a_count_fires_in_the_midst_of_a_bundle():
    assert [1, 0] == fires(AfterCount(2), [("bundle", "w", 3), ("bundle", "w", 3)])


@pytest.mark.parametrize(("came", "fired"), [(19, 60), (0, 60), (60, 120), (59.999999, 60)])
def test_aligned_processing_time_waits_for_the_next_whole_multiple(came, fired):
    script = [("processing_time", came), ONE, ("processing_time", fired - 0.000001), ("processing_time", fired)]
    assert [0, 0, 0, 1] == fires(AfterProcessingTime(align_to=60), script)


def test_a_delay_goes_by_before_the_next_multiple_is_looked_for():
    script = [("processing_time", 50), ONE, ("processing_time", 60), ("processing_time", 120)]
    assert [0, 0, 0, 1] == fires(AfterProcessingTime(delay=20, align_to=60), script)


def test_the_delay_is_counted_from_the_first_element():
    script = [ONE, ("processing_time", 9), ONE, ("processing_time", 10), ("processing_time", 19)]
    assert [0, 0, 0, 1, 0] == fires(AfterProcessingTime(10), script)


def test_a_signal_before_the_first_element_does_not_count():
    script = [("signal", "flush"), ONE, ("signal", "other"), ("signal", "flush")]
    assert [0, 0, 0, 1] == fires(AfterSignal("flush"), script)


def test_a_percentile_fires_with_the_watermark_at_the_latest():
    assert [0, 0, 1] == fires(AfterWatermarkPercentile(0.9), [ONE, ("percentile", 0.5, 90), ("watermark", 60)])


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", None])
def test_counts_and_sizes_are_positive_whole_numbers(count):
    for trigger in (AfterCount, AfterSize):
        with pytest.raises(ValueError, match="must be a positive whole number"):
            trigger(count)


def test_impossible_times_are_refused():
    with pytest.raises(ValueError, match="delay must not be negative, got -1"):
        AfterProcessingTime(-1)
    with pytest.raises(ValueError, match="align_to must be positive, got 0"):
        AfterProcessingTime(align_to=0)


def test_a_percentage_for_a_share_is_refused_with_a_guess():
    with pytest.raises(ValueError, match=r"between 0 and 1, got 95; did you mean 0\.95\?"):
        AfterWatermarkPercentile(95)


def test_a_signal_has_a_name():
    with pytest.raises(ValueError, match="the name of a signal, got ''"):
        AfterSignal("")


def test_seconds_are_read_as_they_were_written():
    trigger = AfterProcessingTime(delay=0.5, align_to=60)
    assert (0.5, 60, "AfterProcessingTime(delay=0.5, align_to=60)") == (trigger.delay, trigger.align_to, repr(trigger))


def test_beams_name_for_the_base_is_accepted():
    assert TriggerFn is Trigger


def test_triggers_are_values():
    assert AfterCount(2) == AfterCount(2) != AfterCount(3)
    assert hash(AfterProcessingTime(1)) == hash(AfterProcessingTime(1))
    assert AfterProcessingTime(1) != AfterProcessingTime(1, align_to=60)


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (DefaultTrigger(), True),
        (AfterWatermark(early=AfterCount(1)), True),
        (AfterCount(1), False),
        (AfterProcessingTime(1), False),
        (Repeatedly(AfterWatermark()), True),
        (AfterAny(AfterCount(1), AfterWatermark()), True),
        (AfterAll(AfterCount(1), AfterProcessingTime(1)), False),
    ],
    ids=repr,
)
def test_triggers_tell_whether_they_fire_on_time_without_elements(trigger, expected):
    assert expected == trigger.has_ontime_pane()


def test_triggers_say_what_they_listen_to():
    assert {"flush"} == AfterSignal("flush").signals()
    assert {0.9} == AfterWatermarkPercentile(0.9).percentiles()
    assert (set(), set()) == (AfterCount(1).signals(), AfterCount(1).percentiles())
