"""The log of a Delta table: the files that a version adds, and those of a snapshot."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import attrs
import msgspec

from ...sdk.errors import SourceError
from ..files.filesystem import filesystem_for, join_path
from .package import opened
from .table import arrow_schema

_COMMIT = re.compile(r"\d{20}\.json")


@attrs.frozen
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


def commit_path(uri: str, version: int) -> str:
    """Return the path of a version's entry in the log."""
    return join_path(join_path(uri, "_delta_log"), f"{version:020d}.json")


def last_version(uri: str) -> int:
    """Return the last version in the log; -1 if there is none."""
    directory = join_path(uri, "_delta_log")
    names = filesystem_for(directory).list_files(directory)
    return max((int(name[:20]) for name in names if _COMMIT.fullmatch(name)), default=-1)


def added_by(uri: str, version: int, transform: str, skips_changes: bool) -> list[DataFile]:
    """Return the files with new rows of a version.

    Args:
      skips_changes: whether a version that deletes or rewrites rows has none; otherwise it is an error.

    Raises `SourceError`, and `FileNotFoundError` for a version that isn't there.
    """
    path = commit_path(uri, version)
    with filesystem_for(path).open(path) as file:
        actions = [msgspec.json.decode(line) for line in file.read().splitlines() if line.strip()]
    removed = [action for action in actions if action.get("remove", {}).get("dataChange")]
    added = [action["add"] for action in actions if action.get("add", {}).get("dataChange")]
    if removed:
        if skips_changes:
            return []
        raise SourceError(
            f"{transform}: version {version} of Delta table {uri!r} deletes or changes rows, and a stream of added "
            "rows can't take them back; leave such versions out by skip_change_commits=True"
        )
    if any(add.get("deletionVector") for add in added):
        raise SourceError(f"{transform}: version {version} of Delta table {uri!r} has deletion vectors")
    return [DataFile(_whole(uri, add["path"]), add["size"], add["partitionValues"]) for add in added]


def schema_of(uri: str, transform: str, version: Any = None) -> tuple[Any, list[str]]:
    """Return the `pyarrow.Schema` of a table, and the columns that it is partitioned by."""
    table = opened(uri, transform, version)
    check_protocol(table, uri, transform)
    return arrow_schema(table), table.metadata().partition_columns


def _whole(uri: str, path: str) -> str:
    plain = unquote(path)
    return plain if "://" in plain else join_path(uri, plain)
