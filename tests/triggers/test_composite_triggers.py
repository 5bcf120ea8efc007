"""Each composite around each simple trigger."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from penstock.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterSignal,
    AfterWatermark,
    AfterWatermarkPercentile,
    Always,
    DefaultTrigger,
    Never,
    OrFinally,
    Repeatedly,
)
from triggers.harness import Harness, fires
from triggers.some_triggers import EARLY, ONCE, ONE, OfAUser, only_the_last, steps, triggers

each_simple = pytest.mark.parametrize("simple", ONCE, ids=str)
each_early = pytest.mark.parametrize("simple", EARLY, ids=str)

PASS = ("watermark", 60)
STOP = ("signal", "stop")


@each_simple
def test_repeatedly_begins_anew(simple):
    script = [*simple.first, *simple.then]
    expected = [*only_the_last(simple.first), *only_the_last(simple.then)]
    assert expected == fires(Repeatedly(simple.trigger), script)


@each_simple
def test_after_each_goes_on_to_the_next_and_finishes_with_the_last(simple):
    script = [*simple.first, ONE, ONE, *simple.then]
    expected = [*only_the_last(simple.first), 1, *[0] * (1 + len(simple.then))]
    assert expected == fires(AfterEach(simple.trigger, AfterCount(1)), script)


@each_early
def test_after_each_keeps_elements_from_those_whose_turn_has_not_come(simple):
    script = [ONE, *simple.first]
    assert [1, *only_the_last(simple.first)] == fires(AfterEach(AfterCount(1), simple.trigger), script)


@each_simple
def test_a_single_trigger_in_any_all_or_each_is_that_trigger(simple):
    script = [*simple.first, *simple.then]
    expected = fires(simple.trigger, script)
    for composite in (AfterAny, AfterAll, AfterEach):
        assert expected == fires(composite(simple.trigger), script)
        assert expected == fires(composite(simple.trigger, simple.trigger), script) or composite is AfterEach


@each_simple
def test_after_any_fires_with_the_first_and_has_finished(simple):
    script = [*simple.first, *simple.then, STOP]
    expected = [*only_the_last(simple.first), *[0] * (len(simple.then) + 1)]
    assert expected == fires(AfterAny(AfterSignal("stop"), simple.trigger), script)
    assert [0, 1] == fires(AfterAny(AfterSignal("stop"), Never()), [ONE, STOP])


@each_simple
def test_after_any_of_what_repeats_never_finishes(simple):
    script = [*simple.first, *simple.then]
    expected = [*only_the_last(simple.first), *only_the_last(simple.then)]
    assert expected == fires(AfterAny(Repeatedly(simple.trigger), Never()), script)


@each_simple
def test_after_all_waits_for_the_last(simple):
    script = [*simple.first, STOP, *simple.then]
    expected = [*[0] * len(simple.first), 1, *[0] * len(simple.then)]
    assert expected == fires(AfterAll(AfterSignal("stop"), simple.trigger), script)
    assert expected == fires(AfterAll(simple.trigger, AfterSignal("stop")), script)


@each_simple
def test_after_all_with_never_never_fires(simple):
    assert [0] * len(simple.first) == fires(AfterAll(simple.trigger, Never()), simple.first)


@each_simple
def test_after_all_does_not_wait_for_what_has_finished(simple):
    script = [*simple.first, *simple.then]
    expected = [*only_the_last(simple.first), *only_the_last(simple.then)]
    assert expected == fires(AfterAll(AfterProcessingTime(), Repeatedly(simple.trigger)), script)


@each_simple
def test_or_finally_fires_as_its_main_trigger_until_the_other_fires(simple):
    script = [*simple.first, *simple.then, STOP, *simple.first]
    repeated = [*only_the_last(simple.first), *only_the_last(simple.then)]
    trigger = OrFinally(Repeatedly(simple.trigger), AfterSignal("stop"))
    assert [*repeated, 1, *[0] * len(simple.first)] == fires(trigger, script)


@each_simple
def test_or_finally_is_over_when_the_other_finishes(simple):
    script = [*simple.first, *simple.then]
    first, then = only_the_last(simple.first), only_the_last(simple.then)
    assert [*first, *[0] * len(then)] == fires(OrFinally(Never(), simple.trigger), script)
    assert [*first, *then] == fires(OrFinally(Never(), Repeatedly(simple.trigger)), script)


@each_simple
def test_or_finally_is_over_when_its_main_trigger_finishes(simple):
    script = [*simple.first, STOP, ONE]
    assert [*only_the_last(simple.first), 0, 0] == fires(OrFinally(simple.trigger, AfterSignal("stop")), script)


@each_early
def test_early_firings_then_one_on_time(simple):
    script = [*simple.first, *simple.then, PASS, ONE]
    expected = [*only_the_last(simple.first), *only_the_last(simple.then), 1, 0]
    assert expected == fires(AfterWatermark(early=simple.trigger), script)


# What is late comes when the clock has reached a minute, and every percentile the end of the window.
LATE = [simple for simple in EARLY if not isinstance(simple.trigger, AfterWatermarkPercentile)]


@pytest.mark.parametrize("simple", LATE, ids=str)
def test_one_on_time_then_late_firings(simple):
    def a_minute_later(steps):
        return [(step[0], step[1] + 60) if step[0] == "processing_time" else step for step in steps]

    script = [ONE, ("processing_time", 60), PASS, *a_minute_later(simple.first), *a_minute_later(simple.then)]
    expected = [0, 0, 1, *only_the_last(simple.first), *only_the_last(simple.then)]
    assert expected == fires(AfterWatermark(late=simple.trigger), script)


def test_what_fires_early_and_is_ready_at_the_end_fires_once():
    trigger = AfterWatermark(early=AfterAll(AfterCount(1), AfterWatermarkPercentile(0.5)), late=AfterCount(1))
    assert [0, 1, 1] == fires(trigger, [ONE, PASS, ONE])


def test_the_first_element_of_a_window_whose_end_has_passed_fires_on_time():
    assert [0, 1, 0] == fires(AfterWatermark(early=AfterCount(5)), [PASS, ONE, ONE])


def test_a_repeated_or_is_on_time_even_if_nothing_came_since_it_fired_early():
    script = [ONE, ONE, PASS, ONE]
    for on_time in (AfterWatermark(), DefaultTrigger()):
        assert [0, 1, 1, 1] == fires(Repeatedly(AfterAny(AfterCount(2), on_time)), script)


@pytest.mark.parametrize("until", [AfterWatermark(late=AfterCount(1)), DefaultTrigger()], ids=repr)
def test_or_finally_goes_on_behind_the_watermark_if_the_other_has_late_firings(until):
    trigger = OrFinally(Repeatedly(AfterCount(2)), until)
    assert [0, 1, 0, 1, 1, 1] == fires(trigger, [ONE, ONE, ONE, PASS, ONE, ONE])


def test_after_each_fires_on_time_if_its_turn_comes_before_that():
    assert [1, 1, 0] == fires(AfterEach(AfterCount(1), AfterWatermark()), [ONE, PASS, ONE])
    assert [0, 1, 1] == fires(AfterEach(AfterWatermark(), AfterWatermark()), [ONE, PASS, ONE])


# Figure 13.
PERIOD_UNTIL_WATERMARK = OrFinally(Repeatedly(AfterProcessingTime(align_to=60)), AfterWatermark())


def test_the_papers_sequence_of_a_period_and_late_firings():
    trigger = AfterEach(PERIOD_UNTIL_WATERMARK, Repeatedly(AfterWatermark()))
    minute, two = ("processing_time", 60), ("processing_time", 120)
    assert [0, 1, 0, 1, 0, 1, 1] == fires(trigger, [ONE, minute, ONE, PASS, two, ONE, ONE])


@given(steps(["w"]))
def test_the_default_trigger_is_after_watermark_repeated(script):
    assert fires(Repeatedly(AfterWatermark()), script) == fires(DefaultTrigger(), script)


@given(triggers(), steps(["w", "v"]))
def test_no_two_windows_see_each_other(trigger, script):
    def of(name, script):
        return [[n for n in fired if n == name] for fired in Harness(trigger, w=60, v=30).run(script)]

    alone = [step for step in script if step[0] not in ("element", "bundle") or step[1] == "w"]
    together = [fired for step, fired in zip(script, of("w", script)) if step in alone]
    assert of("w", alone) == together


@given(triggers(), steps(["w"]))
def test_what_has_finished_stays_finished(trigger, script):
    """Of a composite it is the parts' states that say so; the harness would ask no more."""
    # A trigger itself need not remember it: its caller does.
    assume(not isinstance(trigger, OfAUser))
    harness = Harness(trigger, w=60)
    for step in script:
        harness.run([step])
        window = harness.windows["w"]
        if window.is_finished:
            window.state = trigger.on_element(window.state, "b.", window.context)
            assert not trigger.should_fire(window.state, window.context)
            assert trigger.next_event_time(window.state, window.context) is None
            assert trigger.next_processing_time(window.state, window.context) is None


