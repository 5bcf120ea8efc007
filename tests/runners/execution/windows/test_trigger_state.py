"""TriggerDecisions: a trigger is asked once for all windows that are alike, and never when it needn't be."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.runners.execution.windows.trigger_state import Clocks, TriggerDecisions
from penstock.triggers import (
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    DefaultTrigger,
    Never,
    Trigger,
)

MINUTE = 60_000_000
END, EXPIRY = MINUTE, 2 * MINUTE + 1


def decisions(trigger: Trigger) -> tuple[TriggerDecisions, Clocks]:
    """Of a grouping that keeps windows for a minute after their end."""
    clocks = Clocks()
    return TriggerDecisions(trigger, clocks, MINUTE), clocks


class Asked(DefaultTrigger):
    """Counts how often it is asked; what it remembers may have no hash."""

    def __init__(self, state: Any = None) -> None:
        super().__init__()
        self.times = 0
        self.state = state

    def on_element(self, state: Any, element: Any, context: Any) -> Any:
        self.times += 1
        return self.state

    def should_fire(self, state: Any, context: Any) -> bool:
        return False


def test_windows_that_are_alike_share_a_decision() -> None:
    """The trigger is asked for the first of them; for another end it is asked again."""
    trigger = Asked()
    asked, _ = decisions(trigger)
    first, second = asked.after_bundle(asked.start, END), asked.after_bundle(asked.start, END)
    assert first is second
    assert 1 == trigger.times
    asked.after_bundle(asked.start, END + MINUTE)
    assert 2 == trigger.times


def test_what_follows_is_shared_by_decisions_that_leave_a_trigger_in_one_state() -> None:
    """Sessions that have grown differently meet again where they end together; those that end apart don't."""
    trigger = Asked(state="seen")
    asked, _ = decisions(trigger)
    short, long = asked.after_bundle(asked.start, END), asked.after_bundle(asked.start, END + MINUTE)
    assert short is not long
    grown = asked.after_bundle(short, END + MINUTE)
    assert asked.after_bundle(long, END + MINUTE) is grown
    assert asked.now(long, END) is asked.now(short, END)
    assert 3 == trigger.times


def test_when_a_clock_moves_the_trigger_is_asked_again() -> None:
    """The earlier decision is discarded."""
    trigger = Asked()
    asked, clocks = decisions(trigger)
    asked.after_bundle(asked.start, END)
    clocks.processing_time = 5
    asked.forget()
    asked.after_bundle(asked.start, END)
    assert 2 == trigger.times


def test_a_state_without_a_hash_is_taken_as_it_is() -> None:
    """A user's trigger may remember a list."""
    asked, _ = decisions(Asked(state=["seen"]))
    assert ["seen"] == asked.after_bundle(asked.start, END).state


def test_a_window_is_looked_at_at_its_end_and_when_it_expires() -> None:
    """With any trigger: the window may hold the watermark, and must be removed."""
    asked, clocks = decisions(Never())
    assert END == asked.after_bundle(asked.start, END).event_time
    clocks.watermark = END
    asked.forget()
    assert EXPIRY == asked.after_bundle(asked.start, END).event_time


def test_a_trigger_is_asked_at_the_processing_time_that_it_gave() -> None:
    """A time that has come is not waited for."""
    asked, clocks = decisions(AfterProcessingTime(10))
    clocks.processing_time = 5_000_000
    waiting = asked.after_bundle(asked.start, END)
    assert (False, 15_000_000) == (waiting.fires, waiting.processing_time)
    clocks.processing_time = 15_000_000
    asked.forget()
    fired = asked.now(waiting, END)
    assert (True, True, None) == (fired.fires, fired.is_finished, fired.processing_time)


def test_a_trigger_that_is_finished_is_not_asked_again() -> None:
    """It doesn't see elements either."""
    asked, _ = decisions(AfterCount(1))
    finished = asked.after_element(asked.start, "x", END)
    after = asked.after_element(finished, "y", END)
    assert [(True, True), (False, True)] == [(d.fires, d.is_finished) for d in (finished, after)]
    assert finished.state == after.state


@pytest.mark.parametrize(("watermark", "is_finished"), [(END - 1, False), (END, True)])
def test_what_is_finished_comes_back_to_life_where_the_merged_end_is_yet_to_come(
    watermark: int, is_finished: bool
) -> None:
    """Once the watermark has passed that, it stays finished; if all parts are."""
    asked, clocks = decisions(AfterWatermark())
    clocks.watermark = 30_000_000
    done = asked.after_bundle(asked.start, 20_000_000)
    assert done.is_finished
    clocks.watermark = watermark
    asked.forget()
    assert is_finished == asked.merged([done, done], END).is_finished
    assert not asked.merged([done, asked.start], END).is_finished


def test_a_percentile_is_never_behind_the_watermark() -> None:
    """A time that all elements have passed is passed by any share of them."""
    clocks = Clocks()
    clocks.percentiles[0.9] = 50
    clocks.watermark = 20
    assert (50, 20) == (clocks.percentile_watermark(0.9), clocks.percentile_watermark(0.5))
    clocks.watermark = 80
    assert 80 == clocks.percentile_watermark(0.9)


def test_an_element_is_as_large_as_it_is_encoded() -> None:
    """A longer one is larger by as much."""
    clocks = Clocks()
    assert 1000 == clocks.size_of("x" * 3000) - clocks.size_of("x" * 2000)
