"""SetStateSpec: distinct values.

>>> from penstock.sdk.userstate import DictStore
>>> seen = SetStateSpec("seen").of(DictStore())
>>> seen.add("b"), seen.add("a"), seen.add("b")
(None, None, None)
>>> list(seen.read()), seen.contains("a"), seen.remove("a"), seen.contains("a")
(['b', 'a'], True, None, False)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from ..coders.coded_key import coded, plain
from ..type_variables import T
from .state_spec import AccumulatingRuntimeState, StateSpec
from .store import ATOMS

if TYPE_CHECKING:
    from ..static_types import CoderOf
    from .state_ttl import Ttl
    from .store import StateStore


class SetRuntimeState(AccumulatingRuntimeState, Generic[T]):
    """The distinct values of one key and window."""

    __slots__ = ()

    def read(self) -> list[T]:
        """Return the values in the order of their first addition."""
        return list(map(plain, self.column.values.get(self.key, ())))

    def add(self, value: T) -> None:
        """Add a value, unless it is in the set.  It needs a hash, or a registered coder."""
        value = coded(value)
        column, key = self.column, self.key
        if value not in column.values.get(key, ()):
            # A dictionary keeps the order of insertion, which a set does not.
            column.changing(key, dict[Any, None])[value] = None
            if type(value) not in ATOMS:
                column.wrote(key, value)

    def contains(self, value: Any) -> bool:
        """Return whether a value is in the set."""
        return coded(value) in self.column.values.get(self.key, ())

    def remove(self, value: Any) -> None:
        """Remove a value, if it is in the set."""
        if self.contains(value):
            values = self.column.changing(self.key, dict[Any, None])
            del values[coded(value)]
            if not values:
                self.clear()

    def is_empty(self) -> bool:
        """Return whether there are no values."""
        return self.column.values.get(self.key) is None


class SetStateSpec(StateSpec, Generic[T]):
    """Distinct values: `read`, `add`, `contains`, `remove`, `is_empty`, `clear`.

    >>> import penstock as beam
    >>> from penstock.transforms.userstate import SetStateSpec
    >>> class New(beam.DoFn):
    ...     SEEN = SetStateSpec("seen")
    ...     def process(self, pair, seen=beam.DoFn.StateParam(SEEN)):
    ...         if not seen.contains(pair[1]):
    ...             seen.add(pair[1])
    ...             yield pair
    >>> [("a", 3), ("a", 3), ("a", 5)] | beam.ParDo(New())
    [('a', 3), ('a', 5)]
    """

    runtime = SetRuntimeState

    if TYPE_CHECKING:

        def __init__(self, name: str, coder: CoderOf[T] | None = None, *, ttl: Ttl = None) -> None: ...
        def of(self, store: StateStore, namespace: Any = None, key: Any = None) -> SetRuntimeState[T]: ...
