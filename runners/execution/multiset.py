"""Multiset: values, and how often each is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...stored import restores
from .equal_values import are_equal, find_alike


class _NotANumber:
    """Stands for every float that isn't a number: no two of them are equal, yet one takes back another."""

    # There is one, also after a journey to another process.
    def __reduce__(self) -> tuple[Any, ...]:
        return (_not_a_number, ())


_NAN = _NotANumber()


@restores("not-a-number", 1)
def _not_a_number() -> _NotANumber:
    return _NAN


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
        counts = self._counts
        try:
            known = counts.get(value)
        except TypeError:
            self._add_unhashable(value, count)
            return
        if known is None and count < 0:
            place = find_alike(value, counts)
            if place is not None:
                value = list(counts)[place]
        new = counts.get(value, 0) + count
        if new:
            counts[value] = new
        else:
            counts.pop(value, None)

    def _add_unhashable(self, value: Any, count: int) -> None:
        present = self._unhashable
        place = next((i for i, (other, _) in enumerate(present) if are_equal(other, value)), None)
        if place is None and count < 0:
            place = find_alike(value, [other for other, _ in present])
        if place is None:
            present.append((value, count))
            return
        other, known = present[place]
        if known + count:
            present[place] = (other, known + count)
        else:
            del present[place]

    def update(self, other: Multiset) -> None:
        """Add what another one holds."""
        for value, count in [*other._counts.items(), *other._unhashable]:
            self.add(value, count)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_multiset, (self._counts, self._unhashable))

    def __iter__(self) -> Iterator[Any]:
        for value, count in [*self._counts.items(), *self._unhashable]:
            for _ in range(count):
                yield float("nan") if value is _NAN else value

    def __len__(self) -> int:
        """How many there are to go through: what is below zero isn't there."""
        return sum(n for n in [*self._counts.values(), *(n for _, n in self._unhashable)] if n > 0)

    def __bool__(self) -> bool:
        return bool(self._counts or self._unhashable)


@restores("multiset", 1)
def _multiset(counts: dict[Any, int], unhashable: list[tuple[Any, int]]) -> Multiset:
    restored = Multiset()
    restored._counts, restored._unhashable = counts, unhashable
    return restored
