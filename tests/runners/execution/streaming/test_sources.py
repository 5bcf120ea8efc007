"""Bounded sources as partitions with offsets."""

from __future__ import annotations

import pickle

import pytest
from support.pipelines.unbounded_readers import check_replay, polled

from penstock.runners.execution.streaming.sources import BoundedPartitions
from penstock.sdk.sources.bounded import ValuesSource
from penstock.windowing.timestamp import MAX_MICROS, MIN_MICROS, Timestamp

NOW = Timestamp(0)


@pytest.mark.parametrize("splits", [1, 2, 3, 8])
def test_every_element_is_in_one_split(splits: int) -> None:
    """For any number of elements and splits."""
    source = BoundedPartitions(ValuesSource(list(range(7))), splits)
    values = [value for partition in source.partitions() for value in polled(source.open(partition, None), 0)]
    assert list(range(7)) == sorted(values)


def test_reading_goes_on_from_any_offset() -> None:
    """In polls of another size, too."""
    source = BoundedPartitions(ValuesSource(list(range(7))), 1)
    (partition,) = source.partitions()
    for offset in range(8):
        for size in (1, 3, 10):
            reader = source.open(partition, offset)
            assert list(range(offset, 7)) == polled(reader, 0, size)
            assert 7 == reader.offset()


def test_its_offsets_are_replayed() -> None:
    """As every unbounded source's."""
    source = BoundedPartitions(ValuesSource(list(range(7))), 1)
    (partition,) = source.partitions()
    assert list(range(7)) == check_replay(source, partition, 0)


def test_its_watermark_is_at_the_beginning_of_time_and_then_at_its_end() -> None:
    """A batch knows of nothing between."""
    source = BoundedPartitions(ValuesSource([1, 2]), 1)
    (partition,) = source.partitions()
    reader = source.open(partition, None)
    assert (MIN_MICROS, False) == (reader.watermark(NOW), reader.is_finished())
    reader.poll(10, NOW)
    assert (MIN_MICROS, False) == (reader.watermark(NOW), reader.is_finished())
    assert None is reader.poll(10, NOW)
    assert (MAX_MICROS, True) == (reader.watermark(NOW), reader.is_finished())


def test_a_split_that_is_elements_is_not_kept_with_its_partition() -> None:
    """Every snapshot of a pipeline over a million values used to hold all of them."""
    values = ["a long value " * 100] * 1_000
    (partition,) = BoundedPartitions(ValuesSource(values), 1).partitions()
    kept = pickle.dumps(partition)
    reader = BoundedPartitions(ValuesSource([*values, "last"]), 1).open(pickle.loads(kept), 1_000)
    bundle = reader.poll(10, Timestamp(0))
    assert bundle is not None
    assert (True, ["last"]) == (len(kept) < 1_000, bundle.values)


def test_it_is_the_same_split_where_there_are_other_numbers_of_subtasks() -> None:
    """The second of two halves, opened by one of three subtasks."""
    _, second = BoundedPartitions(ValuesSource(list(range(6))), 2).partitions()
    bundle = BoundedPartitions(ValuesSource(list(range(6))), 3).open(second, 1).poll(10, Timestamp(0))
    assert bundle is not None
    assert [4, 5] == bundle.values
