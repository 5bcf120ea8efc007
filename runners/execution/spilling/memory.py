"""The memory of Python objects, measured on a sample, and a bound of the memory of a buffer."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from sys import getsizeof
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeVar

from ....sdk.elements.bundle import Bundle

try:
    import resource
except ImportError:  # On Windows.
    resource = None  # type: ignore[assignment]

T = TypeVar("T")

# The unit of the peak that the system reports, in bytes.
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024

# The part of its limit at which a buffer counts as full.
_FULL = 7 / 8

# Types of objects that are shared, and so counted for none.
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType)
# Types whose objects refer to no others.
_ATOMS = frozenset({int, float, str, bytes, bool, type(None)})

# Types whose objects have one size, and types of containers.
_FIXED = frozenset({int, float, bool, type(None)})
_CONTAINERS = frozenset({list, tuple, set, frozenset, dict, deque})

# The size of a sample, and of the sample of a container's items.
SAMPLE = 100
_ITEMS = 12

# Containers with fewer items in all are measured, not estimated.
_FEW_ITEMS = 2_000


def memory_of(*things: Any) -> int:
    """Return the bytes of objects and of all objects that they refer to, each counted once.

    >>> memory_of([1000, 2000]) > memory_of([]) + 2 * 28
    True
    """
    total = 0
    seen: set[int] = set()
    remaining = list(things)
    while remaining:
        thing = remaining.pop()
        if id(thing) in seen or isinstance(thing, _SHARED):
            continue
        seen.add(id(thing))
        total += getsizeof(thing)
        if type(thing) not in _ATOMS:
            remaining += gc.get_referents(thing)
    return total


def average(things: Iterable[T], count: int, size: Callable[[T], int]) -> float:
    """Return the average size of so many things, measured on a hundred that are evenly spread over them.

    >>> average(range(1000), 1000, lambda number: number)
    495.0
    >>> average([], 0, len)
    0.0
    """
    sizes = list(map(size, islice(things, 0, None, max(1, count // SAMPLE))))
    return sum(sizes) / len(sizes) if sizes else 0.0


def memory_of_all(things: Collection[Any]) -> float:
    """Return the bytes of many objects and of all objects that they refer to, estimated from a sample.

    The lengths of all containers are counted, because a few may be far longer than the others.

    >>> memory_of_all([[1000] * 10] * 50) < memory_of_all([*[[1000]] * 49, [1000] * 100_000])
    True
    """
    if not things:
        return 0.0
    sample = list(_spread(things, SAMPLE))
    kinds = set(map(type, things))
    if kinds <= _FIXED:
        return len(things) * memory_of(*sample) / len(sample)
    total = _sizes(things, kinds)
    if not kinds <= _CONTAINERS:
        return total + len(things) * (memory_of(*sample) - sum(map(getsizeof, sample))) / len(sample)
    length = sum(map(len, things))
    if length <= _FEW_ITEMS:
        return memory_of(*things)
    items = [item for thing in sample for item in _spread(thing, _ITEMS)]
    items += [value for thing in sample if type(thing) is dict for value in _spread(thing.values(), _ITEMS)]
    return total + length * memory_of(*items) / max(1, len(items))


def _sizes(things: Collection[Any], kinds: set[type]) -> int:
    """Return the sum of the sizes of objects, without those that they refer to.

    The method of a type takes a seventh of the time of `getsizeof`, which adds what the garbage collector needs.
    """
    if len(kinds) > 1:
        return sum(map(getsizeof, things))
    first = next(iter(things))
    kind: Any = type(first)
    total: int = sum(map(kind.__sizeof__, things)) + len(things) * (getsizeof(first) - kind.__sizeof__(first))
    return total


def _spread(things: Collection[T], count: int) -> Iterable[T]:
    return islice(things, 0, None, max(1, len(things) // count))


class MemoryBound:
    """Bound of a buffer's memory: tells when the buffer is full.

    The buffer is measured first after one element, then after a few, and then when it should be full.  It is measured
    earlier if the process needs more memory than ever before.

    Args:
      limit: the bound, in bytes.
      measure: returns the bytes of the buffer.

    >>> held = []
    >>> bound = MemoryBound(100, lambda: 8 * len(held))
    >>> while not bound.added(1):
    ...     held.append("x")
    >>> len(held)
    11
    """

    def __init__(self, limit: float, measure: Callable[[], float]) -> None:
        self._portion = 1
        self._limit = limit
        self._measure = measure
        self._elements = 0
        self._next = 1.0
        # Of the last measurement: the number of elements, the bytes of the buffer, and the peak of the process.
        self._measured: tuple[int, float] = (0, 0.0)
        self._peak = 0

    def portions(self, bundle: Bundle) -> Iterator[Bundle]:
        """Yield a bundle, cut so that the buffer stays bounded; each part is to be added before the next is asked for.

        One element may become a million in a FlatMap whose loop fills the buffer: the size is known only when the loop
        ends.  So the loop first gets one element, then a few.
        """
        start, n = 0, len(bundle)
        while start < n:
            stop = min(n, start + self._portion)
            yield bundle if stop - start == n else bundle.part(start, stop)
            start = stop

    def added(self, elements: int) -> bool:
        """Count elements that were added.  Return True if the buffer is full: then it has to be emptied."""
        self._elements += elements
        if not self._elements or (self._elements < self._next and _peak_memory() < self._peak + self._limit / 4):
            return False
        before, held_before = self._measured
        held = self._measure()
        # What an element needs: on average, or lately if that is more.
        rate = max(held / self._elements, (held - held_before) / max(1, self._elements - before), 1.0)
        full = self._limit * _FULL
        is_full = held >= full
        self._measured = (0, 0.0) if is_full else (self._elements, held)
        self._next = min(4 * self._elements, self._measured[0] + (full - self._measured[1]) / rate)
        self._portion = max(1, int(min(self._limit / rate / 8, 4 * self._elements)))
        self._peak = _peak_memory()
        if is_full:
            self.emptied()
        return is_full

    def emptied(self) -> None:
        """Note that the buffer is empty.  `added` does so when it returns True."""
        self._elements = 0
        self._measured = (0, 0.0)


def _peak_memory() -> int:
    """Return the largest resident size of this process so far, in bytes; 0 where it isn't known."""
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT
