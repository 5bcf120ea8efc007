"""The events as Parquet files, one for each of their types, and as streams of the files' columns.

A row group has the events of `BLOCKS` blocks of the generator, so the least event time of a row group is a watermark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet

import penstock as beam
from nexmark.generator import Generator
from nexmark.sources import BlockReader
from penstock.io import UnboundedReader, UnboundedSource
from penstock.sdk.columns.column_bundle import ColumnBundle
from penstock.sdk.columns.column_elements import as_rows
from penstock.sdk.elements.bundle import Bundle
from penstock.windowing.timestamp import Timestamp

KINDS = ("persons", "auctions", "bids")
BLOCKS = 16


def write_events(generator: Generator, directory: Path) -> None:
    """Write all events of a generator into `persons.parquet`, `auctions.parquet` and `bids.parquet`."""
    first = generator.columns_of(0)
    for kind in KINDS:
        with pyarrow.parquet.ParquetWriter(
            directory / f"{kind}.parquet", pa.table(getattr(first, kind)).schema
        ) as file:
            for start in range(0, generator.blocks, BLOCKS):
                numbers = range(start, min(start + BLOCKS, generator.blocks))
                tables = [pa.table(getattr(generator.columns_of(number), kind)) for number in numbers]
                table = pa.concat_tables(tables)
                file.write_table(table, row_group_size=max(table.num_rows, 1))


@attrs.frozen
class ParquetEvents:
    """Events of one type or all, with their event times, in the files that `write_events` wrote.

    Args:
      partitions: of a stream; None for a bounded input.
    """

    directory: Path
    partitions: int | None = None

    def read(self, p: beam.Pipeline) -> dict[str, Any]:
        """Return a PCollection of columns for each type."""
        return {kind: p | f"Read {kind}" >> _Read(self, kind) for kind in KINDS}


class _Read(beam.PTransform):
    def __init__(self, events: ParquetEvents, kind: str) -> None:
        super().__init__()
        self.path = str(events.directory / f"{kind}.parquet")
        self.partitions = events.partitions

    def expand(self, pbegin: Any) -> Any:
        if self.partitions is not None:
            return pbegin | beam.io.Read(ParquetStream(self.path, self.partitions))
        time = beam.col("date_time").cast("timestamp[ms]")
        return pbegin | beam.io.ReadFromParquet(self.path, as_rows=True) | beam.WithTimestamps(time)


class ParquetStream(UnboundedSource[Any]):
    """The rows of a file as a stream that ends.  Its offsets are (row group, position in it).

    Args:
      partitions: how many partitions take the row groups in turn.
    """

    repeatable = True
    gives_columns = True

    def __init__(self, path: str, partitions: int = 1) -> None:
        self.path = path
        self.number_of_partitions = partitions

    def partitions(self) -> Sequence[int]:
        return range(self.number_of_partitions)

    def open(self, partition: int, offset: Any | None) -> UnboundedReader[Any]:
        return _Reader(self.path, self.number_of_partitions, *(offset or (partition, 0)))

    def identity(self) -> Mapping[str, Any]:
        return {"path": self.path, "partitions": self.number_of_partitions}


class _Reader(BlockReader):
    def __init__(self, path: str, step: int, group: int, position: int) -> None:
        self._file = pyarrow.parquet.ParquetFile(path)
        super().__init__(self._file.num_row_groups, step, group, position)
        self._time = self._file.schema_arrow.get_field_index("date_time")
        self._loaded: tuple[int, Any] = (-1, None)

    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        if self.is_finished():
            return None
        if self._loaded[0] != self._block:
            table = self._file.read_row_group(self._block, use_threads=False).combine_chunks()
            self._loaded = self._block, table.to_batches()[0]
        batch = self._loaded[1].slice(self._position, max_elements)
        self.move_to(self._position + batch.num_rows)
        return ColumnBundle(batch, as_rows, batch.column("date_time").to_numpy() * 1000)

    def events_in(self, block: int) -> int:
        return int(self._file.metadata.row_group(block).num_rows)

    def start_of(self, block: int) -> int:
        return int(self._file.metadata.row_group(block).column(self._time).statistics.min)
