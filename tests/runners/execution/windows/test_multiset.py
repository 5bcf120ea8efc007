"""Multiset: values, and how often each is there."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runners.execution.windows.retractions import Multiset

# Hashable and unhashable ones.
values = st.sampled_from(["a", 1, (2, "b"), [3], {"c": 4}, {5}])


def of(*added: tuple[Any, int]) -> Multiset:
    found = Multiset()
    for value, count in added:
        found.add(value, count)
    return found


@given(st.lists(values), st.randoms(use_true_random=False))
def test_what_is_added_and_taken_back_is_gone_whatever_the_order(added: list[Any], random: Any) -> None:
    """Also if it is taken back before it comes."""
    moves = [(value, sign) for value in added for sign in (1, -1)]
    random.shuffle(moves)
    found = of(*moves)
    assert (False, 0, []) == (bool(found), len(found), list(found))


@given(st.lists(values), st.lists(values))
def test_what_is_left_is_what_a_list_would_hold(kept: list[Any], gone: list[Any]) -> None:
    """In some order."""
    found = of(*((value, 1) for value in [*gone, *kept]), *((value, -1) for value in gone))
    assert sorted(kept, key=repr) == sorted(found, key=repr)
    assert len(kept) == len(found)


def test_a_value_that_is_owed_counts_though_it_is_not_there() -> None:
    """A retraction that came before its value: there is something, but nothing to go through."""
    found = of(("a", -1), ([1], -1))
    assert (True, []) == (bool(found), list(found))
    found.update(of(("a", 1), ([1], 2)))
    assert [[1]] == list(found)


def test_what_is_no_number_is_taken_back_by_another_such() -> None:
    """Though no two of them are equal."""
    found = of((float("nan"), 2), (float("nan"), -1))
    (left,) = found
    assert left != left
    found.add(float("nan"), -1)
    assert not found


def test_arrays_are_told_apart_by_their_contents() -> None:
    """Though comparing two of them gives no single answer."""
    found = of((numpy.array([1, 2]), 1), (numpy.array([3, 4]), 1), (numpy.array([1, 2]), -1))
    assert [[3, 4]] == [array.tolist() for array in found]


@pytest.mark.parametrize("value", ["a", [1]])
def test_a_value_is_there_as_often_as_it_was_added(value: Any) -> None:
    """And each time it is gone through."""
    assert [value] * 3 == list(of((value, 1), (value, 2)))
