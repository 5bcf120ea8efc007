"""Readers of the data source: splits of a bounded source, and ranges of an unbounded one.

The offset of a stream names, for each partition of the source, how often it was opened, the offset at which it began,
and the offset up to which it was read.  So the ranges of a batch follow from its two offsets, and a batch that Spark
repeats reads the same elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from ....sdk.user_code.serialization import dumps
from ....windowing.timestamp import MIN_MICROS
from ...execution.clock import time_of_day
from ..batch.execution import pickled_splits
from ..executor_functions import ExecutorFunction
from ..micro_batch.plan import BatchInput, PartitionRange
from ..micro_batch.unbounded_source import Admission, DriverUnboundedSource
from .offsets import decoded, encoded
from .programs import Input, InputProgram, Range

# The most elements of a batch, unless an option says otherwise.
MOST_ROWS = 1_000_000


class Splits(InputPartition):
    """Pickled splits, which one task reads."""

    def __init__(self, number: int, splits: Sequence[bytes]) -> None:
        super().__init__(number)
        self.splits = list(splits)


class BoundedReader(ExecutorFunction, DataSourceReader):
    """The reader of a bounded source.

    Args:
      cores: the parallelism of Spark.
    """

    def __init__(self, program: InputProgram, cores: int) -> None:
        self._program = program
        self._cores = cores

    def partitions(self) -> Sequence[InputPartition]:
        """Return the splits of the source."""
        rows, partitions = pickled_splits(self._program.bounded(), 0, self._cores)
        return [Splits(i, rows[i::partitions]) for i in range(partitions)]

    def read(self, partition: Any) -> Iterator[Any]:
        """Yield the rows of splits as record batches."""
        return self._program.batches(partition.value, partition.splits)


class Position(NamedTuple):
    """A partition's position.

    Attributes:
      opened: how often the partition was opened from its beginning.
      begin: the offset at which it began.
      offset: the offset up to which it was read.
    """

    opened: int
    begin: Any
    offset: Any
    watermark: int
    is_finished: bool


class UnboundedReader(ExecutorFunction, DataSourceStreamReader):
    """The reader of an unbounded source: plans batches on the driver, and reads ranges in executors.

    Args:
      source: what is registered.
      program: the program of the tasks.
      most_rows: the most elements of a batch.
    """

    def __init__(self, source: Input, program: InputProgram, most_rows: int) -> None:
        self._label = source.read_label
        self._program = program
        self._most_rows = most_rows
        # On the driver only.
        self._source: DriverUnboundedSource | None = DriverUnboundedSource(source.step())
        self._at: dict[str, Any] | None = None
        self._positions: dict[Any, Position] = {}
        self._ends_at: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_source": None, "_at": None, "_positions": {}}

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset of a query that starts."""
        return self._offset({}, 0)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Return the end of the next batch, or `start` if there is nothing to read.

        Before PySpark 4.2 Spark passes neither argument.
        """
        assert self._source is not None
        # A query that is started again first asks for the partitions of its last batch.
        start = start or self._at or self.initialOffset()
        if start != self._at:
            self._restore(start)
        most = getattr(limit, "max_rows", self._most_rows)
        now = time_of_day() if self._ends_at is None else self._ends_at
        batch = BatchInput(now)
        self._source.add_input(batch, Admission(most))
        starts = {each.partition: each.start for each in batch.splits if isinstance(each, PartitionRange)}
        _, _, positions = self._source.position()
        found: dict[Any, Position] = {}
        for partition, offset, watermark, is_finished in positions:
            known = self._positions.get(partition)
            if known is None or (known.is_finished and partition in starts):
                begin = starts.get(partition, offset)
                known = Position(1 if known is None else known.opened + 1, begin, begin, watermark, is_finished)
            found[partition] = known._replace(offset=offset, watermark=watermark, is_finished=is_finished)
        has_moved = any(
            self._positions[each].offset != found[each].offset or self._positions[each].opened != found[each].opened
            for each in found.keys() & self._positions.keys()
        ) or any(each.begin != each.offset for name, each in found.items() if name not in self._positions)
        self._positions = found
        self._at = self._offset(found, now) if has_moved else start
        return self._at

    def getDefaultReadLimit(self) -> Any:
        """Return the most elements of a batch."""
        from pyspark.sql.streaming.datasource import ReadMaxRows

        return ReadMaxRows(self._most_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Let processing time stand still: the query ends where nothing is left to read at this time."""
        self._ends_at = time_of_day()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges between two offsets, each for one task."""
        before, (now, after) = self._decoded(start)[1], self._decoded(end)
        if self._at is None:
            self._restore(end)
        ranges = []
        for partition, position in after.items():
            known = before.get(partition)
            at = known.offset if known is not None and known.opened == position.opened else position.begin
            if at != position.offset:
                ranges.append(Range(partition, at, position.offset, now))
        return [Splits(i, [dumps(each, self._label)]) for i, each in enumerate(ranges)]

    def read(self, partition: Any) -> Iterator[Any]:
        """Yield the rows of a range as record batches."""
        return self._program.batches(partition.value, partition.splits)

    def commit(self, end: dict[str, Any]) -> None:
        """Tell the source that elements up to an offset won't be read again."""
        assert self._source is not None
        self._source.acknowledge(_position(self._decoded(end)[1]))

    def stop(self) -> None:
        """Close the source."""
        if self._source is not None:
            self._source.close()

    def _restore(self, offset: dict[str, Any]) -> None:
        assert self._source is not None
        self._at, self._positions = offset, dict(self._decoded(offset)[1])
        self._source.restore(_position(self._positions))

    def _offset(self, positions: Mapping[Any, Position], now: int) -> dict[str, Any]:
        plain = [(partition, tuple(position)) for partition, position in positions.items()]
        return {"now": now, "positions": encoded(plain, self._label)}

    def _decoded(self, offset: dict[str, Any]) -> tuple[int, dict[Any, Position]]:
        found = decoded(offset.get("positions"), self._label)
        return offset["now"], {partition: Position(*position) for partition, position in found}


# PySpark before 4.2 asks no source for a limit, and finds the end of `availableNow` itself.
if find_spec("pyspark.sql.streaming.datasource") is not None:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    SupportsTriggerAvailableNow.register(UnboundedReader)


def _position(positions: Mapping[Any, Position]) -> Any:
    """Return positions as those of a `DriverUnboundedSource`."""
    plain = [(name, each.offset, each.watermark, each.is_finished) for name, each in positions.items()]
    return MIN_MICROS, False, plain
