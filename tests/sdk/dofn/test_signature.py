"""The arguments of a user's function, by parameter."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as beam
from penstock.sdk.errors import InputError, PipelineError
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.windowing import Timestamp, TimestampedValue


def test_markers_are_filled_in_wherever_they_stand() -> None:
    """The element gets the first other parameter, the arguments those after it."""

    def together(timestamp: Any = beam.DoFn.TimestampParam, element: Any = None, by: int = 0, *, add: int = 0) -> Any:
        return timestamp, element, by, add

    with TestPipeline() as p:
        stamped = p | beam.Create([TimestampedValue("a", 5)])
        assert_that(stamped | beam.Map(together, 7, add=8), equal_to([(Timestamp(5), "a", 7, 8)]))


def test_an_elements_items_are_followed_by_the_arguments() -> None:
    """With markers and without."""
    with TestPipeline() as p:
        pairs = p | beam.Create([TimestampedValue(("a", 1), 5)])
        plain = pairs | "plain" >> beam.MapTuple(lambda k, v, x, y=0: (k, v, x, y), 10, y=20)
        marked = pairs | "marked" >> beam.MapTuple(lambda k, v, x, t=beam.DoFn.TimestampParam: (k, v, x, t), 10)
        assert_that(plain, equal_to([("a", 1, 10, 20)]), label="check plain")
        assert_that(marked, equal_to([("a", 1, 10, Timestamp(5))]), label="check marked")


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (beam.Map(lambda x: x, 1), "can't be called with the element and the arguments given"),
        (beam.Map(lambda x, y: x), "missing a required argument: 'y'"),
        (beam.Map(lambda x, y, t=beam.DoFn.TimestampParam: x), "needs an argument for 'y', and none was given"),
        (beam.Map(lambda x, t=beam.DoFn.TimestampParam: x, 1), "was given 1 more arguments than it takes"),
    ],
)
def test_arguments_that_do_not_fit_are_found_when_the_pipeline_is_built(transform: Any, message: str) -> None:
    """The message names the transform."""
    with pytest.raises(InputError, match=rf"mine: .*{message}") as error:
        TestPipeline() | beam.Create([1]) | "mine" >> transform
    # Beam calls the function, which raises this.
    assert isinstance(error.value, TypeError)


class WithSide(beam.DoFn):
    def process(
        self,
        element: Any,
        by: Any = 1,
        side: Any = beam.DoFn.SideInputParam,
        timestamp: Any = beam.DoFn.TimestampParam,
        other: Any = beam.DoFn.SideInputParam,
    ) -> Any:
        yield element, by, side, timestamp, other


def test_a_parameter_may_be_marked_as_a_side_input() -> None:
    """It gets the next argument, by place or by name; without one it is an error."""

    def pair(x: Any, y: Any = 1, side: Any = beam.DoFn.SideInputParam) -> Any:
        return x, y, side

    with TestPipeline() as p:
        side = beam.pvalue.AsSingleton(p | "side" >> beam.Create(["s"]))
        ones = p | beam.Create([TimestampedValue(1, 5)])
        expected = [(1, 2, "s", Timestamp(5), "o")]
        assert_that(ones | "by place" >> beam.ParDo(WithSide(), 2, side, "o"), equal_to(expected))
        assert_that(ones | "by name" >> beam.ParDo(WithSide(), 2, side=side, other="o"), equal_to(expected))
        assert_that(ones | beam.Map(pair, 2, side), equal_to([(1, 2, "s")]))
        items = ones | beam.Map(lambda x: (x, x)) | beam.MapTuple(pair, side)
        assert_that(items, equal_to([(1, 1, "s")]))
    with pytest.raises(PipelineError, match="mine: .*pair needs an argument for 'side'"):
        TestPipeline() | beam.Create([1]) | "mine" >> beam.Map(pair)
    with pytest.raises(PipelineError, match="mine: WithSide.process needs an argument for 'other'"):
        TestPipeline() | beam.Create([1]) | "mine" >> beam.ParDo(WithSide(), 1, 2)
