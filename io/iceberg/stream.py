"""IcebergStream: the rows that snapshots of an Iceberg table append, as an unbounded source.

Snapshots are told apart by their sequence numbers, which grow by one with each commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...sdk.errors import SourceError
from ...sdk.sources.event_time_reader import EventTimes
from ..lakehouse.added_rows import AddedRowsSource, Position
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
        skips_changes: bool,
        poll_interval: float,
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

    def batches(self, version: int, is_whole: bool) -> Iterator[Any] | None:
        found: Iterator[Any] | None = self.reading.reached(lambda: self._batches(version, is_whole))
        return found

    def _batches(self, version: int, is_whole: bool) -> Iterator[Any] | None:
        table = self.reading.load()
        current = table.metadata.current_snapshot()
        if current is None or current.sequence_number < version:
            return None
        snapshot = next((each for each in ancestors(table.metadata) if each.sequence_number <= version), None)
        if snapshot is None:
            raise SourceError(
                f"{self.reading.label}: the snapshot with sequence number {version} of Iceberg table "
                f"{self.reading.identifier!r} has expired; snapshots must be kept longer than the time that the "
                "pipeline needs"
            )
        if snapshot.sequence_number != version:
            # A number of another branch.
            return iter(())
        if is_whole:
            tasks = list(self.reading.scan(table, snapshot.snapshot_id).plan_files())
        else:
            tasks = self._added(table, snapshot)
        tasks.sort(key=lambda task: str(task.file.file_path))
        return self.reading.batches(table.metadata, schema_at(table.metadata, snapshot.snapshot_id), tasks)

    def _added(self, table: Any, snapshot: Any) -> list[Any]:
        """Return the files that a snapshot appends."""
        operation = snapshot.summary.operation.value if snapshot.summary is not None else "unknown"
        if operation == "replace":
            return []
        if operation != "append":
            if self.skips_changes:
                return []
            raise SourceError(
                f"{self.reading.label}: snapshot {snapshot.snapshot_id} of Iceberg table {self.reading.identifier!r} "
                f"is of the operation {operation!r}, and a stream of added rows can't take rows back; leave such "
                "snapshots out by skip_change_snapshots=True"
            )
        client = package(self.reading.label, "pyiceberg.manifest")
        scans = package(self.reading.label, "pyiceberg.table")
        return [
            scans.FileScanTask(entry.data_file)
            for manifest in snapshot.manifests(table.io)
            if manifest.added_snapshot_id == snapshot.snapshot_id
            for entry in manifest.fetch_manifest_entry(table.io)
            if entry.status == client.ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id
        ]
