"""ReadModifyWriteStateSpec: one value.

>>> from penstock.sdk.userstate import DictStore
>>> last = ReadModifyWriteStateSpec("last").of(DictStore())
>>> last.read(), last.write(7), last.read()
(None, None, 7)
"""

from __future__ import annotations

from typing import Any

from .state_spec import RuntimeState, StateSpec


class ReadModifyWriteRuntimeState(RuntimeState):
    """One value of one key and window."""

    __slots__ = ()

    def read(self) -> Any:
        """Return the value, or None.  It must not be changed in place."""
        return self._store.get(self._namespace, self._cell)

    def write(self, value: Any) -> None:
        """Replace the value."""
        self._store.put(self._namespace, self._cell, value)
        self._store.wrote(self._cell, value)


class ReadModifyWriteStateSpec(StateSpec):
    """One value: `read`, `write`, `clear`."""

    runtime = ReadModifyWriteRuntimeState
