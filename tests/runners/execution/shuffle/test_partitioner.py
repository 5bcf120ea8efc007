"""Bundles cut by the workers of their keys."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runners.execution.shuffle import partitioner as partitioning
from penstock.runners.execution.shuffle.partitioner import Partitioner, owner
from penstock.sdk.coders.key_encoding import key_group
from penstock.sdk.elements.bundle import Bundle

KEYS = st.one_of(st.integers(), st.text(), st.booleans(), st.none(), st.floats(allow_nan=False), st.binary())

# Types that are compared with integers.  A Decimal and a scalar of NumPy that are equal raise an error when compared.
COMPARED = [(int, float, Decimal, Fraction, complex), (int, float, Fraction, complex, numpy.int64)]


def bundles_of(kinds: tuple[Any, ...]) -> st.SearchStrategy[list[list[Any]]]:
    """Bundles of keys, among them numbers of these types that are equal."""
    equal = st.sampled_from([kind(n) for n in (0, -1, 1, 127, 1 << 40) for kind in kinds])
    return st.lists(st.lists(KEYS | equal, max_size=20), max_size=4)


def in_parts(partitioner: Partitioner, keys: list[Any]) -> list[list[Any]]:
    """Return the pairs of a key and its position for each worker, with the position as timestamp."""
    parts = partitioner.parts(Bundle([(key, i) for i, key in enumerate(keys)], list(range(len(keys)))))
    for part in parts:
        assert [i for _, i in part.values] == part.timestamps
    return [[key for key, _ in part.values] for part in parts]


@pytest.mark.parametrize("parallelism", [2, 4, 9, 300])
@given(bundles=st.lists(st.lists(KEYS, max_size=20), max_size=4))
def test_every_key_goes_to_the_worker_of_its_group(parallelism: int, bundles: list[list[Any]]) -> None:
    """For new keys and for known ones: checkpoints depend on it."""
    partitioner = Partitioner(parallelism, "by key")
    for keys in bundles:
        expected: list[list[Any]] = [[] for _ in range(parallelism)]
        for key in keys:
            expected[owner(key_group(key), parallelism)].append(key)
        assert expected == in_parts(partitioner, keys)


@given(bundles=st.sampled_from(COMPARED).flatmap(bundles_of))
def test_equal_keys_of_bounded_writers_go_to_one_group(bundles: list[list[Any]]) -> None:
    """Whatever their types, and those of the keys beside them in a bundle."""
    groups: dict[Any, int] = {}
    for keys in bundles:
        # A writer of another process has seen nothing.
        for group, part in enumerate(in_parts(Partitioner(128, "by key", bounded=True), keys)):
            assert all(groups.setdefault(key, group) == group for key in part)
        single = [in_parts(Partitioner(128, "by key", bounded=True), [key]) for key in keys]
        assert [groups[key] for key in keys] == [[bool(part) for part in parts].index(True) for parts in single]


def test_keys_that_dont_come_again_arent_remembered_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then all are hashed for a while, and end where they belong; and later some are remembered anew."""
    monkeypatch.setattr(partitioning, "_MANY", 10)
    partitioner = Partitioner(2, "by key")
    sizes = []
    for start in range(0, 1000, 20):
        keys = list(range(start, start + 20))
        expected = [[key for key in keys if owner(key_group(key), 2) == own] for own in range(2)]
        assert expected == in_parts(partitioner, keys)
        sizes.append(len(partitioner._known))
    assert [20] + [0] * 15 + [20] + [0] * 15 + [20] == sizes[:33]


def test_no_more_keys_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the newest bundle are."""
    monkeypatch.setattr(partitioning, "_REMEMBERED", 10)
    partitioner = Partitioner(2, "by key")
    for keys in (["a", "b"], ["a", "c"], [str(n) for n in range(9)], ["a", "0"]):
        in_parts(partitioner, keys)
    assert {"a", "0"} <= partitioner._known.keys()
    assert len(partitioner._known) <= 10


def test_a_bundle_with_keys_of_several_types_is_cut_as_well() -> None:
    """Equal keys of different types are one key."""
    partitioner = Partitioner(4, "by key")
    ones = [1, 1.0, True]
    in_parts(partitioner, ones)
    (own,) = [part for part in in_parts(partitioner, [*ones, "one"]) if 1 in part]
    assert ones == [key for key in own if key != "one"]
