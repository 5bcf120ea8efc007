"""Shared: one heavy object for each worker process, such as a model or a lookup table."""

from __future__ import annotations

import threading
import uuid
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

T = TypeVar("T")


@attrs.define
class _Slot:
    """A process's object of one `Shared`, with its tag.

    Attributes:
      value: returns the object, or None if it is not built or was freed.
    """

    lock: threading.Lock = attrs.field(factory=threading.Lock)
    tag: Any = None
    value: Callable[[], Any] = lambda: None


_slots: dict[str, _Slot] = {}
_latest: Any = None


def _reference(value: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(value)
    except TypeError:  # a list, for example
        return lambda: value


class Shared:
    """A handle on an object that is built once in each process.

    Create it while the pipeline is built, and pass it to the `DoFn`s, whose `setup` acquires the object.  Copies and
    unpickled copies of the handle share the object.  A process keeps the object that was acquired last; any other is
    freed once nothing refers to it, or with another `tag` if it takes no weak references, as lists.

    >>> table = Shared()
    >>> table.acquire(lambda: [1, 2]) is table.acquire(lambda: [3, 4])
    True
    >>> table.acquire(lambda: [3, 4], tag="version 2")
    [3, 4]
    """

    def __init__(self) -> None:
        self._key = uuid.uuid4().hex

    def acquire(self, constructor_fn: Callable[[], T], tag: Any = None) -> T:
        """Return this process's object.

        `constructor_fn` builds it on the first call, and again if it was freed, if `tag` changes, or after None.
        """
        global _latest
        slot = _slots.setdefault(self._key, _Slot())
        with slot.lock:
            value: T | None = slot.value() if slot.tag == tag else None
            if value is None:
                value = constructor_fn()
                slot.value, slot.tag = _reference(value), tag
            _latest = value
            return value
