"""Schema of a DataFrame, derived from the type hint of the elements that become its rows."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

import attrs

from ...sdk.typehints.simplified import simplified
from ...windowing.timestamp import Timestamp

_SIMPLE = {
    bool: "boolean",
    int: "bigint",
    float: "double",
    str: "string",
    bytes: "binary",
    decimal.Decimal: "decimal(38,18)",
    datetime.date: "date",
    datetime.datetime: "timestamp",
    datetime.timedelta: "interval day to second",
    Timestamp: "timestamp",
}


def schema_of(hint: Any) -> str | None:
    """Return the schema of a type hint as Spark's DDL, or None if it has no columns.

    >>> schema_of(tuple[str, int])
    '`_1` string, `_2` bigint'
    >>> from typing import NamedTuple
    >>> class Total(NamedTuple):
    ...     word: str
    ...     counts: list[int]
    >>> schema_of(Total)
    '`word` string, `counts` array<bigint>'
    """
    hint = simplified(hint)
    fields = _fields(hint)
    if fields is None:
        # Tuples and dictionaries are rows.  The columns of a tuple of any length, and of a dictionary, are unknown.
        simple = None if get_origin(hint) in (tuple, dict) else _type(hint)
        return None if simple is None else f"`value` {simple}"
    columns = {name: _type(part) for name, part in fields.items()}
    if not columns or None in columns.values():
        return None
    return ", ".join(f"{_quoted(name)} {part}" for name, part in columns.items())


def _fields(hint: Any) -> dict[str, Any] | None:
    """Return the fields of a hint, or of a tuple, under Spark's names."""
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        if Ellipsis in arguments:
            return None
        return {f"_{i}": part for i, part in enumerate(arguments, 1)}
    if not isinstance(hint, type):
        return None
    has_fields = (issubclass(hint, tuple) and hasattr(hint, "_fields")) or dataclasses.is_dataclass(hint)
    return get_type_hints(hint) if has_fields or attrs.has(hint) else None


def _type(hint: Any) -> str | None:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        others = [part for part in arguments if part is not type(None)]
        return _type(others[0]) if len(others) == 1 else None
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if origin in (list, tuple) and len(set(arguments) - {Ellipsis}) == 1 and (origin is list or Ellipsis in arguments):
        element = _type(arguments[0])
        return None if element is None else f"array<{element}>"
    if origin is dict:
        key, value = _type(arguments[0]), _type(arguments[1])
        return None if key is None or value is None else f"map<{key}, {value}>"
    fields = _fields(hint)
    if not fields:
        return None
    parts = {name: _type(part) for name, part in fields.items()}
    if None in parts.values():
        return None
    return f"struct<{', '.join(f'{_quoted(name)}: {part}' for name, part in parts.items())}>"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
