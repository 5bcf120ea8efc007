"""How much memory Python objects take: measured on some, for many that are like them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection
from itertools import islice
from sys import getsizeof
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeVar

T = TypeVar("T")

# What many refer to, and nobody has for himself.
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType)
# What has no parts.
_ATOMS = frozenset({int, float, str, bytes, bool, type(None)})

# How many of many are measured.
SAMPLE = 100


def memory_of(*things: Any) -> int:
    """The bytes of objects, with all that they refer to; what several of them refer to counts once.

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
    """The size of one of many, on the average: of a hundred that are evenly spread over them.

    >>> average(range(1000), lambda number: number)
    495.0
    >>> average([], len)
    0.0
    """
    step = max(1, len(things) // SAMPLE)
    sizes = [size(thing) for thing in islice(things, 0, None, step)]
    return sum(sizes) / len(sizes) if sizes else 0.0
