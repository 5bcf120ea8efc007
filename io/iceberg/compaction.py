"""Compaction: small data files of an Iceberg table are rewritten as larger ones, in a snapshot that changes no row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import snapshot as client


# The client has no public function for a snapshot that only rewrites files.
class RewriteFiles(client._OverwriteFiles):
    """A snapshot of the operation 'replace', by which readers know that its rows are those of its parent."""

    def _summary(self, snapshot_properties: dict[str, str] = {}) -> Summary:  # noqa: B006
        return super()._summary(snapshot_properties).model_copy(update={"operation": Operation.REPLACE})


def rewriting(transaction: Any, io: Any) -> RewriteFiles:
    """Return the update of a transaction that replaces files by others with the same rows."""
    return RewriteFiles(operation=Operation.OVERWRITE, transaction=transaction, io=io)


def commits_since(snapshots: Iterable[Any]) -> int:
    """Return the number of snapshots behind the last one that only rewrote files.

    Args:
      snapshots: the ancestors of a table's last snapshot, the latest first.
    """
    count = 0
    for snapshot in snapshots:
        if snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE:
            break
        count += 1
    return count


def bins_of(tasks: Iterable[Any], size: int, spec_id: int) -> Iterator[list[Any]]:
    """Yield groups of files, each to be rewritten as one: of the same partition, and not larger together than a size.

    Args:
      tasks: the client's tasks to read a table's files.  Those with deletes, and of another partitioning, are left out.
      size: in bytes.
      spec_id: the partitioning of the table.
    """
    by_partition: dict[str, list[Any]] = {}
    for task in tasks:
        if task.file.file_size_in_bytes < size and not task.delete_files and task.file.spec_id == spec_id:
            by_partition.setdefault(repr(task.file.partition), []).append(task)
    for of_partition in by_partition.values():
        group: list[Any] = []
        total = 0
        for task in sorted(of_partition, key=lambda task: (task.file.file_size_in_bytes, str(task.file.file_path))):
            if group and total + task.file.file_size_in_bytes > size:
                if len(group) > 1:
                    yield group
                group, total = [], 0
            group.append(task)
            total += task.file.file_size_in_bytes
        if len(group) > 1:
            yield group
