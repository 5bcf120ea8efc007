"""The state of triggers when windows merge."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    DataDrivenTrigger,
    DefaultTrigger,
    Never,
    OrFinally,
    Repeatedly,
)
from triggers.harness import Harness
from triggers.some_triggers import EARLY, steps, triggers


def merging(trigger, script, **ends):
    """How often anything fired at each step, in windows of these names and ends."""
    return [len(fired) for fired in Harness(trigger, **ends).run(script)]


A, B, M = ("bundle", "a", 1), ("bundle", "b", 1), ("bundle", "m", 1)
JOIN = ("merge", ["a", "b"], "m", 90)


@pytest.mark.parametrize("simple", EARLY, ids=str)
def test_what_a_window_waits_for_is_waited_for_in_the_merged_one(simple):
    """All but the last step in one of two windows, the last in what they merge into."""
    last = simple.first[-1]
    before = [(step[0], "a", *step[2:]) if step[0] in ("element", "bundle") else step for step in simple.first[:-1]]
    last = (last[0], "m", *last[2:]) if last[0] in ("element", "bundle") else last
    if isinstance(simple.trigger, AfterWatermarkPercentile):
        last = ("percentile", 0.9, 90)
    expected = [*[0] * len(before), 0, 1]
    assert expected == merging(simple.trigger, [*before, JOIN, last], a=60, b=90)


def test_counts_and_sizes_add_up():
    assert [0, 0, 0, 1] == merging(AfterCount(3), [A, B, JOIN, M], a=60, b=90)
    assert [0, 0, 1] == merging(AfterCount(2), [A, B, JOIN], a=60, b=90)
    element = ("element", "a", "xx"), ("element", "b", "yy")
    assert [0, 0, 1] == merging(AfterSize(4), [*element, JOIN], a=60, b=90)


def test_the_earliest_deadline_counts():
    script = [A, ("processing_time", 5), B, JOIN, ("processing_time", 10), ("processing_time", 15)]
    assert [0, 0, 0, 0, 1, 0] == merging(AfterProcessingTime(10), script, a=60, b=90)


def test_what_has_finished_in_one_window_goes_on_for_the_other():
    assert [1, 0, 0, 1] == merging(AfterCount(2), [("bundle", "a", 2), B, JOIN, M], a=60, b=90)


def test_what_has_finished_in_all_has_finished():
    script = [("bundle", "a", 2), ("bundle", "b", 2), JOIN, M, M]
    assert [1, 1, 0, 0, 0] == merging(AfterCount(2), script, a=60, b=90)


@pytest.mark.parametrize(
    "trigger",
    [
        AfterWatermark(),
        AfterWatermark(late=AfterCount(5)),
        AfterWatermark(early=AfterCount(5)),
        DefaultTrigger(),
        Repeatedly(AfterWatermark()),
        AfterEach(AfterWatermark(), Never()),
        AfterAny(AfterWatermark(), AfterCount(5)),
        AfterAll(AfterWatermark(), AfterCount(1)),
        OrFinally(Never(), AfterWatermark()),
        OrFinally(Never(), DefaultTrigger()),
        OrFinally(Never(), Repeatedly(AfterWatermark())),
        AfterEach(OrFinally(Repeatedly(AfterProcessingTime(align_to=60)), AfterWatermark()), Never()),
    ],
    ids=repr,
)
def test_a_window_that_was_on_time_is_on_time_again_at_the_merged_end(trigger):
    script = [A, ("watermark", 60), B, JOIN, M, ("watermark", 89), ("watermark", 90)]
    assert [0, 1, 0, 0, 0, 0, 1] == merging(trigger, script, a=60, b=90)


def test_a_merged_window_is_early_again():
    script = [A, ("watermark", 60), A, A, JOIN, M, M]
    trigger = AfterWatermark(early=AfterCount(2), late=AfterCount(1))
    assert [0, 1, 1, 1, 0, 0, 1] == merging(trigger, script, a=60, b=90)


def test_late_firings_go_on_when_the_merged_end_has_passed():
    script = [A, B, ("watermark", 95), A, JOIN, M]
    assert [0, 0, 2, 0, 0, 1] == merging(AfterWatermark(late=AfterCount(2)), script, a=60, b=90)


def test_without_late_firings_a_merged_window_that_was_on_time_stays_finished():
    script = [A, ("watermark", 95), JOIN, M]
    assert [0, 1, 0, 0] == merging(AfterWatermark(), script, a=60, b=90)


def test_after_each_goes_back_to_what_has_not_finished_in_all():
    trigger = AfterEach(AfterCount(2), Repeatedly(AfterCount(1)))
    script = [("bundle", "a", 2), A, B, JOIN, M, M]
    assert [1, 1, 0, 0, 1, 1] == merging(trigger, script, a=60, b=90)


def test_what_came_out_on_time_is_not_counted_again():
    trigger = AfterAny(AfterCount(3), AfterWatermark())
    script = [("bundle", "a", 2), ("watermark", 60), JOIN, M, M, M]
    assert [0, 1, 0, 0, 0, 1] == merging(trigger, script, a=60, b=90)


def test_a_signal_that_came_after_the_first_element_of_either_fires():
    script = [A, ("signal", "other"), B, JOIN, ("signal", "flush")]
    assert [0, 0, 0, 0, 1] == merging(AfterSignal("flush"), script, a=60, b=90)


def test_always_and_never_merge():
    assert ([1, 1, 0, 1], [0, 0, 0, 0]) == (
        merging(Always(), [A, B, JOIN, M], a=60, b=90),
        merging(Never(), [A, B, JOIN, M], a=60, b=90),
    )


class Longest(DataDrivenTrigger):
    def update(self, own, element, pane):
        return max(own or 0, len(element))

    def is_ready(self, own, pane):
        return own >= 3


def test_a_data_driven_trigger_says_what_it_remembers_of_merged_windows():
    script = [("element", "a", "x"), ("element", "b", "xx"), JOIN]
    with pytest.raises(NotImplementedError, match=r"Longest\.merge: .* with the states 1 and 2; override"):
        merging(Longest(), script, a=60, b=90)


def test_a_data_driven_trigger_need_not_say_where_there_is_nothing_to_choose():
    script = [("element", "a", "xx"), ("element", "b", "xx"), JOIN, ("element", "m", "xxx")]
    assert [0, 0, 0, 1] == merging(Longest(), script, a=60, b=90)


# Laws

ENDS = {"a": 30, "b": 50, "c": 70}


def joined(trigger, script, order, after):
    """Return the firings after three windows have merged in this order; the last one gets an element."""
    harness = Harness(trigger, **ENDS)
    harness.run(script)
    one, two, three = order
    end = max(ENDS[one], ENDS[two])
    contexts = {name: window.context for name, window in harness.windows.items()}
    states = {name: window.state for name, window in harness.windows.items()}
    first = contexts[one if ENDS[one] == end else two]
    both = trigger.on_merge([states[one], states[two]], first)
    window = harness.windows["m"] = harness.windows.pop("c")
    for name in "ab":
        del harness.windows[name]
    window.is_finished = False
    window.state = trigger.on_merge([both, states[three]], window.context)
    return harness.run([("element", "m", "a"), *after])


LATER = st.integers(100, 200).flatmap(
    lambda base: st.sampled_from(
        [
            [("element", "m", "a"), ("element", "m", "b.")],
            [("watermark", base), ("element", "m", "a")],
            [("processing_time", 400 + base), ("signal", "flush"), ("element", "m", "a")],
            [("percentile", 0.9, 400 + base), ("watermark", 400 + base), ("element", "m", "a")],
        ]
    )
)


@settings(max_examples=500)
@given(triggers(), steps(["a", "b", "c"]), LATER)
def test_the_order_of_merges_makes_no_difference(trigger, script, after):
    results = [joined(trigger, script, order, after) for order in itertools.permutations("abc")]
    assert [results[0]] * 6 == results


@settings(max_examples=300)
@given(triggers(), steps(["a", "b"]), LATER)
def test_a_window_that_nothing_has_happened_to_adds_nothing(trigger, script, after):
    """A state and None merge into what the state alone becomes."""

    def continued(with_none):
        harness = Harness(trigger, a=30, m=70)
        harness.run([step for step in script if step[0] != "element" or step[1] == "a"])
        window = harness.windows["m"]
        states = [harness.windows.pop("a").state, *[None] * with_none]
        window.state = trigger.on_merge(states, window.context)
        return harness.run([("element", "m", "a"), *after])

    assert continued(0) == continued(1) == continued(2)
