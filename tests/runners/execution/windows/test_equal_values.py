"""Equality of values: what can stand for a value that came before."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy
import pytest

from penstock.runners.execution.stages.recorded_outputs import OutputMemory
from penstock.runners.execution.windows.retractions import Multiset, are_equal, find_alike

NAN = float("nan")


class Opaque:
    """Equal to itself alone."""

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.mark.parametrize(
    ("value", "other", "expected"),
    [
        (1, 1.0, True),
        ([1], [2], False),
        (numpy.array([1, 2]), numpy.array([1, 2]), True),
        (numpy.array([1, 2]), numpy.array([2, 1]), False),
        (numpy.array([1, 2]), [1, 2], False),
    ],
)
def test_values_are_equal_as_they_say_or_by_their_encodings(value: Any, other: Any, expected: bool) -> None:
    """The latter where they give no single answer."""
    assert expected == are_equal(value, other)


@pytest.mark.parametrize("value", [("a", NAN), ["a", (NAN,)], Opaque("a"), numpy.array([1, 2])])
def test_what_equals_no_copy_of_itself_is_found_by_its_encoding(value: Any) -> None:
    """The first of them."""
    copy = pickle.loads(pickle.dumps(value))
    assert 1 == find_alike(value, [("b", 1), copy, copy])
    assert None is find_alike(value, [("b", 1), Opaque("b"), ["a", 1]])


def test_what_equals_its_copies_is_not_looked_for() -> None:
    """Or it would have been found before; what can't be encoded neither."""
    assert [None, None, None] == [
        find_alike(1, [1]),
        find_alike(("a", 1), [("a", 1)]),
        find_alike(threading.Lock(), [threading.Lock()]),
    ]


@pytest.mark.parametrize("value", [NAN, ("a", NAN), ["a", NAN], Opaque("a")])
def test_a_multiset_gives_up_what_has_been_to_another_process(value: Any) -> None:
    """When the multiset moved, and when the retraction did."""
    values = Multiset()
    values.add(value, 2)
    restored = pickle.loads(pickle.dumps(values))
    restored.add(value, -1)
    assert (1, [type(value)]) == (len(restored), [type(left) for left in restored])
    restored.add(pickle.loads(pickle.dumps(value)), -1)
    assert not restored


@pytest.mark.parametrize("value", [NAN, ("a", NAN), ["a", NAN], Opaque("a")])
def test_outputs_are_found_by_an_element_that_has_been_to_another_process(value: Any) -> None:
    """Also by a memory that was restored."""
    memory, restored = OutputMemory(), OutputMemory()
    memory(1, "other", 0, (), lambda: [0])
    memory(1, value, 0, (), lambda: [1])
    restored.restore([[pickle.loads(pickle.dumps(memory.snapshot()))]])
    assert [1] == restored(-1, value, 0, (), lambda: [2])
    assert [0] == restored(-1, "other", 0, (), lambda: [2])
