"""Spilled entries of one step, whose ids have the number of a window: what windows and keyed state have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from ....frozen import frozen
from ....sdk.coders.key_encoding import KEY_GROUPS, encode_keys, groups_of_encoded
from ....sdk.elements.bundle import Windows
from ....windowing import BoundedWindow
from ..serialization.records import unpickled
from .rocksdb import SpilledEntries, Times

_SIZE = 8
# Where the number of the window ends in an id.
NUMBERED = 1 + _SIZE
# More windows than a step ever has between two restarts.
_NEVER_REACHED = 1 << 32
# In place of a window, if there is none.
_NONE = bytes(_SIZE)

# The first byte of an id, by key group.
_GROUPS = [bytes([group]) for group in range(KEY_GROUPS)]


# A window with its number, the number of its entries, and maybe a row.
Numbered: TypeAlias = tuple[Any, ...]


class NumberedWindows:
    """Numbers of the windows of spilled entries, which are shorter than windows.

    The id of an entry has a byte for the key group, the number of the window, and the key.

    >>> from penstock.windowing import IntervalWindow
    >>> windows = NumberedWindows()
    >>> number = windows.add_entry(IntervalWindow(0, 10))
    >>> windows.windows(b"g" + number + b"key"), IntervalWindow(0, 10) in windows
    (([0.0, 10.0),), True)
    >>> windows.remove_entry(b"g" + number + b"key")
    >>> IntervalWindow(0, 10) in windows
    False

    Attributes:
      rows: by number, what a step says of a window for all of its entries.
    """

    def __init__(self) -> None:
        self.rows: dict[bytes, Any] = {}
        self._numbers: dict[BoundedWindow, bytes] = {}
        self._windows: dict[bytes, Windows] = {}
        self._counts: dict[bytes, int] = {}
        self._last = 0

    def __contains__(self, window: BoundedWindow | None) -> bool:
        return window in self._numbers

    def __iter__(self) -> Iterator[BoundedWindow]:
        return iter(self._numbers)

    def plain(self) -> list[Numbered]:
        """Return the number of each window, the window, the number of its entries, and its row if there are rows."""
        return [
            (number, window, self._counts[number], *([self.rows[number]] if self.rows else []))
            for window, number in self._numbers.items()
        ]

    @staticmethod
    def of(plain: Iterable[Numbered]) -> NumberedWindows:
        """Return the windows of `plain`."""
        windows = NumberedWindows()
        for number, window, count, *row in plain:
            if row:
                windows.rows[number] = row[0]
            windows._numbers[window], windows._windows[number], windows._counts[number] = number, (window,), count
            windows._last = max(windows._last, int.from_bytes(number, "big"))
        # Others may have had greater numbers, and times of them may still be there.
        windows._last += _NEVER_REACHED
        return windows

    def add_entry(self, window: BoundedWindow | None, count: int = 1) -> bytes:
        """Count entries of a window, and return the window's number."""
        if window is None:
            return _NONE
        number = self._numbers.get(window)
        if number is None:
            self._last += 1
            number = self._numbers[window] = self._last.to_bytes(_SIZE, "big")
            self._windows[number] = (window,)
            self._counts[number] = 0
        self._counts[number] += count
        return number

    def remove_entry(self, id: bytes) -> None:
        """Count one entry less of a window."""
        number = id[1:NUMBERED]
        if number == _NONE:
            return
        self._counts[number] -= 1
        if not self._counts[number]:
            (window,) = self._windows.pop(number)
            del self._numbers[window], self._counts[number]

    def remove_window(self, window: BoundedWindow) -> tuple[bytes, int]:
        """Forget a window that has entries; return its number, and how many entries it had."""
        number = self._numbers.pop(window)
        del self._windows[number]
        return number, self._counts.pop(number)

    def number_of(self, window: BoundedWindow | None) -> bytes:
        """Return the number of a window that has entries."""
        return _NONE if window is None else self._numbers[window]

    def ids(self, keys: list[Any], windows: Sequence[BoundedWindow | None], new: bool = False) -> list[bytes]:
        """Return the ids of entries; new ones are counted."""
        number, encoded = self.add_entry if new else self.number_of, encode_keys(keys)
        return [
            _GROUPS[group] + number(window) + key
            for group, key, window in zip(groups_of_encoded(encoded), encoded, windows)
        ]

    def ids_in(self, window: BoundedWindow, keys: list[Any], new: bool = False) -> list[bytes]:
        """Return the ids of entries of one window; new ones are counted."""
        number, encoded = self.add_entry(window, len(keys)) if new else self.number_of(window), encode_keys(keys)
        return [_GROUPS[group] + number + key for group, key in zip(groups_of_encoded(encoded), encoded)]

    def take_over(self, id: bytes, windows: NumberedWindows) -> bytes:
        """Count an entry that has an id by the numbers of others; return its id by these."""
        number = id[1:NUMBERED]
        if number == _NONE:
            return id
        (window,) = windows._windows[number]
        return id[:1] + self.add_entry(window) + id[NUMBERED:]

    def windows(self, id: bytes) -> Windows | None:
        """Return the window of an entry, as the windows of an element; None where it has those of a key."""
        return self._windows.get(id[1:NUMBERED])


@frozen
class SpillContext:
    """What a step needs to spill its entries.

    Attributes:
      label: the step's full label.
      entries: the entries in RocksDB.
      spill_excess: spills entries if there are too many in memory.
      note_keys: called with the keys that are spilled.
    """

    label: str
    entries: SpilledEntries
    spill_excess: Callable[[], None] = lambda: None
    note_keys: Callable[[Sequence[Any]], None] = lambda keys: None


class SpilledStep:
    """The spilled entries of a step.

    An entry is in memory or spilled, and never both.
    """

    def __init__(self, context: SpillContext) -> None:
        self.spill_excess = context.spill_excess
        self._label = context.label
        self._entries = context.entries
        self._note_keys = context.note_keys
        self._numbers = NumberedWindows()

    def _loads(self, data: bytes) -> Any:
        """Return the content of an entry, which may be of a checkpoint.

        Raises what `unpickled` does.
        """
        return unpickled(data, f"{self._label}: an entry of its state", "the RocksDB of the checkpoint")

    @property
    def number_spilled(self) -> int:
        """Return the number of spilled entries."""
        return len(self._entries)

    def prepare_snapshot(self) -> None:
        """Prepare for a snapshot, which is taken next."""

    def noted(self) -> tuple[int, int, list[Numbered]]:
        """Return what `adopt` is given."""
        return self._entries.number, len(self._entries), self._numbers.plain()

    def adopt(self, number: int, count: int, windows: NumberedWindows) -> None:
        """Be the entries that a database has, when nothing was spilled yet."""
        self._entries.adopt(number, count)
        self._numbers = windows

    def take_over(self, entries: Iterable[tuple[bytes, Times, bytes]], windows: NumberedWindows) -> None:
        """Add entries of another database, whose ids have other numbers of windows."""
        numbers = self._numbers
        self._entries.put((numbers.take_over(id, windows), times, data) for id, times, data in entries)
