"""Rows of BigQuery as lines of JSON and as records of Avro, which programs for Beam write to files of their own.

>>> import io
>>> file = io.BytesIO()
>>> writer = JsonRowWriter(file)
>>> _ = writer.write({"n": 1, "price": decimal.Decimal("1.50")})
>>> file.getvalue()
b'{"n": 1, "price": "1.50"}\\n'
"""

from __future__ import annotations

import datetime
import decimal
import io
import json
import typing
from collections.abc import Mapping
from typing import Any, BinaryIO

from ....io.optional_package import optional_package
from ....sdk.coders.coder import Coder
from ....sdk.elements.row import Row
from ....windowing import Timestamp
from ...typehints.row_type import RowTypeConstraint
from .bigquery_schemas import TableSchema, get_bq_tableschema, get_dict_table_schema

__all__ = [
    "JSON_COMPLIANCE_ERROR",
    "AvroRowWriter",
    "BigQueryJobTypes",
    "ExportCompression",
    "FileFormat",
    "JsonRowWriter",
    "RowAsDictJsonCoder",
    "beam_row_from_dict",
    "default_encoder",
    "get_avro_schema_from_table_schema",
    "get_beam_typehints_from_tableschema",
]

JSON_COMPLIANCE_ERROR = "NAN, INF and -INF values are not JSON compliant."


class FileFormat:
    """Formats of files that load jobs read, and exports write."""

    CSV = "CSV"
    JSON = "NEWLINE_DELIMITED_JSON"
    AVRO = "AVRO"


class ExportCompression:
    """Compressions of exported files."""

    GZIP = "GZIP"
    DEFLATE = "DEFLATE"
    SNAPPY = "SNAPPY"
    NONE = "NONE"


class BigQueryJobTypes:
    """Kinds of jobs."""

    EXPORT = "EXPORT"
    COPY = "COPY"
    LOAD = "LOAD"
    QUERY = "QUERY"


def default_encoder(obj: Any) -> str:
    """Return a value that JSON doesn't have as text.  Raises `TypeError` for others than BigQuery's.

    >>> default_encoder(datetime.date(2026, 1, 31))
    '2026-01-31'
    """
    if isinstance(obj, bytes):
        return obj.decode("utf-8")
    if isinstance(obj, (decimal.Decimal, datetime.date, datetime.time)):
        return str(obj)
    raise TypeError(f"Object of type {type(obj).__name__!r} is not JSON serializable")


class RowAsDictJsonCoder(Coder):
    """Rows, as dicts, as JSON."""

    def encode(self, table_row: Any) -> bytes:
        """Return the text of a row.  Raises `ValueError` for numbers that JSON doesn't have."""
        try:
            text = json.dumps(table_row, allow_nan=False, ensure_ascii=False, default=default_encoder)
        except ValueError as error:
            raise ValueError(f"{error}. {JSON_COMPLIANCE_ERROR} Row: {table_row!r}") from error
        return text.encode("utf-8")

    def decode(self, encoded_table_row: bytes) -> Any:
        return json.loads(encoded_table_row)

    def to_type_hint(self) -> Any:
        return Any


class _RowWriter(io.IOBase):
    """Writes rows to a file.  Raises `ValueError` for a file that can't be written to."""

    def __init__(self, file_handle: BinaryIO) -> None:
        if not file_handle.writable():
            raise ValueError(f"{type(self).__name__}: expected a file that can be written to, got {file_handle!r}")
        self._file = file_handle

    def close(self) -> None:
        if not self._file.closed:
            self.flush()
            self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def flush(self) -> None:
        self._file.flush()

    def read(self, size: int = -1) -> bytes:
        raise io.UnsupportedOperation(f"{type(self).__name__} is not readable")

    def tell(self) -> int:
        return self._file.tell()

    def writable(self) -> bool:
        return self._file.writable()


class JsonRowWriter(_RowWriter):
    """Writes rows, as dicts, as lines of JSON."""

    def __init__(self, file_handle: BinaryIO) -> None:
        super().__init__(file_handle)
        self._coder = RowAsDictJsonCoder()

    def write(self, row: Mapping[str, Any]) -> int:
        """Write a row, and return the number of bytes."""
        return self._file.write(self._coder.encode(row) + b"\n")


class AvroRowWriter(_RowWriter):
    """Writes rows, as dicts, as records of Avro.

    Args:
      schema: of the table, as text, a dict or a `TableSchema`.

    Raises `MissingExtraError` without fastavro.
    """

    def __init__(self, file_handle: BinaryIO, schema: Any) -> None:
        super().__init__(file_handle)
        writer = optional_package("fastavro.write", extra="avro", needed_for="AvroRowWriter").Writer
        self._writer = writer(file_handle, get_avro_schema_from_table_schema(schema))

    def flush(self) -> None:
        if self.closed:
            raise ValueError("flush on closed file")
        self._writer.flush()
        super().flush()

    def tell(self) -> int:
        self._writer.flush()
        return super().tell()

    def write(self, row: Mapping[str, Any]) -> int:
        """Write a row, and return the number of rows of its block, as Beam's writer does."""
        self._writer.write(row)
        return int(self._writer.block_count)


