"""Coders of the fields of a schema, for `RowCoder`."""

from __future__ import annotations

from typing import Any, Final

from ...sdk.coders import (
    BooleanCoder,
    BytesCoder,
    Coder,
    FastPrimitivesCoder,
    FloatCoder,
    IterableCoder,
    LogicalTypeCoder,
    MapCoder,
    NullableCoder,
    RowCoder,
    StrUtf8Coder,
    TimestampCoder,
    VarIntCoder,
)
from ...sdk.coders.numeric import (
    BigEndianShortCoder,
    ByteCoder,
    DecimalCoder,
    SinglePrecisionFloatCoder,
    VarInt32Coder,
)
from ...sdk.coders.row import SchemaFields
from .logical_types import LogicalType
from .schema_messages import AtomicType
from .schemas import named_tuple_from_schema

# Logical types whose values have a coder of their own.
_OF_LOGICAL_TYPES: Final[dict[str, type[Coder]]] = {
    "beam:logical:pythonsdk_any:v1": FastPrimitivesCoder,
    "beam:logical_type:millis_instant:v1": TimestampCoder,
    "beam:logical_type:decimal:v1": DecimalCoder,
}

_OF_ATOMIC_TYPES: Final[dict[Any, type[Coder]]] = {
    AtomicType.BYTE: ByteCoder,
    AtomicType.INT16: BigEndianShortCoder,
    AtomicType.INT32: VarInt32Coder,
    AtomicType.INT64: VarIntCoder,
    AtomicType.FLOAT: SinglePrecisionFloatCoder,
    AtomicType.DOUBLE: FloatCoder,
    AtomicType.STRING: StrUtf8Coder,
    AtomicType.BOOLEAN: BooleanCoder,
    AtomicType.BYTES: BytesCoder,
}


def fields_of(schema: Any) -> SchemaFields:
    """Return the coders of a schema's fields in the order of their encoding, and the class of its rows."""
    fields = list(schema.fields)
    if schema.encoding_positions_set:
        fields.sort(key=lambda field: field.encoding_position)
    kind = named_tuple_from_schema(schema)
    return SchemaFields(
        {field.name: _coder_of(field.type) for field in fields},
        frozenset(field.name for field in fields if not field.type.nullable),
        kind,
    )


def _coder_of(message: Any) -> Coder:
    """Return the coder for the type of a schema's field, None excluded.  Raises `ValueError` for an unknown type."""
    kind = message.WhichOneof("type_info")
    if kind == "atomic_type":
        return _OF_ATOMIC_TYPES[message.atomic_type]()
    if kind in ("array_type", "iterable_type"):
        return IterableCoder(_coder_of_part(getattr(message, kind).element_type))
    if kind == "map_type":
        return MapCoder(_coder_of_part(message.map_type.key_type), _coder_of_part(message.map_type.value_type))
    if kind == "row_type":
        return RowCoder(message.row_type.schema)
    if kind != "logical_type":
        raise ValueError(f"RowCoder has no coder for the type {message!r}")
    own = _OF_LOGICAL_TYPES.get(message.logical_type.urn)
    if own is not None:
        return own()
    return LogicalTypeCoder(
        LogicalType.from_runner_api(message.logical_type), _coder_of_part(message.logical_type.representation)
    )


def _coder_of_part(message: Any) -> Coder:
    return NullableCoder(_coder_of(message)) if message.nullable else _coder_of(message)
