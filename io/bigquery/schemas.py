"""The columns of tables: from all that programs give as a schema."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from ...frozen import frozen

# Types by all their names.
_TYPES = {
    "INT64": "INTEGER",
    "INT": "INTEGER",
    "FLOAT64": "FLOAT",
    "BOOL": "BOOLEAN",
    "STRUCT": "RECORD",
    "DECIMAL": "NUMERIC",
    "BIGDECIMAL": "BIGNUMERIC",
}
TYPES = frozenset(
    [
        "STRING",
        "BYTES",
        "INTEGER",
        "FLOAT",
        "NUMERIC",
        "BIGNUMERIC",
        "BOOLEAN",
        "TIMESTAMP",
        "DATE",
        "TIME",
        "DATETIME",
        "GEOGRAPHY",
        "JSON",
        "INTERVAL",
        "RECORD",
    ]
)
MODES = ("NULLABLE", "REQUIRED", "REPEATED")

# Of a column as JSON: what is an attribute of `Column`.
_KNOWN = ("name", "type", "mode", "fields")


@frozen
class Column:
    """A column of a table.

    Attributes:
      type: as BigQuery's API has it: INTEGER, not INT64.
      mode: NULLABLE, REQUIRED or REPEATED.
      fields: of a RECORD.
      others: what else the API has of a column, such as its description or precision.
    """

    name: str
    type: str
    mode: str = "NULLABLE"
    fields: tuple[Column, ...] = ()
    others: Mapping[str, Any] = attrs.field(factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the column as the API has it."""
        found = {"name": self.name, "type": self.type, "mode": self.mode, **self.others}
        return {**found, "fields": [field.as_json() for field in self.fields]} if self.fields else found


def schema_of(transform: str, given: Any) -> tuple[Column, ...]:
    """Return the columns that a program gives.  Raises `ValueError`, naming the transform.

    Args:
      given: 'name:TYPE,name:TYPE', JSON, the path of a file of JSON, a dict with "fields", a list of columns, or an
        object with `fields`, such as Beam's `TableSchema`; columns may be dicts, or Google's `SchemaField`.

    >>> [(column.name, column.type) for column in schema_of("Write", "n:INT64, name:STRING")]
    [('n', 'INTEGER'), ('name', 'STRING')]
    """
    if isinstance(given, (str, pathlib.PurePath)):
        given = _of_text(transform, str(given))
    if isinstance(given, Mapping):
        given = given.get("fields")
    elif not isinstance(given, Sequence):
        given = getattr(given, "fields", None)
    if not isinstance(given, Sequence) or not given:
        raise ValueError(
            f"{transform}: expected a schema such as 'name:STRING,n:INTEGER' or {{'fields': [...]}}, got {given!r}"
        )
    columns = tuple(_column(transform, each) for each in given)
    names = [column.name.lower() for column in columns]
    if doubles := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{transform}: the schema has two columns {doubles[0]!r}; BigQuery ignores case")
    return columns


def _of_text(transform: str, text: str) -> Any:
    text = text.strip()
    if text[:1] in "{[":
        try:
            return json.loads(text)
        except ValueError as error:
            raise ValueError(f"{transform}: the schema isn't JSON: {error}") from None
    if text.endswith(".json"):
        try:
            return json.loads(pathlib.Path(text).read_text())
        except (OSError, ValueError) as error:
            raise ValueError(f"{transform}: the schema's file {text} can't be read: {error}") from None
    columns = []
    for part in text.split(","):
        name, _, kind = (each.strip() for each in part.partition(":"))
        if not name or not kind:
            raise ValueError(f"{transform}: expected a schema such as 'name:STRING,n:INTEGER', got {text!r}")
        columns.append({"name": name, "type": kind})
    return columns


