"""The outputs of a ParDo, by tag."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import penstock as beam
from penstock.sdk.errors import PipelineError
from penstock.testing import TestPipeline, assert_that, equal_to


def divided(x: int) -> Iterable[Any]:
    yield beam.TaggedOutput("odd" if x % 2 else "even", x)
    yield -x


def outputs_of(p: TestPipeline, *tags: str, **main: str) -> Any:
    return p | beam.Create([1, 2, 3]) | beam.ParDo(divided).with_outputs(*tags, **main)


def test_outputs_are_unpacked_in_the_order_of_their_tags() -> None:
    """The main output isn't among them if it has no name."""
    with TestPipeline() as p:
        even, odd = outputs_of(p, "even", "odd")
        assert_that(even, equal_to([2]), label="even")
        assert_that(odd, equal_to([1, 3]), label="odd")


def test_a_main_output_with_a_name_comes_first() -> None:
    """And can be asked for by that name, or by None."""
    with TestPipeline() as p:
        outputs = outputs_of(p, "even", "odd", main="negative")
        negative, _, odd = outputs
        assert (3, negative, negative) == (len(outputs), outputs.negative, outputs[None])
        assert_that(negative, equal_to([-1, -2, -3]), label="negative")
        assert_that(odd, equal_to([1, 3]), label="odd")


def test_without_tags_an_output_exists_once_it_is_asked_for() -> None:
    """By attribute or by item."""
    with TestPipeline() as p:
        outputs = outputs_of(p)
        assert_that(outputs.even, equal_to([2]), label="even")
        assert_that(outputs["odd"], equal_to([1, 3]), label="odd")
        assert_that(outputs[None], equal_to([-1, -2, -3]), label="main")


def test_an_int_is_the_tag_that_is_written_like_it() -> None:
    """Not a position."""
    tagged = beam.ParDo(lambda x: [beam.TaggedOutput(str(x), x)]).with_outputs("1", "0")
    with TestPipeline() as p:
        outputs = p | beam.Create([0, 1]) | tagged
        assert_that(outputs[0], equal_to([0]), label="zero")
        assert_that(outputs[1], equal_to([1]), label="one")


def test_a_tag_that_was_not_declared_is_an_error() -> None:
    """With the tags that were."""
    with pytest.raises(PipelineError, match="there is no output tagged 'other'; with_outputs names .*'even', 'odd'"):
        outputs_of(TestPipeline(), "even", "odd")["other"]
    with pytest.raises(AttributeError, match="there is no output tagged 'other'"):
        outputs_of(TestPipeline(), "even", "odd").other


def test_tried_out_on_values_the_results_are_by_tag() -> None:
    """The main output's under its name, or None."""
    values = [1, 2, 3]
    expected = {"even": [2], "odd": [1, 3]}
    unnamed = values | beam.ParDo(divided).with_outputs("even", "odd")
    assert {None: [-1, -2, -3], **expected} == unnamed.by_tag
    named = values | beam.ParDo(divided).with_outputs("even", "odd", main="negative")
    assert {"negative": [-1, -2, -3], **expected} == named.by_tag
