"""Distinct."""

from __future__ import annotations

import pytest

import penstock as beam
from penstock.sdk.errors import InvalidKeyError
from penstock.testing import TestPipeline, assert_that, equal_to


def test_each_element_comes_once() -> None:
    """Pairs and None are elements like any others."""
    assert {1, "a", None, ("a", 1)} == set([1, "a", None, ("a", 1), "a", 1, None, ("a", 1)] | beam.Distinct())


def test_nothing_gives_nothing() -> None:
    """Not an element for the empty collection."""
    assert [] == [] | beam.Distinct()


def test_an_element_comes_once_for_each_window() -> None:
    """Windows are grouped by."""
    with TestPipeline() as p:
        stamped = p | beam.Create([beam.window.TimestampedValue("a", t) for t in (1, 2, 11)])
        assert_that(stamped | beam.WindowInto(beam.window.FixedWindows(10)) | beam.Distinct(), equal_to(["a", "a"]))


def test_elements_that_can_not_be_keys_are_refused() -> None:
    """They have no hash."""
    with pytest.raises(InvalidKeyError):
        [[1], [1]] | beam.Distinct()


def test_beams_old_name_does_the_same() -> None:
    """RemoveDuplicates."""
    assert [1] == [1, 1] | beam.RemoveDuplicates()


def test_the_type_stays_known() -> None:
    """That of the input."""
    assert str is (TestPipeline() | beam.Create(["a"]) | beam.Distinct()).element_type
