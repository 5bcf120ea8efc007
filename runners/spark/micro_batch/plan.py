"""The plan of a micro-batch: the splits that it reads, its watermarks, and its processing time.

A batch is planned, and the plan written, before the batch runs.  So a batch that runs again sees the same input and the
same clocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import attrs

from ....frozen import frozen
from ....sdk.elements.bundle import Bundle
from ....sdk.spark_interfaces import Block
from ....sdk.user_code.serialization import dumps
from ...execution.serialization.records import RecordType, unpickled
from ...execution.shuffle.blocks import decode_bundle, encode_bundle
from ...execution.streaming.observation import Observe


@frozen
class ScriptedElements:
    """Elements of a script."""

    label: str
    pcollection: int
    bundle: Bundle


@frozen
class ReadElements:
    """Elements of a source that can't be read again: the driver has read them."""

    label: str
    bundle: Bundle


@frozen
class SourceSplit:
    """A split of a bounded source."""

    label: str
    split: Any


@frozen
class PartitionRange:
    """A partition of an unbounded source, from one offset of its reader to another."""

    label: str
    partition: Any
    start: Any
    end: Any


@frozen
class FrameRows:
    """Rows of a DataFrame.  A plan names the DataFrame only; Spark's tasks get its rows."""

    label: str
    split: Block


InputSplit: TypeAlias = ScriptedElements | ReadElements | SourceSplit | PartitionRange | FrameRows


@frozen
class PlannedBatch:
    """One batch.

    Attributes:
      number: 1, 2, 3, ...; also the epoch of its checkpoint.
      now: processing time, in microseconds.
      transaction: the transaction of its sinks.
      splits: its input.
      watermarks: of the sources' PCollections, in microseconds, after these splits.
      percentiles: the percentile watermarks that have advanced, by percentile.
      signals: the signals of a script.
      positions: of the sources after the batch; see `DriverSources`.
      is_last: whether the sources have ended with it.
      frames: the DataFrames that it reads, by label; of a stream the number of Spark's batch, else None.
      observe: what a page shows of it, which isn't recorded.
    """

    number: int
    now: int
    transaction: str
    splits: tuple[InputSplit, ...] = ()
    watermarks: Mapping[int, int] = attrs.field(factory=dict)
    percentiles: Mapping[float, int] = attrs.field(factory=dict)
    signals: tuple[str, ...] = ()
    positions: Any = None
    is_last: bool = False
    frames: Mapping[str, int | None] = attrs.field(factory=dict)
    observe: Observe = attrs.field(factory=Observe, eq=False)

    def record(self) -> bytes:
        """Return the batch as a record.  Raises `SerializationError` for splits or positions that can't be pickled."""
        return _PLANNED.encode(
            self.number,
            self.now,
            self.transaction,
            [data for split in self.splits for data in _split_as_data(split)],
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
        split or a position can't be imported.
        """
        fields = _PLANNED.decode(record, where)
        number, now, transaction, splits, watermarks, percentiles, signals, positions, is_last, frames = fields
        return PlannedBatch(
            number,
            now,
            transaction,
            tuple(_split_of(where, *split) for split in splits),
            dict(watermarks),
            dict(percentiles),
            tuple(signals),
            unpickled(positions, "The position of a source", where),
            is_last,
            frames,
        )

    def splits_of(self, index: int, parallelism: int) -> tuple[InputSplit, ...]:
        """Return the splits that one subtask reads.  The first subtask reads all elements of a script, in order.

        >>> batch = PlannedBatch(1, 0, "t", (SourceSplit("a", 0), SourceSplit("a", 1), SourceSplit("a", 2)))
        >>> [own.split for own in batch.splits_of(0, 2)]
        [0, 2]
        """
        scripted = [split for split in self.splits if isinstance(split, ScriptedElements)]
        others = [split for split in self.splits if not isinstance(split, ScriptedElements)]
        return (*(scripted if index == 0 else ()), *others[index::parallelism])


_PLANNED: RecordType[tuple[Any, ...]] = RecordType("planned batch", 1, {1: lambda *fields: fields})


def _split_as_data(split: InputSplit) -> Iterator[tuple[Any, ...]]:
    if isinstance(split, ScriptedElements):
        for block in encode_bundle(split.bundle):
            yield "arriving", split.label, split.pcollection, block
    elif isinstance(split, ReadElements):
        for block in encode_bundle(split.bundle):
            yield "elements", split.label, block
    elif isinstance(split, SourceSplit):
        yield "split", split.label, dumps(split.split, split.label)
    else:
        assert isinstance(split, PartitionRange), split
        offsets = (split.partition, split.start, split.end)
        yield "range", split.label, dumps(offsets, split.label)


def _split_of(where: str, kind: str, label: str, *data: Any) -> InputSplit:
    if kind == "arriving":
        pcollection, block = data
        return ScriptedElements(label, pcollection, decode_bundle(block))
    if kind == "elements":
        return ReadElements(label, decode_bundle(data[0]))
    value = unpickled(data[0], f"{label}: a split", where)
    return SourceSplit(label, value) if kind == "split" else PartitionRange(label, *value)


@attrs.define
class BatchInput:
    """The input that the sources add to a batch while it is planned.

    Attributes:
      now: processing time, in microseconds.
      frames: the DataFrames that are read, by label; of a stream the number of Spark's batch, else None.
      watermarks: of the sources' PCollections, in microseconds, those that have advanced.
      percentiles: the percentile watermarks that have advanced, by percentile.
      all_watermarks: of all sources' PCollections.
    """

    now: int
    splits: list[InputSplit] = attrs.field(factory=list)
    frames: dict[str, int | None] = attrs.field(factory=dict)
    watermarks: dict[int, int] = attrs.field(factory=dict)
    percentiles: dict[float, int] = attrs.field(factory=dict)
    signals: list[str] = attrs.field(factory=list)
    all_watermarks: dict[int, int] = attrs.field(factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if no source has added anything."""
        return not (self.splits or self.frames or self.watermarks or self.percentiles or self.signals)
