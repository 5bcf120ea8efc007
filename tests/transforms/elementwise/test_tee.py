"""Tee."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as beam
from penstock.testing import TestPipeline, assert_that, equal_to


def test_the_input_goes_on_and_to_each_consumer() -> None:
    """A transform or a function of the PCollection."""
    with TestPipeline() as p:

        def tested(pcoll: Any) -> None:
            assert_that(pcoll, equal_to([1, 2]))

        doubled = beam.ptransform_fn(lambda pcoll: pcoll | beam.Map(lambda x: 2 * x) | beam.Map(print))
        after = p | beam.Create([1, 2]) | beam.Tee(tested, doubled()) | beam.Map(lambda x: x + 1)
        assert_that(after, equal_to([2, 3]), label="after")
    labels = [transform.label for transform in p.graph().transforms]
    assert any(label.startswith("Tee/tested/assert_that") for label in labels)


def test_without_consumers_it_is_the_input() -> None:
    """The very PCollection."""
    pcoll = TestPipeline() | beam.Create([1])
    assert pcoll is pcoll | beam.Tee()


@pytest.mark.parametrize("consumer", [3, beam.Map])
def test_what_is_no_consumer_is_refused(consumer: Any) -> None:
    """A class is a forgotten pair of brackets."""
    with pytest.raises(TypeError, match="Tee: expected a transform, or a function of a PCollection"):
        beam.Tee(consumer)
