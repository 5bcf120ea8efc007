"""Data files of Delta Lake: Parquet files of one partition each, with the statistics that readers skip files by."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ..files.filesystem import FileSystem, filesystem_for, join_path
from ..lakehouse.table import DataFiles

# Longer text has no bounds: a reader wouldn't know that they are cut.
_LONGEST = 64


class DeltaFiles(DataFiles):
    """The data files of a table of Delta Lake."""

    def __init__(self, uri: str, schema: Any, partition_by: Sequence[str]) -> None:
        self.uri = uri
        self.schema = schema
        self.partition_by = list(partition_by)

    def prepared(self) -> bytes:
        """Return what `of` needs."""
        return msgspec.msgpack.encode((self.schema.serialize().to_pybytes(), self.partition_by))

    @staticmethod
    def of(uri: str, prepared: bytes) -> DeltaFiles:
        """Return the data files of a table that was prepared."""
        import pyarrow

        schema, partition_by = msgspec.msgpack.decode(prepared)
        return DeltaFiles(uri, pyarrow.ipc.read_schema(pyarrow.py_buffer(schema)), partition_by)

    def write(self, data: Any, directory: str, name: str) -> list[Any]:
        fs = filesystem_for(directory)
        fs.mkdirs(directory)
        files = []
        for number, (partition, rows) in enumerate(partitioned(data, self.partition_by)):
            path = join_path(directory, f"{name}-{number}.parquet")
            size, stats = write_data_file(fs, path, rows)
            files.append([path[len(self.uri) :].lstrip("/"), size, partition, stats])
        fs.sync_directory(directory)
        return files


def partitioned(data: Any, partition_by: Sequence[str]) -> Iterator[tuple[dict[str, str | None], Any]]:
    """Yield the rows of each partition, without its columns, and its values as Delta's log has them."""
    import pyarrow

    if not partition_by:
        yield {}, data
        return
    names = list(partition_by)
    rest = [name for name in data.schema.names if name not in names]
    numbered = data.append_column("__row", pyarrow.array(range(data.num_rows), pyarrow.int64()))
    groups = numbered.select([*names, "__row"]).group_by(names).aggregate([("__row", "list")])
    for row in groups.to_pylist():
        rows = data.select(rest).take(pyarrow.array(row["__row_list"], pyarrow.int64()))
        yield {name: partition_value(row[name]) for name in names}, rows


def partition_value(value: Any) -> str | None:
    """Return a value as Delta's log has it.

    >>> partition_value(datetime.date(2026, 1, 2)), partition_value(True), partition_value(None)
    ('2026-01-02', 'true', None)
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        naive = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
        return naive.isoformat(sep=" ", timespec="microseconds")
    return value.decode("latin-1") if type(value) is bytes else str(value)


def write_data_file(fs: FileSystem, path: str, rows: Any) -> tuple[int, dict[str, Any]]:
    """Write a Parquet file durably, and return its size in bytes and its statistics."""
    from pyarrow import parquet

    with fs.create(path) as file:
        with parquet.ParquetWriter(file, rows.schema, compression="snappy") as writer:
            writer.write_table(rows)
        size = file.tell()
    fs.sync(path)
    return size, statistics_of(rows)


def statistics_of(rows: Any) -> dict[str, Any]:
    """Return the number of rows and, by column, bounds and the number of nulls.

    >>> import pyarrow
    >>> statistics_of(pyarrow.table({"n": [3, None, 1]}))
    {'numRecords': 3, 'minValues': {'n': 1}, 'maxValues': {'n': 3}, 'nullCount': {'n': 1}}
    """
    import pyarrow.compute as pc
    from pyarrow import types

    least, most, nulls = {}, {}, {}
    for field in rows.schema:
        kind = field.type
        if types.is_nested(kind):
            continue
        column = rows.column(field.name)
        nulls[field.name] = column.null_count
        comparable = types.is_integer(kind) or types.is_floating(kind) or types.is_string(kind) or types.is_date(kind)
        if comparable and column.null_count < len(column):
            bounds = pc.min_max(column).as_py()
            pair = [_as_json(bounds["min"]), _as_json(bounds["max"])]
            if None not in pair:
                least[field.name], most[field.name] = pair
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _as_json(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else None
    return value.isoformat() if isinstance(value, datetime.date) else value
