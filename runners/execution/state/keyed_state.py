"""Keyed state: what a stateful ParDo remembers of each key and window.

A dictionary of values by window, key and name.  Values are immutable; containers (bags, sets, maps)
are changed in place, but never one that a snapshot has: the first change after a
snapshot is made to a copy.  So taking a snapshot costs no more than listing the cells, and it can be written
while processing goes on.

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

from ....sdk.coders.key_encoding import KEY_GROUPS, key_group
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
    """What happened to a cell."""

    # It has this value now.
    PUT = "put"
    # These values were added at the end of its bag.
    APPEND = "append"
    # It has no value any more.
    REMOVE = "remove"


class Change(NamedTuple):
    """One cell's change, as plain data that can be pickled."""

    namespace: Any
    key: Any
    name: str
    kind: ChangeKind
    value: Any = None


class KeyedState:
    """The state of one worker's keys.

    Args:
      tracking: whether snapshots will be taken: then it is remembered what has changed since the
        last one.
      checking: whether to look that what is written can be pickled, once for each bundle.
    """

    def __init__(self, tracking: bool = False, checking: bool = True) -> None:
        self._values: dict[Any, dict[Cell, Any]] = {}
        self._tracking = tracking
        self._checking = checking
        # By namespace, the cells that have changed since the last snapshot.
        self._dirty: dict[Any, dict[Cell, None]] = {}
        self._unchecked: list[tuple[Cell, Any]] = []

    def __len__(self) -> int:
        """How many cells have a value."""
        return sum(map(len, self._values.values()))

    def get(self, namespace: Any, cell: Cell, default: Any = None) -> Any:
        """A cell's value, which is not to be changed; the default if it has none."""
        values = self._values.get(namespace)
        return default if values is None else values.get(cell, default)

    def put(self, namespace: Any, cell: Cell, value: Any) -> None:
        """Give a cell a value."""
        try:
            self._values[namespace][cell] = value
        except KeyError:
            self._values[namespace] = {cell: value}
        if self._tracking:
            self._touch(namespace, cell)

    def changing(self, namespace: Any, cell: Cell, make: Callable[[], C]) -> C:
        """A cell's container, to be changed in place; a new one of `make` if it has none."""
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
        """Take a cell's value away, if it has one."""
        values = self._values.get(namespace)
        if values is None or cell not in values:
            return
        del values[cell]
        if not values:
            del self._values[namespace]
        if self._tracking:
            self._touch(namespace, cell)

    def free(self, namespace: Any, key: Any, names: Iterable[str]) -> None:
        """Take these cells of a key away."""
        for name in names:
            self.remove(namespace, (key, name))

    def free_namespace(self, namespace: Any) -> None:
        """Take all cells of a namespace away."""
        values = self._values.pop(namespace, None)
        if values and self._tracking:
            for cell in values:
                self._touch(namespace, cell)

    def keys(self, namespace: Any, name: str) -> list[Any]:
        """The keys that have a cell of this name, in the order in which they first had it."""
        return [key for key, own in self._values.get(namespace, ()) if own == name]

    def namespaces(self) -> list[Any]:
        """The namespaces that have any cell."""
        return list(self._values)

    def take_out(self, namespace: Any, key: Any, names: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
        """Have a key's cells be somewhere else: the values of those that have one, and which of them have changed."""
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
        """Have them here again."""
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
        """Everything that there is; what changes from here on is the next `changes`."""
        self._dirty = {}
        return [
            Change(namespace, key, name, ChangeKind.PUT, value)
            for namespace, values in self._values.items()
            for (key, name), value in values.items()
        ]

    def changes(self) -> list[Change]:
        """What has changed since the last snapshot, or the last changes."""
        dirty, self._dirty = self._dirty, {}
        return [
            self._change(namespace, key, name, self._values.get(namespace, {}))
            for namespace, cells in dirty.items()
            for key, name in cells
        ]

    @property
    def number_changed(self) -> int:
        """How many cells have changed since the last snapshot."""
        return sum(map(len, self._dirty.values()))

    def forget_changes(self) -> list[dict[Any, None]]:
        """What has changed so far is in a snapshot that somebody else takes; what it was, to be let go."""
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
        """Make the changes of a snapshot, or of what came after it."""
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
        """Told of every value that a cell was given, or its container."""
        if self._checking and type(value) not in _ATOMS:
            self._unchecked.append((cell, value))
            if len(self._unchecked) >= _MANY_UNCHECKED:
                self.check()

    def check(self) -> None:
        """Raises `SerializationError`, naming the state, if one of the values written can't be pickled."""
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
                        f"({type(value).__name__}), which can't be pickled, and so can't be kept safe: "
                        f"{error.__cause__ or error}. "
                        "Keep what it was made of, and make it anew in DoFn.setup"
                    ) from error


def by_key_group(changes: Iterable[Change], groups: int = KEY_GROUPS) -> dict[int, list[Change]]:
    """The changes by the key group that their keys belong to: the unit that moves from worker to worker."""
    found: dict[int, list[Change]] = {}
    for change in changes:
        found.setdefault(key_group(change.key, groups), []).append(change)
    return found


# Can always be pickled.
_ATOMS = frozenset({str, int, float, bytes, bool, type(None)})
_CONTAINERS = frozenset({Chunks, Accumulator, Timeline, dict})

# When to look at them though the bundle isn't over: they take memory.
_MANY_UNCHECKED = 1_000
