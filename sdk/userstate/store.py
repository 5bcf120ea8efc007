"""StateStore: where the states of a DoFn are kept, whatever their kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

# A key, and the name of one of its states.
Cell: TypeAlias = tuple[Any, str]


class Container(Protocol):
    """A value that is changed in place: a bag, a set, a map."""

    def copy(self) -> Any:
        """Another one with the same contents, which may share what neither of the two changes."""


C = TypeVar("C", bound=Container)


class StateStore(Protocol):
    """What a state reads from and writes to."""

    def get(self, namespace: Any, cell: Cell, default: Any = None) -> Any:
        """A cell's value, which is not to be changed; the default if it has none."""

    def put(self, namespace: Any, cell: Cell, value: Any) -> None:
        """Give a cell a value."""

    def changing(self, namespace: Any, cell: Cell, make: Callable[[], C]) -> C:
        """A cell's container, to be changed in place; a new one of `make` if it has none."""

    def remove(self, namespace: Any, cell: Cell) -> None:
        """Take a cell's value away, if it has one."""

    def wrote(self, cell: Cell, value: Any) -> None:
        """Told of every value that a cell was given, or its container: it has to be one that can be pickled."""


class DictStore:
    """A store that keeps nothing longer than itself: to call a DoFn's methods by hand.

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
