"""What a micro-batch is given: what it reads, how far the watermarks are, and what time it is.

It is decided, and written down, before the batch runs; so a batch that is run again sees the same
input and the same clock.

What the sources give to the next batch, while it is gathered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import attrs

from ....sdk.bundle import Bundle
from ....sdk.serialization import dumps
from ....sdk.spark_interfaces import Block
from ...execution.serialization.records import RecordType, unpickled
from ...execution.shuffle.blocks import decode_bundle, encode_bundle


@attrs.frozen
class Arriving:
    """Elements that a script has."""

    label: str
    pcollection: int
    bundle: Bundle


@attrs.frozen
class WholeSplit:
    """A split of a bounded source."""

    label: str
    split: Any


@attrs.frozen
class OffsetRange:
    """A partition of an unbounded source, from one offset to another, both as its reader gave them."""

    label: str
    partition: Any
    start: Any
    end: Any


@attrs.frozen
class FrameRows:
    """Rows of a DataFrame, as Spark's task has them: not planned, but what a frame of the plan is read as."""

    label: str
    split: Block


Reading: TypeAlias = Arriving | WholeSplit | OffsetRange | FrameRows


@attrs.frozen
class PlannedBatch:
    """One batch.

    Attributes:
      number: 1, 2, 3, ...; also the epoch of its checkpoint.
      now: processing time, in microseconds.
      transaction: what its sinks write to.
      readings: what is read.
      watermarks: of sources' PCollections, in microseconds, after what is read.
      percentiles: percentile watermarks that have moved, by share.
      signals: what a script says.
      positions: where the sources stand afterwards; whatever they want to know.
      is_last: whether nothing comes after it.
      frames: DataFrames that are read besides, by label; of a stream the number of Spark's batch, else None.
    """

    number: int
    now: int
    transaction: str
    readings: tuple[Reading, ...] = ()
    watermarks: Mapping[int, int] = attrs.field(factory=dict)
    percentiles: Mapping[float, int] = attrs.field(factory=dict)
    signals: tuple[str, ...] = ()
    positions: Any = None
    is_last: bool = False
    frames: Mapping[str, int | None] = attrs.field(factory=dict)

    def record(self) -> bytes:
        """Return the batch as a record.  Raises `SerializationError` for a split or a position that isn't data."""
        return _PLANNED.encode(
            self.number,
            self.now,
            self.transaction,
            [data for reading in self.readings for data in _reading_as_data(reading)],
            list(self.watermarks.items()),
            list(self.percentiles.items()),
            self.signals,
            dumps(self.positions, "the batch"),
            self.is_last,
            dict(self.frames),
        )

    @staticmethod
    def of_record(record: bytes, where: str) -> PlannedBatch:
        """Return the batch of a record.

        Args:
          where: the file, for errors.

        Raises `UnknownFormatError` for a record of another version, and `CheckpointMismatchError` if the class of a
        split or a position can't be had.
        """
        return _planned_of(where, *_PLANNED.decode(record, where))

    def of_shard(self, shard: int, shards: int) -> tuple[Reading, ...]:
        """What one of so many shards reads: of a script all, in order, where it is alone; else every so manieth.

        >>> batch = PlannedBatch(1, 0, "t", (WholeSplit("a", 0), WholeSplit("a", 1), WholeSplit("a", 2)))
        >>> [reading.split for reading in batch.of_shard(0, 2)]
        [0, 2]
        """
        scripted = [reading for reading in self.readings if isinstance(reading, Arriving)]
        others = [reading for reading in self.readings if not isinstance(reading, Arriving)]
        return (*(scripted if shard == 0 else ()), *others[shard::shards])


def _reading_as_data(reading: Reading) -> Iterator[tuple[Any, ...]]:
    if isinstance(reading, Arriving):
        for block in encode_bundle(reading.bundle):
            yield "arriving", reading.label, reading.pcollection, block
    elif isinstance(reading, WholeSplit):
        yield "split", reading.label, dumps(reading.split, reading.label)
    else:
        assert isinstance(reading, OffsetRange), reading
        offsets = (reading.partition, reading.start, reading.end)
        yield "range", reading.label, dumps(offsets, reading.label)


def _reading_of(where: str, kind: str, label: str, *data: Any) -> Reading:
    if kind == "arriving":
        pcollection, block = data
        return Arriving(label, pcollection, decode_bundle(block))
    value = unpickled(data[0], f"{label}: a split", where)
    return WholeSplit(label, value) if kind == "split" else OffsetRange(label, *value)


def _planned_of(
    where: str,
    number: int,
    now: int,
    transaction: str,
    readings: list[Any],
    watermarks: list[Any],
    percentiles: list[Any],
    signals: list[str],
    positions: bytes,
    is_last: bool,
    frames: dict[str, int | None],
) -> PlannedBatch:
    return PlannedBatch(
        number,
        now,
        transaction,
        tuple(_reading_of(where, *reading) for reading in readings),
        dict(watermarks),
        dict(percentiles),
        tuple(signals),
        unpickled(positions, "The position of a source", where),
        is_last,
        frames,
    )


_PLANNED: RecordType[tuple[Any, ...]] = RecordType("planned batch", 1, {1: lambda *fields: fields})


@attrs.define
class Gathered:
    """What the sources give to a batch.

    Attributes:
      now: processing time, in microseconds.
      watermarks: of sources' PCollections, in microseconds, those that have moved.
      frames: DataFrames that are read, by label; of a stream the number of Spark's batch, of any other one None.
      percentiles: percentile watermarks that have moved, by share.
      all_watermarks: those of all sources, as far as they are known.
    """

    now: int
    readings: list[Reading] = attrs.field(factory=list)
    frames: dict[str, int | None] = attrs.field(factory=dict)
    watermarks: dict[int, int] = attrs.field(factory=dict)
    percentiles: dict[float, int] = attrs.field(factory=dict)
    signals: list[str] = attrs.field(factory=list)
    all_watermarks: dict[int, int] = attrs.field(factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come."""
        return not (self.readings or self.frames or self.watermarks or self.percentiles or self.signals)
