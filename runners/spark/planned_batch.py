"""What a micro-batch is given: what it reads, how far the watermarks are, and what time it is.

It is decided, and written down, before the batch runs; so a batch that is run again sees the same
input and the same clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from ...sdk.bundle import Bundle
from ...sdk.spark_interfaces import Block


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

    def of_shard(self, shard: int, shards: int) -> tuple[Reading, ...]:
        """What one of so many shards reads: of a script all, in order, where it is alone; else every so manieth.

        >>> batch = PlannedBatch(1, 0, "t", (WholeSplit("a", 0), WholeSplit("a", 1), WholeSplit("a", 2)))
        >>> [reading.split for reading in batch.of_shard(0, 2)]
        [0, 2]
        """
        scripted = [reading for reading in self.readings if isinstance(reading, Arriving)]
        others = [reading for reading in self.readings if not isinstance(reading, Arriving)]
        return (*(scripted if shard == 0 else ()), *others[shard::shards])
