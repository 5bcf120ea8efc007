"""Avro's schemas as Beam's portable schemas, and back, with the functions that convert records and rows.

>>> schema = avro_schema_to_beam_schema({"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]})
>>> beam_schema_to_avro_schema(schema)["fields"]
[{'name': 'n', 'type': 'long'}]
>>> avro_dict_to_beam_row({"type": "record"}, schema)({"n": 5})
Row(n=5)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...sdk.elements.row import Row
from ...sdk.typehints import with_output_types
from ..typehints.schema_messages import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    STRING,
    ArrayType,
    Field,
    FieldType,
    MapType,
    RowType,
    Schema,
)
from ..typehints.schemas import named_tuple_from_schema, schema_field, typing_to_runner_api

Converter = Callable[[Any], Any]

AVRO_PRIMITIVES_TO_BEAM_PRIMITIVES: Final[dict[str, Any]] = {
    "boolean": BOOLEAN,
    "int": INT32,
    "long": INT64,
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": BYTES,
    "string": STRING,
}
BEAM_PRIMITIVES_TO_AVRO_PRIMITIVES: Final[dict[Any, str]] = {
    beam: avro for avro, beam in AVRO_PRIMITIVES_TO_BEAM_PRIMITIVES.items()
}


def avro_union_type_to_beam_type(union_type: list[Any]) -> FieldType:
    """Return the nullable type of a union of null and one other type; of another union the type of anything.

    >>> avro_union_type_to_beam_type(["null", "long"]).nullable
    True
    """
    others = [one for one in union_type if one != "null"]
    if len(union_type) != 2 or len(others) != 1:
        return typing_to_runner_api(Any)
    beam_type = avro_type_to_beam_type(others[0])
    beam_type.nullable = True
    return beam_type


def avro_type_to_beam_type(avro_type: Any) -> FieldType:
    """Return the type of a field for a type of Avro.  Raises `ValueError` for an unknown one."""
    if isinstance(avro_type, list):
        return avro_union_type_to_beam_type(avro_type)
    parts: dict[str, Any] = {"type": avro_type} if isinstance(avro_type, str) else avro_type
    kind = parts["type"]
    if not isinstance(kind, str):
        return avro_type_to_beam_type(kind)
    if kind in AVRO_PRIMITIVES_TO_BEAM_PRIMITIVES:
        return FieldType(atomic_type=AVRO_PRIMITIVES_TO_BEAM_PRIMITIVES[kind])
    if kind in ("fixed", "enum"):
        return FieldType(atomic_type=STRING)
    if kind == "array":
        return FieldType(array_type=ArrayType(element_type=avro_type_to_beam_type(parts["items"])))
    if kind == "map":
        text = FieldType(atomic_type=STRING)
        return FieldType(map_type=MapType(key_type=text, value_type=avro_type_to_beam_type(parts["values"])))
    if kind == "record":
        fields: list[Field] = [
            schema_field(field["name"], avro_type_to_beam_type(field["type"])) for field in parts["fields"]
        ]
        return FieldType(row_type=RowType(schema=Schema(fields=fields)))
    raise ValueError(f"Unable to convert {avro_type} to a Beam schema: expected one of Avro's types")


def avro_schema_to_beam_schema(avro_schema: Any) -> Schema:
    """Return the schema of the rows of records; of other values, that of rows with the field `record`."""
    beam_type = avro_type_to_beam_type(avro_schema)
    if beam_type.WhichOneof("type_info") == "row_type":
        return beam_type.row_type.schema  # type: ignore[no-any-return]
    return Schema(fields=[schema_field("record", beam_type)])


def beam_schema_to_avro_schema(beam_schema: Schema) -> Any:
    """Return the schema of the records of rows."""
    return beam_type_to_avro_type(FieldType(row_type=RowType(schema=beam_schema)))


def beam_type_to_avro_type(beam_type: FieldType) -> dict[str, Any]:
    """Return the type of Avro for the type of a field.

    Raises `TypeError` for a map whose keys aren't text, and `ValueError` for a type that Avro doesn't have.
    """
    kind = beam_type.WhichOneof("type_info")
    if kind == "atomic_type":
        name = BEAM_PRIMITIVES_TO_AVRO_PRIMITIVES.get(beam_type.atomic_type)
        if name is not None:
            return {"type": [name, "null"] if beam_type.nullable else name}
    if kind in ("array_type", "iterable_type"):
        return {"type": "array", "items": _as_part(getattr(beam_type, kind).element_type)}
    if kind == "map_type":
        _check_keys(beam_type)
        return {"type": "map", "values": _as_part(beam_type.map_type.value_type)}
    if kind == "row_type":
        schema = beam_type.row_type.schema
        fields = [{"name": field.name, "type": _as_part(field.type)} for field in schema.fields]
        return {"type": "record", "name": schema.id, "fields": fields}
    raise ValueError(f"Avro has no type for {beam_type}")


def unnest_primitive_type(beam_type: FieldType) -> Any:
    """Return the type of Avro as it stands in another one: 'string' for `{"type": "string"}`."""
    return _as_part(beam_type)


def _as_part(beam_type: FieldType) -> Any:
    avro_type = beam_type_to_avro_type(beam_type)
    return avro_type["type"] if beam_type.WhichOneof("type_info") == "atomic_type" else avro_type


def avro_dict_to_beam_row(avro_schema: Any, beam_schema: Schema) -> Converter:
    """Return the function that makes rows of the values of an Avro file, with its output type."""
    if _is_record(avro_schema):
        to_row = avro_value_to_beam_value(FieldType(row_type=RowType(schema=beam_schema)))
    else:

        def to_row(record: Any) -> Row:
            return Row(record=record)

    return with_output_types(named_tuple_from_schema(beam_schema))(to_row)


def beam_row_to_avro_dict(avro_schema: Any, beam_schema: Schema) -> Converter:
    """Return the function that makes the values of an Avro file of rows."""
    if _is_record(avro_schema):
        return beam_value_to_avro_value(FieldType(row_type=RowType(schema=beam_schema)))
    field = beam_schema.fields[0]
    convert = beam_value_to_avro_value(field.type)
    return lambda row: convert(getattr(row, field.name))


def avro_value_to_beam_value(beam_type: FieldType) -> Converter:
    """Return the function that converts a value of Avro of this type."""
    return _converter(beam_type, lambda value, converters: Row(**{n: of(value[n]) for n, of in converters.items()}))


def beam_value_to_avro_value(beam_type: FieldType) -> Converter:
    """Return the function that converts a value of this type for Avro."""
    return _converter(beam_type, lambda value, converters: {n: of(getattr(value, n)) for n, of in converters.items()})


def _converter(beam_type: FieldType, of_record: Callable[[Any, Mapping[str, Converter]], Any]) -> Converter:
    kind = beam_type.WhichOneof("type_info")
    if kind in ("array_type", "iterable_type"):
        convert = _or_none(_converter(getattr(beam_type, kind).element_type, of_record))
        return lambda value: [convert(one) for one in value]
    if kind == "map_type":
        _check_keys(beam_type)
        convert = _or_none(_converter(beam_type.map_type.value_type, of_record))
        return lambda value: {key: convert(one) for key, one in value.items()}
    if kind == "row_type":
        fields = {f.name: _or_none(_converter(f.type, of_record)) for f in beam_type.row_type.schema.fields}
        return lambda value: of_record(value, fields)
    return lambda value: value


def _or_none(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


def _is_record(avro_schema: Any) -> bool:
    return isinstance(avro_schema, dict) and avro_schema["type"] == "record"


def _check_keys(beam_type: FieldType) -> None:
    if beam_type.map_type.key_type.atomic_type != STRING:
        raise TypeError(f"Only strings allowed as map keys in AVRO, found {beam_type}")
