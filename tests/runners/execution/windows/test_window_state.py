"""WindowState, and the panes that stand in it."""

from __future__ import annotations

from penstock.runners.execution.windows.firing import pane_of
from penstock.runners.execution.windows.trigger_state import Decision
from penstock.runners.execution.windows.window_state import WindowState
from penstock.triggers import ONLY_PANE, PaneInfoTiming
from penstock.windowing import IntervalWindow

WINDOW, WIDER = IntervalWindow(0, 10), IntervalWindow(0, 20)
EARLY, ON_TIME, LATE = PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE


def state() -> WindowState:
    return WindowState("k", (WINDOW,), 9_999_999, 19_999_999, 0, Decision(False, None, False, None, None))


def test_nothing_stands_before_the_first_pane() -> None:
    """No element is new, and no trigger is due."""
    new = state()
    assert ((), WINDOW, False, None) == (new.current_panes, new.window, new.has_new, new.event_time)


def test_what_stands_is_its_own_pane_and_those_of_windows_that_it_replaces() -> None:
    """Its own first."""
    merged, other = state(), (("k", 5), 1, (IntervalWindow(10, 20),), pane_of(0, 0, EARLY, False))
    merged.replaced = (other,)
    assert (other,) == merged.current_panes
    merged.pair, merged.timestamp, merged.pane = ("k", 3), 2, ONLY_PANE
    assert ((("k", 3), 2, (WINDOW,), ONLY_PANE), other) == merged.current_panes


def test_a_pane_stands_in_the_window_that_it_was_emitted_in() -> None:
    """Though the state stands for another by now."""
    moved = state()
    moved.pair, moved.timestamp, moved.pane = ("k", 3), 2, ONLY_PANE
    moved.move_to(WIDER, 19_999_999, 29_999_999)
    assert ((WIDER,), 19_999_999, 29_999_999) == (moved.windows, moved.end, moved.expiry)
    assert ((("k", 3), 2, (WINDOW,), ONLY_PANE),) == moved.current_panes
