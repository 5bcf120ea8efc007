"""SetStateSpec: distinct values.

>>> from penstock.sdk.userstate import DictStore
>>> seen = SetStateSpec("seen").of(DictStore())
>>> seen.add("b"), seen.add("a"), seen.add("b")
(None, None, None)
>>> list(seen.read()), seen.contains("a"), seen.remove("a"), seen.contains("a")
(['b', 'a'], True, None, False)
"""

from __future__ import annotations

from typing import Any

from ..coders.coded_key import coded, plain
from .state_spec import AccumulatingRuntimeState, StateSpec


class SetRuntimeState(AccumulatingRuntimeState):
    """The distinct values of one key and window."""

    __slots__ = ()

    def read(self) -> list[Any]:
        """Return the values in the order of their first addition."""
        return list(map(plain, self._store.get(self._namespace, self._cell, ())))

    def add(self, value: Any) -> None:
        """Add a value, unless it is in the set.  It needs a hash, or a registered coder."""
        value = coded(value)
        if value not in self._store.get(self._namespace, self._cell, ()):
            # A dictionary keeps the order of insertion, which a set does not.
            self._store.changing(self._namespace, self._cell, dict[Any, None])[value] = None
            self._store.wrote(self._cell, value)

    def contains(self, value: Any) -> bool:
        """Return whether a value is in the set."""
        return coded(value) in self._store.get(self._namespace, self._cell, ())

    def remove(self, value: Any) -> None:
        """Remove a value, if it is in the set."""
        if self.contains(value):
            values = self._store.changing(self._namespace, self._cell, dict[Any, None])
            del values[coded(value)]
            if not values:
                self.clear()

    def is_empty(self) -> bool:
        """Return whether there are no values."""
        return self._store.get(self._namespace, self._cell) is None


class SetStateSpec(StateSpec):
    """Distinct values: `read`, `add`, `contains`, `remove`, `is_empty`, `clear`."""

    runtime = SetRuntimeState
