"""DeltaStream: the rows that versions of a Delta table add, as an unbounded source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...sdk.errors import SourceError
from ...sdk.sources.event_time_reader import EventTimes
from ..files.filesystem import filesystem_for
from ..lakehouse.added_rows import AddedRowsSource, Position
from ..waiting import patiently
from .log import added_by, commit_path, last_version
from .package import explained
from .snapshot import snapshot_of
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
        skips_changes: bool,
        poll_interval: float,
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
        return self._reached(lambda: snapshot_of(self.reading.uri, self.reading.label).version), True, 0

    def batches(self, version: int, is_whole: bool) -> Iterator[Any] | None:
        found: Iterator[Any] | None = self._reached(lambda: self._batches(version, is_whole))
        return found

    def _batches(self, version: int, is_whole: bool) -> Iterator[Any] | None:
        reading = self.reading
        if is_whole:
            return self._rows(snapshot_of(reading.uri, reading.label, version).files)
        path = commit_path(reading.uri, version)
        if not filesystem_for(path).is_file(path):
            last = last_version(reading.uri)
            if last < version:
                return None
            if not filesystem_for(path).is_file(path):
                raise SourceError(
                    f"{reading.label}: version {version} of Delta table {reading.uri!r} is not in its log any more, "
                    f"and the last one is {last}. Its property delta.logRetentionDuration must be longer than the "
                    "time that the pipeline needs"
                )
        return self._rows(added_by(reading.uri, version, reading.label, self.skips_changes))

    def _rows(self, files: Any) -> Iterator[Any]:
        for file in files:
            with explained(self.reading.uri, self.reading.label, "can't be read"):
                yield from self.reading.batches(file)

    def _reached(self, call: Any) -> Any:
        def explaining() -> Any:
            with explained(self.reading.uri, self.reading.label, "can't be read"):
                return call()

        return patiently(self.reading.label, repr(self.reading.uri), explaining)
