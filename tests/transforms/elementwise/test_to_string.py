"""ToString."""

from __future__ import annotations

import penstock as beam
from penstock.testing import TestPipeline


def test_element_is_str_of_it() -> None:
    """With any element."""
    assert ["1", "None", "('a', 1)"] == [1, None, ("a", 1)] | beam.ToString.Element()


def test_iterables_are_joined() -> None:
    """By a comma unless said otherwise; there is none at the end."""
    assert ["1,2", "", "a"] == [[1, 2], [], ["a"]] | beam.ToString.Iterables()
    assert ["1; 2"] == [[1, 2]] | beam.ToString.Iterables("; ")


def test_pairs_are_joined() -> None:
    """Likewise."""
    assert ["a,1"] == [("a", 1)] | beam.ToString.Kvs()
    assert ["a:1"] == [("a", 1)] | beam.ToString.Kvs(delimiter=":")


def test_the_result_is_known_to_be_a_string() -> None:
    """Of each."""
    pairs = TestPipeline() | beam.Create([("a", 1)])
    for transform in (beam.ToString.Element(), beam.ToString.Iterables(), beam.ToString.Kvs()):
        assert str is (pairs | transform).element_type