def get_avro_schema_from_table_schema(schema: Any) -> dict[str, Any]:
    """Return the schema of Avro that the rows of a table have.

    Args:
      schema: text, a dict or a `TableSchema`.

    Raises `ValueError` for a type that BigQuery doesn't have.

    >>> get_avro_schema_from_table_schema("n:INTEGER")["fields"]
    [{'name': 'n', 'type': ['null', 'long']}]
    """
    return _record("root", get_dict_table_schema(schema)["fields"], "penstock")


_AVRO_TYPES: dict[str, Any] = {
    "STRING": "string",
    "BYTES": "bytes",
    "INTEGER": "long",
    "INT64": "long",
    "FLOAT": "double",
    "FLOAT64": "double",
    "NUMERIC": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9},
    "BIGNUMERIC": {"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 38},
    "BOOLEAN": "boolean",
    "BOOL": "boolean",
    "TIMESTAMP": {"type": "long", "logicalType": "timestamp-micros"},
    "DATE": {"type": "int", "logicalType": "date"},
    "TIME": {"type": "long", "logicalType": "time-micros"},
    "DATETIME": "string",
    "GEOGRAPHY": "string",
    "JSON": "string",
}


def _record(name: str, columns: Any, namespace: str) -> dict[str, Any]:
    fields = [_avro_field(column, f"{namespace}.{name}") for column in columns]
    return {"type": "record", "name": name, "namespace": namespace, "fields": fields}


def _avro_field(column: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    kind, mode = column["type"], column.get("mode") or "NULLABLE"
    if kind in ("RECORD", "STRUCT"):
        found: Any = _record(column["name"], column["fields"], namespace)
    elif kind in _AVRO_TYPES:
        found = _AVRO_TYPES[kind]
    else:
        raise ValueError(f"column {column['name']!r} has the type {kind}; Avro files have {', '.join(_AVRO_TYPES)}")
    if mode == "NULLABLE":
        found = ["null", found]
    elif mode == "REPEATED":
        found = {"type": "array", "items": found}
    field = {"name": column["name"], "type": found}
    if column.get("description"):
        field["doc"] = column["description"]
    return field


def beam_row_from_dict(row: Mapping[str, Any], schema: Any) -> Row:
    """Return a row of a table, given as a dict, as a `Row` with all columns, nested ones as well.

    Args:
      schema: text, a dict or a `TableSchema`.

    >>> beam_row_from_dict({"n": 1}, "n:INTEGER,item:STRING")
    Row(n=1, item=None)
    """
    found = {}
    for column in get_bq_tableschema(schema).fields:
        value = row.get(column.name)
        if value is not None and column.type in ("RECORD", "STRUCT"):
            nested = TableSchema(list(column.fields))
            if column.mode == "REPEATED":
                value = [beam_row_from_dict(each, nested) for each in value]
            else:
                value = beam_row_from_dict(value, nested)
        found[column.name] = value
    return Row(**found)


def get_beam_typehints_from_tableschema(schema: Any) -> list[tuple[str, Any]]:
    """Return the names of a table's columns, with the types of their values.

    Args:
      schema: text, a dict or a `TableSchema`.

    >>> get_beam_typehints_from_tableschema({"fields": [{"name": "n", "type": "INTEGER", "mode": "REPEATED"}]})
    [('n', typing.Sequence[int])]

    Raises `ValueError` for a type that no Python type is known for.
    """
    return [(column.name, _hint(column)) for column in get_bq_tableschema(schema).fields]


def _hint(column: Any) -> Any:
    kind = column.type.upper()
    if kind in ("RECORD", "STRUCT"):
        hint: Any = RowTypeConstraint.from_fields(get_beam_typehints_from_tableschema(TableSchema(list(column.fields))))
    elif kind in _HINTS:
        hint = _HINTS[kind]
    else:
        raise ValueError(f"column {column.name}: no Python type is known for {column.type!r}")
    if (column.mode or "NULLABLE") == "NULLABLE":
        return hint | None
    return typing.Sequence[hint] if column.mode == "REPEATED" else hint


_HINTS: Mapping[str, Any] = {
    "STRING": str,
    "BOOL": bool,
    "BOOLEAN": bool,
    "BYTES": bytes,
    "INT64": int,
    "INTEGER": int,
    "FLOAT64": float,
    "FLOAT": float,
    "NUMERIC": decimal.Decimal,
    "BIGNUMERIC": decimal.Decimal,
    "TIMESTAMP": Timestamp,
    "DATE": datetime.date,
    "DATETIME": str,
    "GEOGRAPHY": str,
    "JSON": str,
}
