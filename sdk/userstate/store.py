"""StateStore: the storage of a DoFn's states, of all kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

# A key, and the name of one of its states.
Cell: TypeAlias = tuple[Any, str]


class Container(Protocol):
    """A value that is changed in place, such as a bag or a map."""

    def copy(self) -> Any:
        """Return a copy, which may share unchanged parts."""


C = TypeVar("C", bound=Container)


class StateStore(Protocol):
    """Interface of the storage of states."""

    def get(self, namespace: Any, cell: Cell, default: Any = None) -> Any:
        """Return a cell's value, or the default.  It must not be changed in place."""

    def put(self, namespace: Any, cell: Cell, value: Any) -> None:
        """Set the value of a cell."""

    def changing(self, namespace: Any, cell: Cell, make: Callable[[], C]) -> C:
        """Return a cell's container, to be changed in place.  `make` creates it if the cell has none."""

    def remove(self, namespace: Any, cell: Cell) -> None:
        """Remove a cell's value, if it has one."""

    def wrote(self, cell: Cell, value: Any) -> None:
        """Check a value that was written to a cell or its container, which must be picklable."""


class DictStore:
    """A store in memory, for calling a DoFn's methods directly.

    >>> from penstock.sdk.userstate import BagStateSpec
    >>> bag = BagStateSpec("seen").of(DictStore())
    >>> bag.add(1)
    >>> list(bag.read())
    [1]
    """

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}

    def get(self, namespace: Any, cell: Cell, default: Any = None) -> Any:
        return self.values.get((namespace, cell), default)

    def put(self, namespace: Any, cell: Cell, value: Any) -> None:
        self.values[namespace, cell] = value

    def changing(self, namespace: Any, cell: Cell, make: Callable[[], C]) -> C:
        if (namespace, cell) not in self.values:
            self.values[namespace, cell] = make()
        return self.values[namespace, cell]  # type: ignore[no-any-return]

    def remove(self, namespace: Any, cell: Cell) -> None:
        self.values.pop((namespace, cell), None)

    def wrote(self, cell: Cell, value: Any) -> None:
        pass
