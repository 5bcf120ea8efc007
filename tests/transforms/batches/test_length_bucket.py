"""WithLengthBucketKey."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as beam


def buckets(words: list[str], *boundaries: Any) -> list[int]:
    keyed = words | beam.ParDo(beam.WithLengthBucketKey(len, *boundaries))
    assert words == [word for _, word in keyed]
    return [bucket for (_, bucket), _ in keyed]


def test_a_bucket_reaches_from_one_boundary_to_below_the_next() -> None:
    """The first from nothing, the last to anything."""
    assert [0, 0, 1, 1, 2, 2] == buckets(["", "a", "aa", "aaa", "aaaa", "a" * 99], [2, 4])


def test_boundaries_are_powers_of_two_unless_said_otherwise() -> None:
    """From 16 to 512."""
    assert [0, 1, 1, 5, 6] == buckets(["a" * n for n in (15, 16, 31, 511, 512)])


def test_a_key_stands_for_one_worker() -> None:
    """All of its elements have the same."""
    keyed = ["a", "bb"] | beam.ParDo(beam.WithLengthBucketKey(len, [2]))
    assert 1 == len({worker for (worker, _), _ in keyed})


@pytest.mark.parametrize("boundaries", [[], [0, 1], [2, 2], [3, 2]])
def test_boundaries_ascend_from_above_zero(boundaries: list[int]) -> None:
    """Said when the DoFn is made."""
    with pytest.raises(ValueError, match="WithLengthBucketKey: bucket_boundaries must be positive and ascending"):
        beam.WithLengthBucketKey(len, boundaries)
