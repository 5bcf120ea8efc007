"""SideInputViews: what is seen of a side input, by window, as it grows and shrinks."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from penstock.runners.execution.stages.side_input_views import SideInputViews
from penstock.sdk import graph
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.side_input_views import NO_DEFAULT, DictView, ListView, PanesSeen, SingletonView
from penstock.sdk.windowing_strategy import WindowingStrategy
from penstock.triggers import PaneInfo
from penstock.windowing import GLOBAL_WINDOW, FixedWindows, GlobalWindows, IntervalWindow

FIRST, SECOND = IntervalWindow(0, 10), IntervalWindow(10, 20)


def seen(view: Any, window_fn: Any = None, panes: PanesSeen = PanesSeen.ALL) -> graph.SideInput:
    """The side input that is PCollection 7."""
    return graph.SideInput(7, view, WindowingStrategy(window_fn=window_fn or GlobalWindows()), panes)


def pane(index: int) -> PaneInfo:
    return PaneInfo(index=index, is_first=index == 0)


def test_a_view_holds_what_has_come_so_far() -> None:
    """It is made anew when more has come; the one before stays what it was."""
    views, side_input = SideInputViews(), seen(ListView())
    views.add(7, Bundle([1, 2]))
    before = views.whole(side_input)
    views.add(7, Bundle([3]))
    assert ([1, 2], [1, 2, 3]) == (before, views.whole(side_input))


def test_a_view_is_made_once_as_long_as_nothing_comes() -> None:
    """All readers share it."""
    views, side_input = SideInputViews(), seen(DictView())
    views.add(7, Bundle([("a", 1)]))
    assert views.whole(side_input) is views.whole(side_input)


def test_two_views_of_one_side_input_are_two() -> None:
    """Each is of its own kind."""
    views = SideInputViews()
    views.add(7, Bundle([("a", 1)]))
    assert ({"a": 1}, [("a", 1)]) == (views.whole(seen(DictView())), views.whole(seen(ListView())))


@pytest.mark.parametrize("signs", [[1, 1, -1], None], ids=["in one bundle", "in a bundle of its own"])
def test_what_is_taken_back_is_gone_from_the_view(signs: Any) -> None:
    """The value, once."""
    views, side_input = SideInputViews(), seen(ListView())
    if signs is None:
        views.add(7, Bundle(["a", "b", "a"]))
        views.add(7, Bundle(["a"], signs=-1))
        assert ["b", "a"] == views.whole(side_input)
    else:
        views.add(7, Bundle(["a", "b", "a"], signs=signs))
        assert ["b"] == views.whole(side_input)


def test_each_window_has_its_own_contents() -> None:
    """An element in two of them is in both; the main input's window says which is seen."""
    views, side_input = SideInputViews(), seen(ListView(), window_fn=FixedWindows(10))
    views.add(7, Bundle(["a"], windows=(FIRST,)))
    views.add(7, Bundle(["b", "c"], windows=[(FIRST, SECOND), (SECOND,)]))
    view = views.by_main_window(side_input)
    assert (["a", "b"], ["b", "c"], []) == (view(FIRST), view(SECOND), view(IntervalWindow(20, 30)))
    assert ["b", "c"] == view(IntervalWindow(13, 14))
    assert (True, False) == (views.has_any(7, FIRST), views.has_any(7, GLOBAL_WINDOW))


@pytest.mark.parametrize(
    ("panes", "expected"),
    [
        (PanesSeen.LATEST, [("b", 20)]),
        (PanesSeen.LATEST_BY_KEY, [("a", 30), ("b", 20)]),
        (PanesSeen.ALL, [("a", 10), ("a", 30), ("b", 20)]),
    ],
)
def test_the_pane_that_comes_last_is_the_latest(panes: PanesSeen, expected: Any) -> None:
    """Its index may be that of another key; also if the others are kept."""
    side_input = seen(ListView(), panes=panes)
    for seen_ones in ([], [side_input]):
        views = SideInputViews()
        views.keep_seen_panes(seen_ones)
        for value, index in ((("a", 10), 0), (("a", 30), 1)):
            views.add(7, Bundle([value], panes=pane(index)))
        views.add(7, Bundle([("b", 20)], panes=[pane(0)]))
        assert expected == views.whole(side_input)


def test_former_panes_are_not_kept_for_ever() -> None:
    """A side input that is refreshed has the values of its latest pane."""
    for panes in (PanesSeen.LATEST, PanesSeen.LATEST_BY_KEY):
        views, side_input = SideInputViews(), seen(DictView(), panes=panes)
        views.keep_seen_panes([side_input])
        for index in range(1_000):
            views.add(7, Bundle([("a", index), ("b", index)], panes=pane(index)))
        assert {"a": 999, "b": 999} == views.whole(side_input)
        assert len(views.contents(7)) < 200


def test_a_singleton_follows_the_corrections_of_its_value() -> None:
    """The retraction and what replaces it come in that order."""
    views, side_input = SideInputViews(), seen(SingletonView(NO_DEFAULT))
    views.add(7, Bundle([10], panes=pane(0)))
    views.add(7, Bundle([10, 30], panes=[pane(0), pane(1)], signs=[-1, 1]))
    assert 30 == views.whole(side_input)


def test_what_equals_nothing_can_be_taken_back() -> None:
    """A NaN by another NaN; arrays by their contents, as after a shuffle."""
    views, side_input = SideInputViews(), seen(ListView())
    views.add(7, Bundle([("a", float("nan")), ("a", 1.0)]))
    views.add(7, Bundle([("a", float("nan"))], signs=-1))
    assert [("a", 1.0)] == views.whole(side_input)
    views.add(7, Bundle([numpy.array([1, 2]), numpy.array([3, 4])]))
    views.add(7, Bundle([("a", 1.0), numpy.array([1, 2])], signs=-1))
    (left,) = views.whole(side_input)
    assert [3, 4] == left.tolist()


def test_what_is_taken_back_before_it_comes_is_not_there_when_it_comes() -> None:
    """Once."""
    views, side_input = SideInputViews(), seen(ListView())
    views.add(7, Bundle(["a"], signs=-1))
    assert [] == views.whole(side_input)
    views.add(7, Bundle(["b", "a", "a"]))
    assert ["b", "a"] == views.whole(side_input)
