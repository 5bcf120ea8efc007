"""The messages of Beam's portable schemas: names, types and options of the fields of rows.

>>> schema = Schema(id="user", fields=[Field(name="age", type=FieldType(atomic_type=INT64, nullable=True))])
>>> [(field.name, field.type.nullable) for field in schema.fields]
[('age', True)]
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import EnumMeta, IntEnum
from typing import Any, ClassVar

from .messages import Field as _F
from .messages import Message


class _EnumOfMessages(EnumMeta):
    """The functions of an enum of Protocol Buffers."""

    def keys(cls) -> list[str]:
        """Return the names."""
        return list(cls.__members__)

    def values(cls) -> list[Any]:
        """Return the numbers."""
        return list(cls.__members__.values())

    def items(cls) -> list[tuple[str, Any]]:
        """Return pairs of name and number."""
        return list(cls.__members__.items())

    def Name(cls, number: int) -> str:
        """Return the name of a number."""
        return str(cls(number).name)

    def Value(cls, name: str) -> Any:
        """Return the number of a name.  Raises `ValueError` for an unknown one."""
        if name not in cls.__members__:
            raise ValueError(f"{cls.__name__} has no {name!r}; it has {', '.join(cls.__members__)}")
        return cls.__members__[name]


class AtomicType(IntEnum, metaclass=_EnumOfMessages):
    """The types without parts."""

    UNSPECIFIED = 0
    BYTE = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BOOLEAN = 8
    BYTES = 9


UNSPECIFIED, BYTE, INT16, INT32, INT64, FLOAT, DOUBLE, STRING, BOOLEAN, BYTES = AtomicType


class Schema(Message):
    """The fields of a row."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {
        "fields": _F(1, "Field", repeated=True),
        "id": _F(2, "string"),
        "options": _F(3, "Option", repeated=True),
        "encoding_positions_set": _F(4, "bool"),
    }


class Field(Message):
    """A field of a row."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {
        "name": _F(1, "string"),
        "description": _F(2, "string"),
        "type": _F(3, "FieldType"),
        "id": _F(4, "int32"),
        "encoding_position": _F(5, "int32"),
        "options": _F(6, "Option", repeated=True),
    }


class FieldType(Message):
    """The type of a field: one of `type_info`, and whether None is allowed."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {
        "nullable": _F(1, "bool"),
        "atomic_type": _F(2, "enum", oneof="type_info"),
        "array_type": _F(3, "ArrayType", oneof="type_info"),
        "iterable_type": _F(4, "IterableType", oneof="type_info"),
        "map_type": _F(5, "MapType", oneof="type_info"),
        "row_type": _F(6, "RowType", oneof="type_info"),
        "logical_type": _F(7, "LogicalType", oneof="type_info"),
    }


class ArrayType(Message):
    """The type of a sequence."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {"element_type": _F(1, "FieldType")}


class IterableType(Message):
    """The type of an iterable."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {"element_type": _F(1, "FieldType")}


class MapType(Message):
    """The type of a mapping."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {"key_type": _F(1, "FieldType"), "value_type": _F(2, "FieldType")}


class RowType(Message):
    """The type of a row."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {"schema": _F(1, "Schema")}


class LogicalType(Message):
    """A type that is represented by another one, with an argument."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {
        "urn": _F(1, "string"),
        "payload": _F(2, "bytes"),
        "representation": _F(3, "FieldType"),
        "argument_type": _F(4, "FieldType"),
        "argument": _F(5, "FieldValue"),
    }


class Option(Message):
    """A note on a schema or a field."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {
        "name": _F(1, "string"),
        "type": _F(2, "FieldType"),
        "value": _F(3, "FieldValue"),
    }


class Row(Message):
    """The values of a row."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {"values": _F(1, "FieldValue", repeated=True)}


class FieldValue(Message):
    """A value, of one of the kinds of types."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {
        "atomic_value": _F(1, "AtomicTypeValue", oneof="field_value"),
        "array_value": _F(2, "ArrayTypeValue", oneof="field_value"),
        "iterable_value": _F(3, "IterableTypeValue", oneof="field_value"),
        "map_value": _F(4, "MapTypeValue", oneof="field_value"),
        "row_value": _F(5, "Row", oneof="field_value"),
        "logical_type_value": _F(6, "LogicalTypeValue", oneof="field_value"),
    }


class AtomicTypeValue(Message):
    """A value without parts."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {
        "byte": _F(1, "int32", oneof="value"),
        "int16": _F(2, "int32", oneof="value"),
        "int32": _F(3, "int32", oneof="value"),
        "int64": _F(4, "int64", oneof="value"),
        "float": _F(5, "float", oneof="value"),
        "double": _F(6, "double", oneof="value"),
        "string": _F(7, "string", oneof="value"),
        "boolean": _F(8, "bool", oneof="value"),
        "bytes": _F(9, "bytes", oneof="value"),
    }


class ArrayTypeValue(Message):
    """The values of a sequence."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {"element": _F(1, "FieldValue", repeated=True)}


class IterableTypeValue(Message):
    """The values of an iterable."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {"element": _F(1, "FieldValue", repeated=True)}


class MapTypeValue(Message):
    """The entries of a mapping."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {"entries": _F(1, "MapTypeEntry", repeated=True)}


class MapTypeEntry(Message):
    """An entry of a mapping."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {"key": _F(1, "FieldValue"), "value": _F(2, "FieldValue")}


class LogicalTypeValue(Message):
    """The representation of a value of a logical type."""

    fields_by_name: ClassVar[Mapping[str, _F]] = {"value": _F(1, "FieldValue")}
