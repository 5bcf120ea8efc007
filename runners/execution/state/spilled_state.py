"""Keyed state that is spilled to disk, and loaded when it is needed.

An entry has the cells of a key in a window.  It is loaded before an element of its key is processed, before a timer of
its key fires, and when its window expires.  A snapshot has the entries that are in memory, and links to the files of
RocksDB with the others.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, repeat
from math import ceil
from typing import Any

from ....sdk.coders.key_encoding import KEY_GROUPS, key_groups
from ....sdk.elements.bundle import Bundle
from ....windowing import BoundedWindow
from ..serialization.records import pickled
from ..spilling.memory import average, memory_of
from ..spilling.rocksdb import NO_TIMES, PORTION, SpilledEntries, Times, portions_of
from ..spilling.spilled_step import NumberedWindows, SpilledStep
from .keyed_state import ChangeKind, KeyedState

# The memory of a key's place in a dictionary from which others are removed, in bytes: there are 3 to 6 places for each
# when it grows.  A key is in one, and each of its cells in two.
_PLACE = 90
# That of an entry that is gone, with its key and the names of its cells.
_GONE = _PLACE + 100

_NONE: dict[Any, Any] = {}


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
        # The entries in memory by window and key, in each window the least recently used first; and by each the number
        # of the snapshot after which it came into memory, where none has it among those in memory.
        self._used: dict[BoundedWindow, dict[Any, int]] = {}
        self._snapshot = 1
        self._average = 0.0
        self._measured = 0
        # By window and key, the names of cells that the last snapshot has as such in memory, and that aren't any more.
        self._gone: dict[BoundedWindow, dict[Any, tuple[str, ...]]] = {}

    # Loading

    def windows(self) -> list[BoundedWindow]:
        """Return the windows with spilled entries."""
        return list(self._numbers)

    def load_for(self, bundle: Bundle) -> None:
        """Load the entries of a bundle's elements."""
        by_window: dict[BoundedWindow, list[Any]] = {}
        if isinstance(bundle.windows, tuple):
            by_window = dict.fromkeys(bundle.windows, [key for key, _ in bundle.values])
        else:
            for (key, _), windows in zip(bundle.values, bundle.windows, strict=True):
                for window in windows:
                    by_window.setdefault(window, []).append(key)
        for window, keys in by_window.items():
            self._use(window, keys)

    def load_key(self, window: BoundedWindow, key: Any) -> None:
        """Load the entry of a key, before its timer fires."""
        self._use(window, [key])

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

    def _use(self, window: BoundedWindow, keys: Iterable[Any]) -> None:
        """Load the entries of keys that are on disk, and note that all are used."""
        used, now = self._used.setdefault(window, {}), self._snapshot
        missing: list[Any] = []
        for key in dict.fromkeys(keys):
            number = used.pop(key, None)
            if number is None:
                missing.append(key)
            used[key] = now if number is None else number
        if missing and window in self._numbers:
            self._take(self._numbers.ids_in(window, missing))

    def _take(self, ids: Sequence[bytes]) -> None:
        self._put_back(self._entries.take_all(ids))

    def _put_back(self, found: Iterable[tuple[bytes, bytes]]) -> None:
        for id, data in found:
            window, key, values = _unpacked(id, data, self._numbers, self._loads)
            self._numbers.remove_entry(id)
            self._state.put_back(window, key, values)
            was_recorded = self._gone.get(window, _NONE).pop(key, None) is not None
            self._used.setdefault(window, {})[key] = 0 if was_recorded else self._snapshot

    # Spilling

    @property
    def _count(self) -> int:
        return sum(map(len, self._used.values()))

    def memory(self) -> int:
        """Return the approximate memory of the loaded entries in bytes: their number times the average of a sample."""
        count = self._count
        if not self._measured / 2 < count < self._measured * 2:
            self.measure()
            count = self._measured
        return round(count * self._average) + sum(map(len, self._gone.values())) * _GONE

    def measure(self) -> None:
        """Take another sample."""
        if self._count > 2 * len(self._state):
            # Most entries have no state any more.
            for window, keys in list(self._used.items()):
                self._used[window] = {key: number for key, number in keys.items() if self._state.has_any(window, key)}
        self._used = {window: keys for window, keys in self._used.items() if keys}
        self._measured = self._count
        entries = ((window, key) for window, keys in self._used.items() for key in keys)
        self._average = average(entries, self._measured, self._memory_of)

    def _memory_of(self, entry: tuple[BoundedWindow, Any]) -> int:
        cells = self._state.of_key(*entry)
        return _PLACE * (1 + 2 * len(cells)) + memory_of(entry[1], *cells.values())

    def spill(self, share: float) -> None:
        """Spill this share of the loaded entries, of each window the least recently used first."""
        for window, keys in list(self._used.items()):
            for portion in portions_of(list(islice(keys, ceil(len(keys) * share))), 10 * PORTION):
                self._spill(window, portion)
            if not keys:
                del self._used[window]

    def _spill(self, window: BoundedWindow, keys: list[Any]) -> None:
        used, gone = self._used[window], self._gone.setdefault(window, {})
        numbers = list(map(used.pop, keys))
        found = list(zip(keys, self._state.take_out(window, keys)))
        gone.update(
            (key, tuple(values)) for (key, values), number in zip(found, numbers) if number < self._snapshot and values
        )
        if not all(values for _, values in found):
            found = [(key, values) for key, values in found if values]
        if not found:
            return
        keys = [key for key, _ in found]
        self._note_keys(keys)
        data = (pickled(entry, self._label, "State has to be data.") for entry in found)
        times = (self._times_of(values) for _, values in found) if self._state.has_ttls else repeat(NO_TIMES)
        self._entries.put(zip(self._numbers.ids_in(window, keys, new=True), times, data))

    def _times_of(self, values: dict[str, Any]) -> Times:
        return (*self._state.due_times(values), None)

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
        """Return an iterator over the changes that put all spilled cells, by key group.

        They are those of now, also if they are asked for later, in another thread.
        """
        self._gone.clear()
        self._snapshot += 1
        windows = NumberedWindows.of(self._numbers.plain())
        return ((group, records_in(entries, windows)) for group, entries in self._entries.by_group())

    def restore(self, changes: Iterable[tuple[Any, ...]]) -> None:
        """Apply the changes of a snapshot."""
        for portion in portions_of(changes, PORTION):
            keys: dict[BoundedWindow, dict[Any, None]] = {}
            for window, key, *_ in portion:
                keys.setdefault(window, {})[key] = None
            for window, own in keys.items():
                self._use(window, own)
            self._state.restore(portion)  # type: ignore[arg-type]
            for window, own in keys.items():
                used = self._used[window]
                for key in own:
                    if self._state.has_any(window, key):
                        # The snapshot has it among those in memory.
                        used[key] = 0
                    else:
                        # It may be on disk.
                        del used[key]
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
