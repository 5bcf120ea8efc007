"""Regex.  The data are those of Beam's documentation."""

from __future__ import annotations

import re
from typing import Any

import pytest

import penstock as beam
from penstock.sdk.errors import TypeHintError
from penstock.testing import TestPipeline

PLANTS = [
    "S, Strawberry, perennial",
    "C, Carrot, biennial ignoring trailing words",
    "T, Tomato, annual",
    "#invalid format",
]
PATTERN = r"(?P<icon>[^\s,]+), *(\w+), *(\w+)"


def test_matches_is_anchored_at_the_beginning_only() -> None:
    """Elements that don't match are left out."""
    assert ["S, Strawberry, perennial", "C, Carrot, biennial", "T, Tomato, annual"] == PLANTS | beam.Regex.matches(
        PATTERN
    )
    assert [] == ["x S, Strawberry, perennial"] | beam.Regex.matches(PATTERN)


@pytest.mark.parametrize(("group", "expected"), [(2, "Strawberry"), ("icon", "S")])
def test_matches_gives_the_group_of_a_number_or_a_name(group: Any, expected: str) -> None:
    """Instead of the whole match."""
    assert [expected] == PLANTS[:1] | beam.Regex.matches(PATTERN, group)


def test_all_matches_gives_all_groups_the_whole_match_first() -> None:
    """A group that took no part is None."""
    assert [["S, Strawberry, perennial", "S", "Strawberry", "perennial"]] == PLANTS[:1] | beam.Regex.all_matches(
        PATTERN
    )
    assert [["a", "a", None], ["b", None, "b"]] == ["a", "b"] | "or" >> beam.Regex.all_matches("(a)|(b)")


def test_matches_kv_gives_two_groups_as_a_pair() -> None:
    """The value is the whole match unless said otherwise."""
    assert [("T", "T, Tomato, annual")] == PLANTS[2:] | beam.Regex.matches_kv(PATTERN, "icon")
    assert [("T", "Tomato")] == PLANTS[2:] | beam.Regex.matches_kv(PATTERN, keyGroup=1, valueGroup=2)


def test_find_gives_the_first_match_wherever_it_is() -> None:
    """One for each element that has one."""
    assert ["12", "3"] == ["a 12 34", "b", "c3"] | beam.Regex.find(r"\d+")
    assert ["1"] == ["a 12 34"] | "digit" >> beam.Regex.find(r"(\d)(\d)", 1)


def test_find_all_gives_a_list_of_all_matches() -> None:
    """An empty one where there is none."""
    assert [["12", "34"], []] == ["a 12 34", "b"] | beam.Regex.find_all(r"\d+")


def test_find_all_can_leave_empty_matches_out() -> None:
    """As in Java's tests."""
    assert [["a", "", ""]] == ["ab"] | beam.Regex.find_all("a*")
    assert [["a"]] == ["ab"] | "no empty" >> beam.Regex.find_all("a*", outputEmpty=False)


def test_find_all_groups_gives_pairs_of_the_match_and_its_first_group() -> None:
    """Beam's Regex.ALL; an empty first group counts as empty."""
    assert [[("x1", "x"), ("2", "")]] == ["x1 2"] | beam.Regex.find_all(r"(x?)\d", beam.Regex.ALL)
    assert [[("x1", "x")]] == ["x1 2"] | "no empty" >> beam.Regex.find_all(r"(x?)\d", beam.Regex.ALL, outputEmpty=False)


def test_find_kv_gives_a_pair_for_every_match() -> None:
    """Each an element."""
    assert [("a", "a1"), ("b", "b2")] == ["a1 b2"] | beam.Regex.find_kv(r"(\w)(\d)", 1)
    assert [("1", "a"), ("2", "b")] == ["a1 b2"] | "swapped" >> beam.Regex.find_kv(r"(\w)(\d)", 2, 1)


def test_replacing_all_or_the_first() -> None:
    """A replacement may name groups."""
    assert ["a: b: c"] == ["a, b, c"] | beam.Regex.replace_all(r"\s*,\s*", ": ")
    assert ["a: b, c"] == ["a, b, c"] | beam.Regex.replace_first(r"\s*,\s*", ": ")
    assert ["b-a"] == ["a-b"] | beam.Regex.replace_all(r"(\w)-(\w)", r"\2-\1")


def test_split_leaves_empty_parts_out_unless_told() -> None:
    """Each element becomes one list."""
    assert [["a", "b"]] == ["a,,b,"] | beam.Regex.split(",")
    assert [["a", "", "b", ""]] == ["a,,b,"] | beam.Regex.split(",", outputEmpty=True)


def test_a_compiled_expression_is_taken_with_its_flags() -> None:
    """As it is."""
    assert ["A"] == ["A"] | beam.Regex.matches(re.compile("a", re.IGNORECASE))


@pytest.mark.parametrize("group", [3, -1, "name"])
def test_a_group_that_the_expression_does_not_have_is_found_when_the_transform_is_made(group: Any) -> None:
    """Not when the first element matches."""
    with pytest.raises(ValueError, match=r"Regex.find: '\(a\)\(b\)' has no group"):
        beam.Regex.find("(a)(b)", group)
    with pytest.raises(ValueError, match="Regex.find_all: 'a' has no group 1"):
        beam.Regex.find_all("a", beam.Regex.ALL)


def test_what_is_no_expression_is_refused() -> None:
    """By type, and by what is in it."""
    with pytest.raises(TypeError, match="Regex.split: expected a regular expression, got 3"):
        beam.Regex.split(3)  # type: ignore[arg-type]
    with pytest.raises(re.error):
        beam.Regex.split("(")


def test_elements_that_are_known_not_to_be_strings_are_refused_when_the_pipeline_is_built() -> None:
    """And what comes out is known to be strings."""
    with pytest.raises(TypeHintError, match=r"Regex.find\(a\)' requires .*<class 'str'>.* but .*<class 'int'>"):
        TestPipeline() | beam.Create([1]) | beam.Regex.find("a")
    assert str is (TestPipeline() | beam.Create(["a"]) | beam.Regex.find("a")).element_type


def test_the_expression_is_part_of_the_label() -> None:
    """Two of a kind need no explicit labels."""
    assert ["Regex.find(a)", "Regex.find(b)"] == [beam.Regex.find("a").label, beam.Regex.find("b").label]
