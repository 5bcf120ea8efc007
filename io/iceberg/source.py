"""IcebergSource: the rows of a snapshot of an Iceberg table, as columns.  A split is a data file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from ...frozen import frozen
from ...sdk.columns.column_bundle import COLUMN_BUNDLE_SIZE, ColumnBundle, in_microseconds
from ...sdk.columns.column_elements import as_rows
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import SourceError
from ..lakehouse.source import TableReading, TableSource
from .catalog import Catalog, explained, package
from .data_files import arrow_schema
from .splits import Split, split_of


@frozen
class Reading(TableReading):
    """How the rows of data files are read.

    Attributes:
      columns: the columns of the elements, in order.
      filter: an expression of the client; None for all rows.
    """

    catalog: Catalog
    identifier: str
    label: str
    columns: tuple[str, ...]
    filter: Any = None

    @property
    def table(self) -> str:
        return self.identifier

    def explained(self, what: str) -> AbstractContextManager[None]:
        return explained(self.catalog, self.identifier, self.label, what)

    def load(self) -> Any:
        """Return the table as the client has it.  Raises the client's errors."""
        return self.catalog.load(self.identifier, self.label)

    def scan(self, table: Any, snapshot_id: int | None) -> Any:
        """Return a scan of the client over a snapshot; None for the last one."""
        expressions = package(self.label, "pyiceberg.expressions")
        return table.scan(
            row_filter=expressions.AlwaysTrue() if self.filter is None else self.filter,
            selected_fields=self.columns,
            snapshot_id=snapshot_id,
        )

    def batches(self, metadata: Any, schema: Any, tasks: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of files as record batches of the columns, file by file; wait for a store that doesn't answer.

        Raises `SourceError`.

        Args:
          metadata: the client's metadata of the table.
          schema: the client's schema of the snapshot.
        """
        import pyarrow

        client = package(self.label, "pyiceberg.io.pyarrow")
        expressions = package(self.label, "pyiceberg.expressions")
        projected = schema.select(*self.columns)
        wanted = pyarrow.schema([arrow_schema(projected).field(name) for name in self.columns])
        scan = client.ArrowScan(
            metadata,
            self.catalog.file_io(metadata.location, self.label),
            projected,
            expressions.AlwaysTrue() if self.filter is None else self.filter,
        )

        def of_file(task: Any) -> list[Any]:
            found = []
            # The client reads all files of a call at once, and holds their rows.
            for batch in scan.to_record_batches([task]):
                for start in range(0, batch.num_rows, COLUMN_BUNDLE_SIZE):
                    part = batch.slice(start, COLUMN_BUNDLE_SIZE)
                    columns = [part.column(field.name).cast(field.type) for field in wanted]
                    found.append(in_microseconds(pyarrow.RecordBatch.from_arrays(columns, schema=wanted)))
            return found

        for task in tasks:
            yield from self.reached(partial(of_file, task))


class IcebergSource(TableSource):
    """The rows of a snapshot of a table.

    Args:
      snapshot_id: None for the last one when the run begins.
    """

    reading: Reading

    def __init__(self, reading: Reading, snapshot_id: int | None) -> None:
        super().__init__(reading)
        self.snapshot_id = snapshot_id
        # The metadata that was read last, by its location.
        self._metadata: tuple[str, Any] | None = None

    def identity(self) -> Mapping[str, Any]:
        return {"table": self.reading.identifier, "snapshot_id": self.snapshot_id}

    def split(self, desired_splits: int) -> Sequence[Any]:
        def planned() -> list[Any]:
            table = self.reading.load()
            scan = self.reading.scan(table, self.snapshot_id)
            snapshot = scan.snapshot()
            if snapshot is None:
                return []
            tasks = sorted(scan.plan_files(), key=lambda task: str(task.file.file_path))
            return [Split.of(table.metadata_location, snapshot.snapshot_id, task).encoded() for task in tasks]

        found: list[Any] = self.reading.reached(planned)
        return found

    def read_bundles(self, split: Any) -> Iterator[Bundle]:
        found = split_of(split, self.reading.label)
        metadata = self.reading.reached(lambda: self._metadata_at(found.metadata))
        schema = schema_at(metadata, found.snapshot_id)
        for batch in self.reading.batches(metadata, schema, [found.task()]):
            yield ColumnBundle(batch, as_rows)

    def _metadata_at(self, location: str) -> Any:
        if self._metadata is None or self._metadata[0] != location:
            io = self.reading.catalog.file_io(location, self.reading.label)
            serializers = package(self.reading.label, "pyiceberg.serializers")
            self._metadata = location, serializers.FromInputFile.table_metadata(io.new_input(location))
        return self._metadata[1]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_metadata": None}


def schema_at(metadata: Any, snapshot_id: int | None) -> Any:
    """Return the client's schema of a snapshot; of None, the table's.  Raises `ValueError` for an unknown one."""
    if snapshot_id is None:
        return metadata.schema()
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        known = ", ".join(str(each.snapshot_id) for each in metadata.snapshots[-5:]) or "none"
        raise SourceError(f"there is no snapshot {snapshot_id}; the last ones are {known}")
    schemas = {schema.schema_id: schema for schema in metadata.schemas}
    return schemas.get(snapshot.schema_id, metadata.schema())
