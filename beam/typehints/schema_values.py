"""Values in the messages of schemas, such as those of options."""

from __future__ import annotations

from typing import Any, Final

import numpy

from .schema_messages import (
    BOOLEAN,
    BYTE,
    BYTES,
    DOUBLE,
    FLOAT,
    INT16,
    INT32,
    INT64,
    STRING,
    ArrayTypeValue,
    AtomicTypeValue,
    FieldType,
    FieldValue,
)

# By the number of an atomic type: the class of its values, and the name of the field that holds one.
ATOMIC: Final[dict[int, tuple[Any, str]]] = {
    BYTE: (numpy.int8, "byte"),
    INT16: (numpy.int16, "int16"),
    INT32: (numpy.int32, "int32"),
    INT64: (numpy.int64, "int64"),
    FLOAT: (numpy.float32, "float"),
    DOUBLE: (numpy.float64, "double"),
    STRING: (str, "string"),
    BOOLEAN: (bool, "boolean"),
    BYTES: (bytes, "bytes"),
}


def value_to_runner_api(type_proto: FieldType, value: Any) -> FieldValue:
    """Return a value as a message.  Raises `ValueError` for other types than atomic ones and arrays of these.

    >>> value_to_runner_api(FieldType(atomic_type=INT64), 7)
    FieldValue(atomic_value=AtomicTypeValue(int64=7))
    """
    kind = type_proto.WhichOneof("type_info")
    if kind == "atomic_type" and type_proto.atomic_type in ATOMIC:
        return FieldValue(atomic_value=AtomicTypeValue(**{ATOMIC[type_proto.atomic_type][1]: value}))
    if kind == "array_type":
        items = [value_to_runner_api(type_proto.array_type.element_type, item) for item in value]
        return FieldValue(array_value=ArrayTypeValue(element=items))
    raise ValueError(f"expected a value of an atomic type or an array of one, got {value!r} of the type {type_proto!r}")


def value_from_runner_api(type_proto: FieldType, value_proto: FieldValue) -> Any:
    """Return the value of a message.  Raises `ValueError` for other types than atomic ones and arrays of these."""
    kind = type_proto.WhichOneof("type_info")
    if kind == "atomic_type" and type_proto.atomic_type in ATOMIC:
        make, name = ATOMIC[type_proto.atomic_type]
        return make(getattr(value_proto.atomic_value, name))
    if kind == "array_type":
        element_type = type_proto.array_type.element_type
        return [value_from_runner_api(element_type, item) for item in value_proto.array_value.element]
    raise ValueError(f"expected an atomic type or an array of one, got {type_proto!r}")
