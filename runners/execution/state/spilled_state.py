"""Keyed state that is spilled to disk, and loaded when it is needed.

An entry has the cells of a key in a window.  It is loaded before an element of its key is processed, before a timer of
its key fires, and when its window expires.  A snapshot has the entries that are in memory, and links to the files of
RocksDB with the others.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from math import ceil
from typing import Any

from ....sdk.coders.key_encoding import KEY_GROUPS, key_groups
from ....sdk.elements.bundle import Bundle, expanded
from ....windowing import BoundedWindow
from ..serialization.records import pickled
from ..spilling.memory import average, memory_of
from ..spilling.rocksdb import PORTION, SpilledEntries, portions_of
from ..spilling.spilled_step import NumberedWindows, SpilledStep
from .keyed_state import ChangeKind, KeyedState

# The memory of a key's places in dictionaries, and of those of each of its cells, in bytes.
_PLACES = 160

# A window and a key.
Entry = tuple[BoundedWindow, Any]


class SpilledState(SpilledStep):
    """The spilled part of a stateful ParDo's state.

    Args:
      state: the part in memory.
      label, entries, spill_excess, note_keys: see `SpilledStep`.
    """

    def __init__(
        self,
        state: KeyedState,
        label: str,
        entries: SpilledEntries,
        spill_excess: Callable[[], None],
        note_keys: Callable[[Sequence[Any]], None],
    ) -> None:
        super().__init__(label, entries, spill_excess, note_keys)
        self._state = state
        # The entries in memory, the least recently used first.
        self._used: dict[Entry, None] = {}
        self._average = 0.0
        self._measured = 0
        # The entries that have been spilled since the last snapshot, with the names of their cells.
        self._gone: dict[Entry, tuple[str, ...]] = {}

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

    def load_some(self, window: BoundedWindow) -> bool:
        """Load some entries of a window, which expires; return False if there are none."""
        if window not in self._numbers:
            return False
        number = self._numbers.number_of(window)
        of_window = chain.from_iterable(self._entries.all(bytes([group]) + number) for group in range(KEY_GROUPS))
        self._take([id for id, _ in islice(of_window, PORTION)])
        return True

    def remove_window(self, window: BoundedWindow) -> None:
        """Remove all entries of a window, which has expired, and read none of them."""
        if window in self._numbers:
            number, count = self._numbers.remove_window(window)
            self._entries.remove([bytes([group]) + number for group in range(KEY_GROUPS)], count)

    def load_due(self, order: int, time: int, most: int) -> int:
        """Load the entries with cells that have expired at a time, at most so many; return their number."""
        found = self._entries.due(order, time, most)
        self._put_back(found)
        return len(found)

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
        self._put_back(self._entries.take_all(ids))

    def _put_back(self, found: Iterable[tuple[bytes, bytes]]) -> None:
        for id, data in found:
            window, key, values = _unpacked(id, data, self._numbers, self._loads)
            self._numbers.remove_entry(id)
            self._state.put_back(window, key, values)
            self._gone.pop((window, key), None)
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
        found: list[tuple[BoundedWindow, Any, dict[str, Any]]] = []
        for window, key in entries:
            del self._used[window, key]
            values = self._state.take_out(window, key)
            if values:
                found.append((window, key, values))
                self._gone[window, key] = tuple(values)
        keys = [key for _, key, _ in found]
        self._note_keys(keys)
        ids = self._numbers.ids(keys, [window for window, _, _ in found], new=True)
        data = (pickled((key, values), self._label, "State has to be data.") for _, key, values in found)
        times = [(*self._state.due_times(values), None) for _, _, values in found]
        self._entries.put(zip(ids, times, data))

    # Snapshots

    def removed(self) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
        """Return removals of the cells that have been spilled since the last snapshot, by key group.

        They are those of now, also if they are asked for later, in another thread.
        """
        gone, self._gone = self._gone, {}

        def by_group() -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
            found: dict[int, list[tuple[Any, ...]]] = {}
            for group, ((window, key), names) in zip(key_groups([key for _, key in gone]), gone.items()):
                found.setdefault(group, []).extend((window, key, name, ChangeKind.REMOVE, None) for name in names)
            yield from found.items()

        return by_group()

    def records(self) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
        """Return an iterator over the changes that put all spilled cells, by key group.

        They are those of now, also if they are asked for later, in another thread.
        """
        self._gone.clear()
        windows = NumberedWindows.of(self._numbers.plain())
        return ((group, records_in(entries, windows)) for group, entries in self._entries.by_group())

    def restore(self, changes: Iterable[tuple[Any, ...]]) -> None:
        """Apply the changes of a snapshot."""
        for portion in portions_of(changes, PORTION):
            self._use({(window, key): None for window, key, *_ in portion})
            self._state.restore(portion)  # type: ignore[arg-type]
            self.spill_excess()


def _unpacked(
    id: bytes, data: bytes, windows: NumberedWindows, loads: Callable[[Any], Any]
) -> tuple[BoundedWindow, Any, dict[str, Any]]:
    """Return the window, the key and the values of an entry."""
    ((window,),) = (windows.windows(id) or (),)
    return (window, *loads(data))


def records_in(
    entries: Iterable[tuple[bytes, bytes]], windows: NumberedWindows, loads: Callable[[Any], Any] = pickle.loads
) -> list[tuple[Any, ...]]:
    """Return the changes that put the cells of spilled entries, of which each has an id and data.

    Args:
      loads: reads a pickle.
    """
    unpacked = (_unpacked(id, data, windows, loads) for id, data in entries)
    return [
        (window, key, name, ChangeKind.PUT, value) for window, key, values in unpacked for name, value in values.items()
    ]
