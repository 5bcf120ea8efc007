"""GroupIntoBatches, with and without sharded keys."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as beam
from penstock.sdk.errors import TypeHintError
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.windowing import FixedWindows, TimestampedValue


def test_values_of_a_key_come_in_batches_that_are_full_but_for_the_last() -> None:
    """Each behind the key."""
    pairs = [("a", 1), ("b", 2), ("a", 3), ("a", 4)]
    assert [("a", [1, 3]), ("a", [4]), ("b", [2])] == pairs | beam.GroupIntoBatches(2)


def test_windows_are_not_mixed() -> None:
    """A batch holds values of one window."""
    with TestPipeline() as p:
        windowed = p | beam.Create([TimestampedValue(("a", t), t) for t in (1, 2, 3, 11)])
        batches = windowed | beam.WindowInto(FixedWindows(10)) | beam.GroupIntoBatches(2)
        assert_that(batches, equal_to([("a", [1, 2]), ("a", [3]), ("a", [11])]))


def test_sharded_keys_name_the_key_and_the_worker() -> None:
    """Batches are of one of both."""
    batches = [("a", i) for i in range(5)] | beam.GroupIntoBatches.WithShardedKey(2)
    assert [[0, 1], [2, 3], [4]] == [batch for _, batch in batches]
    assert ({"a"}, {bytes}) == ({s.key for s, _ in batches}, {type(s.shard_id) for s, _ in batches})


@pytest.mark.parametrize("make", [beam.GroupIntoBatches, beam.GroupIntoBatches.WithShardedKey])
def test_a_limit_to_the_waiting_time_is_not_negative(make: Any) -> None:
    """None at all is written as None or, by Beam, as 0; a bounded input is over before any limit is."""
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        make(2, max_buffering_duration_secs=-1)
    for limit in (None, 0, 5):
        batches = [("a", 1), ("a", 2), ("a", 3)] | make(2, max_buffering_duration_secs=limit)
        assert [[1, 2], [3]] == [batch for _, batch in batches]


@pytest.mark.parametrize("size", [0, -1, 1.5, None, True])
def test_the_size_is_a_positive_int(size: Any) -> None:
    """Said when the transform is made."""
    with pytest.raises(ValueError, match="GroupIntoBatches: batch_size must be an int of at least 1"):
        beam.GroupIntoBatches(size)


def test_what_is_no_pair_is_refused_when_the_pipeline_is_built() -> None:
    """Naming the transform."""
    with pytest.raises(TypeHintError, match="Input type hint violation at GroupIntoBatches: "):
        TestPipeline() | beam.Create([1]) | beam.GroupIntoBatches(2)
