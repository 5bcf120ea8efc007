"""What a DoFn that isn't deterministic has emitted, so that exactly that can be retracted.

A retraction runs through a ParDo as its element did, and its outputs carry the sign.  Of a
DoFn declared `deterministic = False` that would be other outputs; so those of each element
are kept, and found again by the element, its timestamp and its windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ....sdk.errors import PenstockError
from ..change_tracking import FreshAndGone
from ..serialization.column_codec import encode_column
from ..user_errors import shortened
from ..windows.retractions import find_alike


class MemoryChanges(NamedTuple):
    """What has come to a memory and has gone of it, as plain data that can be pickled.

    Each output of an element has a number: the element itself may equal nothing, once it has been pickled.

    Attributes:
      is_all: whether there is nothing but this.
      gone: the numbers of outputs that were retracted.
      fresh: numbers, and what they are of: the inputs and the outputs.
    """

    is_all: bool
    gone: list[int]
    fresh: dict[int, tuple[Any, list[Any]]]


class OutputMemory:
    """The outputs of one ParDo, by input.

    >>> memory = OutputMemory()
    >>> memory(1, "a", 0, (), lambda: [1, 2]), memory(-1, "a", 0, (), lambda: [3])
    ([1, 2], [1, 2])
    """

    def __init__(self) -> None:
        # By input, the numbers of its outputs.
        self._numbers: dict[Any, list[int]] = {}
        self._kept: dict[int, tuple[Any, list[Any]]] = {}
        self._next = 0
        # Numbers; None before there is a snapshot.
        self._since: FreshAndGone[int] | None = None

    def __len__(self) -> int:
        """Of how many elements the outputs are kept."""
        return len(self._kept)

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
            self._keep(key, outputs)
            return outputs
        numbers = self._numbers.get(key)
        if not numbers:
            near = [other for other in self._numbers if other[1:] == key[1:]]
            place = find_alike(value, [other for other, *_ in near])
            if place is not None:
                key = near[place]
                numbers = self._numbers[key]
        if not numbers:
            raise PenstockError(f"the element {shortened(value)} is retracted, but never came")
        number = numbers.pop()
        if not numbers:
            del self._numbers[key]
        if self._since is not None:
            self._since.go(number)
        return self._kept.pop(number)[1]

    def _keep(self, key: Any, outputs: list[Any]) -> None:
        number = self._next
        self._next += 1
        self._numbers.setdefault(key, []).append(number)
        self._kept[number] = key, outputs
        if self._since is not None:
            self._since.come(number)

    # Snapshots

    def snapshot(self) -> MemoryChanges:
        """The outputs that may yet be retracted; to be written before anything else comes."""
        self.forget_changes()
        return MemoryChanges(True, [], self._kept)

    def changes(self) -> MemoryChanges:
        """What has changed since the last snapshot, or the last changes."""
        since = self._since
        if since is None:
            return self.snapshot()
        self.forget_changes()
        return MemoryChanges(False, list(since.gone), {number: self._kept[number] for number in since.fresh})

    @property
    def number_changed(self) -> int:
        """Of how many elements there is something in the next changes."""
        return len(self) if self._since is None else len(self._since)

    def forget_changes(self) -> list[dict[Any, None]]:
        """What has changed so far is in a snapshot that somebody else takes; what it was, to be let go."""
        since, self._since = self._since, FreshAndGone()
        return [] if since is None else [since.fresh, since.gone]

    def restore(self, parts: Sequence[Iterable[MemoryChanges]]) -> None:
        """Take over snapshots of one memory or more, each with the changes that came after it.

        What changes from here on is the next changes; of several it is everything, for they had the same numbers.
        """
        for part in parts:
            kept: dict[int, tuple[Any, list[Any]]] = {}
            for is_all, gone, fresh in part:
                if is_all:
                    kept.clear()
                for number in gone:
                    del kept[number]
                kept.update(fresh)
            for number, (key, outputs) in kept.items():
                self._next = number if len(parts) == 1 else self._next
                self._keep(key, outputs)
        if len(parts) == 1:
            self.forget_changes()
