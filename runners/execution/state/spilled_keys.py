"""What a stateful ParDo keeps by window and key, and spills to disk: its cells, and its timers.

An entry has what a key has in a window.  It is loaded before an element of its key is processed, and when its first
time comes.  Those that were used least recently are spilled first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from math import ceil
from typing import Any, Generic, TypeVar

from ....sdk.coders.key_encoding import KEY_GROUPS
from ....sdk.elements.bundle import Bundle
from ....windowing import BoundedWindow
from ..serialization.records import pickled
from ..spilling.memory import average
from ..spilling.rocksdb import NO_TIMES, PORTION, Times, portions_of
from ..spilling.spilled_step import NumberedWindows, SpillContext, SpilledStep

# What a key has in a window.
C = TypeVar("C")

# The memory of a key's place in a dictionary from which others are removed, in bytes: there are 3 to 6 places for each
# when it grows.
PLACE = 90


class SpilledKeys(SpilledStep, ABC, Generic[C]):
    """Entries of keys."""

    # Whether entries may have times.
    _has_times = True

    def __init__(self, context: SpillContext) -> None:
        super().__init__(context)
        # The entries in memory by window and key, in each window the least recently used first; and by each the number
        # of the snapshot after which it came into memory, where none has it among those in memory.
        self._used: dict[BoundedWindow, dict[Any, int]] = {}
        self._snapshot = 1
        self._average = 0.0
        self._measured = 0

    # What the entries are

    @abstractmethod
    def _number_in_memory(self) -> int:
        """Return the number of entries in memory, approximately."""

    @abstractmethod
    def _has_any(self, window: BoundedWindow, key: Any) -> bool:
        """Return whether a key has an entry in memory."""

    @abstractmethod
    def _memory_of(self, entry: tuple[BoundedWindow, Any]) -> int:
        """Return the bytes of an entry in memory."""

    @abstractmethod
    def _take_out(self, window: BoundedWindow, keys: list[Any], numbers: list[int]) -> list[C]:
        """Remove the entries of keys from memory; return what each has, which is empty for one without entry.

        Args:
          numbers: of each key, that of the snapshot after which it came into memory.
        """

    @abstractmethod
    def _put_back(self, window: BoundedWindow, key: Any, content: C) -> int:
        """Put an entry into memory; return the number of the snapshot after which it came there."""

    @abstractmethod
    def _times_of(self, content: C) -> Times:
        """Return the times of an entry."""

    @abstractmethod
    def _restore(self, records: list[Any]) -> None:
        """Restore records of a snapshot into memory, the second entry of which is a key."""

    # Loading

    def windows(self) -> list[BoundedWindow]:
        """Return the windows with spilled entries."""
        return list(self._numbers)

    def load_for(self, bundle: Bundle) -> None:
        """Load the entries of a bundle's elements."""
        by_window: dict[BoundedWindow, list[Any]] = {}
        if isinstance(bundle.windows, tuple):
            keys = [key for key, _ in bundle.values]
            by_window = dict.fromkeys(bundle.windows, keys)
        else:
            for (key, _), windows in zip(bundle.values, bundle.windows, strict=True):
                for window in windows:
                    by_window.setdefault(window, []).append(key)
        for window, own in by_window.items():
            self.load_keys(window, own)

    def load_keys(self, window: BoundedWindow, keys: Iterable[Any]) -> None:
        """Load the entries of keys that are on disk, and note that all are used."""
        used, now = self._used.setdefault(window, {}), self._snapshot
        missing: list[Any] = []
        for key in dict.fromkeys(keys):
            number = used.pop(key, None)
            if number is None:
                missing.append(key)
            used[key] = now if number is None else number
        if missing and window in self._numbers:
            self._load(self._numbers.ids_in(window, missing))

    def load_some(self, window: BoundedWindow) -> bool:
        """Load some entries of a window, which expires; return False if there are none."""
        if window not in self._numbers:
            return False
        number = self._numbers.number_of(window)
        of_window = chain.from_iterable(self._entries.all(bytes([group]) + number) for group in range(KEY_GROUPS))
        self._load([id for id, _ in islice(of_window, PORTION)])
        return True

    def load_each(self, window: BoundedWindow) -> Iterator[None]:
        """Load all entries of a window, in portions; yield after each, of which some may be spilled then."""
        if window in self._numbers:
            number = self._numbers.number_of(window)
            of_window = chain.from_iterable(self._entries.all(bytes([group]) + number) for group in range(KEY_GROUPS))
            for portion in portions_of((id for id, _ in of_window), PORTION):
                self._load(portion)
                yield

    def remove_window(self, window: BoundedWindow) -> None:
        """Remove all entries of a window, which has expired, and read none of them."""
        if window in self._numbers:
            number, count = self._numbers.remove_window(window)
            self._entries.remove([bytes([group]) + number for group in range(KEY_GROUPS)], count)

    def next(self, order: int) -> int | None:
        """Return the least time of an order."""
        return self._entries.least(order)

    def load_due(self, order: int, time: int, most: int) -> list[tuple[BoundedWindow, Any]]:
        """Load the first entries that are due up to a time, at most so many; return their windows and keys."""
        return self._loaded(self._entries.due(order, time, most))

    def _load(self, ids: Sequence[bytes]) -> None:
        self._loaded(self._entries.take_all(ids))

    def _loaded(self, found: Iterable[tuple[bytes, bytes]]) -> list[tuple[BoundedWindow, Any]]:
        loaded: list[tuple[BoundedWindow, Any]] = []
        for id, data in found:
            window, key, content = unpacked(id, data, self._numbers, self._loads)
            self._numbers.remove_entry(id)
            self._used.setdefault(window, {})[key] = self._put_back(window, key, content)
            loaded.append((window, key))
        return loaded

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
        return round(count * self._average)

    def measure(self) -> None:
        """Take another sample."""
        if self._count > 2 * self._number_in_memory():
            # Most keys have no entry any more.
            for window, keys in list(self._used.items()):
                self._used[window] = {key: number for key, number in keys.items() if self._has_any(window, key)}
        self._used = {window: keys for window, keys in self._used.items() if keys}
        self._measured = self._count
        entries = ((window, key) for window, keys in self._used.items() for key in keys)
        self._average = average(entries, self._measured, self._memory_of)

    def spill(self, share: float) -> None:
        """Spill this share of the loaded entries, of each window the least recently used first."""
        for window, keys in list(self._used.items()):
            for portion in portions_of(list(islice(keys, ceil(len(keys) * share))), 10 * PORTION):
                self._spill(window, portion)
            if not keys:
                del self._used[window]

    def _spill(self, window: BoundedWindow, keys: list[Any]) -> None:
        numbers = list(map(self._used[window].pop, keys))
        found = [entry for entry in zip(keys, self._take_out(window, keys, numbers)) if entry[1]]
        if not found:
            return
        keys = [key for key, _ in found]
        self._note_keys(keys)
        data = (pickled(entry, self._label, "State has to be data.") for entry in found)
        times = (self._times_of(content) for _, content in found) if self._has_times else repeat(NO_TIMES)
        self._entries.put(zip(self._numbers.ids_in(window, keys, new=True), times, data))

    # Snapshots

    def records(self) -> Iterator[tuple[int, list[Any]]]:
        """Return an iterator over the records of all spilled entries, by key group.

        They are those of now, also if they are asked for later, in another thread.
        """
        windows = NumberedWindows.of(self._numbers.plain())
        return ((group, self._records_in(entries, windows)) for group, entries in self._entries.by_group())

    @staticmethod
    @abstractmethod
    def _records_in(entries: Iterable[tuple[bytes, bytes]], windows: NumberedWindows) -> list[Any]:
        """Return the records of entries, of which each has an id and data."""

    def restore(self, records: Iterable[Any]) -> None:
        """Apply the changes of a snapshot."""
        for portion in portions_of(records, PORTION):
            keys: dict[BoundedWindow, dict[Any, None]] = {}
            for window, key in map(self._place_of, portion):
                keys.setdefault(window, {})[key] = None
            for window, own in keys.items():
                self.load_keys(window, own)
            self._restore(portion)
            for window, own in keys.items():
                used = self._used[window]
                for key in own:
                    if self._has_any(window, key):
                        # The snapshot has it among those in memory.
                        used[key] = 0
                    else:
                        # It may be on disk.
                        del used[key]
            self.spill_excess()

    @staticmethod
    @abstractmethod
    def _place_of(record: Any) -> tuple[BoundedWindow, Any]:
        """Return the window and the key of a record."""


def unpacked(
    id: bytes, data: bytes, windows: NumberedWindows, loads: Callable[[Any], Any]
) -> tuple[BoundedWindow, Any, Any]:
    """Return the window, the key and the content of an entry."""
    ((window,),) = (windows.windows(id) or (),)
    return (window, *loads(data))
