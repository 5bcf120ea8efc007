"""Multiset: values, and how often each is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .column_codec import encode_column

# Stands for every float that isn't a number: no two of them are equal, yet one takes back another.
_NAN = object()


class Multiset:
    """Values and how often each is there; a count may be below zero for a while.

    >>> values = Multiset()
    >>> values.add("a", 1), values.add([1], 1), values.add("a", 1), values.add("a", -1)
    (None, None, None, None)
    >>> list(values)
    ['a', [1]]
    """

    __slots__ = ("_counts", "_unhashable")

    def __init__(self) -> None:
        self._counts: dict[Any, int] = {}
        # Values without a hash, found by comparing.
        self._unhashable: list[tuple[Any, int]] = []

    def add(self, value: Any, count: int) -> None:
        """Have it there `count` times more."""
        if type(value) is float and value != value:
            value = _NAN
        try:
            new = self._counts.get(value, 0) + count
        except TypeError:
            self._add_unhashable(value, count)
            return
        if new:
            self._counts[value] = new
        else:
            del self._counts[value]

    def _add_unhashable(self, value: Any, count: int) -> None:
        for i, (other, n) in enumerate(self._unhashable):
            if are_equal(other, value):
                if n + count:
                    self._unhashable[i] = (other, n + count)
                else:
                    del self._unhashable[i]
                return
        self._unhashable.append((value, count))

    def update(self, other: Multiset) -> None:
        """Add what another one holds."""
        for value, count in [*other._counts.items(), *other._unhashable]:
            self.add(value, count)

    def __iter__(self) -> Iterator[Any]:
        for value, count in [*self._counts.items(), *self._unhashable]:
            for _ in range(count):
                yield float("nan") if value is _NAN else value

    def __len__(self) -> int:
        """How many there are to go through: what is below zero isn't there."""
        return sum(n for n in [*self._counts.values(), *(n for _, n in self._unhashable)] if n > 0)

    def __bool__(self) -> bool:
        return bool(self._counts or self._unhashable)


def are_equal(value: Any, other: Any) -> bool:
    """Whether one of two values can stand for the other, such as a retraction for what it takes back.

    Values that can't be compared as a whole, such as arrays, are equal if their encodings are.

    >>> are_equal([1], [1.0]), are_equal([1], [2])
    (True, False)
    """
    try:
        return bool(value == other)
    except (TypeError, ValueError):
        return type(value) is type(other) and encode_column([value]) == encode_column([other])
