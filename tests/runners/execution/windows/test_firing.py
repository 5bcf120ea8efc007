"""Pane infos, and the buffer of emitted panes."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.runners.execution.windows.firing import PaneBuffer, pane_of
from penstock.triggers import ONLY_PANE, PaneInfo, PaneInfoTiming
from penstock.windowing import IntervalWindow

WINDOW, WIDER = IntervalWindow(0, 10), IntervalWindow(0, 20)
EARLY, ON_TIME, LATE = PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((0, 0, EARLY, False), PaneInfo(True, False, EARLY, 0, -1)),
        ((2, 0, ON_TIME, False), PaneInfo(False, False, ON_TIME, 2, 0)),
        ((3, 1, LATE, True), PaneInfo(False, True, LATE, 3, 1)),
        ((0, 0, ON_TIME, True), ONLY_PANE),
    ],
)
def test_a_pane_says_how_many_there_were_before_it(arguments: Any, expected: PaneInfo) -> None:
    """All of them, and those that weren't early: which an early one isn't among."""
    assert expected == pane_of(*arguments)


def test_emitted_panes_are_taken_once() -> None:
    """As a bundle, with one sign for all if there is one; none if there is nothing."""
    rows = PaneBuffer()
    assert None is rows.taken()
    rows.add("a", 1, (WINDOW,), ONLY_PANE, 1)
    bundle = rows.taken()
    assert bundle is not None
    assert ([("a", 1, (WINDOW,), ONLY_PANE, 1)], 1) == (list(bundle.rows()), bundle.signs)
    rows.add("a", 1, (WINDOW,), ONLY_PANE, -1)
    rows.add("b", 2, (WIDER,), ONLY_PANE, 1)
    again = rows.taken()
    assert again is not None
    assert (["a", "b"], [-1, 1]) == (again.values, again.signs)
    assert (["a"], None) == (bundle.values, rows.taken())
