"""Records: values with named fields, such as dicts, Rows, named tuples and dataclasses."""

from __future__ import annotations

from typing import Any

import attrs

from ..sdk.coders.coder import shortened
from ..sdk.elements.row import fields_of
from ..sdk.errors import SinkError


def as_dict(value: Any) -> dict[str, Any]:
    """Return the fields of a dict, a Row, a named tuple, an attrs class, a dataclass or a `msgspec.Struct`.

    Raises `SinkError` for anything else.

    >>> from penstock.sdk.elements.row import Row
    >>> as_dict(Row(name="Ada", age=36))
    {'name': 'Ada', 'age': 36}
    """
    fields = fields_of(value)
    if fields is None:
        raise SinkError(f"expected a record (a dict, a Row, a named tuple or a dataclass), got {shortened(value)}")
    return fields


def is_record(value: Any) -> bool:
    """Return whether `as_dict` accepts the value."""
    return (
        isinstance(value, dict)
        or hasattr(value, "__struct_fields__")
        or hasattr(value, "_asdict")
        or hasattr(value, "__dataclass_fields__")
        or attrs.has(type(value))
    )


def as_dicts(values: list[Any]) -> list[dict[str, Any]]:
    """Return the fields of each record."""
    if set(map(type, values)) == {dict}:
        return values
    return [as_dict(value) for value in values]
