"""Columns of keyed state: the values of one state in one window, by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from ....sdk.userstate.store import Container, StateColumn

C = TypeVar("C", bound=Container)

# In place of the value of a key that has none.
ABSENT: Any = object()


class ColumnOwner(Protocol):
    """The state of all keys.

    Attributes:
      tracking: True if snapshots will be taken.
      dirty: the columns that have changed since the last snapshot.
      processing_time: that of the step, in microseconds.
    """

    tracking: bool
    dirty: list[Column]
    processing_time: int

    def wrote(self, name: str, key: Any, value: Any) -> None:
        """Note a value written to a state, or its container."""


class Column(StateColumn):
    """The values of one state in one window, whose changes are tracked if snapshots will be taken.

    Args:
      state: the state of all keys.
      namespace, name: the window and the state's name.

    Attributes:
      namespace, name: as given.
      dirty: the keys that have changed since the last snapshot; None if there are none.
    """

    __slots__ = ("_state", "dirty", "name", "namespace")

    def __init__(self, state: ColumnOwner, namespace: Any, name: str) -> None:
        super().__init__(state.tracking)
        self._state = state
        self.namespace = namespace
        self.name = name
        self.dirty: dict[Any, None] | None = None

    def put(self, key: Any, value: Any) -> None:
        """Set a key's value."""
        self.values[key] = value
        if self.is_tracked:
            self.touch(key)

    def take(self, keys: Sequence[Any]) -> list[Any]:
        """Remove and return the values of keys to spill them, which is no change; `ABSENT` for a key without one."""
        taken = [self.values.pop(key, ABSENT) for key in keys]
        if self.dirty:
            for key, value in zip(keys, taken):
                if value is not ABSENT:
                    self.dirty.pop(key, None)
        return taken

    def load(self, key: Any, value: Any) -> None:
        """Take a key's value back, which was spilled."""
        self.values[key] = value
        if self._state.tracking:
            self.note(key)

    def touch(self, key: Any) -> None:
        self.note(key)

    def note(self, key: Any) -> None:
        """Note that the next snapshot has to have a key's value."""
        dirty = self.dirty
        if dirty is None:
            dirty = self.dirty = {}
            self._state.dirty.append(self)
        dirty[key] = None

    def changing(self, key: Any, make: Callable[[], C]) -> C:
        values = self.values
        container: C | None = values.get(key)
        if container is None:
            container = values[key] = make()
        elif not self.is_tracked:
            return container
        elif self.dirty is None or key not in self.dirty:
            # A snapshot may have it.
            container = values[key] = container.copy()
        if self.is_tracked:
            self.touch(key)
        return container

    def remove(self, key: Any) -> None:
        if key in self.values:
            del self.values[key]
            if self.is_tracked:
                self.touch(key)

    def wrote(self, key: Any, value: Any) -> None:
        self._state.wrote(self.name, key, value)
