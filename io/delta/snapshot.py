"""The files of a version of a Delta table."""

from __future__ import annotations

from ...frozen import frozen
from .log import DataFile, check_protocol, files_of, last_written
from .package import opened


@frozen
class Snapshot:
    """A version of a table, and its files.

    Attributes:
      micros: the time at which the last of the files was written, in microseconds; 0 if there are none.
    """

    version: int
    files: tuple[DataFile, ...]
    micros: int


def snapshot_of(uri: str, label: str, version: int | None = None) -> Snapshot:
    """Return a version of a table; None for the last one.  Raises `SourceError`, and the client's errors."""
    table = opened(uri, label, version)
    check_protocol(table, uri, label)
    return Snapshot(table.version(), tuple(files_of(table, uri)), last_written(table))
