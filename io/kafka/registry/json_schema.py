"""JSON Schema: records are JSON, and checked against a schema when they are read and written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ....frozen import frozen
from .client import package
from .formats import RegistryFormat, row_of

_COLUMN_TYPES = {"string": "string", "integer": "int64", "boolean": "bool", "number": "double"}


@frozen
class JsonSchemaFormat(RegistryFormat):
    """Keys or values in JSON with a schema."""

    kind = "JSON"

    def fields(self, schema: Any) -> list[tuple[str, Any]] | None:
        found = json.loads(schema.schema_str)
        properties = found.get("properties") if isinstance(found, dict) else None
        return [(name, _column_type(each)) for name, each in properties.items()] if properties else None

    def element_type(self, schema: Any) -> Any:
        return Any

    def deserializer(self, schema: Any, options: Mapping[str, Any]) -> Any:
        return package(".json_schema", "SchemaRegistry").JSONDeserializer(
            schema, schema_registry_client=self.registry.client(), conf=dict(options)
        )

    def as_element(self, value: Any, names: tuple[str, ...] | None) -> Any:
        if names is None or type(value) is not dict:
            return value
        return row_of({name: value.get(name) for name in names})

    def field_values(self, records: list[Any], name: str) -> list[Any]:
        return [dict.get(record, name) for record in records]

    def serializer(self, options: Mapping[str, Any]) -> Any:
        given = None if self.schema is None else self.given()
        return package(".json_schema", "SchemaRegistry").JSONSerializer(
            given, self.registry.client(), conf=dict(options)
        )


def _column_type(schema: Any) -> str | None:
    """Return the type of a field, as in `Schema`.

    >>> _column_type({"type": ["null", "integer"]}), _column_type({"$ref": "#/x"})
    ('int64', None)
    """
    kind = schema.get("type") if isinstance(schema, dict) else None
    alternatives = [one for one in kind if one != "null"] if isinstance(kind, list) else [kind]
    return _COLUMN_TYPES.get(alternatives[0]) if len(alternatives) == 1 and alternatives[0] else None
