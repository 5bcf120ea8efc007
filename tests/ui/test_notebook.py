"""penstock.ui.notebook: a stream that is played step by step."""

from __future__ import annotations

import penstock as beam
from penstock.ui.notebook import StepByStep
from penstock.window import FixedWindows, Sessions, TimestampedValue


def test_each_step_shows_the_panes_so_far() -> None:
    """The end of the script is none of them."""
    stream = StepByStep(beam.WindowInto(FixedWindows(60)) | beam.CombinePerKey(sum))
    panes = [
        stream.panes,
        stream.add_elements([TimestampedValue(("a", 1), 5)]).panes,
        stream.advance_watermark_to(59).panes,
        stream.advance_watermark_to(60).panes,
        stream.add_elements([TimestampedValue(("a", 2), 70)]).panes,
        stream.advance_watermark_to_infinity().panes,
    ]

    first, second = "+1 [0, 60) ON_TIME", "+2 [60, 120) ON_TIME"
    assert [[], [], [], [first], [first], [first, second]] == panes


def test_it_is_drawn_after_each_step() -> None:
    """As SVG; before the first element as text."""
    stream = StepByStep(lambda pcoll: pcoll | beam.WindowInto(Sessions(10)) | beam.GroupByKey())

    assert "no element has arrived" in stream._repr_html_()
    assert stream.add_elements([TimestampedValue(("a", 1), 5)])._repr_html_().startswith("<svg")


def test_one_key_is_chosen_of_several() -> None:
    """By its text."""
    stream = StepByStep(beam.WindowInto(FixedWindows(60)) | beam.CombinePerKey(sum), key="b")
    stream.add_elements([TimestampedValue(("a", 1), 5), TimestampedValue(("b", 2), 5)])

    assert ["+2 [0, 60) ON_TIME"] == stream.advance_watermark_to(60).panes
