"""TestStream's tags; tests/model has what runners do with its events."""

from __future__ import annotations

import pickle

import pytest

import penstock as beam
from penstock.sdk.elements.element_wrappers import WindowedValue
from penstock.sdk.errors import UnsupportedError
from penstock.sdk.sources.scripted_source import Script
from penstock.testing import TestPipeline, TestStream, TestWindowedValue, assert_that, equal_to
from penstock.testing.stream_events import (
    ElementEvent,
    Event,
    ProcessingTimeEvent,
    WatermarkEvent,
    WindowedValueHolder,
)
from penstock.windowing import MAX_TIMESTAMP, FixedWindows, GlobalWindow, IntervalWindow, TimestampedValue


def test_each_tag_is_an_output_with_its_own_watermark() -> None:
    """Also without `output_tags`."""
    for output_tags in (None, ["a"]):
        stream = (
            TestStream(output_tags=output_tags)
            .advance_watermark_to(20, tag="a")
            .add_elements([1], tag="a", event_timestamp=5)
            .advance_watermark_to(5, tag="b")
            .add_elements([2], tag="b", event_timestamp=5)
            .advance_watermark_to_infinity(tag="a")
            .advance_watermark_to_infinity(tag="b")
        )
        with TestPipeline() as p:
            outputs = p | stream
            assert ["a", "b"] == list(outputs)
            for tag, expected in {"a": [], "b": [2]}.items():
                windowed = outputs[tag] | f"windows of {tag}" >> beam.WindowInto(FixedWindows(10))
                sums = windowed | f"sum of {tag}" >> beam.CombineGlobally(sum).without_defaults()
                assert_that(sums, equal_to(expected), label=tag)


def test_events_without_a_tag_belong_to_the_output_none() -> None:
    """They are the only output if no tag is given anywhere."""
    with TestPipeline() as p:
        outputs = p | TestStream(output_tags=["a"]).add_elements([1]).add_elements([2], tag="a")
        assert {"a", None} == outputs.keys()
        assert_that(outputs["a"], equal_to([2]), label="a")
        assert_that(outputs[None], equal_to([1]), label="None")


@pytest.mark.parametrize(
    "flags",
    [[], ["--parallelism=2"], pytest.param(["--runner=spark-microbatch"], marks=pytest.mark.spark)],
    ids=["local", "in two subtasks", "spark-microbatch"],
)
def test_a_second_script_is_refused(flags: list[str]) -> None:
    """Each would move the one clock."""
    p = beam.Pipeline(argv=flags)
    streams = [p | label >> TestStream().add_elements([1]).advance_watermark_to_infinity() for label in ("one", "two")]
    _ = streams | beam.Flatten()

    with pytest.raises(UnsupportedError, match="two: the pipeline has another TestStream, one, .* several output_tags"):
        p.run()


def test_elements_at_the_end_of_time_are_refused():
    """As in Beam; the errors are assertions, too."""
    with pytest.raises(AssertionError, match="expected a time before MAX_TIMESTAMP, got that for 'a'"):
        TestStream().add_elements([TimestampedValue("a", MAX_TIMESTAMP)])
    with pytest.raises(AssertionError, match="can't go back"):
        TestStream().advance_watermark_to(5).advance_watermark_to(4)


def test_a_stream_is_made_of_beams_events() -> None:
    """It goes on with its own methods."""
    events = [
        WatermarkEvent(10),
        ElementEvent([TimestampedValue("a", 12), TimestampedValue("late", 3)]),
        ProcessingTimeEvent(5),
    ]
    by_events = TestStream(events=events, output_tags={None}).advance_watermark_to(20)
    by_methods = TestStream().advance_watermark_to(10)
    by_methods.add_elements([TimestampedValue("a", 12), TimestampedValue("late", 3)])
    by_methods.advance_processing_time(5).advance_watermark_to(20)

    script = Script(tuple(by_methods.events))
    for stream in (by_events, TestStream(events=by_methods.events)):
        assert script.identity() == Script(tuple(stream.events)).identity()
    with pytest.raises(AssertionError, match="can't go back"):
        by_events.advance_watermark_to(19)
    with pytest.raises(TypeError, match="expected an event, such as WatermarkEvent"):
        TestStream(events=["a"])  # type: ignore[list-item]


def test_events_have_their_tags() -> None:
    """Each is an output."""
    events = [
        WatermarkEvent(0, "letters"),
        ElementEvent([TimestampedValue("a", 1)], "letters"),
        WatermarkEvent(5, "no"),
    ]
    with TestPipeline() as p:
        outputs = p | TestStream(events=events, output_tags={"letters", "no"})
        assert {"letters", "no"} == outputs.keys()
        assert_that(outputs["letters"], equal_to(["a"]))


def test_events_of_one_class_are_compared() -> None:
    """Those of different classes are different, and have no order."""
    a, b = ElementEvent([TimestampedValue("a", 1)]), ElementEvent([TimestampedValue("b", 2)])

    assert {a, a, WatermarkEvent(1), WatermarkEvent(1)} == {a, WatermarkEvent(1)}
    assert a < b
    assert WatermarkEvent(1, "x") < WatermarkEvent(2)
    assert ProcessingTimeEvent(2.5) >= ProcessingTimeEvent(2)
    assert a != ElementEvent([TimestampedValue("a", 1)], "tag")
    assert WatermarkEvent(1) != ProcessingTimeEvent(1)
    assert all(isinstance(event, Event) for event in (a, WatermarkEvent(1), ProcessingTimeEvent(1)))
    with pytest.raises(TypeError):
        _ = WatermarkEvent(1) < ProcessingTimeEvent(1)


def test_a_holder_gives_an_element_its_windows() -> None:
    """Those of a WindowedValue beside it are dropped, as in Beam."""
    window = IntervalWindow(0, 10)
    held = WindowedValueHolder(WindowedValue("held", 7, [window]))
    elements = [held, TimestampedValue(held, 1), WindowedValue("plain", 8, [window])]
    with TestPipeline() as p:
        expected = [
            TestWindowedValue("held", 7, [window]),
            TestWindowedValue("held", 7, [window]),
            TestWindowedValue("plain", 8, [GlobalWindow()]),
        ]
        assert_that(p | TestStream().add_elements(elements), equal_to(expected), reify_windows=True)


def test_a_row_of_a_holders_fields_is_a_holder() -> None:
    """A Row is what its coder decodes."""
    held = WindowedValueHolder(WindowedValue("a", 1, []))
    row = beam.Row(**held.as_dict())

    assert isinstance(held, WindowedValueHolder)
    assert isinstance(row, WindowedValueHolder)
    assert not isinstance(beam.Row(windowed_value=1), WindowedValueHolder)
    assert held == WindowedValueHolder.from_row(row) == pickle.loads(pickle.dumps(held))
    with pytest.raises(AssertionError, match="expected a WindowedValue"):
        WindowedValueHolder("a")  # type: ignore[arg-type]
