"""Records: values with named fields, such as dicts, Rows, named tuples and dataclasses."""

from __future__ import annotations

import dataclasses
from typing import Any

import attrs

from ..sdk.coders.coder import shortened
from ..sdk.errors import SinkError
from ..sdk.row import Row


def as_dict(value: Any) -> dict[str, Any]:
    """Return the fields of a dict, a Row, a named tuple, an attrs class or a dataclass.

    Raises `SinkError` for anything else.

    >>> as_dict(Row(name="Ada", age=36))
    {'name': 'Ada', 'age': 36}
    """
    if isinstance(value, dict):
        return value
    if hasattr(value, "_asdict"):
        return dict(value._asdict())
    if attrs.has(type(value)):
        return attrs.asdict(value, recurse=False)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise SinkError(f"expected a record (a dict, a Row, a named tuple or a dataclass), got {shortened(value)}")


def is_record(value: Any) -> bool:
    """Return whether `as_dict` accepts the value."""
    return (
        isinstance(value, dict)
        or hasattr(value, "_asdict")
        or hasattr(value, "__dataclass_fields__")
        or attrs.has(type(value))
    )


def as_dicts(values: list[Any]) -> list[dict[str, Any]]:
    """Return the fields of each record."""
    if set(map(type, values)) == {dict}:
        return values
    return [as_dict(value) for value in values]


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return dicts as Rows.

    >>> rows([{"a": 1}])
    [Row(a=1)]
    """
    return [Row(**record) for record in records]
