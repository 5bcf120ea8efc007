"""Triggers that look at the elements: the documented examples, and what they may look at."""

from __future__ import annotations

from penstock.triggers import DataDrivenTrigger, Repeatedly
from penstock.windowing import Timestamp
from triggers.harness import Harness, fires


class AfterSpike(DataDrivenTrigger):
    """The docstring's."""

    def __init__(self, factor):
        self.factor = factor

    def update(self, own, element, pane):
        total, spiked = own or (0, False)
        mean = total / max(pane.count - 1, 1)
        return total + element, spiked or (pane.count > 1 and element > self.factor * mean)

    def is_ready(self, own, pane):
        return own is not None and own[1]

    def merge(self, owns, pane):
        return sum(total for total, _ in owns), any(spiked for _, spiked in owns)


def test_a_spike_is_far_above_the_mean_of_what_came_before():
    script = [("element", "w", value) for value in [10, 12, 11, 40, 40, 130, 1]]
    assert [0, 0, 0, 1, 0, 1, 0] == fires(Repeatedly(AfterSpike(3)), script)


def test_the_mean_of_merged_windows_is_that_of_both():
    script = [
        ("element", "a", 10),
        ("element", "b", 100),
        ("merge", ["a", "b"], "m", 90),
        ("element", "m", 110),
        ("element", "m", 500),
    ]
    assert [[], [], [], [], ["m"]] == Harness(AfterSpike(3), a=60, b=90).run(script)


def test_a_user_sees_count_bytes_and_both_clocks():
    seen = []

    class Looking(DataDrivenTrigger):
        measures = True

        def is_ready(self, own, pane):
            seen.append(pane)
            return False

    script = [("watermark", 5), ("processing_time", 7), ("element", "w", "ab"), ("element", "w", "cde")]
    assert [0, 0, 0, 0] == fires(Looking(), script)
    last = seen[-1]
    assert (2, 5, Timestamp(5), Timestamp(7), Timestamp(60)) == (
        last.count,
        last.bytes,
        last.watermark,
        last.processing_time,
        last.end_of_window,
    )


def test_elements_are_measured_for_triggers_that_ask():
    class NotMeasuring(DataDrivenTrigger):
        def is_ready(self, own, pane):
            return pane.bytes > 0

    assert [0] == fires(NotMeasuring(), [("element", "w", "abc")])


def test_a_trigger_without_a_memory_counts():
    class AfterPair(DataDrivenTrigger):
        def is_ready(self, own, pane):
            return pane.count >= 2

    assert [0, 1, 0, 1] == fires(Repeatedly(AfterPair()), [("bundle", "w", 1)] * 4)
