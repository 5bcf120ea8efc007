"""Values that equal their copies from a shuffle or a snapshot."""

from __future__ import annotations

from typing import Any

_ATOMS = frozenset({int, str, bytes, bool, type(None)})
_CONTAINERS = frozenset({tuple, list, set, frozenset})


def equals_its_copies(value: Any) -> bool:
    """Return whether a value is known to equal its copies.

    NaN equals no value, and an object without `__eq__` equals only itself.  The equality of classes that aren't built
    in is unknown.

    >>> equals_its_copies(("a", [1, 2.5])), equals_its_copies(("a", float("nan"))), equals_its_copies(object())
    (True, False, False)
    """
    kind = type(value)
    if kind in _ATOMS:
        return True
    if kind is float:
        return bool(value == value)
    if kind in _CONTAINERS:
        return all(map(equals_its_copies, value))
    return kind is dict and all(equals_its_copies(part) for item in value.items() for part in item)
