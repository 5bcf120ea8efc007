"""Tables and schemas of BigQuery as plain values, which programs build beside their pipelines.

Nothing of penstock reads or writes BigQuery; a test of a program replaces what does.

>>> schema = parse_table_schema_from_json('{"fields": [{"name": "n", "type": "INTEGER"}]}')
>>> [(field.name, field.type, field.mode) for field in schema.fields]
[('n', 'INTEGER', 'NULLABLE')]
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs


@attrs.define
class TableReference:
    """The name of a table."""

    projectId: str | None = None
    datasetId: str | None = None
    tableId: str | None = None


@attrs.define
class TableFieldSchema:
    """A column of a table; a column of the type RECORD has fields."""

    name: str | None = None
    type: str | None = None
    mode: str | None = None
    description: str | None = None
    fields: list[TableFieldSchema] = attrs.field(factory=list)


@attrs.define
class TableSchema:
    """The columns of a table."""

    fields: list[TableFieldSchema] = attrs.field(factory=list)


class RetryStrategy:
    """Which failed inserts into a table are repeated."""

    RETRY_ALWAYS = "RETRY_ALWAYS"
    RETRY_NEVER = "RETRY_NEVER"
    RETRY_ON_TRANSIENT_ERROR = "RETRY_ON_TRANSIENT_ERROR"


def parse_table_schema_from_json(schema_string: str) -> TableSchema:
    """Return the schema of a JSON text.  Raises `ValueError` for other text."""
    try:
        found = json.loads(schema_string)
    except ValueError as error:
        raise ValueError(f"Unable to parse JSON schema: {schema_string} - {error!r}") from error
    return TableSchema([_field(one) for one in found["fields"]])


def _field(column: Mapping[str, Any]) -> TableFieldSchema:
    return TableFieldSchema(
        column["name"],
        column["type"],
        column.get("mode", "NULLABLE"),
        column.get("description"),
        [_field(one) for one in column.get("fields", ())],
    )
