"""ExtraAssertionsMixin: assertions for values that can't be hashed or sorted, such as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class ExtraAssertionsMixin:
    """Mixin of `unittest.TestCase`s.

    >>> from unittest import TestCase
    >>> class Test(ExtraAssertionsMixin, TestCase): pass
    >>> Test().assertUnhashableCountEqual([{"a": [1]}, "b"], ["b", {"a": [1]}])
    """

    def assertUnhashableCountEqual(self, data1: Iterable[Any], data2: Iterable[Any]) -> None:
        """Raise `AssertionError` unless both have the same values, in any order, equally often."""
        found, expected = ([_hashable(value) for value in data] for data in (data1, data2))
        self.assertCountEqual(found, expected)  # type: ignore[attr-defined]  # noqa: PT009


def _hashable(value: Any) -> Any:
    """Return a value that can be hashed, and that is equal to those of equal values."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, *map(_hashable, value)
    if isinstance(value, dict):
        return frozenset((key, _hashable(item)) for key, item in value.items())
    if hasattr(value, "tobytes") and hasattr(value, "shape"):
        return value.shape, value.tobytes()
    return value
