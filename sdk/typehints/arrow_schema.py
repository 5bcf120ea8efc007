"""Arrow schemas of classes with typed fields."""

from __future__ import annotations

import sys
import typing
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import attrs

from ...windowing.timestamp import Timestamp
from ..columns.nested_values import struct_of_tuple
from ..elements.row import Row
from .schema import DIGITS, UTC_TIMES, Schema, decimals_of, is_hint, item_of, scale_of, schemas_of
from .simplified import NoneType, class_and_args, members, simplified

# Classes with one type of Arrow.  A decimal has digits as in SQL's NUMERIC of most databases.
_UNAMBIGUOUS: dict[Any, str] = {
    time: "time64[us]",
    timedelta: "duration[us]",
    Timestamp: UTC_TIMES,
    Decimal: decimals_of(9),
}


def arrow_type(kind: Any) -> Any:
    """Return the `pyarrow.DataType` of a field of a `Schema`; None if it is unknown.

    >>> arrow_type("list<item: int64>"), arrow_type(dict[str, int]), arrow_type(None)
    (ListType(list<item: int64>), MapType(map<string, int64>), None)
    """
    import pyarrow

    if kind is None or isinstance(kind, pyarrow.DataType):
        return kind
    if not isinstance(kind, str):
        try:
            return _arrow_type(kind, "")
        except TypeError:
            return None
    item = item_of(kind)
    if item is not None:
        return pyarrow.list_(arrow_type(item))
    if kind == UTC_TIMES:
        return pyarrow.timestamp("us", "UTC")
    scale = scale_of(kind)
    if scale is not None:
        return pyarrow.decimal128(DIGITS, scale)
    return pyarrow.type_for_alias(kind)


def schema_of(element_type: Any) -> Any:
    """Return the `pyarrow.Schema` of a type hint; None if its elements have no fields with types.

    The hint has a `Schema`, or is a named tuple, a dataclass, an attrs class, a TypedDict or a `msgspec.Struct`.  Each
    field can be null.

    Raises `TypeError`, naming the field, for one whose type is unknown, or has no one type of Arrow.

    >>> class Sale(typing.NamedTuple):
    ...     item: str
    ...     prices: list[float] | None
    >>> schema_of(Sale)
    item: string
    prices: list<item: double>
      child 0, item: double
    """
    schema, unknown = partial_schema_of(element_type)
    if unknown:
        raise TypeError(next(iter(unknown.values())))
    return schema


def partial_schema_of(element_type: Any) -> tuple[Any, dict[str, str]]:
    """Return the schema as `schema_of` does, with nulls for fields without a type; and why these have none, by name.

    >>> partial_schema_of(typing.NamedTuple("Sale", [("item", str), ("key", object)]))
    (item: string
    key: null, {'key': "the field 'key' is of the type object, for which there is no one type of Arrow"})
    """
    import pyarrow

    hints = _fields(simplified(element_type))
    found = schemas_of(element_type)
    fields = hints.items() if hints or len(found) != 1 else found[0][1].fields
    types: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name, kind in fields:
        try:
            types[name] = _arrow_type(kind, name) if hints else _known_type(found[0][1], name, kind)
        except TypeError as error:
            types[name], unknown[name] = pyarrow.null(), str(error)
    return pyarrow.schema(types.items()) if types else None, unknown


def _known_type(schema: Schema, name: str, kind: Any) -> Any:
    """Return the type of a field of a schema.  Raises `TypeError` if it is unknown."""
    if is_hint(kind):
        return _arrow_type(kind, name)
    if kind is None:
        why = schema.unknown.get(name)
        raise TypeError(f"the type of the field {name!r} isn't known" + (f": {why}" if why else ""))
    return arrow_type(kind)


def declared_schema(element_type: Any, label: str, advice: str) -> Any:
    """Return the `pyarrow.Schema` of the elements that a transform writes.

    Raises `TypeError`, with the transform's label and advice, if the type of the elements has no fields with types.
    """
    try:
        schema = schema_of(element_type)
    except TypeError as error:
        raise TypeError(f"{label}: {error}; {advice}") from None
    if schema is None:
        shown = getattr(element_type, "__name__", element_type)
        raise TypeError(
            f"{label}: the type of the elements, {shown}, has no fields with types; {advice}, or declare a class with "
            "fields by with_output_types"
        )
    return schema


def _fields(kind: Any) -> dict[str, Any]:
    if not isinstance(kind, type) or kind is Row:
        return {}
    names: Any = getattr(kind, "_fields", None) or getattr(kind, "__struct_fields__", None)
    if names is None and attrs.has(kind):
        names = [field.name for field in attrs.fields(kind)]
    elif names is None:
        names = getattr(kind, "__dataclass_fields__", None) or (typing.is_typeddict(kind) and kind.__annotations__)
    hints = typing.get_type_hints(kind) if names else {}
    return {name: hints[name] for name in names or () if name in hints}


def _arrow_type(hint: Any, name: str) -> Any:
    import pyarrow

    kinds = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
    kinds |= {bytes: pyarrow.binary(), date: pyarrow.date32()}
    if hint in kinds:
        return kinds[hint]
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(hint, type) and issubclass(hint, (numpy.number, numpy.bool_)):
        return pyarrow.from_numpy_dtype(hint)
    if hint in _UNAMBIGUOUS:
        return arrow_type(_UNAMBIGUOUS[hint])
    if hint is UUID:
        return pyarrow.uuid()
    alternatives = [one for one in members(hint) or () if one is not NoneType]
    if len(alternatives) == 1:
        return _arrow_type(alternatives[0], name)
    if len(alternatives) == 2 and {*alternatives} == {int, float}:
        return pyarrow.float64()
    found = schemas_of(hint)
    if found:
        return pyarrow.struct([(own, _known_type(found[0][1], own, kind)) for own, kind in found[0][1].fields])
    kind, arguments = class_and_args(hint)
    if kind is tuple and arguments and arguments[1:] != (...,):
        return struct_of_tuple([_arrow_type(argument, name) for argument in arguments])
    if kind is not None and issubclass(kind, Mapping) and len(arguments) == 2:
        return pyarrow.map_(*(_arrow_type(argument, name) for argument in arguments))
    is_list = kind is not None and issubclass(kind, (Sequence, AbstractSet))
    if is_list and (len(arguments) == 1 or arguments[1:] == (...,)):
        return pyarrow.list_(_arrow_type(arguments[0], name))
    shown = getattr(hint, "__name__", None) if isinstance(hint, type) else None
    raise TypeError(f"the field {name!r} is of the type {shown or hint}, for which there is no one type of Arrow")
