"""Shared: one heavy object for each worker process, such as a model or a lookup table."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

T = TypeVar("T")


@attrs.define
class _Slot:
    """A process's object of one `Shared`, with its tag."""

    lock: threading.Lock = attrs.field(factory=threading.Lock)
    built: bool = False
    tag: Any = None
    value: Any = None


_slots: dict[str, _Slot] = {}


class Shared:
    """A handle on an object that is built once in each process.

    Create it while the pipeline is built, and pass it to the `DoFn`s, whose `setup` acquires the object.  Copies and
    unpickled copies of the handle share the object.  A process keeps the object until `acquire` is called with another
    `tag`, or until the process ends.

    >>> table = Shared()
    >>> table.acquire(lambda: [1, 2]) is table.acquire(lambda: [3, 4])
    True
    >>> table.acquire(lambda: [3, 4], tag="version 2")
    [3, 4]
    """

    def __init__(self) -> None:
        self._key = uuid.uuid4().hex

    def acquire(self, constructor_fn: Callable[[], T], tag: Any = None) -> T:
        """Return this process's object.  `constructor_fn` builds it on the first call, and again if `tag` changes."""
        slot = _slots.setdefault(self._key, _Slot())
        with slot.lock:
            if not slot.built or slot.tag != tag:
                slot.value = constructor_fn()
                slot.tag = tag
                slot.built = True
            value: T = slot.value
            return value
