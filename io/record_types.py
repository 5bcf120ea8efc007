"""Declared types of records: the fields that a pipeline knows when it is built, and instances from decoded fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import attrs
import msgspec
from msgspec.structs import astuple

from ..sdk.elements.row import rows_of_dicts
from ..sdk.typehints.schema import with_schema

# The Arrow types of fields of a declared type.
_ARROW_TYPES: dict[Any, str] = {str: "string", int: "int64", float: "double", bool: "bool"}


def arrow_types_of(kind: Any) -> dict[str, str]:
    """Return the fields of a type, by name, that Arrow can hold, with their Arrow types.

    >>> class Click(msgspec.Struct):
    ...     user: str
    ...     at: int | None = None
    ...     tags: list[str] = []
    >>> arrow_types_of(Click)
    {'user': 'string', 'at': 'int64'}
    """
    return {name: found for name, found in _fields_of(kind).items() if found is not None}


def hint_of_type(kind: Any) -> Any:
    """Return the hint of the elements of a declared type, with their fields; `Any` for None."""
    fields = _fields_of(kind)
    return with_schema(kind, fields.items()) if fields else Any if kind is None else kind


def _fields_of(kind: Any) -> dict[str, str | None]:
    """Return the fields of a type, by name, with the Arrow types of those that Arrow can hold."""
    is_record = isinstance(kind, type) and (
        issubclass(kind, msgspec.Struct) or hasattr(kind, "_fields") or is_dataclass(kind) or attrs.has(kind)
    )
    # A method of this name may change the fields.
    if not is_record or hasattr(kind, "__post_init__") or hasattr(kind, "__attrs_post_init__"):
        return {}
    found: dict[str, str | None] = {}
    for name, hint in get_type_hints(kind).items():
        alternatives = set(get_args(hint)) - {type(None)} if get_origin(hint) in (Union, UnionType) else {hint}
        types = [_ARROW_TYPES.get(each) for each in alternatives]
        found[name] = types[0] if len(types) == 1 else None
    return found


class Maker:
    """A function from decoded fields to an instance of a type; to a `Row` for None.  It is picklable.

    Fields that the type doesn't have are left out.  The function raises `msgspec.ValidationError` for fields that don't
    fit.  Raises `TypeError` or `NameError` for a type that isn't one of records.

    >>> import typing
    >>> class Point(typing.NamedTuple):
    ...     x: int
    ...     y: int = 0
    >>> Maker(Point)({"x": 1, "z": 2}), Maker(None)({"x": 1})
    (Point(x=1, y=0), Row(x=1))
    """

    def __init__(self, type: Any) -> None:
        self.type = type
        self._make = _maker_of_type(type)

    def __call__(self, fields: dict[str, Any]) -> Any:
        return self._make(fields)

    def __reduce__(self) -> Any:
        return Maker, (self.type,)


def _maker_of_type(kind: Any) -> Callable[[dict[str, Any]], Any]:
    if kind is None:
        return lambda fields: rows_of_dicts([fields])[0]
    if not isinstance(kind, type):
        raise TypeError("it is not a class")
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        # To msgspec a NamedTuple is an array.
        named: Any = kind
        hints, defaults, make = get_type_hints(named), named._field_defaults, named._make
        fields = [(name, hints.get(name, Any), defaults.get(name, msgspec.NODEFAULT)) for name in named._fields]
        struct = msgspec.defstruct(named.__name__, fields)
        msgspec.json.Decoder(struct)
        return lambda fields: make(astuple(msgspec.convert(fields, struct)))
    if not (issubclass(kind, msgspec.Struct) or is_dataclass(kind) or attrs.has(kind)):
        raise TypeError("it is none of NamedTuple, dataclass, attrs class and msgspec.Struct")
    # Finds types of fields that can't be decoded.
    msgspec.json.Decoder(kind)
    return lambda fields: msgspec.convert(fields, kind)
