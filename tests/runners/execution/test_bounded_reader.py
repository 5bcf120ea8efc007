"""Bounded sources as partitions with offsets."""

from __future__ import annotations

import pytest
from unbounded_reading import check_replay, polled

from penstock.runners.execution.bounded_reader import BoundedPartitions
from penstock.sdk.source import ValuesSource
from penstock.windowing.timestamp import MAX_MICROS, MIN_MICROS, Timestamp

NOW = Timestamp(0)


@pytest.mark.parametrize("splits", [1, 2, 3, 8])
def test_every_element_is_in_one_split(splits: int) -> None:
    """However many there are of either."""
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
