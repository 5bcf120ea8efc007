"""TestStream's tags; tests/model has what runners do with its events."""

from __future__ import annotations

import pytest

import penstock as beam
from penstock.testing import TestPipeline, TestStream, assert_that, equal_to
from penstock.windowing import MAX_TIMESTAMP, FixedWindows, TimestampedValue


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


def test_elements_at_the_end_of_time_are_refused():
    """As in Beam; the errors are assertions, too."""
    with pytest.raises(AssertionError, match="expected a time before MAX_TIMESTAMP, got that for 'a'"):
        TestStream().add_elements([TimestampedValue("a", MAX_TIMESTAMP)])
    with pytest.raises(AssertionError, match="can't go back"):
        TestStream().advance_watermark_to(5).advance_watermark_to(4)
