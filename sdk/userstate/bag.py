"""BagStateSpec: values, in the order in which they were added.

>>> from penstock.sdk.userstate import DictStore
>>> bag = BagStateSpec("buffer").of(DictStore())
>>> bag.add("b"), bag.add("a"), bag.add("b")
(None, None, None)
>>> list(bag.read()), bag.is_empty()
(['b', 'a', 'b'], False)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .state_spec import AccumulatingRuntimeState, StateSpec


class Chunks:
    """An append-only run of values.

    It is kept in chunks.  A copy shares the chunks that are there and begins one of its own, so
    that what is new since a copy was made is what lies behind the chunks that both have.
    """

    __slots__ = ("_length", "chunks")

    def __init__(self) -> None:
        self.chunks: list[list[Any]] = [[]]
        self._length = 0

    def append(self, value: Any) -> None:
        """Add a value at the end."""
        self.chunks[-1].append(value)
        self._length += 1

    def copy(self) -> Chunks:
        """The same values; appending to it leaves this one as it is."""
        made = Chunks()
        made.chunks = [*(chunk for chunk in self.chunks if chunk), []]
        made._length = self._length
        return made

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        for chunk in self.chunks:
            yield from chunk

    def __eq__(self, other: object) -> bool:
        return type(other) is Chunks and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Chunks({list(self)!r})"

    def __getstate__(self) -> list[Any]:
        return list(self)

    def __setstate__(self, values: list[Any]) -> None:
        self.chunks = [values, []]
        self._length = len(values)


class BagRuntimeState(AccumulatingRuntimeState):
    """The values of one key and window."""

    __slots__ = ()

    def read(self) -> list[Any]:
        """The values, in the order in which they were added."""
        return list(self._store.get(self._namespace, self._cell, ()))

    def add(self, value: Any) -> None:
        """Add a value."""
        self._store.changing(self._namespace, self._cell, Chunks).append(value)

    def is_empty(self) -> bool:
        """Whether there is none."""
        return self._store.get(self._namespace, self._cell) is None


class BagStateSpec(StateSpec):
    """Values in the order in which they were added: `read`, `add`, `is_empty`, `clear`."""

    runtime = BagRuntimeState
