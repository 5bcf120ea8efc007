"""Protobuf: messages of a generated class, or of the descriptors in the registry, as Rows."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from ....frozen import frozen
from ....sdk.errors import SinkError, SourceError
from ...optional_package import optional_package
from ...records import as_dict, is_record
from .client import EXTRA, package
from .formats import RegistryFormat, row_of

_COLUMN_TYPES = {
    **dict.fromkeys(("INT32", "INT64", "UINT32", "SINT32", "SINT64", "FIXED32", "SFIXED32", "SFIXED64"), "int64"),
    **dict.fromkeys(("DOUBLE", "FLOAT"), "double"),
    "BOOL": "bool",
    "STRING": "string",
    "ENUM": "string",
    "BYTES": "binary",
}


@frozen
class ProtobufFormat(RegistryFormat):
    """Keys or values as messages.

    Attributes:
      message: a generated class; or the full name of a message, None for the first one, in the subject's schema.
    """

    message: Any = None

    kind = "PROTOBUF"
    # A serialized descriptor instead of text, which nothing in Python reads.
    fetched_as = "serialized"

    def reader(self, field: str, topics: Any, label: str) -> Any:
        if self._class is None:
            return super().reader(field, topics, label)
        from .formats import RegistryReader

        return RegistryReader(self, field, topics[0], label, None)

    @property
    def _class(self) -> Any:
        return None if self.message is None or isinstance(self.message, str) else self.message

    def fields(self, schema: Any) -> list[tuple[str, Any]] | None:
        return [(field.name, _column_type(field)) for field in self._message_class(schema).DESCRIPTOR.fields]

    def element_type(self, schema: Any) -> Any:
        return Any

    def deserializer(self, schema: Any, options: Mapping[str, Any]) -> Any:
        return package(".protobuf", "SchemaRegistry").ProtobufDeserializer(
            self._message_class(schema), dict(options), self.registry.client()
        )

    def as_element(self, value: Any, names: tuple[str, ...] | None) -> Any:
        return row_of(_as_dict(value))

    def field_values(self, records: list[Any], name: str) -> list[Any]:
        if not records:
            return []
        field = records[0].DESCRIPTOR.fields_by_name[name]
        return [_value_of(message, field) for message in records]

    def as_record(self, value: Any) -> Any:
        if hasattr(value, "DESCRIPTOR"):
            return value
        if not is_record(value):
            raise TypeError(f"expected a record or a message, got {type(value).__name__}")
        return value

    def serializer(self, options: Mapping[str, Any]) -> Any:
        return _MessageSerializer(self, options)

    def register(self, subject: str, serializer: Any, context: Any) -> None:
        # An empty message: the client has no other way to register a class with all that it refers to.
        serializer(serializer.message_class(context)(), context)

    def _message_class(self, schema: Any) -> Any:
        return self._class or message_class(schema, self.registry, self.message)


class _MessageSerializer:
    """Serializer of records, which it turns into messages."""

    def __init__(self, form: ProtobufFormat, options: Mapping[str, Any]) -> None:
        self._form = form
        self._options = options
        # By subject, the class of messages and the client's serializer.
        self._known: dict[str, tuple[Any, Any]] = {}

    def message_class(self, context: Any) -> Any:
        return self._of(context)[0]

    def __call__(self, value: Any, context: Any) -> Any:
        kind, serialize = self._of(context)
        message = value if hasattr(value, "DESCRIPTOR") else _message_of(kind, value)
        return serialize(message, context)

    def _of(self, context: Any) -> tuple[Any, Any]:
        subject = self._form.subject_of(context.topic, context.field)
        if subject not in self._known:
            kind, given = self._form._class, {}
            if kind is None:
                try:
                    schema = self._form.latest(subject, "SchemaRegistry.protobuf")
                except SourceError as error:
                    raise SinkError(str(error)) from error.__cause__
                kind = message_class(schema, self._form.registry, self._form.message)
                given = {"auto.register.schemas": False, "use.latest.version": True}
            serializer = package(".protobuf", "SchemaRegistry").ProtobufSerializer
            self._known[subject] = kind, serializer(kind, self._form.registry.client(), given | dict(self._options))
        return self._known[subject]


def message_class(schema: Any, registry: Any, name: str | None) -> Any:
    """Return the class of messages with a name, or of the first message, of a schema of the registry.

    Raises `ValueError` for text instead of a serialized descriptor, and for a name that the schema doesn't have.
    """
    pool = _descriptors().DescriptorPool()
    file = _added(pool, "schema.proto", schema, registry.client())
    if not file.message_types_by_name:
        raise ValueError("the schema has no message")
    if name is None:
        # In the order of their definitions, as the indices of the client.
        descriptor = next(iter(file.message_types_by_name.values()))
    else:
        try:
            descriptor = pool.FindMessageTypeByName(name)
        except KeyError:
            known = ", ".join(each.full_name for each in file.message_types_by_name.values())
            raise ValueError(f"the schema has no message {name!r}; it has {known}") from None
    return optional_package("google.protobuf.message_factory", EXTRA, "SchemaRegistry").GetMessageClass(descriptor)


def _descriptors() -> Any:
    return optional_package("google.protobuf.descriptor_pool", EXTRA, "SchemaRegistry")


def _added(pool: Any, name: str, schema: Any, client: Any) -> Any:
    """Add a schema, and those that it refers to, to a pool of descriptors; return its file."""
    descriptors = optional_package("google.protobuf.descriptor_pb2", EXTRA, "SchemaRegistry")
    for reference in schema.references or ():
        found = client.get_version(reference.subject, reference.version, fmt=ProtobufFormat.fetched_as).schema
        _added(pool, reference.name, found, client)
    try:
        file = descriptors.FileDescriptorProto.FromString(base64.b64decode(schema.schema_str, validate=True))
    except ValueError:
        raise ValueError(
            "the registry returns a Protobuf schema as text, which can't be read here; give the generated class: "
            "protobuf(message)"
        ) from None
    file.name = name
    for needed in file.dependency:
        _add_known(pool, needed)
    try:
        return pool.FindFileByName(name)
    except KeyError:
        pool.Add(file)
        return pool.FindFileByName(name)


def _add_known(pool: Any, name: str) -> None:
    """Add a file of Google's to a pool, if it isn't there."""
    try:
        pool.FindFileByName(name)
    except KeyError:
        if not name.startswith("google/"):
            raise ValueError(f"the schema needs {name!r}, which the registry has no reference to") from None
        module: Any = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        for needed in module.DESCRIPTOR.dependencies:
            _add_known(pool, needed.name)
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)


def _column_type(field: Any) -> str | None:
    """Return the type of a field, as in `Schema`; None for lists, maps and messages."""
    return None if _is_repeated(field) else _COLUMN_TYPES.get(_type_names()[field.type])


@lru_cache(1)
def _type_names() -> dict[int, str]:
    field = optional_package("google.protobuf.descriptor", EXTRA, "SchemaRegistry").FieldDescriptor
    names = {name: getattr(field, name) for name in dir(field) if name.startswith("TYPE_")}
    return {number: name.removeprefix("TYPE_") for name, number in names.items() if isinstance(number, int)}


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _as_dict(message: Any) -> dict[str, Any]:
    """Return a message's fields, by name; None for a field that has presence and isn't set."""
    return {field.name: _value_of(message, field) for field in message.DESCRIPTOR.fields}


def _value_of(message: Any, field: Any) -> Any:
    """Return a field of a message; None for one that has presence and isn't set."""
    value = getattr(message, field.name)
    if _is_map(field):
        item = field.message_type.fields_by_name["value"]
        return {key: _as_value(item, value[key]) for key in value}
    if _is_repeated(field):
        return [_as_value(field, each) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _as_value(field, value)


def _as_value(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _as_dict(value)
    if field.enum_type is not None:
        # A number without a name was written by a newer schema.
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _message_of(kind: Any, record: Any) -> Any:
    """Return a record as a message.  Raises `ValueError` for a field that the message doesn't have."""
    message = kind()
    _fill(message, as_dict(record))
    return message


def _fill(message: Any, fields: Mapping[str, Any]) -> None:
    known = message.DESCRIPTOR.fields_by_name
    for name, value in fields.items():
        if name not in known:
            raise ValueError(
                f"the message {message.DESCRIPTOR.full_name} has no field {name!r}; it has {', '.join(known)}"
            )
        if value is None:
            continue
        field = known[name]
        target = getattr(message, name)
        if _is_map(field):
            item = field.message_type.fields_by_name["value"]
            for key, each in value.items():
                if item.message_type is not None:
                    _fill(target[key], as_dict(each))
                else:
                    target[key] = _number_of(item, each)
        elif _is_repeated(field):
            for each in value:
                if field.message_type is not None:
                    _fill(target.add(), as_dict(each))
                else:
                    target.append(_number_of(field, each))
        elif field.message_type is not None:
            target.SetInParent()
            _fill(target, as_dict(value))
        else:
            setattr(message, name, _number_of(field, value))


def _number_of(field: Any, value: Any) -> Any:
    """Return the number of an enum's name; other values as they are."""
    if field.enum_type is None or not isinstance(value, str):
        return value
    if value not in field.enum_type.values_by_name:
        raise ValueError(
            f"{field.full_name} has no value {value!r}; it has {', '.join(field.enum_type.values_by_name)}"
        )
    return field.enum_type.values_by_name[value].number
