"""Inference of the common type of values, for Create."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from decimal import Decimal
from itertools import islice
from typing import Any

from ..elements.row import Row
from .schema import ARROW_NAMES, DIGITS, UTC_TIMES, decimals_of, list_of, with_schema
from .simplified import union_of

# The number of inspected values, the depth of the inspection, and the largest number of types in a union.
_VALUES = 100
_DEPTH = 2
_DEPTH_OF_FIELDS = 4
_ALTERNATIVES = 4
# The decimals that a field of decimals has room for, at least.
_DECIMALS = 9


def infer_type(values: Iterable[Any]) -> Any:
    """Return the common type of the first hundred values; `Any` if there are too many types, or no values.

    >>> infer_type([("a", 1), ("b", 2)]) == tuple[str, int]
    True
    """
    return _common(list(islice(values, _VALUES)), _DEPTH)


def _common(values: list[Any], depth: int) -> Any:
    by_kind: dict[type, list[Any]] = {}
    for value in values:
        by_kind.setdefault(type(value), []).append(value)
    if len(by_kind) > _ALTERNATIVES:
        return Any
    return union_of([_hint(kind, alike, depth) for kind, alike in by_kind.items()])


def _hint(kind: type, values: list[Any], depth: int) -> Any:
    """Return the hint for values of one class."""
    if depth == 0:
        return kind
    if kind is tuple:
        lengths = {len(value) for value in values}
        if lengths == {0}:
            return tuple[()]
        if len(lengths) != 1:
            return tuple
        return tuple[tuple(_common(list(types), depth - 1) for types in zip(*values))]  # type: ignore[misc]
    if kind in (list, set, frozenset):
        parts = [part for value in values for part in islice(value, _VALUES)]
        return kind[_common(parts, depth - 1)] if parts else kind
    if kind is Row:
        return _with_fields(values)
    if kind is dict:
        items = [item for value in values for item in islice(value.items(), _VALUES)]
        if not items:
            return dict
        keys, entries = zip(*items)
        return dict[_common(list(keys), depth - 1), _common(list(entries), depth - 1)]  # type: ignore[misc]
    return kind


def _with_fields(rows: list[Any]) -> Any:
    """Return the hint of Rows with the fields of these; `Row` if they have several fields or types."""
    names = rows[0]._fields
    if any(row._fields != names for row in rows):
        return Row
    fields = [(name, _field_type([getattr(row, name) for row in rows])) for name in names]
    # Others among the values may have other fields.
    return with_schema(Row, fields, _may_be)


def _field_type(values: list[Any]) -> Any:
    """Return the type of a field of Rows, as in `Schema`; None if it is unknown."""
    found = _arrow_name(values)
    values = [value for value in values if value is not None]
    kinds = {type(value) for value in values}
    if found is not None or len(kinds) != 1:
        return found
    (kind,) = kinds
    if kind is datetime.datetime:
        zones = {value.tzinfo is None for value in values}
        return None if len(zones) > 1 else "timestamp[us]" if True in zones else UTC_TIMES
    if kind is Decimal:
        exponents = [value.as_tuple().exponent for value in values]
        scale = max((-exponent for exponent in exponents if isinstance(exponent, int)), default=0)
        return decimals_of(max(scale, _DECIMALS)) if scale <= DIGITS else None
    found = _hint(kind, values, _DEPTH_OF_FIELDS)
    # Of containers without anything in them, others may have items of any type.
    return None if found in (list, dict, set, frozenset, tuple) else found


def _arrow_name(values: list[Any]) -> str | None:
    """Return the name of Arrow's type for values, some of which may be None; None if it is unknown."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds != {list}:
        return ARROW_NAMES.get(*kinds) if len(kinds) == 1 else None
    item = _arrow_name([item for value in values if value is not None for item in islice(value, _VALUES)])
    return None if item is None else list_of(item)


def _may_be(name: str) -> bool:
    return True
