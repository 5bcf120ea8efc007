"""IcebergStream: the rows that snapshots of an Iceberg table append, as an unbounded source.

Snapshots are told apart by their sequence numbers, which grow by one with each commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...sdk.errors import SourceError
from ...sdk.sources.event_time_reader import EventTimes
from ..lakehouse.added_rows import AddedRowsSource, Position, VersionRows
from .catalog import package
from .source import Reading, schema_at
from .table import ancestors


class IcebergStream(AddedRowsSource):
    """The rows of a table, and then those that each snapshot appends.

    Args:
      from_snapshot: the first snapshot whose rows are read; None for all rows of the last snapshot first.
      skips_changes: whether snapshots that delete or overwrite rows are left out; otherwise they are an error.
    """

    def __init__(
        self,
        reading: Reading,
        times: EventTimes,
        from_snapshot: int | None,
        poll_interval: float,
        skips_changes: bool = False,
    ) -> None:
        super().__init__(times, poll_interval)
        self.reading = reading
        self.from_snapshot = from_snapshot
        self.skips_changes = skips_changes

    def identity(self) -> Mapping[str, Any]:
        return {"table": self.reading.identifier}

    def start(self) -> Position:
        metadata = self.reading.reached(lambda: self.reading.load().metadata)
        if metadata.format_version < 2:
            raise SourceError(
                f"{self.reading.label}: Iceberg table {self.reading.identifier!r} has format version 1, whose "
                "snapshots have no sequence numbers; a stream needs version 2"
            )
        if self.from_snapshot is not None:
            found = metadata.snapshot_by_id(self.from_snapshot)
            if found is None:
                raise SourceError(
                    f"{self.reading.label}: Iceberg table {self.reading.identifier!r} has no snapshot "
                    f"{self.from_snapshot}"
                )
            return found.sequence_number, False, 0
        current = metadata.current_snapshot()
        return (1, False, 0) if current is None else (current.sequence_number, True, 0)

    def read(self, version: int, is_whole: bool) -> VersionRows | None:
        found: VersionRows | None = self.reading.reached(lambda: self._read(version, is_whole))
        return found

    def _read(self, version: int, is_whole: bool) -> VersionRows | None:
        table = self.reading.load()
        current = table.metadata.current_snapshot()
        if current is None or current.sequence_number < version:
            return None
        snapshot = next((each for each in ancestors(table.metadata) if each.sequence_number <= version), None)
        if snapshot is None:
            raise self.expired(f"the snapshot with sequence number {version}")
        if snapshot.sequence_number != version:
            # A number of another branch.
            return VersionRows(iter(()))
        if is_whole:
            rows = self.rows_of_snapshot(table, snapshot)
        else:
            rows = self.rows_of_changes(table, snapshot)
        return VersionRows(rows, snapshot.timestamp_ms * 1000)

    def rows_of_snapshot(self, table: Any, snapshot: Any) -> Iterator[Any]:
        """Return the record batches of all rows of a snapshot."""
        return self.rows(table, snapshot, self.reading.scan(table, snapshot.snapshot_id).plan_files())

    def rows_of_changes(self, table: Any, snapshot: Any) -> Iterator[Any]:
        """Return the record batches of the changes of a snapshot."""
        operation = operation_of(snapshot)
        if operation == "append":
            return self.rows(table, snapshot, self.appended(table, snapshot))
        if operation == "replace" or self.skips_changes:
            return iter(())
        raise SourceError(
            f"{self.reading.label}: snapshot {snapshot.snapshot_id} of Iceberg table {self.reading.identifier!r} is of "
            f"the operation {operation!r}, and a stream of added rows can't take rows back; read them with "
            "ReadFromIcebergChanges, or leave such snapshots out by skip_change_snapshots=True"
        )

    def rows(self, table: Any, snapshot: Any, tasks: Iterable[Any]) -> Iterator[Any]:
        """Return the record batches of files, with the columns as they are named in a snapshot."""
        in_order = sorted(tasks, key=lambda task: str(task.file.file_path))
        schema = schema_at(table.metadata, snapshot.snapshot_id)
        return self.reading.batches(table.metadata, schema, in_order)

    def appended(self, table: Any, snapshot: Any) -> list[Any]:
        """Return the files that a snapshot of the operation 'append' adds."""
        client = package(self.reading.label, "pyiceberg.manifest")
        scans = package(self.reading.label, "pyiceberg.table")
        return [
            scans.FileScanTask(entry.data_file)
            for manifest in snapshot.manifests(table.io)
            if manifest.added_snapshot_id == snapshot.snapshot_id
            for entry in manifest.fetch_manifest_entry(table.io)
            if entry.status == client.ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id
        ]

    def expired(self, what: str) -> SourceError:
        """Return the error for a snapshot that the table has no more."""
        return SourceError(
            f"{self.reading.label}: {what} of Iceberg table {self.reading.identifier!r} has expired; snapshots must be "
            "kept longer than the time that the pipeline needs"
        )


def operation_of(snapshot: Any) -> str:
    """Return the operation of a snapshot: 'append', 'replace', 'overwrite', or 'delete'."""
    return snapshot.summary.operation.value if snapshot.summary is not None else "unknown"
