"""Avro: records are resolved to one schema, the reader's, as the specification has it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from ....frozen import frozen
from ...avro_types import column_type
from .avro_blocks import AvroBlocks, NotInBlocksError
from .client import package
from .formats import ReaderOfMany, RegistryFormat, RegistryReader, row_of

_PYTHON_TYPES = {"string": str, "int": int, "long": int, "float": float, "double": float, "boolean": bool}


@frozen
class AvroFormat(RegistryFormat):
    """Keys or values in Avro."""

    kind = "AVRO"

    def given(self) -> Any:
        # The client wants simple types as objects.
        found = json.loads(self.schema or "")
        return attrs.evolve(
            super().given(), schema_str=json.dumps({"type": found} if isinstance(found, str) else found)
        )

    def fields(self, schema: Any) -> list[tuple[str, Any]] | None:
        found = json.loads(schema.schema_str)
        if not isinstance(found, dict) or found.get("type") != "record":
            return None
        named: dict[str, Any] = {}
        return [(field["name"], column_type(field["type"], named)) for field in found["fields"]]

    def element_type(self, schema: Any) -> Any:
        found = json.loads(schema.schema_str)
        name = found.get("type") if isinstance(found, dict) else found
        return _PYTHON_TYPES.get(name, Any) if isinstance(name, str) else Any

    def deserializer(self, schema: Any, options: Mapping[str, Any]) -> Any:
        return package(".avro", "SchemaRegistry").AvroDeserializer(self.registry.client(), schema, conf=dict(options))

    def as_element(self, value: Any, names: tuple[str, ...] | None) -> Any:
        if names is None or type(value) is not dict:
            return value
        # Fields are in the order of the writer's schema.
        return row_of(value if tuple(value) == names else {name: value[name] for name in names})

    def reader_of_many(self, reader: RegistryReader, deserialize: Callable[[bytes], Any]) -> ReaderOfMany:
        one_by_one = super().reader_of_many(reader, deserialize)
        if self.options:
            return one_by_one
        try:
            blocks = AvroBlocks(self.registry.client(), self.subject_of(reader.topic, reader.field), reader.schema)
        except NotInBlocksError:
            return one_by_one

        def read(data: list[bytes]) -> list[Any]:
            try:
                return blocks(data)
            except NotInBlocksError:
                return one_by_one(data)

        return read

    def field_values(self, records: list[Any], name: str) -> list[Any]:
        return [record[name] for record in records]

    def serializer(self, options: Mapping[str, Any]) -> Any:
        # A field that the schema doesn't have is an error, and not left out.
        strict = {"validate.strict.allow.default": True}
        given = None if self.schema is None else self.given()
        return package(".avro", "SchemaRegistry").AvroSerializer(
            self.registry.client(), given, conf=strict | dict(options)
        )
