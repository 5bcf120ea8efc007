"""Pairs of numbers: records that prove their types."""

from __future__ import annotations

import enum
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runners.execution.serialization.number_pairs import NumberPairs, marshalled_pairs

int32 = st.integers(-(1 << 31), (1 << 31) - 1)


class Color(enum.IntEnum):
    RED = 1


@given(
    keys=st.lists(int32, min_size=1),
    value=st.sampled_from([int, float]),
    data=st.data(),
)
def test_pairs_are_records(keys: list[int], value: type, data: st.DataObject) -> None:
    """Their keys, values and hashes are arrays of these."""
    values = data.draw(st.lists(int32 if value is int else st.floats(), min_size=len(keys), max_size=len(keys)))
    marshalled = marshalled_pairs([item for pair in zip(keys, values, strict=True) for item in pair], value)
    assert marshalled is not None
    pairs = NumberPairs(marshalled, value)
    assert len(keys) == len(pairs)
    assert keys == pairs.keys().tolist()
    assert list(map(hash, keys)) == pairs.hashes().tolist()
    assert list(map(repr, values)) == list(map(repr, pairs.values().tolist()))
    taken = NumberPairs(bytes(pairs.take([len(keys) - 1, 0])), value)
    assert [keys[-1], keys[0]] == taken.keys().tolist()


@given(
    st.lists(st.tuples(int32 | st.booleans() | st.text(), int32 | st.floats() | st.integers() | st.none()), min_size=1)
)
def test_pairs_are_numbers_if_all_are(pairs: list[tuple[Any, Any]]) -> None:
    """Judged by exact types, and by the size of integers."""
    items = [item for pair in pairs for item in pair]
    are_integers = all(type(item) is int and -(1 << 31) <= item < 1 << 31 for item in items)
    assert are_integers == (marshalled_pairs(items, int) is not None)


OTHERS: list[Any] = [
    "1",
    None,
    True,
    1 << 31,
    -(1 << 31) - 1,
    1 << 40,
    b"abcd",
    (1,),
    [1],
    1j,
    Color.RED,
    numpy.int32(1),
    numpy.float64(1),
]


@pytest.mark.parametrize("place", range(10))
@pytest.mark.parametrize("other", [*OTHERS, 0.5], ids=repr)
def test_no_other_integers_are_marshalled(other: Any, place: int) -> None:
    """Wherever they are: not even numbers that are equal to integers."""
    items = list(range(10))
    items[place] = other
    assert marshalled_pairs(items, int) is None


@pytest.mark.parametrize("place", range(10))
@pytest.mark.parametrize("other", [*OTHERS, 7], ids=repr)
def test_no_other_floats_are_marshalled(other: Any, place: int) -> None:
    """A key stays an integer."""
    items = [1, 0.5] * 5
    items[place] = other if (other != 7 or place % 2) else 0.25
    assert marshalled_pairs(items, float) is None


def test_what_is_written_as_records_by_chance_is_refused() -> None:
    """A tuple of nothing, and a shorter string that makes up for its length, have other codes."""
    assert marshalled_pairs([1, 2, 3, "", 5, 6, "abcd", 8, 9, 10], int) is None
