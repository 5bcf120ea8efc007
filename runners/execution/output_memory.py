"""What a DoFn that isn't deterministic has emitted, so that exactly that can be retracted.

A retraction runs through a ParDo as its element did, and its outputs carry the sign.  Of a
DoFn declared `deterministic = False` that would be other outputs; so those of each element
are kept, and found again by the element, its timestamp and its windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...sdk.errors import PenstockError
from .column_codec import encode_column
from .equal_values import find_alike
from .user_code import shortened


class OutputMemory:
    """The outputs of one ParDo, by input.

    >>> memory = OutputMemory()
    >>> memory(1, "a", 0, (), lambda: [1, 2]), memory(-1, "a", 0, (), lambda: [3])
    ([1, 2], [1, 2])
    """

    def __init__(self) -> None:
        self._kept: dict[Any, list[list[Any]]] = {}

    def snapshot(self) -> dict[Any, list[list[Any]]]:
        """The outputs that may yet be retracted, by input."""
        return self._kept

    def restore(self, kept: dict[Any, list[list[Any]]]) -> None:
        """Take over the outputs of a snapshot, besides what is there."""
        for key, outputs in kept.items():
            self._kept.setdefault(key, []).extend(outputs)

    def __call__(
        self, sign: int, value: Any, micros: int, windows: Any, produce: Callable[[], Iterable[Any] | None]
    ) -> list[Any]:
        """The outputs of an element, or those that it had when it is retracted."""
        key: Any = (value, micros, windows)
        try:
            hash(key)
        except TypeError:
            key = (encode_column([value]), micros, windows)
        if sign > 0:
            outputs = list(produce() or ())
            self._kept.setdefault(key, []).append(outputs)
            return outputs
        kept = self._kept.get(key)
        if not kept:
            near = [other for other in self._kept if other[1:] == key[1:]]
            place = find_alike(value, [other for other, *_ in near])
            if place is not None:
                key = near[place]
                kept = self._kept[key]
        if not kept:
            raise PenstockError(f"the element {shortened(value)} is retracted, but never came")
        outputs = kept.pop()
        if not kept:
            del self._kept[key]
        return outputs
