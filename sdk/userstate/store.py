"""StateStore: the storage of a DoFn's states, of all kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

# Types whose values can always be pickled.
ATOMS = frozenset({str, int, float, bytes, bool, type(None)})


class Container(Protocol):
    """A value that is changed in place, such as a bag or a map."""

    def copy(self) -> Any:
        """Return a copy, which may share unchanged parts."""


C = TypeVar("C", bound=Container)


class StateColumn:
    """The values of one state in one window, by key.

    Attributes:
      values: the values, which must not be changed in place.
      is_tracked: True if each key whose value changes has to be reported with `touch`.
    """

    __slots__ = ("is_tracked", "values")

    def __init__(self, is_tracked: bool = False) -> None:
        self.values: dict[Any, Any] = {}
        self.is_tracked = is_tracked

    def touch(self, key: Any) -> None:
        """Note that the value of a key has changed."""

    def changing(self, key: Any, make: Callable[[], C]) -> C:
        """Return a key's container, to be changed in place.  `make` creates it if the key has none."""
        container: C | None = self.values.get(key)
        if container is None:
            container = self.values[key] = make()
        return container

    def remove(self, key: Any) -> None:
        """Remove a key's value, if it has one."""
        self.values.pop(key, None)

    def wrote(self, key: Any, value: Any) -> None:
        """Check a value that was written to a key's value or container, which must be picklable."""


class StateStore(Protocol):
    """Interface of the storage of states."""

    def column(self, namespace: Any, name: str) -> StateColumn:
        """Return the values of one state in one window."""


class DictStore:
    """A store in memory, for calling a DoFn's methods directly.

    >>> from penstock.sdk.userstate import BagStateSpec
    >>> bag = BagStateSpec("seen").of(DictStore())
    >>> bag.add(1)
    >>> list(bag.read())
    [1]
    """

    def __init__(self) -> None:
        self.columns: dict[Any, StateColumn] = {}

    def column(self, namespace: Any, name: str) -> StateColumn:
        return self.columns.setdefault((namespace, name), StateColumn())
