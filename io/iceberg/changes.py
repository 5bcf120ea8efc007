"""IcebergChanges: the changes of an Iceberg table as an unbounded source.

The changes of a snapshot are the difference between the files of its parent and its own.  A file with other positional
deletes than before is another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...sdk.errors import SourceError
from ..lakehouse.changed_rows import ChangedRowsReader, changes_between, signed
from .stream import IcebergStream, operation_of
from .table import ancestors


class IcebergChanges(IcebergStream):
    """The rows of a table, and then those that each snapshot adds and removes."""

    reader = ChangedRowsReader

    def identity(self) -> Mapping[str, Any]:
        # A row is retracted as it was added.
        return {**super().identity(), "columns": list(self.reading.columns), "filter": str(self.reading.filter)}

    def rows_of_snapshot(self, table: Any, snapshot: Any) -> Iterator[Any]:
        return signed(super().rows_of_snapshot(table, snapshot), +1)

    def rows_of_changes(self, table: Any, snapshot: Any) -> Iterator[Any]:
        self._check_history(table, snapshot)
        operation = operation_of(snapshot)
        if operation == "replace":
            return iter(())
        if operation == "append":
            return signed(self.rows(table, snapshot, self.appended(table, snapshot)), +1)
        if snapshot.parent_snapshot_id is None and snapshot.sequence_number > 1:
            raise self.expired(f"the parent of snapshot {snapshot.snapshot_id}")
        before, after = self._files(table, snapshot.parent_snapshot_id), self._files(table, snapshot.snapshot_id)
        removed = [task for file, task in before.items() if file not in after]
        added = [task for file, task in after.items() if file not in before]
        size = sum(task.file.file_size_in_bytes for task in (*removed, *added))
        return changes_between(self.rows(table, snapshot, removed), self.rows(table, snapshot, added), size)

    def _files(self, table: Any, snapshot_id: int | None) -> dict[Any, Any]:
        """Return the client's tasks to read a snapshot, by the paths of the file and of its deletes."""
        if snapshot_id is None:
            return {}
        if table.metadata.snapshot_by_id(snapshot_id) is None:
            raise self.expired(f"snapshot {snapshot_id}")
        tasks = self.reading.scan(table, snapshot_id).plan_files()
        return {
            (task.file.file_path, frozenset(deletes.file_path for deletes in task.delete_files)): task for task in tasks
        }

    def _check_history(self, table: Any, snapshot: Any) -> None:
        """Raise `SourceError` if the table was rolled back before a snapshot: rows that were read may be gone."""
        known = {each.snapshot_id for each in ancestors(table.metadata)}
        parent = table.metadata.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None
        since = 0 if parent is None else parent.sequence_number
        for entry in table.metadata.snapshot_log:
            other = table.metadata.snapshot_by_id(entry.snapshot_id)
            if other is None or other.snapshot_id in known:
                continue
            if since < other.sequence_number < snapshot.sequence_number:
                raise SourceError(
                    f"{self.reading.label}: Iceberg table {self.reading.identifier!r} was rolled back from snapshot "
                    f"{other.snapshot_id}, whose changes can't be taken back; begin again without the checkpoint"
                )
