"""BagStateSpec: values, in the order of addition.

>>> from penstock.sdk.userstate import DictStore
>>> bag = BagStateSpec("buffer").of(DictStore())
>>> bag.add("b"), bag.add("a"), bag.add("b")
(None, None, None)
>>> list(bag.read()), bag.is_empty()
(['b', 'a', 'b'], False)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic

from ...persistence import restores
from ..elements.defensive_copy import defensive_copies, defensive_copy
from ..type_variables import T
from .state_spec import AccumulatingRuntimeState, StateSpec
from .store import ATOMS

if TYPE_CHECKING:
    from ..static_types import CoderOf
    from .state_ttl import Ttl
    from .store import StateStore

# The number of chunks beyond which they are joined.
_MANY_CHUNKS = 64


class Chunks:
    """An append-only sequence of values.

    A copy shares the existing values, and appends its own.

    Attributes:
      shared: the number of values at the time of copying.
    """

    __slots__ = ("_before", "_tail", "shared")

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self._before: tuple[list[Any], ...] = ()
        self._tail: list[Any] = list(values)
        self.shared = 0

    def append(self, value: Any) -> None:
        """Add a value at the end."""
        self._tail.append(value)

    @property
    def new(self) -> list[Any]:
        """Return the values appended since copying."""
        return self._tail

    def copy(self) -> Chunks:
        """Return a copy, which is appended to independently."""
        made = Chunks()
        made._before = (*self._before, self._tail) if self._tail else self._before
        if len(made._before) > _MANY_CHUNKS:
            made._before = ([value for chunk in made._before for value in chunk],)
        made.shared = len(self)
        return made

    def __len__(self) -> int:
        return self.shared + len(self._tail)

    def __iter__(self) -> Iterator[Any]:
        for chunk in self._before:
            yield from chunk
        yield from self._tail

    def __eq__(self, other: object) -> bool:
        return type(other) is Chunks and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Chunks({list(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_chunks, (list(self),))


@restores("bag-state", 1)
def _chunks(values: list[Any]) -> Chunks:
    return Chunks(values)


class BagRuntimeState(AccumulatingRuntimeState, Generic[T]):
    """The values of one key and window."""

    __slots__ = ()

    def read(self) -> list[T]:
        """Return the values in the order of addition."""
        return defensive_copies(list(self.column.values.get(self.key, ())))

    def add(self, value: T) -> None:
        """Add a value."""
        column, key = self.column, self.key
        if type(value) not in ATOMS:
            value = defensive_copy(value)
            column.wrote(key, value)
        column.changing(key, Chunks).append(value)

    def is_empty(self) -> bool:
        """Return whether there are no values."""
        return self.column.values.get(self.key) is None


class BagStateSpec(StateSpec, Generic[T]):
    """Values in the order of addition: `read`, `add`, `is_empty`, `clear`.

    >>> import penstock as beam
    >>> from penstock.transforms.userstate import BagStateSpec
    >>> class SoFar(beam.DoFn):
    ...     VALUES = BagStateSpec("values")
    ...     def process(self, pair, values=beam.DoFn.StateParam(VALUES)):
    ...         values.add(pair[1])
    ...         yield list(values.read())
    >>> [("a", 3), ("a", 5), ("b", 1)] | beam.ParDo(SoFar())
    [[3], [3, 5], [1]]
    """

    runtime = BagRuntimeState

    if TYPE_CHECKING:

        def __init__(self, name: str, coder: CoderOf[T] | None = None, *, ttl: Ttl = None) -> None: ...
        def of(self, store: StateStore, namespace: Any = None, key: Any = None) -> BagRuntimeState[T]: ...
