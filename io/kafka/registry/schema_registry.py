"""SchemaRegistry: formats of keys and values whose schemas are in a registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .avro import AvroFormat
from .client import RegistrySettings, package
from .json_schema import JsonSchemaFormat
from .protobuf import ProtobufFormat


class SchemaRegistry:
    """A registry of schemas that speaks Confluent's protocol.

    Its formats are deserializers of `ReadFromKafka`, and serializers of `WriteToKafka`.  Needs the extra
    `kafka-registry`.

    A read gives Rows, whose fields are known when the pipeline is built: all records are read with one schema, which
    is the given one, or the latest version of the subject.  Keys and values of other types than records are themselves.
    A write takes Rows and other records.  It registers a given schema before the run starts; without one the latest
    version of the subject is used.

    Args:
      settings: of confluent-kafka's `SchemaRegistryClient`, such as {"url": "http://localhost:8081",
        "basic.auth.user.info": "user:password"}.  Their values are shown nowhere, except the URL without its user.

    Raises `MissingExtraError`, and `ValueError` for settings that the client refuses.

    >>> import penstock as beam
    >>> registry = beam.io.SchemaRegistry({"url": "http://localhost:8081", "basic.auth.user.info": "ann:well"})
    >>> registry
    SchemaRegistry('http://localhost:8081')
    >>> config = {"bootstrap.servers": "localhost:9092"}
    >>> read = beam.io.ReadFromKafka(config, "orders", value_deserializer=registry.avro())
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        package("", type(self).__name__)
        self._settings = RegistrySettings.of(settings)

    def avro(
        self, schema: str | Mapping[str, Any] | None = None, *, subject: str | None = None, **options: Any
    ) -> AvroFormat:
        """Return the format of Avro.

        Args:
          schema: the schema with which all records are read, or written, as JSON or a dict.
          subject: the name under which the registry has the schema; by default the topic's, with `-key` or `-value`.
          options: settings of confluent-kafka's serializer or deserializer, with `_` for each dot, such as
            `normalize_schemas=True`.
        """
        package(".avro", "SchemaRegistry.avro")
        return AvroFormat(self._settings, _text(schema, "avro"), subject, _dotted(options))

    def json_schema(
        self, schema: str | Mapping[str, Any] | None = None, *, subject: str | None = None, **options: Any
    ) -> JsonSchemaFormat:
        """Return the format of JSON whose records have a schema.

        A Row has the schema's properties, with None for missing ones; other properties are left out.  The arguments are
        those of `avro`.
        """
        package(".json_schema", "SchemaRegistry.json_schema")
        return JsonSchemaFormat(self._settings, _text(schema, "json_schema"), subject, _dotted(options))

    def protobuf(self, message: Any = None, *, subject: str | None = None, **options: Any) -> ProtobufFormat:
        """Return the format of Protobuf.

        Enums are their names, nested messages are dicts, and fields that can be unset are None.

        Args:
          message: the generated class of the messages; or the full name of a message in the subject's latest schema, by
            default the first one.
          subject, options: as those of `avro`.
        """
        package(".protobuf", "SchemaRegistry.protobuf")
        if message is not None and not isinstance(message, str) and not hasattr(message, "DESCRIPTOR"):
            raise TypeError(f"SchemaRegistry.protobuf: expected a generated class or a message's name, got {message!r}")
        return ProtobufFormat(self._settings, None, subject, _dotted(options), message)

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._settings.url!r})"


def _text(schema: Any, name: str) -> str | None:
    if schema is None:
        return None
    text = schema if isinstance(schema, str) else json.dumps(schema)
    try:
        json.loads(text)
    except ValueError as error:
        raise ValueError(f"SchemaRegistry.{name}: the schema isn't JSON: {error}") from error
    return text


def _dotted(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in options.items()}
