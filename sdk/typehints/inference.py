"""The type that some values have in common, for Create."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from .simplified import union_of

# How many values are looked at, how deep into them, and how many different types are still told apart.
_VALUES = 100
_DEPTH = 2
_ALTERNATIVES = 4


def infer_type(values: Iterable[Any]) -> Any:
    """The type of the values, judged by the first hundred; `Any` when they are too mixed, or none.

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
    """The hint for values that are all of one class."""
    if depth == 0:
        return kind
    if kind is tuple:
        lengths = {len(value) for value in values}
        if len(lengths) != 1 or lengths == {0}:
            return tuple
        return tuple[tuple(_common(list(place), depth - 1) for place in zip(*values))]  # type: ignore[misc]
    if kind in (list, set, frozenset):
        parts = [part for value in values for part in islice(value, _VALUES)]
        return kind[_common(parts, depth - 1)] if parts else kind
    if kind is dict:
        items = [item for value in values for item in islice(value.items(), _VALUES)]
        if not items:
            return dict
        keys, entries = zip(*items)
        return dict[_common(list(keys), depth - 1), _common(list(entries), depth - 1)]  # type: ignore[misc]
    return kind
