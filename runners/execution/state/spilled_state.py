"""Keyed state that is spilled to disk, and loaded when it is needed.

An entry has the cells of a key in a window.  It is loaded before an element of its key is processed, before a timer of
its key fires, and when its window expires.  A bag whose appended values alone would have been written to a snapshot is
written whole, if it was spilled in between.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import ceil
from typing import Any

from ....sdk.coders.key_encoding import KEY_GROUPS
from ....sdk.elements.bundle import Bundle, expanded
from ....windowing import BoundedWindow
from ..serialization.records import pickled
from ..spilling.memory import average, memory_of
from ..spilling.rocksdb import PORTION, SpilledEntries, Times, portions_of
from ..windows.spilled_windows import NumberedWindows
from .keyed_state import ChangeKind, KeyedState

# The memory of a key's places in dictionaries, and of those of each of its cells, in bytes.
_PLACES = 160

_NO_TIMES: Times = (None, None, None)

# A window and a key.
Entry = tuple[BoundedWindow, Any]


class SpilledState:
    """The spilled part of a stateful ParDo's state.

    Args:
      state: the part in memory.
      label: the ParDo's.
      entries: the entries on disk.
      spill_excess: called during a restore to spill entries if memory is short.
    """

    def __init__(
        self,
        state: KeyedState,
        label: str,
        entries: SpilledEntries,
        spill_excess: Callable[[], None],
    ) -> None:
        self._spill_excess = spill_excess
        self._label = label
        self._state = state
        self._entries = entries
        self._numbers = NumberedWindows()
        # The entries in memory, the least recently used first.
        self._used: dict[Entry, None] = {}
        self._average = 0.0
        self._measured = 0
        # The ids of spilled entries that have changed since the last snapshot, with their changed cells.
        self._changed: dict[bytes, list[str]] = {}

    @property
    def number_spilled(self) -> int:
        """Return the number of spilled entries."""
        return len(self._entries)

    # Loading

    def windows(self) -> list[BoundedWindow]:
        """Return the windows with spilled entries."""
        return list(self._numbers)

    def load_for(self, bundle: Bundle) -> None:
        """Load the entries of a bundle's elements."""
        columns = bundle.values, expanded(bundle.windows, len(bundle))
        entries = ((window, element[0]) for element, own in zip(*columns, strict=True) for window in own)
        self._use(dict.fromkeys(entries))

    def load_key(self, window: BoundedWindow, key: Any) -> None:
        """Load the entry of a key, before its timer fires."""
        self._use({(window, key): None})

    def load_window(self, window: BoundedWindow) -> None:
        """Load all entries of a window, before it expires."""
        if window in self._numbers:
            number = self._numbers.number_of(window)
            for group in range(KEY_GROUPS):
                self._take([id for id, _ in self._entries.all(bytes([group]) + number)])

    def _use(self, entries: dict[Entry, None]) -> None:
        used, numbers = self._used, self._numbers
        missing: list[Entry] = []
        for entry in entries:
            if entry in used:
                del used[entry]
            elif entry[0] in numbers:
                missing.append(entry)
            used[entry] = None
        if missing:
            self._take(numbers.ids([key for _, key in missing], [window for window, _ in missing]))

    def _take(self, ids: Sequence[bytes]) -> None:
        for id, data in self._entries.take_all(ids):
            (window,) = self._numbers.windows(id)
            self._numbers.remove_entry(id)
            key, values = pickle.loads(data)
            self._state.put_back(window, key, values, self._changed.pop(id, ()))
            self._used[window, key] = None

    # Spilling

    def memory(self) -> int:
        """Return the approximate memory of the loaded entries in bytes: their number times the average of a sample."""
        count = len(self._used)
        if not self._measured / 2 < count < self._measured * 2:
            self.measure()
        return round(len(self._used) * self._average)

    def measure(self) -> None:
        """Take another sample."""
        if len(self._used) > 2 * len(self._state):
            # Most entries have no state any more.
            self._used = {entry: None for entry in self._used if self._cells(entry)}
        self._average, self._measured = average(self._used, self._memory_of), len(self._used)

    def _cells(self, entry: Entry) -> list[Any]:
        window, key = entry
        return list(self._state.of_key(window, key).values())

    def _memory_of(self, entry: Entry) -> int:
        cells = self._cells(entry)
        return _PLACES * (1 + len(cells)) + memory_of(entry[1], *cells)

    def spill(self, share: float) -> None:
        """Spill this share of the loaded entries, the least recently used first."""
        count = min(len(self._used), ceil(len(self._used) * share))
        for portion in portions_of(list(islice(self._used, count)), PORTION):
            self._spill(portion)

    def _spill(self, entries: Sequence[Entry]) -> None:
        found: list[tuple[BoundedWindow, Any, dict[str, Any], list[str]]] = []
        for window, key in entries:
            del self._used[window, key]
            values, changed = self._state.take_out(window, key)
            if values:
                found.append((window, key, values, changed))
        ids = self._numbers.ids([key for _, key, _, _ in found], [window for window, _, _, _ in found], new=True)
        data = (pickled((key, values), self._label, "State has to be data.") for _, key, values, _ in found)
        self._entries.put((id, _NO_TIMES, own) for id, own in zip(ids, data))
        self._changed.update((id, changed) for id, (_, _, _, changed) in zip(ids, found) if changed)

    # Snapshots

    def records(self, is_whole: bool) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
        """Return an iterator over the changes of spilled entries by key group, which follow those of `KeyedState`.

        They are those of now, also if they are asked for later, in another thread.
        """
        windows, changed, self._changed = self._numbers.copy(), self._changed, {}

        def changes(id: bytes, data: bytes) -> Iterator[tuple[Any, ...]]:
            (window,) = windows.windows(id)
            key, values = pickle.loads(data)
            for name in values if is_whole else changed[id]:
                yield window, key, name, ChangeKind.PUT, values[name]

        by_group = self._entries.by_group(None if is_whole else changed)
        return ((group, [change for entry in entries for change in changes(*entry)]) for group, entries in by_group)

    def restore(self, changes: Iterable[tuple[Any, ...]]) -> None:
        """Apply the changes of a snapshot."""
        for portion in portions_of(changes, PORTION):
            self._use({(window, key): None for window, key, *_ in portion})
            self._state.restore(portion)  # type: ignore[arg-type]
            self._spill_excess()
