"""Classes whose instances are rows with typed fields: named tuples, and dataclasses."""

from __future__ import annotations

import dataclasses
from typing import Any
from weakref import WeakKeyDictionary

# Dataclasses for which a program has registered a coder: whether that is the coder of rows.
_declared: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def declare_row_class(kind: Any, is_row: bool) -> None:
    """Record whether the coder that is registered for a class is the coder of rows."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        _declared[kind] = is_row


def is_named_tuple(kind: Any) -> bool:
    """Return whether a class is a named tuple with types.

    >>> from typing import NamedTuple
    >>> class Point(NamedTuple):
    ...     x: int
    >>> is_named_tuple(Point), is_named_tuple(tuple)
    (True, False)
    """
    return isinstance(kind, type) and issubclass(kind, tuple) and all(map(kind.__dict__.__contains__, _OF_TUPLES))


_OF_TUPLES = ("_fields", "__annotations__")


def is_row_dataclass(kind: Any) -> bool:
    """Return whether a class is a dataclass of rows: one registered with `RowCoder`, or with no coder and not frozen.

    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: int
    >>> is_row_dataclass(Point), is_row_dataclass(dataclasses.dataclass(frozen=True)(Point))
    (True, False)
    """
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        return False
    params: Any = kind.__dict__.get("__dataclass_params__")
    return _declared.get(kind, params is not None and not params.frozen)
