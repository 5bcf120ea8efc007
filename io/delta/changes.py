"""DeltaChanges: the changes of a Delta table as an unbounded source.

A version of a table with a change data feed may have files with its changes.  The changes of another one are the rows
of the files that it removes and adds (Delta's protocol, "Change Data Files").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ...sdk.errors import SourceError
from ..lakehouse.changed_rows import ChangedRowsReader, changes_between, signed
from ..lakehouse.changes import SIGN
from .log import DataFile, VersionFiles
from .snapshot import Snapshot
from .stream import DeltaStream

_TYPE = "_change_type"
_REMOVING = ("delete", "update_preimage")


class DeltaChanges(DeltaStream):
    """The rows of a table, and then those that each version adds and removes."""

    reader = ChangedRowsReader

    def identity(self) -> Mapping[str, Any]:
        # A row is retracted as it was added.
        return {**super().identity(), "columns": list(self.reading.columns), "filter": str(self.reading.filter)}

    def rows_of_snapshot(self, snapshot: Snapshot) -> Iterator[Any]:
        return signed(self.rows(snapshot.files), +1)

    def rows_of_version(self, version: int, files: VersionFiles) -> Iterator[Any]:
        if files.changed:
            return self._changed(files.changed)
        names = set(self.reading.partition_by)
        if any(not names <= file.partition.keys() for file in files.removed):
            raise SourceError(
                f"{self.reading.label}: version {version} of Delta table {self.reading.uri!r} removes files without "
                "their partitions, so that its rows aren't known; let its writers log extended metadata of files"
            )
        size = sum(file.size for file in (*files.removed, *files.added))
        return changes_between(self.rows(files.removed), self.rows(files.added), size)

    def _changed(self, files: Sequence[DataFile]) -> Iterator[Any]:
        import pyarrow
        import pyarrow.compute as pc

        reading = self.reading
        schema = reading.schema.append(pyarrow.field(_TYPE, pyarrow.string()))
        typed = attrs.evolve(reading, schema=schema, columns=(*reading.columns, _TYPE))
        removing = pyarrow.array(_REMOVING)
        for batch in self.rows(files, typed):
            are_gone = pc.is_in(batch.column(_TYPE), value_set=removing)
            signs = pc.if_else(are_gone, pyarrow.scalar(-1, pyarrow.int8()), pyarrow.scalar(1, pyarrow.int8()))
            yield batch.drop_columns([_TYPE]).append_column(SIGN, signs)
