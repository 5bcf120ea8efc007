"""KafkaRanges: the records that topics have, as a bounded source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...frozen import frozen
from ...persistence import stored_as
from ...sdk.elements.bundle import Bundle
from ...sdk.sources.bounded import BoundedSource
from ...sdk.sources.event_time_reader import EventTimes
from ...windowing.timestamp import Timestamp
from ..first_elements import without_watermark
from .client import closed
from .source import KafkaReader, KafkaSource, Reading, TopicPartition

# The records of a split, at least.
_LEAST = 10_000


@stored_as("kafka-range", 1)
@frozen
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
        self.times = without_watermark(times)

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
