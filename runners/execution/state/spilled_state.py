"""Keyed state that is spilled to disk, and loaded when it is needed.

An entry has the cells of a key in a window.  A snapshot has the entries that are in memory, and links to the files of
RocksDB with the others.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ....sdk.coders.key_encoding import key_groups
from ....windowing import BoundedWindow
from ..spilling.memory import memory_of
from ..spilling.rocksdb import Times
from ..spilling.spilled_step import NumberedWindows, SpillContext
from .keyed_state import ChangeKind, KeyedState
from .spilled_keys import PLACE, SpilledKeys, unpacked

# The memory of an entry that is gone, with its key and the names of its cells.
_GONE = PLACE + 100

_NONE: dict[Any, Any] = {}


class SpilledState(SpilledKeys[dict[str, Any]]):
    """The spilled part of a stateful ParDo's state.

    Args:
      state: the part in memory.
    """

    def __init__(self, state: KeyedState, context: SpillContext) -> None:
        super().__init__(context)
        self._state = state
        self._has_times = state.has_ttls
        # By window and key, the names of cells that the last snapshot has as such in memory, and that aren't any more.
        self._gone: dict[BoundedWindow, dict[Any, tuple[str, ...]]] = {}

    def _number_in_memory(self) -> int:
        return len(self._state)

    def _has_any(self, window: BoundedWindow, key: Any) -> bool:
        return self._state.has_any(window, key)

    def _memory_of(self, entry: tuple[BoundedWindow, Any]) -> int:
        cells = self._state.of_key(*entry)
        # A key has a place here, and two for each cell: its value's, and that of changes.
        return PLACE * (1 + 2 * len(cells)) + memory_of(entry[1], *cells.values())

    def memory(self) -> int:
        return super().memory() + sum(map(len, self._gone.values())) * _GONE

    def _take_out(self, window: BoundedWindow, keys: list[Any], numbers: list[int]) -> list[dict[str, Any]]:
        taken = self._state.take_out(window, keys)
        self._gone.setdefault(window, {}).update(
            (key, tuple(cells)) for key, cells, number in zip(keys, taken, numbers) if number < self._snapshot and cells
        )
        return taken

    def _put_back(self, window: BoundedWindow, key: Any, content: dict[str, Any]) -> int:
        self._state.put_back(window, key, content)
        was_recorded = self._gone.get(window, _NONE).pop(key, None) is not None
        return 0 if was_recorded else self._snapshot

    def _times_of(self, content: dict[str, Any]) -> Times:
        return (*self._state.due_times(content), None)

    def _restore(self, records: list[Any]) -> None:
        self._state.restore(records)

    @staticmethod
    def _place_of(record: Any) -> tuple[BoundedWindow, Any]:
        window, key, *_ = record
        return window, key

    # Snapshots

    def removed(self) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
        """Return removals of the cells that have been spilled since the last snapshot, by key group.

        They are those of now, also if they are asked for later, in another thread.
        """
        gone, self._gone = self._gone, {}
        self._snapshot += 1

        def by_group() -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
            found: dict[int, list[tuple[Any, ...]]] = {}
            for window, keys in gone.items():
                for group, (key, names) in zip(key_groups(list(keys)), keys.items()):
                    found.setdefault(group, []).extend((window, key, name, ChangeKind.REMOVE, None) for name in names)
            yield from found.items()

        return by_group()

    def records(self) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
        self._gone.clear()
        self._snapshot += 1
        return super().records()

    @staticmethod
    def _records_in(entries: Iterable[tuple[bytes, bytes]], windows: NumberedWindows) -> list[tuple[Any, ...]]:
        return records_in(entries, windows)


def records_in(
    entries: Iterable[tuple[bytes, bytes]], windows: NumberedWindows, loads: Callable[[Any], Any] = pickle.loads
) -> list[tuple[Any, ...]]:
    """Return the changes that put the cells of spilled entries, of which each has an id and data.

    Args:
      loads: reads a pickle.
    """
    found = (unpacked(id, data, windows, loads) for id, data in entries)
    return [
        (window, key, name, ChangeKind.PUT, value) for window, key, values in found for name, value in values.items()
    ]
