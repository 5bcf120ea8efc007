"""Tables and schemas of BigQuery as plain values, which programs build beside their pipelines.

>>> schema = parse_table_schema_from_json('{"fields": [{"name": "n", "type": "INTEGER"}]}')
>>> [(field.name, field.type, field.mode) for field in schema.fields]
[('n', 'INTEGER', 'NULLABLE')]
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from ....io.bigquery.client import TableName, open_client
from ....sdk.options.value_provider import ValueProvider


@attrs.define
class TableReference:
    """The name of a table."""

    projectId: str | None = None
    datasetId: str | None = None
    tableId: str | None = None


@attrs.define
class DatasetReference:
    """The name of a dataset."""

    projectId: str | None = None
    datasetId: str | None = None


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

    _NON_TRANSIENT_ERRORS = frozenset(
        {"invalid", "invalidQuery", "notImplemented", "Bad Request", "Unauthorized", "Forbidden", "Not Found"}
        | {"Not Implemented"}
    )

    @staticmethod
    def should_retry(strategy: str, error_message: str) -> bool:
        """Return whether a row is inserted again after an error of this reason."""
        if strategy == RetryStrategy.RETRY_ON_TRANSIENT_ERROR:
            return error_message not in RetryStrategy._NON_TRANSIENT_ERRORS
        return strategy == RetryStrategy.RETRY_ALWAYS


def parse_table_schema_from_json(schema_string: str) -> TableSchema:
    """Return the schema of a JSON text.  Raises `ValueError` for other text."""
    try:
        found = json.loads(schema_string)
    except ValueError as error:
        raise ValueError(f"Unable to parse JSON schema: {schema_string} - {error!r}") from error
    return TableSchema([_field(one) for one in found["fields"]])


def get_table_schema_from_string(schema: str) -> TableSchema:
    """Return the schema of a text such as 'name:STRING,n:INTEGER'."""
    columns = [each.strip().split(":") for each in schema.split(",")]
    return TableSchema([TableFieldSchema(name, kind, "NULLABLE") for name, kind in columns])


def table_schema_to_dict(table_schema: TableSchema) -> dict[str, Any]:
    """Return a schema as a dict."""
    return {"fields": [_as_dict(field) for field in table_schema.fields]}


def get_dict_table_schema(schema: Any) -> Any:
    """Return a schema, given as text or as a `TableSchema`, as a dict; others, such as functions, as they are.

    Raises `TypeError` for what is no schema.

    >>> get_dict_table_schema("n:INTEGER")
    {'fields': [{'name': 'n', 'type': 'INTEGER', 'mode': 'NULLABLE'}]}
    """
    if schema is None or isinstance(schema, (dict, ValueProvider)) or callable(schema):
        return schema
    if isinstance(schema, str):
        return table_schema_to_dict(get_table_schema_from_string(schema))
    if isinstance(schema, TableSchema):
        return table_schema_to_dict(schema)
    raise TypeError(f"Unexpected schema argument: {schema}.")


def get_bq_tableschema(schema: Any) -> Any:
    """Return a schema, given as text or as a dict, as a `TableSchema`; others, such as functions, as they are.

    Raises `TypeError` for what is no schema.
    """
    if schema is None or isinstance(schema, (TableSchema, ValueProvider)) or callable(schema):
        return schema
    if isinstance(schema, str):
        return get_table_schema_from_string(schema)
    if isinstance(schema, dict):
        return parse_table_schema_from_json(json.dumps(schema))
    raise TypeError(f"Unexpected schema argument: {schema}.")


def parse_table_reference(table: Any, dataset: str | None = None, project: str | None = None) -> Any:
    """Return the reference of a table's name; functions and providers of values as they are.  Raises `ValueError`.

    >>> parse_table_reference("shop:sales.orders").datasetId
    'sales'
    """
    if callable(table) or isinstance(table, ValueProvider):
        return table
    if isinstance(table, TableReference):
        return attrs.evolve(table)
    if dataset is not None:
        return TableReference(project, dataset, table)
    try:
        found = TableName.of("", table)
    except ValueError:
        raise ValueError(
            f"Expected a table reference (PROJECT:DATASET.TABLE or DATASET.TABLE) instead of {table}."  # Beam's words
        ) from None
    return TableReference(found.project, found.dataset, found.table)


def get_hashable_destination(destination: Any) -> Any:
    """Return a table as text, 'project:dataset.table'; text and functions as they are.

    >>> get_hashable_destination(TableReference("shop", "sales", "orders"))
    'shop:sales.orders'
    """
    if isinstance(destination, TableReference):
        return f"{destination.projectId}:{destination.datasetId}.{destination.tableId}"
    return destination


class BigQueryWrapper:
    """Tables and datasets, by Google's client: what tests of programs use of Beam's class.

    Args:
      client: Google's; None for a new one.
      temp_dataset_id, temp_table_ref: Beam's; have no effect.
    """

    def __init__(self, client: Any = None, temp_dataset_id: str | None = None, temp_table_ref: Any = None) -> None:
        self.client = open_client("BigQueryWrapper") if client is None else client

    def get_table(self, project_id: str, dataset_id: str, table_id: str) -> Any:
        """Return a table, as Google's client has it."""
        return self.client.get_table(f"{project_id}.{dataset_id}.{table_id}")

    def get_table_location(self, project_id: str, dataset_id: str, table_id: str) -> Any:
        """Return the location of a table."""
        return self.get_table(project_id, dataset_id, table_id).location

    def get_or_create_dataset(self, project_id: str, dataset_id: str, location: str | None = None) -> Any:
        """Return a dataset, which is created if there is none."""
        return self.client.create_dataset(f"{project_id}.{dataset_id}", exists_ok=True)

    def _delete_table(self, project_id: str, dataset_id: str, table_id: str) -> None:
        self.client.delete_table(f"{project_id}.{dataset_id}.{table_id}", not_found_ok=True)

    def _delete_dataset(self, project_id: str, dataset_id: str, delete_contents: bool = True) -> None:
        self.client.delete_dataset(f"{project_id}.{dataset_id}", delete_contents=delete_contents, not_found_ok=True)


def _as_dict(field: TableFieldSchema) -> dict[str, Any]:
    found: dict[str, Any] = {"name": field.name, "type": field.type, "mode": field.mode}
    if field.description:
        found["description"] = field.description
    if field.fields:
        found["fields"] = [_as_dict(one) for one in field.fields]
    return found


def _field(column: Mapping[str, Any]) -> TableFieldSchema:
    return TableFieldSchema(
        column["name"],
        column["type"],
        column.get("mode", "NULLABLE"),
        column.get("description"),
        [_field(one) for one in column.get("fields", ())],
    )
