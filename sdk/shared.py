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
    """What a process holds for one `Shared`: the object and the tag it was built for."""

    lock: threading.Lock = attrs.field(factory=threading.Lock)
    built: bool = False
    tag: Any = None
    value: Any = None


_slots: dict[str, _Slot] = {}


class Shared:
    """A handle on an object that is built once in each process and shared by all who hold the handle.

    Make it where the pipeline is built and hand it to the `DoFn`s, whose `setup`
    acquires the object.  Copies and unpickled copies of the handle are the same handle.
    A process keeps the object until another `tag` is asked for, or until it ends.

    >>> table = Shared()
    >>> table.acquire(lambda: [1, 2]) is table.acquire(lambda: [3, 4])
    True
    >>> table.acquire(lambda: [3, 4], tag="version 2")
    [3, 4]
    """

    def __init__(self) -> None:
        self._key = uuid.uuid4().hex

    def acquire(self, constructor_fn: Callable[[], T], tag: Any = None) -> T:
        """This process's object; built by `constructor_fn` the first time, and again whenever `tag` changes."""
        slot = _slots.setdefault(self._key, _Slot())
        with slot.lock:
            if not slot.built or slot.tag != tag:
                slot.value = constructor_fn()
                slot.tag = tag
                slot.built = True
            value: T = slot.value
            return value