def _column(transform: str, given: Any) -> Column:
    if hasattr(given, "to_api_repr"):
        given = given.to_api_repr()
    if not isinstance(given, Mapping):
        names = (*_KNOWN, "description")
        given = {name: getattr(given, name) for name in names if getattr(given, name, None)}
    name, kind = given.get("name"), str(given.get("type", "")).upper()
    # "NUMERIC(10, 2)" has its precision apart in the API.
    kind, others = _parameters(_TYPES.get(kind, kind))
    mode = str(given.get("mode") or "NULLABLE").upper()
    if not isinstance(name, str) or not name:
        raise ValueError(f"{transform}: a column of the schema has no name: {given!r}")
    if kind not in TYPES:
        raise ValueError(
            f"{transform}: column {name!r} has the type {given.get('type')!r}; expected one of "
            f"{', '.join(sorted(TYPES))}"
        )
    if mode not in MODES:
        raise ValueError(f"{transform}: column {name!r} has the mode {mode!r}; expected one of {', '.join(MODES)}")
    fields = tuple(_column(transform, each) for each in given.get("fields") or ())
    if (kind == "RECORD") != bool(fields):
        raise ValueError(f"{transform}: column {name!r} is of type {kind} and has {len(fields)} fields")
    others |= {key: value for key, value in given.items() if key not in _KNOWN and value is not None}
    return Column(name, kind, mode, fields, others)


def _parameters(kind: str) -> tuple[str, dict[str, Any]]:
    found = re.fullmatch(r"(\w+)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", kind)
    if found is None:
        return kind, {}
    name = _TYPES.get(found[1], found[1])
    if name in ("STRING", "BYTES"):
        return name, {"maxLength": found[2]}
    return name, {"precision": found[2]} | ({"scale": found[3]} if found[3] else {})


def as_json(columns: Sequence[Column]) -> dict[str, Any]:
    """Return a schema as BigQuery's API has it."""
    return {"fields": [column.as_json() for column in columns]}


def columns_of_arrow(transform: str, schema: Any) -> tuple[Column, ...]:
    """Return the columns of a table for a `pyarrow.Schema`.

    Raises `ValueError`, naming the transform, for a type that BigQuery doesn't have.
    """
    return tuple(_column_of_arrow(transform, field) for field in schema)


def _column_of_arrow(transform: str, field: Any) -> Column:
    from pyarrow import types

    kind, mode = field.type, "NULLABLE" if field.nullable else "REQUIRED"
    if types.is_list(kind) or types.is_large_list(kind):
        kind, mode = kind.value_type, "REPEATED"
    if types.is_struct(kind):
        return Column(field.name, "RECORD", mode, tuple(_column_of_arrow(transform, each) for each in kind))
    if types.is_timestamp(kind):
        return Column(field.name, "DATETIME" if kind.tz is None else "TIMESTAMP", mode)
    for predicate, name in _OF_ARROW:
        if getattr(types, f"is_{predicate}")(kind):
            return Column(field.name, name, mode)
    raise ValueError(f"{transform}: the field {field.name!r} is of type {kind}, which BigQuery doesn't have")


# By the names of pyarrow's predicates.
_OF_ARROW = (
    ("boolean", "BOOLEAN"),
    ("integer", "INTEGER"),
    ("floating", "FLOAT"),
    ("string", "STRING"),
    ("large_string", "STRING"),
    ("binary", "BYTES"),
    ("large_binary", "BYTES"),
    ("decimal128", "NUMERIC"),
    ("decimal256", "BIGNUMERIC"),
    ("date", "DATE"),
    ("time", "TIME"),
)


def arrow_schema_of(columns: Sequence[Column]) -> Any:
    """Return the `pyarrow.Schema` of rows that are read."""
    import pyarrow as pa

    return pa.schema([_field(column) for column in columns])


def _field(column: Column) -> Any:
    import pyarrow as pa

    kinds = {
        "BYTES": pa.binary(),
        "INTEGER": pa.int64(),
        "FLOAT": pa.float64(),
        "NUMERIC": pa.decimal128(38, 9),
        "BIGNUMERIC": pa.decimal256(76, 38),
        "BOOLEAN": pa.bool_(),
        "TIMESTAMP": pa.timestamp("us", "UTC"),
        "DATE": pa.date32(),
        "TIME": pa.time64("us"),
        "DATETIME": pa.timestamp("us"),
    }
    kind = pa.struct([_field(each) for each in column.fields]) if column.fields else kinds.get(column.type, pa.string())
    if column.mode == "REPEATED":
        kind = pa.list_(kind)
    return pa.field(column.name, kind, nullable=column.mode != "REQUIRED")
