"""Arrow schemas of classes with typed fields."""

from __future__ import annotations

import sys
import typing
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from typing import Any

import attrs

from ..elements.row import Row
from .schema import Schema, arrow_type, schemas_of
from .simplified import NoneType, class_and_args, members, simplified


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
    import pyarrow

    types = _fields(simplified(element_type))
    if not types and len(found := schemas_of(element_type)) == 1:
        return _of_fields(found[0][1])
    return pyarrow.schema([(name, _arrow_type(hint, name)) for name, hint in types.items()]) if types else None


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


def _of_fields(schema: Schema) -> Any:
    """Return the `pyarrow.Schema` of fields; None without any.  Raises `TypeError` if the type of one is unknown."""
    import pyarrow

    types = {name: arrow_type(kind) for name, kind in schema.fields}
    for name, kind in types.items():
        if kind is None:
            why = schema.unknown.get(name)
            raise TypeError(f"the type of the field {name!r} isn't known" + (f": {why}" if why else ""))
    return pyarrow.schema(types.items()) if types else None


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
    alternatives = [one for one in members(hint) or () if one is not NoneType]
    if len(alternatives) == 1:
        return _arrow_type(alternatives[0], name)
    kind, arguments = class_and_args(hint)
    if kind is not None and issubclass(kind, Mapping) and len(arguments) == 2:
        return pyarrow.map_(*(_arrow_type(argument, name) for argument in arguments))
    is_list = kind is not None and issubclass(kind, (Sequence, AbstractSet))
    if is_list and (len(arguments) == 1 or arguments[1:] == (...,)):
        return pyarrow.list_(_arrow_type(arguments[0], name))
    shown = getattr(hint, "__name__", None) if isinstance(hint, type) else None
    raise TypeError(f"the field {name!r} is of the type {shown or hint}, for which there is no one type of Arrow")
