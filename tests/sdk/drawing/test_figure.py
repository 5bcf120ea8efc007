"""Figures of panes whose title, keys and values are longer than those of the paper."""

from __future__ import annotations

from typing import Any

from penstock.sdk.drawing.figure import WIDTH, Circle, Text, figure_of
from penstock.sdk.drawing.panes import Element, Interval, Pane, PaneRecording

SECOND = 1_000_000
WINDOW = Interval(0, 10 * SECOND)
TIMINGS = ("EARLY", "ON_TIME", "LATE")


def recording(step: str = "Sum", value: Any = 1) -> PaneRecording:
    """A value of each timing, and a retraction."""
    panes = [Pane(value, at * SECOND, WINDOW, timing, at) for at, timing in enumerate(TIMINGS, 12)]
    panes.append(Pane(value, 14 * SECOND, WINDOW, "EARLY", 0, -1))
    element = Element(value, 9 * SECOND, 11 * SECOND)
    return PaneRecording(step, "team", (element,), (), tuple(panes), 20 * SECOND)


def texts_of(figure: Any) -> dict[str, Text]:
    """The texts of a figure."""
    return {shape.text: shape for shape in figure.shapes if isinstance(shape, Text)}


def test_a_short_title_has_the_legend_beside_it() -> None:
    """In one line."""
    texts = texts_of(figure_of(recording()))
    assert [20.0] * 3 == [texts[name].y for name in ("Sum, key team", "watermark", "late pane")]


def test_a_long_title_is_above_the_legend_and_as_wide_as_the_drawing() -> None:
    """Its end, with the key, is kept; the title for screen readers is whole."""
    step = "Sum the scores of every team in windows of two minutes, early and late/Combine/Group"
    figure = figure_of(recording(step))
    (title,) = (shape for shape in figure.shapes if isinstance(shape, Text) and shape.bold and shape.size == 14)
    assert (title.text[:8], title.text[-15:]) == ("Sum the ", "Group, key team")
    # A bold character of this size is about 9 pixels wide.
    assert title.x + 9 * len(title.text) < WIDTH
    assert {40.0} == {texts_of(figure)[name].y for name in ("watermark", "early pane", "retraction")}
    assert f"{step}, key team" == figure.title


def test_counted_elements_are_dots() -> None:
    """The value that they have for a count is none."""
    figure = figure_of(recording(value=None))
    assert [3] == [shape.radius for shape in figure.shapes if isinstance(shape, Circle)]
    assert "null" not in texts_of(figure)


def test_objects_are_shown_by_their_fields() -> None:
    """A dictionary of counts, and a decimal number."""
    assert "a: 3, b: 4" in texts_of(figure_of(recording(value={"a": 3, "b": 4})))
    assert "1.5" in texts_of(figure_of(recording(value={"$type": "decimal", "value": "1.5"})))


def test_long_values_stay_in_the_drawing() -> None:
    """An element at the right edge has its text on the left; a pane's is smaller."""
    figure = figure_of(recording(value={"first team": 12, "second": 3}))
    shown = [each for each in figure.shapes if isinstance(each, Text) and each.text == "first team: 12, s…"]
    assert 5 == len(shown)
    for text in shown:
        width = 0.62 * text.size * len(text.text)
        left = text.x - {"start": 0.0, "middle": width / 2, "end": width}[text.anchor]
        assert (True, True) == (left >= 0, left + width <= WIDTH), text
