"""Matchers of `assert_that` without a pipeline; see tests/model/test_assert_that.py."""

from __future__ import annotations

import pytest

from penstock.testing import TestPane, equal_to_panes
from penstock.testing.util import PenstockAssertionError
from penstock.triggers import PaneInfo
from penstock.triggers.pane import PaneInfoTiming
from penstock.windowing import IntervalWindow

EARLY, ON_TIME = PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME
WINDOW = IntervalWindow(0, 10)


@pytest.mark.parametrize(
    "wrong",
    [
        TestPane(2),
        TestPane(1, sign=-1),
        TestPane(1, IntervalWindow(10, 20)),
        TestPane(1, WINDOW, ON_TIME),
        TestPane(1, pane_info=PaneInfo(True, True, EARLY, 0, -1)),
        TestPane(1, timestamp=5),
    ],
)
def test_a_pane_that_differs_in_one_thing_is_another(wrong: TestPane) -> None:
    """Value, sign, window, timing, pane info or timestamp."""
    came = TestPane(1, WINDOW, PaneInfo(True, False, EARLY, 0, -1), timestamp=9.999999)

    equal_to_panes([TestPane(1)])([came])
    with pytest.raises(PenstockAssertionError, match="missing"):
        equal_to_panes([wrong])([came])


def test_what_is_no_pane_is_refused_when_the_matcher_is_made() -> None:
    """A value alone has its place in `equal_to`."""
    with pytest.raises(TypeError, match="equal_to_panes: expected a TestPane"):
        equal_to_panes([3])  # type: ignore[list-item]


def test_the_timing_of_a_pane_is_shown_by_its_name() -> None:
    """As text, in a format, and in the pane's repr."""
    assert ("ON_TIME", "ON_TIME", "  EARLY") == (str(ON_TIME), f"{ON_TIME}", f"{EARLY:>7}")
    assert 1 == ON_TIME
