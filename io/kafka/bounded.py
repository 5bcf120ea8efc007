"""KafkaRanges and FirstRecords: records of topics as bounded sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ...sdk.elements.bundle import Bundle
from ...sdk.sources.bounded import BoundedSource
from ...sdk.sources.event_time_reader import EventTimes
from ...sdk.watermark_estimators import WalltimeWatermarkEstimator
from ...stored import stored_as
from ...windowing.timestamp import Timestamp
from ..first_bundles import first_bundles
from .client import closed
from .source import KafkaReader, KafkaSource, Reading, TopicPartition

# The records of a split, at least.
_LEAST = 10_000


def _without_watermark(times: EventTimes) -> EventTimes:
    """Return event times that may be in any order: a bounded source has no watermark."""
    return attrs.evolve(times, estimator=WalltimeWatermarkEstimator.default_provider())


@stored_as("kafka-range", 1)
@attrs.frozen
class Range:
    """The offsets of a split.

    Attributes:
      micros: the time at which they were determined, which is the event time of records read by processing time.
    """

    partition: TopicPartition
    start: int
    stop: int
    micros: int


class KafkaRanges(BoundedSource[Any]):
    """The records that the partitions have when the run begins.  A split is a range of offsets."""

    def __init__(self, reading: Reading, times: EventTimes) -> None:
        self.reading = reading
        self.times = _without_watermark(times)

    def identity(self) -> Mapping[str, Any]:
        return {"topics": sorted(self.reading.topics)}

    def split(self, desired_splits: int) -> Sequence[Range]:
        partitions = self.reading.partitions()
        micros = Timestamp.now().micros
        bounds = []
        with self.reading.explained("the ends of the topics can't be read"):
            consumer = self.reading.connection.consumer()
            try:
                for partition in partitions:
                    first = self.reading.first_offset(consumer, partition)
                    bounds.append((partition, first, self.reading.bounds(consumer, partition)[1]))
            finally:
                closed(consumer)
        step = max(_LEAST, -(-sum(stop - first for _, first, stop in bounds) // max(1, desired_splits)))
        return [
            Range(partition, start, min(start + step, stop), micros)
            for partition, first, stop in bounds
            for start in range(first, stop, step)
        ]

    def read_bundles(self, split: Range) -> Iterator[Bundle]:
        source = KafkaSource(self.reading, self.times, commits=False, discovery_interval=None)
        reader = KafkaReader(source, split.partition, split.start)
        try:
            yield from reader.read_to(split.stop, Timestamp(micros=split.micros))
        finally:
            reader.close()


class FirstRecords(BoundedSource[Any]):
    """The first records that arrive, up to a number or for a time: one split of all partitions."""

    def __init__(self, reading: Reading, times: EventTimes, number: int | None, seconds: float | None) -> None:
        self.reading = reading
        self.times = _without_watermark(times)
        self.number = number
        self.seconds = seconds

    def identity(self) -> Mapping[str, Any]:
        return {"topics": sorted(self.reading.topics), "max_num_records": self.number, "max_read_time": self.seconds}

    def split(self, desired_splits: int) -> Sequence[Any]:
        return [tuple(self.reading.partitions())]

    def read_bundles(self, split: Sequence[TopicPartition]) -> Iterator[Bundle]:
        source = KafkaSource(self.reading, self.times, commits=False, discovery_interval=None)
        readers = [KafkaReader(source, partition, None) for partition in split]
        try:
            yield from first_bundles(readers, self.number, self.seconds)
        finally:
            for reader in readers:
                reader.close()
