"""DeltaStream: the rows that versions of a Delta table add, as an unbounded source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...sdk.errors import SourceError
from ...sdk.sources.event_time_reader import EventTimes
from ..lakehouse.added_rows import AddedRowsSource, Position, VersionRows
from .log import DataFile, VersionFiles, files_in
from .package import arrow_of, explained, package
from .snapshot import Snapshot, snapshot_of
from .source import Reading


class DeltaStream(AddedRowsSource):
    """The rows of a table, and then those that each version adds.

    Args:
      starting_version: the first version whose added rows are read; None for all rows of the last version first.
      skips_changes: whether versions that delete or rewrite rows are left out; otherwise they are an error.
    """

    def __init__(
        self,
        reading: Reading,
        times: EventTimes,
        starting_version: int | None,
        poll_interval: float,
        skips_changes: bool = False,
    ) -> None:
        super().__init__(times, poll_interval)
        self.reading = reading
        self.starting_version = starting_version
        self.skips_changes = skips_changes

    def identity(self) -> Mapping[str, Any]:
        return {"table": self.reading.uri}

    def start(self) -> Position:
        if self.starting_version is not None:
            return self.starting_version, False, 0
        return self.reading.reached(lambda: snapshot_of(self.reading.uri, self.reading.label).version), True, 0

    def read(self, version: int, is_whole: bool) -> VersionRows | None:
        def found() -> Snapshot | VersionFiles | None:
            look = snapshot_of if is_whole else files_in
            return look(self.reading.uri, version=version, label=self.reading.label)

        files = self.reading.reached(found)
        if files is None:
            return None
        if isinstance(files, Snapshot):
            return VersionRows(self.rows_of_snapshot(files), files.micros)
        if files.schema is not None:
            self.reading.check(arrow_of(package(self.reading.label).Schema.from_json(files.schema)), is_whole=False)
        return VersionRows(self.rows_of_version(version, files), files.micros)

    def rows_of_snapshot(self, snapshot: Snapshot) -> Iterator[Any]:
        """Return the record batches of all rows of a version."""
        return self.rows(snapshot.files)

    def rows_of_version(self, version: int, files: VersionFiles) -> Iterator[Any]:
        """Return the record batches of the changes of a version."""
        if not files.removed:
            return self.rows(files.added)
        if self.skips_changes:
            return iter(())
        raise SourceError(
            f"{self.reading.label}: version {version} of Delta table {self.reading.uri!r} deletes or changes rows, and "
            "a stream of added rows can't take them back; read them with ReadFromDeltaChanges, or leave such versions "
            "out by skip_change_commits=True"
        )

    def rows(self, files: Sequence[DataFile], reading: Reading | None = None) -> Iterator[Any]:
        """Yield the record batches of files."""
        for file in files:
            with explained(self.reading.uri, self.reading.label, "can't be read"):
                yield from (reading or self.reading).batches(file)
