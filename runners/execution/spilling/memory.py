"""The memory of Python objects, measured on a sample."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection
from itertools import islice
from sys import getsizeof
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeVar

T = TypeVar("T")

# Types of objects that are shared, and so counted for none.
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType)
# Types whose objects refer to no others.
_ATOMS = frozenset({int, float, str, bytes, bool, type(None)})

# The size of a sample.
SAMPLE = 100


def memory_of(*things: Any) -> int:
    """Return the bytes of objects and of all objects that they refer to, each counted once.

    >>> memory_of([1000, 2000]) > memory_of([]) + 2 * 28
    True
    """
    total = 0
    seen: set[int] = set()
    left = list(things)
    while left:
        thing = left.pop()
        if id(thing) in seen or isinstance(thing, _SHARED):
            continue
        seen.add(id(thing))
        total += getsizeof(thing)
        if type(thing) not in _ATOMS:
            left += gc.get_referents(thing)
    return total


def average(things: Collection[T], size: Callable[[T], int]) -> float:
    """Return the average size of things, measured on a hundred that are evenly spread over them.

    >>> average(range(1000), lambda number: number)
    495.0
    >>> average([], len)
    0.0
    """
    step = max(1, len(things) // SAMPLE)
    sizes = [size(thing) for thing in islice(things, 0, None, step)]
    return sum(sizes) / len(sizes) if sizes else 0.0
