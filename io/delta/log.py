"""The log of a Delta table: the files that a version adds, and those of a snapshot."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import msgspec

from ...frozen import frozen
from ...sdk.errors import SourceError
from ..files.filesystem import filesystem_for, join_path
from .package import arrow_schema, opened

_COMMIT = re.compile(r"\d{20}\.json")


@frozen
class DataFile:
    """A data file of a table.

    Attributes:
      path: its whole path.
      size: in bytes.
      partition: the values of the partition's columns, by name, as the log has them.
    """

    path: str
    size: int
    partition: dict[str, str | None]


def check_protocol(table: Any, uri: str, transform: str) -> None:
    """Raise `SourceError` for a table with a feature that readers here don't have."""
    protocol = table.protocol()
    features = set(protocol.reader_features or ()) - {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
    configuration = table.metadata().configuration
    if configuration.get("delta.columnMapping.mode", "none") == "none":
        features -= {"columnMapping"}
    else:
        features |= {"columnMapping"}
    if configuration.get("delta.enableDeletionVectors", "false").lower() != "true":
        features -= {"deletionVectors"}
    if features:
        raise SourceError(
            f"{transform}: Delta table {uri!r} needs readers with {', '.join(sorted(features))}, which this one "
            "doesn't have; rewrite the table without"
        )


def files_of(table: Any, uri: str) -> list[DataFile]:
    """Return the files of a version of a table, sorted by path."""
    import pyarrow

    found = pyarrow.table(table.get_add_actions(flatten=False))
    names = table.metadata().partition_columns
    raw = found.select(["path", "size_bytes"]).to_pylist()
    # The values themselves, as text, are converted as those of the log are.
    partitions = found.column("partition").to_pylist() if names else [{}] * len(raw)
    from .data_files import partition_value

    files = [
        DataFile(_whole(uri, each["path"]), each["size_bytes"], {k: partition_value(v) for k, v in partition.items()})
        for each, partition in zip(raw, partitions, strict=True)
    ]
    return sorted(files, key=lambda file: file.path)


def last_written(table: Any) -> int:
    """Return the time at which the last file of a version of a table was written, in microseconds; 0 without files."""
    import pyarrow

    times = pyarrow.table(table.get_add_actions(flatten=False)).column("modification_time").to_pylist()
    return max((time for time in times if time is not None), default=0) * 1000


def commit_path(uri: str, version: int) -> str:
    """Return the path of a version's entry in the log."""
    return join_path(join_path(uri, "_delta_log"), f"{version:020d}.json")


def last_version(uri: str) -> int:
    """Return the last version in the log; -1 if there is none."""
    directory = join_path(uri, "_delta_log")
    names = filesystem_for(directory).list_files(directory)
    return max((int(name[:20]) for name in names if _COMMIT.fullmatch(name)), default=-1)


@frozen
class VersionFiles:
    """The data files of a version of a table that have its changes.

    Attributes:
      added, removed: the files that the version adds and removes, without those whose rows only move.
      changed: files of the change data feed, whose rows have a column `_change_type`.  If there are some, they have all
        changes.
      micros: the time of the commit, in microseconds.
      schema: the schema of the table as JSON, if the version may change it.
    """

    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]
    changed: tuple[DataFile, ...]
    micros: int
    schema: str | None


def files_in(uri: str, version: int, label: str) -> VersionFiles | None:
    """Return the files of a version in the log; None if there is no such version yet.

    Raises `SourceError` for a version that is in the log no more, and for one that readers here can't read.
    """
    path = commit_path(uri, version)
    fs = filesystem_for(path)
    if not fs.is_file(path):
        last = last_version(uri)
        if last < version:
            return None
        if not fs.is_file(path):
            raise SourceError(
                f"{label}: version {version} of Delta table {uri!r} is not in its log any more, and the last one "
                f"is {last}. Its property delta.logRetentionDuration must be longer than the time that the pipeline "
                "needs"
            )
    with fs.open(path) as file:
        actions = [msgspec.json.decode(line) for line in file.read().splitlines() if line.strip()]
    found: dict[str, list[DataFile]] = {"add": [], "remove": [], "cdc": []}
    committed, written, schema = 0, [0], None
    for action in actions:
        ((kind, content),) = action.items()
        if kind == "commitInfo":
            committed = content.get("inCommitTimestamp") or content.get("timestamp") or 0
        elif kind == "metaData":
            schema = content["schemaString"]
            if content["configuration"].get("delta.columnMapping.mode", "none") != "none":
                raise SourceError(f"{label}: version {version} of Delta table {uri!r} has column mapping")
        elif kind in found and (content.get("dataChange") or kind == "cdc"):
            if content.get("deletionVector"):
                raise SourceError(f"{label}: version {version} of Delta table {uri!r} has deletion vectors")
            written.append(content.get("modificationTime") or content.get("deletionTimestamp") or 0)
            whole = _whole(uri, content["path"])
            found[kind].append(DataFile(whole, content.get("size") or 0, content.get("partitionValues") or {}))
    added, removed, changed = (tuple(found[kind]) for kind in ("add", "remove", "cdc"))
    return VersionFiles(added, removed, changed, (committed or max(written)) * 1000, schema)


def schema_of(uri: str, transform: str, version: Any = None) -> tuple[Any, list[str]]:
    """Return the `pyarrow.Schema` of a table, and the columns that it is partitioned by."""
    table = opened(uri, transform, version)
    check_protocol(table, uri, transform)
    return arrow_schema(table), table.metadata().partition_columns


def _whole(uri: str, path: str) -> str:
    plain = unquote(path)
    return plain if "://" in plain else join_path(uri, plain)