def test_composites_look_at_elements_if_a_part_does():
    looking, not_looking = AfterCount(2), AfterProcessingTime(1)
    for composite in (AfterAny, AfterAll, AfterEach, OrFinally, AfterWatermark):
        assert (True, True, False) == (
            composite(not_looking, looking).element_wise,
            composite(looking, not_looking).element_wise,
            composite(not_looking, not_looking).element_wise,
        )
    assert (True, False) == (Repeatedly(looking).element_wise, Repeatedly(Always()).element_wise)


def test_composites_listen_to_what_their_parts_listen_to():
    parts = (AfterSignal("a"), AfterWatermarkPercentile(0.5))
    for composite in (AfterAny(*parts), AfterEach(*parts), OrFinally(*parts), AfterWatermark(*parts)):
        assert ({"a"}, {0.5}) == (Repeatedly(composite).signals(), Repeatedly(composite).percentiles())


def test_what_is_no_trigger_is_refused_by_name():
    with pytest.raises(TypeError, match="Repeatedly: expected a trigger, got <class .*AfterCount'>; did you forget"):
        Repeatedly(AfterCount)
    with pytest.raises(TypeError, match="AfterWatermark: expected a trigger for `early`, got 5"):
        AfterWatermark(early=5)
    with pytest.raises(ValueError, match="AfterAny needs at least one trigger"):
        AfterAny()
