"""TestStream's tags; tests/model has what runners do with its events."""

from __future__ import annotations

import penstock as beam
from penstock.testing import TestPipeline, TestStream, assert_that, equal_to
from penstock.windowing import FixedWindows


def test_events_with_any_tag_belong_to_a_single_output() -> None:
    """Its watermark is the latest."""
    for output_tags in (None, ["a"]):
        stream = (
            TestStream(output_tags=output_tags)
            .advance_watermark_to(20, tag="a")
            .add_elements([1], tag="a")
            .advance_watermark_to(5)
            .add_elements([2])
            .add_elements([3], tag="b", event_timestamp=21)
            .advance_watermark_to_infinity()
        )
        with TestPipeline() as p:
            output = p | stream
            windowed = (output["a"] if output_tags else output) | beam.WindowInto(FixedWindows(10))
            assert_that(windowed | beam.CombineGlobally(sum).without_defaults(), equal_to([4]))


def test_events_of_none_of_several_outputs_are_dropped() -> None:
    """Each output has its own watermark."""
    stream = (
        TestStream(output_tags=["a", "b"])
        .add_elements([1], tag="a")
        .add_elements([2], tag="b")
        .add_elements([3], tag="c")
        .add_elements([4])
        .advance_watermark_to(5, tag="c")
        .advance_watermark_to_infinity(tag="a")
        .advance_watermark_to_infinity(tag="b")
    )
    with TestPipeline() as p:
        outputs = p | stream
        assert {"a", "b"} == outputs.keys()
        assert_that(outputs["a"], equal_to([1]))
        assert_that(outputs["b"], equal_to([2]))
