"""Types as Beam's portable schemas, and back.

>>> from penstock.beam.typehints.row_type import RowTypeConstraint
>>> schema = named_fields_to_schema([("item", str), ("price", float)])
>>> [field.name for field in schema.fields], named_fields_from_schema(schema)[0]
(['item', 'price'], ('item', <class 'str'>))
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, get_args, get_origin

from ...sdk.typehints.row_classes import is_named_tuple, is_row_dataclass
from ...sdk.typehints.schema import schemas_of
from .constraints import UnionConstraint, union_of_types
from .logical_types import (
    Date,
    DecimalLogicalType,
    FixedBytes,
    FixedPrecisionDecimalArgumentRepresentation,
    FixedPrecisionDecimalLogicalType,
    FixedString,
    LogicalType,
    LogicalTypeRegistry,
    MicrosInstant,
    MicrosInstantRepresentation,
    MillisInstant,
    NoArgumentLogicalType,
    ParameterizedTimestamp,
    ParameterizedTimestampRepresentation,
    ParameterizedTimestampShortRepresentation,
    PassThroughLogicalType,
    VariableBytes,
    VariableString,
)
from .native_types import convert_to_beam_type, convert_to_python_type, extract_optional_type
from .row_type import SCHEMA_REGISTRY, Options, RowTypeConstraint, SchemaTypeRegistry
from .schema_messages import (
    BOOLEAN,
    BYTE,
    BYTES,
    DOUBLE,
    INT64,
    ArrayType,
    AtomicTypeValue,
    Field,
    FieldType,
    FieldValue,
    MapType,
    Option,
    RowType,
    Schema,
)
from .schema_messages import LogicalType as LogicalTypeMessage
from .schema_values import ATOMIC, value_from_runner_api, value_to_runner_api
from .trivial_inference import instance_to_type

__all__ = [
    "ATOMIC_TYPE_TO_PRIMITIVE",
    "PRIMITIVE_TO_ATOMIC_TYPE",
    "PYTHON_ANY_URN",
    "SCHEMA_REGISTRY",
    "Date",
    "DecimalLogicalType",
    "FixedBytes",
    "FixedPrecisionDecimalArgumentRepresentation",
    "FixedPrecisionDecimalLogicalType",
    "FixedString",
    "LogicalType",
    "LogicalTypeRegistry",
    "MicrosInstant",
    "MicrosInstantRepresentation",
    "MillisInstant",
    "NoArgumentLogicalType",
    "ParameterizedTimestamp",
    "ParameterizedTimestampRepresentation",
    "ParameterizedTimestampShortRepresentation",
    "PassThroughLogicalType",
    "SchemaTypeRegistry",
    "VariableBytes",
    "VariableString",
    "named_fields_from_element_type",
    "named_fields_from_schema",
    "named_fields_to_schema",
    "named_tuple_from_schema",
    "named_tuple_to_schema",
    "option_from_runner_api",
    "option_to_runner_api",
    "schema_field",
    "schema_from_element_type",
    "typing_from_runner_api",
    "typing_to_runner_api",
    "union_schema_type",
    "value_from_runner_api",
    "value_to_runner_api",
]

PYTHON_ANY_URN: Final = "beam:logical:pythonsdk_any:v1"

ATOMIC_TYPE_TO_PRIMITIVE: Final[dict[int, Any]] = {number: kind for number, (kind, _) in ATOMIC.items()}
PRIMITIVE_TO_ATOMIC_TYPE: Final[dict[Any, Any]] = {
    **{kind: number for number, kind in ATOMIC_TYPE_TO_PRIMITIVE.items()},
    int: INT64,
    float: DOUBLE,
    getattr(typing, "ByteString", bytes): BYTES,
}


def typing_to_runner_api(type_: Any, schema_registry: SchemaTypeRegistry = SCHEMA_REGISTRY) -> FieldType:
    """Return the message for a type: a class, a hint of `typing`, or a constraint.

    A type without one of its own is that of any value of Python.

    >>> typing_to_runner_api(dict[str, int])
    FieldType(map_type=MapType(key_type=FieldType(atomic_type=7), value_type=FieldType(atomic_type=4)))
    """
    if isinstance(type_, Schema):
        return FieldType(row_type=RowType(schema=type_))
    found = _row_type(type_)
    if found is not None:
        return FieldType(row_type=RowType(schema=_schema_of_row_type(found, schema_registry)))
    type_ = convert_to_python_type(type_)
    if type_ is Any:
        return _any(is_represented=False)
    if isinstance(type_, typing.Hashable) and type_ in PRIMITIVE_TO_ATOMIC_TYPE:
        return FieldType(atomic_type=PRIMITIVE_TO_ATOMIC_TYPE[type_])
    optional = extract_optional_type(type_)
    if optional is not None:
        message = typing_to_runner_api(optional, schema_registry)
        message.nullable = True
        return message
    return _of_collection(type_, schema_registry) or _of_logical_type(type_, schema_registry)


def _row_type(type_: Any) -> RowTypeConstraint | None:
    if schemas_of(type_):
        type_ = convert_to_beam_type(type_)
    return type_ if isinstance(type_, RowTypeConstraint) else RowTypeConstraint.from_user_type(type_)


def _schema_of_row_type(kind: RowTypeConstraint, schema_registry: SchemaTypeRegistry) -> Schema:
    if kind.schema_id is None:
        kind.set_schema_id(SCHEMA_REGISTRY.generate_new_id())
    known = schema_registry.get_schema_by_id(kind.schema_id)
    if known is not None:
        return known  # type: ignore[no-any-return]
    fields = [
        Field(
            name=name,
            type=typing_to_runner_api(hint, schema_registry),
            options=[option_to_runner_api(option) for option in kind.field_options(name)],
            description=kind.field_descriptions.get(name),
        )
        for name, hint in kind.fields
    ]
    options = [option_to_runner_api(option) for option in kind.schema_options]
    schema = Schema(fields=fields, id=kind.schema_id, options=options)
    schema_registry.add(kind.user_type, schema)
    return schema


def _of_collection(type_: Any, schema_registry: SchemaTypeRegistry) -> FieldType | None:
    """Return the message for a mapping, sequence or iterable with type parameters; None for other types."""
    if type_ is range:
        return FieldType(array_type=ArrayType(element_type=FieldType(atomic_type=INT64)))
    kind, args = get_origin(type_), get_args(type_)
    if not isinstance(kind, type) or not args:
        return None
    if issubclass(kind, Mapping) and len(args) == 2:
        key, value = (typing_to_runner_api(arg, schema_registry) for arg in args)
        return FieldType(map_type=MapType(key_type=key, value_type=value))
    if issubclass(kind, Iterable):
        return FieldType(array_type=ArrayType(element_type=typing_to_runner_api(args[0], schema_registry)))
    return None


def _of_logical_type(type_: Any, schema_registry: SchemaTypeRegistry) -> FieldType:
    """Return the message for a type with a logical type; that of any value of Python for another type."""
    try:
        known = LogicalType.is_known_logical_type(type_)
        logical = type_ if known else LogicalType.from_typing(type_)
    except (ValueError, TypeError):
        return _any(is_represented=True)
    argument_type = argument = None
    if logical.argument_type() is not None:
        argument_type = typing_to_runner_api(logical.argument_type(), schema_registry)
        # Only atomic arguments have a message.
        if argument_type.WhichOneof("type_info") == "atomic_type":
            argument = value_to_runner_api(argument_type, logical.argument())
    return FieldType(
        logical_type=LogicalTypeMessage(
            urn=logical.urn(),
            representation=typing_to_runner_api(logical.representation_type(), schema_registry),
            argument_type=argument_type,
            argument=argument,
        )
    )


def _any(is_represented: bool) -> FieldType:
    """Return the type of any value of Python.

    Args:
      is_represented: says that it has a byte for the type, and its bytes.
    """
    representation = None
    if is_represented:
        is_static = Option(
            name="beam:option:row:static_encoding",
            type=FieldType(atomic_type=BOOLEAN),
            value=FieldValue(atomic_value=AtomicTypeValue(boolean=True)),
        )
        fields = [
            Field(name="_pythonsdk_any_type_byte", type=FieldType(atomic_type=BYTE)),
            Field(name="payload", type=FieldType(atomic_type=BYTES)),
        ]
        representation = FieldType(row_type=RowType(schema=Schema(fields=fields, options=[is_static])))
    return FieldType(logical_type=LogicalTypeMessage(urn=PYTHON_ANY_URN, representation=representation), nullable=True)


def typing_from_runner_api(fieldtype_proto: FieldType, schema_registry: SchemaTypeRegistry = SCHEMA_REGISTRY) -> Any:
    """Return the type of a message.  Raises `ValueError` for an unknown one.

    >>> typing_from_runner_api(typing_to_runner_api(list[str]))
    typing.Sequence[str]
    """
    kind = fieldtype_proto.WhichOneof("type_info")
    found = _of_kind(kind, fieldtype_proto, schema_registry)
    return typing.Optional[found] if fieldtype_proto.nullable and found is not Any else found  # noqa: UP045


def _of_kind(kind: str | None, message: FieldType, schema_registry: SchemaTypeRegistry) -> Any:
    if kind == "atomic_type" and message.atomic_type in ATOMIC_TYPE_TO_PRIMITIVE:
        return ATOMIC_TYPE_TO_PRIMITIVE[message.atomic_type]
    if kind in ("array_type", "iterable_type"):
        items = getattr(message, kind).element_type
        return typing.Sequence[typing_from_runner_api(items, schema_registry)]  # type: ignore[misc]
    if kind == "map_type":
        parts = (message.map_type.key_type, message.map_type.value_type)
        return typing.Mapping[tuple(typing_from_runner_api(part, schema_registry) for part in parts)]  # type: ignore[misc]
    if kind == "row_type":
        return _row_type_of(message.row_type.schema, schema_registry)
    if kind == "logical_type":
        logical = message.logical_type
        return Any if logical.urn == PYTHON_ANY_URN else LogicalType.from_runner_api(logical).language_type()
    raise ValueError(f"{message!r} has no known type")


def _row_type_of(schema: Schema, schema_registry: SchemaTypeRegistry) -> Any:
    options = [option_from_runner_api(option) for option in schema.options]
    of_fields = {
        field.name: [option_from_runner_api(option) for option in field.options]
        for field in schema.fields
        if field.options
    }
    user_type = schema_registry.get_typing_by_id(schema.id)
    if user_type is not None:
        return RowTypeConstraint.from_user_type(user_type, options, of_fields)
    fields = named_fields_from_schema(schema, schema_registry)
    descriptions = {field.name: field.description for field in schema.fields}
    return RowTypeConstraint.from_fields(fields, schema.id, options, of_fields, schema_registry, descriptions)


def named_fields_to_schema(
    names_and_types: Mapping[str, Any] | Sequence[tuple[str, Any]],
    schema_id: str | None = None,
    schema_options: Options | None = None,
    field_options: Mapping[str, Options] | None = None,
    schema_registry: SchemaTypeRegistry = SCHEMA_REGISTRY,
    field_descriptions: Mapping[str, str] | None = None,
) -> Schema:
    """Return the schema of fields, given by name and type."""
    fields = list(names_and_types.items() if isinstance(names_and_types, Mapping) else names_and_types)
    kind = RowTypeConstraint.from_fields(
        fields, schema_id, schema_options, field_options, schema_registry, field_descriptions
    )
    return _schema_of_row_type(kind, schema_registry)


def named_fields_from_schema(
    schema: Schema, schema_registry: SchemaTypeRegistry = SCHEMA_REGISTRY
) -> list[tuple[str, Any]]:
    """Return the fields of a schema by name and type.  Raises `ValueError`, naming the field, for an unknown type."""
    fields = []
    for field in schema.fields:
        try:
            fields.append((field.name, typing_from_runner_api(field.type, schema_registry)))
        except ValueError as error:
            raise ValueError(f"the field {field.name!r} of the schema has no type of Python: {error}") from error
    return fields


def named_tuple_from_schema(schema: Schema, schema_registry: SchemaTypeRegistry = SCHEMA_REGISTRY) -> Any:
    """Return the class of a schema's rows: the one that the schema was made of, or a new named tuple.

    >>> item = named_tuple_from_schema(Schema(id="tea", fields=[schema_field("name", str)]))
    >>> item(name="Assam")
    BeamSchema_tea(name='Assam')
    """
    known = schema_registry.get_typing_by_id(schema.id)
    if known is not None:
        return known
    kind = _row_type_of(schema, schema_registry).user_type
    schema_registry.add(kind, schema)
    return kind


def named_tuple_to_schema(named_tuple: Any, schema_registry: SchemaTypeRegistry = SCHEMA_REGISTRY) -> Schema:
    """Return the schema of a named tuple or a dataclass."""
    return typing_to_runner_api(named_tuple, schema_registry).row_type.schema  # type: ignore[no-any-return]


def schema_field(name: str, field_type: Any, description: str | None = None) -> Field:
    """Return the message of a field, for a type or its message."""
    kind = field_type if isinstance(field_type, FieldType) else typing_to_runner_api(field_type)
    return Field(name=name, type=kind, description=description)


def schema_from_element_type(element_type: Any) -> Schema:
    """Return the schema of elements.  Raises `TypeError` for a type without known fields."""
    element_type = convert_to_beam_type(element_type)
    if isinstance(element_type, UnionConstraint):
        element_type = union_schema_type(element_type.union_types)
    if isinstance(element_type, RowTypeConstraint) or is_named_tuple(element_type) or is_row_dataclass(element_type):
        return named_tuple_to_schema(element_type)
    raise TypeError(
        f"the fields of {element_type!r} aren't known; expected a named tuple, a dataclass, or beam.Row with fields"
    )


def named_fields_from_element_type(element_type: Any) -> list[tuple[str, Any]]:
    """Return the fields of elements by name and type.

    >>> from typing import NamedTuple
    >>> class Point(NamedTuple):
    ...     x: int
    >>> named_fields_from_element_type(Point)
    [('x', <class 'numpy.int64'>)]
    """
    return named_fields_from_schema(schema_from_element_type(element_type))


def union_schema_type(element_types: Iterable[Any]) -> Any:
    """Return the class of rows with the fields of several types, which have the same names in the same order."""
    all_fields = [named_fields_from_element_type(one) for one in element_types]
    names = [name for name, _ in all_fields[0]]
    if any([name for name, _ in fields] != names for fields in all_fields):
        raise TypeError(f"{list(element_types)!r} have different fields, so that their union has no schema")
    merged = [(name, _union([dict(fields)[name] for fields in all_fields])) for name in names]
    return named_tuple_from_schema(named_fields_to_schema(merged))


def _union(types: list[Any]) -> Any:
    return convert_to_python_type(union_of_types(map(convert_to_beam_type, types)))


def option_to_runner_api(option: tuple[str, Any]) -> Option:
    """Return the message of an option; one without a value is a flag."""
    name, value = option
    if value is None:
        return Option(name=name)
    kind = typing_to_runner_api(instance_to_type(value))
    return Option(name=name, type=kind, value=value_to_runner_api(kind, value))


def option_from_runner_api(option_proto: Option) -> tuple[str, Any]:
    """Return the name and the value of an option; None for a flag."""
    if not option_proto.HasField("type"):
        return option_proto.name, None
    return option_proto.name, value_from_runner_api(option_proto.type, option_proto.value)
