"""Keyed state: the values that a stateful ParDo keeps for each key and window.

It is a dictionary of values by window, key and name.  Values are immutable.  Containers (bags, sets, maps) are changed
in place, but never one that a snapshot has: the first change after a snapshot is made to a copy.  So taking a snapshot
costs no more than listing the cells, and it can be written while processing continues.

>>> from penstock.sdk.userstate import BagStateSpec
>>> state = KeyedState(tracking=True)
>>> bag = BagStateSpec("seen").of(state, "window", "key")
>>> bag.add(1), bag.add(2)
(None, None)
>>> first = state.snapshot()
>>> bag.add(3)
>>> [(change.kind.name, change.value) for change in state.changes()]
[('APPEND', [3])]
>>> [(change.kind.name, list(change.value)) for change in first]
[('PUT', [1, 2])]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from ....sdk.errors import SerializationError
from ....sdk.userstate.bag import Chunks
from ....sdk.userstate.combining_value import Accumulator
from ....sdk.userstate.ordered_list import Timeline
from ....sdk.userstate.store import Cell, Container
from ....stored import stored_as
from ..serialization.column_codec import encode_column
from ..user_errors import shortened

C = TypeVar("C", bound=Container)


@stored_as("state-change", 1)
class ChangeKind(Enum):
    """A kind of change to a cell."""

    # The cell has this value now.
    PUT = "put"
    # These values were appended to its bag.
    APPEND = "append"
    # The cell has no value any more.
    REMOVE = "remove"


class Change(NamedTuple):
    """A change of one cell, as plain data that can be pickled."""

    namespace: Any
    key: Any
    name: str
    kind: ChangeKind
    value: Any = None


class KeyedState:
    """The state of one worker's keys.

    Args:
      tracking: True if snapshots will be taken; then changes since the last one are tracked.
      checking: True to check once for each bundle that written values can be pickled.
    """

    def __init__(self, tracking: bool = False, checking: bool = True) -> None:
        self._values: dict[Any, dict[Cell, Any]] = {}
        self._tracking = tracking
        self._checking = checking
        # By namespace, the cells that have changed since the last snapshot.
        self._dirty: dict[Any, dict[Cell, None]] = {}
        self._unchecked: list[tuple[Cell, Any]] = []

    def __len__(self) -> int:
        """Return the number of cells with a value."""
        return sum(map(len, self._values.values()))

    def get(self, namespace: Any, cell: Cell, default: Any = None) -> Any:
        """Return a cell's value, which must not be changed; the default if it has none."""
        values = self._values.get(namespace)
        return default if values is None else values.get(cell, default)

    def put(self, namespace: Any, cell: Cell, value: Any) -> None:
        """Set a cell's value."""
        try:
            self._values[namespace][cell] = value
        except KeyError:
            self._values[namespace] = {cell: value}
        if self._tracking:
            self._touch(namespace, cell)

    def changing(self, namespace: Any, cell: Cell, make: Callable[[], C]) -> C:
        """Return a cell's container, to be changed in place; a new one of `make` if it has none."""
        values = self._values.get(namespace)
        if values is None:
            values = self._values[namespace] = {}
        container: C | None = values.get(cell)
        if container is None:
            container = values[cell] = make()
        elif not self._tracking:
            return container
        elif cell not in self._dirty.get(namespace, ()):
            container = values[cell] = container.copy()
        if self._tracking:
            self._touch(namespace, cell)
        return container

    def remove(self, namespace: Any, cell: Cell) -> None:
        """Remove a cell's value, if it has one."""
        values = self._values.get(namespace)
        if values is None or cell not in values:
            return
        del values[cell]
        if not values:
            del self._values[namespace]
        if self._tracking:
            self._touch(namespace, cell)

    def free_namespace(self, namespace: Any) -> None:
        """Remove all cells of a namespace."""
        values = self._values.pop(namespace, None)
        if values and self._tracking:
            for cell in values:
                self._touch(namespace, cell)

    def keys(self, namespace: Any, name: str) -> list[Any]:
        """Return the keys that have a cell of this name, in the order in which they first had it."""
        return [key for key, own in self._values.get(namespace, ()) if own == name]

    def namespaces(self) -> list[Any]:
        """Return the namespaces that have any cell."""
        return list(self._values)

    def take_out(self, namespace: Any, key: Any, names: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
        """Remove a key's cells to spill them; return their values, and the names of those that have changed."""
        values, dirty = self._values.get(namespace, {}), self._dirty.get(namespace, {})
        taken: dict[str, Any] = {}
        changed: list[str] = []
        for name in names:
            cell = (key, name)
            if cell in values:
                taken[name] = values.pop(cell)
                if cell in dirty:
                    del dirty[cell]
                    changed.append(name)
        if not values:
            self._values.pop(namespace, None)
        return taken, changed

    def put_back(self, namespace: Any, key: Any, taken: dict[str, Any], changed: Iterable[str]) -> None:
        """Load a key's cells again."""
        values = self._values.setdefault(namespace, {})
        for name, value in taken.items():
            values[key, name] = value
        for name in changed:
            self._touch(namespace, (key, name))

    def _touch(self, namespace: Any, cell: Cell) -> None:
        try:
            self._dirty[namespace][cell] = None
        except KeyError:
            self._dirty[namespace] = {cell: None}

    # Snapshots

    def snapshot(self) -> list[Change]:
        """Return all cells, and start a new log of changes."""
        self._dirty = {}
        return [
            Change(namespace, key, name, ChangeKind.PUT, value)
            for namespace, values in self._values.items()
            for (key, name), value in values.items()
        ]

    def changes(self) -> list[Change]:
        """Return the changes since the last snapshot or changes."""
        dirty, self._dirty = self._dirty, {}
        return [
            self._change(namespace, key, name, self._values.get(namespace, {}))
            for namespace, cells in dirty.items()
            for key, name in cells
        ]

    @property
    def number_changed(self) -> int:
        """Return the number of cells that have changed since the last snapshot."""
        return sum(map(len, self._dirty.values()))

    def forget_changes(self) -> list[dict[Any, None]]:
        """Start a new log of changes, because a forked child writes the snapshot; return the former log."""
        dirty, self._dirty = self._dirty, {}
        return list(dirty.values())

    def _change(self, namespace: Any, key: Any, name: str, values: dict[Cell, Any]) -> Change:
        if (key, name) not in values:
            return Change(namespace, key, name, ChangeKind.REMOVE)
        value = values[key, name]
        if type(value) is Chunks and value.shared:
            return Change(namespace, key, name, ChangeKind.APPEND, value.new)
        return Change(namespace, key, name, ChangeKind.PUT, value)

    def restore(self, changes: Iterable[Change]) -> None:
        """Apply the changes of a snapshot."""
        for namespace, key, name, kind, value in changes:
            values = self._values.setdefault(namespace, {})
            if kind is ChangeKind.REMOVE:
                values.pop((key, name), None)
                if not values:
                    del self._values[namespace]
            elif kind is ChangeKind.APPEND:
                values[key, name] = Chunks([*values.get((key, name), ()), *value])
            else:
                values[key, name] = value.copy() if type(value) in _CONTAINERS else value

    # Whether values can be pickled

    def wrote(self, cell: Cell, value: Any) -> None:
        """Note a value written to a cell, or its container, for `check`."""
        if self._checking and type(value) not in _ATOMS:
            self._unchecked.append((cell, value))
            if len(self._unchecked) >= _MANY_UNCHECKED:
                self.check()

    def check(self) -> None:
        """Check the values written since the last call.

        Raises `SerializationError`, naming the state, if one of them can't be pickled.
        """
        if not self._unchecked:
            return
        unchecked, self._unchecked = self._unchecked, []
        try:
            encode_column([value for _, value in unchecked])
        except Exception:
            for (key, name), value in unchecked:
                try:
                    encode_column([value])
                except Exception as error:
                    raise SerializationError(
                        f"the state {name!r} of the key {shortened(key)} was given {shortened(value)} "
                        f"({type(value).__name__}), which can't be pickled for a checkpoint: "
                        f"{error.__cause__ or error}. "
                        "Keep the data that it is made of, and create it in DoFn.setup"
                    ) from error


# Types whose values can always be pickled.
_ATOMS = frozenset({str, int, float, bytes, bool, type(None)})
_CONTAINERS = frozenset({Chunks, Accumulator, Timeline, dict})

# The number of values that are checked before the bundle ends, because they take memory.
_MANY_UNCHECKED = 1_000
