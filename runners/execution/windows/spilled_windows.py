"""Windows that are spilled to RocksDB, since memory has no room for them.

The unit of spilling is an entry: a key's window, or all windows of a key where windows merge.  An entry is loaded
before an element of its key is processed, when it is due, and before all windows are processed.  So the window operator
finds in memory every window that it looks for.

An entry that has changed since the last snapshot is read from disk for the next one.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from math import ceil
from typing import Any

from ....sdk.coders.key_encoding import encode_key, key_groups
from ....sdk.elements.bundle import Bundle, Windows, expanded
from ....windowing import BoundedWindow
from ..serialization.records import pickled
from ..spilling.memory import average, memory_of
from ..spilling.rocksdb import PORTION, SpilledEntries, Times, portions_of
from .snapshots import PANE_WINDOWS_AT, WINDOWS_AT, Records, WindowColumns, WindowRecord, restore, row_of, state_of
from .window_state import WindowState
from .window_table import WindowTable

_SIZE = 8
# In place of a window, if there is none.
_NONE = bytes(_SIZE)


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
    """

    def __init__(self) -> None:
        self._numbers: dict[BoundedWindow, bytes] = {}
        self._windows: dict[bytes, Windows] = {}
        self._counts: dict[bytes, int] = {}
        self._last = 0

    def __contains__(self, window: BoundedWindow | None) -> bool:
        return window in self._numbers

    def __iter__(self) -> Iterator[BoundedWindow]:
        return iter(self._numbers)

    def copy(self) -> NumberedWindows:
        """Return a copy, which doesn't change with this."""
        copied = NumberedWindows()
        copied._numbers, copied._windows, copied._counts = dict(self._numbers), dict(self._windows), dict(self._counts)
        copied._last = self._last
        return copied

    def add_entry(self, window: BoundedWindow | None) -> bytes:
        """Count an entry of a window, and return the window's number."""
        if window is None:
            return _NONE
        number = self._numbers.get(window)
        if number is None:
            self._last += 1
            number = self._numbers[window] = self._last.to_bytes(_SIZE, "big")
            self._windows[number] = (window,)
            self._counts[number] = 0
        self._counts[number] += 1
        return number

    def remove_entry(self, id: bytes) -> None:
        """Count one entry less of a window."""
        number = id[1 : 1 + _SIZE]
        if number == _NONE:
            return
        self._counts[number] -= 1
        if not self._counts[number]:
            (window,) = self._windows.pop(number)
            del self._numbers[window], self._counts[number]

    def number_of(self, window: BoundedWindow | None) -> bytes:
        """Return the number of a window that has entries."""
        return _NONE if window is None else self._numbers[window]

    def ids(self, keys: list[Any], windows: Sequence[BoundedWindow | None], new: bool = False) -> list[bytes]:
        """Return the ids of entries; new ones are counted."""
        number = self.add_entry if new else self.number_of
        return [
            bytes([group]) + number(window) + encode_key(key)
            for group, key, window in zip(key_groups(keys), keys, windows)
        ]

    def windows(self, id: bytes) -> Windows:
        """Return the window of an entry, as the windows of an element."""
        return self._windows[id[1 : 1 + _SIZE]]


# The number of due entries that are loaded together.
DUE = 10_000

# The memory of a window's places in dictionaries and lists.
_PLACES = 170

# A window; or a key, where windows merge.
Entry = Any


class SpilledWindows:
    """The spilled windows of a grouping.

    Args:
      windows: the table of the grouping's windows.
      label: the grouping's full label.
      entries: the entries in RocksDB.
      spill_excess: spills windows if there are too many in memory.
    """

    def __init__(
        self, windows: WindowTable, label: str, entries: SpilledEntries, spill_excess: Callable[[], None]
    ) -> None:
        self.spill_excess = spill_excess
        self._label = label
        self._windows = windows
        self._entries = entries
        self._numbers = NumberedWindows()
        # The entries in memory, the least recently used first, and their size when last measured.
        self._used: dict[Entry, None] = {}
        self._average = 0.0
        self._measured = 0
        # Since the last snapshot: the ids of spilled entries that have changed, and the removed windows.
        self._changed: dict[bytes, None] = {}
        self._gone: dict[tuple[Any, BoundedWindow | None], None] = {}
        if windows.changed is None:
            # Without a snapshot every window counts as changed.
            windows.changed = {}
        windows.spilled = self
        windows.times.spilled = entries

    @property
    def number_spilled(self) -> int:
        """Return the number of spilled entries."""
        return len(self._entries)

    # Loading

    def load_for(self, bundle: Bundle) -> None:
        """Load the entries that a bundle has elements of."""
        if not len(self._entries):
            return
        columns = bundle.values, expanded(bundle.windows, len(bundle))
        wanted: dict[tuple[Any, BoundedWindow | None], None] = {}
        try:
            if self._windows.is_merging:
                wanted = dict.fromkeys((key, None) for key, _ in bundle.values)
            else:
                for (key, _), windows in zip(*columns, strict=True):
                    for window in windows:
                        if window in self._numbers:
                            wanted[key, window] = None
            has_any = self._windows.has_any
            missing = [entry for entry in wanted if not has_any(*entry)]
            ids = self._numbers.ids([key for key, _ in missing], [window for _, window in missing])
        except (TypeError, ValueError):
            # No pairs, or no keys: the window operator raises the error.
            return
        self._load(ids)

    def load_due(self, order: int, time: int, most: int) -> int | None:
        """Load the first entries that are due up to a time, at most so many, and return when the next ones are due."""
        self._restore_entries(self._entries.due(order, time, min(most, DUE)))
        return self._entries.least(order)

    def load_all(self) -> None:
        """Load all entries."""
        for portion in portions_of(self._entries.all(), PORTION):
            self._load([id for id, _ in portion])

    def _load(self, ids: Sequence[bytes]) -> None:
        self._restore_entries(self._entries.take_all(ids))

    def _restore_entries(self, found: Iterable[tuple[bytes, bytes]]) -> None:
        windows = self._windows
        for id, data in found:
            key, states = self._unpacked(id, data)
            if not windows.is_merging:
                self._numbers.remove_entry(id)
            has_changed = id in self._changed
            if has_changed:
                del self._changed[id]
            for state in states:
                windows.put_back(state)
                if has_changed:
                    self._changes[state] = None
            self._used[key if windows.is_merging else states[0]] = None

    # Spilling

    def use(self) -> None:
        """Update the order of use: windows that were used have changed since the last snapshot."""
        windows, used, changed = self._windows, self._used, self._changes
        gone: list[WindowState] = []
        if windows.is_merging:
            for key, states in self._by_key(changed).items():
                used.pop(key, None)
                if windows.has_any(key, None):
                    used[key] = None
                else:
                    gone += states
        else:
            for state in changed:
                used.pop(state, None)
                if windows.has(state):
                    used[state] = None
                else:
                    gone.append(state)
        # Of removed windows only key and window are kept.
        for state in gone:
            del changed[state]
            self._gone[state.key, None if windows.is_merging else state.windows[0]] = None

    @property
    def _changes(self) -> dict[WindowState, None]:
        assert self._windows.changed is not None
        return self._windows.changed

    def _by_key(self, states: Iterable[WindowState]) -> dict[Any, list[WindowState]]:
        found: dict[Any, list[WindowState]] = {}
        for state in states:
            found.setdefault(state.key, []).append(state)
        return found

    def memory(self) -> int:
        """Return the approximate memory of the entries in memory, by the average of a sample."""
        count = len(self._windows)
        if not self._measured / 2 < count < self._measured * 2:
            self.measure()
        return round(count * self._average)

    def measure(self) -> None:
        """Measure another sample."""
        self.use()
        self._average, self._measured = average(self._used, self._memory_of), len(self._windows)

    def _memory_of(self, entry: Entry) -> int:
        states = self._windows.of_key(entry) if self._windows.is_merging else [entry]
        own = [part for state in states for part in (state.key, state.accumulator, state.pair, *state.replaced)]
        if self._windows.is_merging:
            own += [part for state in states for part in (state.windows, state.stamp, state.decision)]
        return len(states) * (_PLACES + _SLOTS) + memory_of(*own)

    def spill(self, share: float) -> None:
        """Spill a share of the entries in memory, the least recently used first."""
        self.use()
        changed = self._by_key(self._changes) if self._windows.is_merging else None
        count = min(len(self._used), ceil(len(self._used) * share))
        for portion in portions_of(list(islice(self._used, count)), PORTION):
            self._spill(portion, changed)
        self._windows.times.forget_stale()

    def _spill(self, entries: Sequence[Entry], changed: dict[Any, list[WindowState]] | None) -> None:
        windows, changes = self._windows, self._changes
        found: list[tuple[Any, BoundedWindow | None, list[WindowState]]] = []
        for entry in entries:
            del self._used[entry]
            if windows.is_merging:
                found.append((entry, None, windows.of_key(entry)))
            else:
                found.append((entry.key, entry.windows[0], [entry]))
        ids = self._numbers.ids([key for key, _, _ in found], [window for _, window, _ in found], new=True)
        spilled: list[tuple[bytes, Times, bytes]] = []
        for id, (key, _, states) in zip(ids, found):
            spilled.append((id, _times_of(states), self._packed(key, states)))
            # Where windows merge, the change of one is a change of the key's entry.
            for state in states if changed is None else changed.get(key, ()):
                if state in changes:
                    del changes[state]
                    self._changed[id] = None
            for state in states:
                windows.let_go(state)
        self._entries.put(spilled)

    # Snapshots

    def records(self, is_whole: bool) -> Iterator[tuple[int, Records]]:
        """Return an iterator over the records of spilled windows, to follow those of `snapshots.by_group`.

        They are those of now, also if they are asked for later, in another thread.
        """
        gone: dict[int, list[WindowRecord]] = {}
        if not is_whole:
            # Their keys may have windows again.
            removed = [entry for entry in self._gone if not self._windows.has_any(*entry)]
            for group, (key, window) in zip(key_groups([key for key, _ in removed]), removed):
                gone.setdefault(group, []).append(WindowRecord(key, window, ()))
        by_group = self._entries.by_group(None if is_whole else self._changed)
        numbers = None if self._windows.is_merging else self._numbers.copy()
        self._changed.clear()
        self._gone.clear()
        return chain(gone.items(), ((group, _recorded(entries, numbers)) for group, entries in by_group))

    def restore(self, records: Records) -> None:
        """Restore windows from records, in place of present windows of the same keys."""
        windows = self._windows
        for portion in portions_of(records, PORTION):
            known = [r for r in portion if windows.is_merging or r.window in self._numbers]
            self._load(self._numbers.ids([r.key for r in known], [r.window for r in known]))
            for state in [state for r in portion for state in windows.states_of(r.key, r.window)]:
                self._used.pop(state.key if windows.is_merging else state, None)
                windows.let_go(state)
            restore(windows, portion)
            for r in portion:
                own = windows.states_of(r.key, r.window)
                if own:
                    self._used[r.key if windows.is_merging else own[0]] = None
            self.spill_excess()

    # Entries as bytes

    def _packed(self, key: Any, states: Sequence[WindowState]) -> bytes:
        rows: list[Any] = [(*row_of(state), state.event_time, state.processing_time) for state in states]
        if not self._windows.is_merging:
            # The id has the number of the window.
            (row,) = map(list, rows)
            if row[PANE_WINDOWS_AT] is row[WINDOWS_AT]:
                row[PANE_WINDOWS_AT] = None
            row[WINDOWS_AT] = None
            rows = [row]
        return pickled((key, rows), self._label, "State has to be data.")

    def _unpacked(self, id: bytes, data: bytes) -> tuple[Any, list[WindowState]]:
        key, rows = _unpacked_rows(id, data, None if self._windows.is_merging else self._numbers)
        states = []
        for *row, event_time, processing_time in rows:
            state = state_of(key, row)
            state.event_time, state.processing_time = event_time, processing_time
            states.append(state)
        return key, states


def _unpacked_rows(id: bytes, data: bytes, numbers: NumberedWindows | None) -> tuple[Any, tuple[tuple[Any, ...], ...]]:
    """Return the key and the rows of an entry, each of which ends with the times at which the window is due.

    Args:
      numbers: the numbers of the windows; None where windows merge.
    """
    key, rows = pickle.loads(data)
    if numbers is not None:
        (row,) = rows
        windows: Windows = numbers.windows(id)
        row[WINDOWS_AT] = windows
        if row[PANE_WINDOWS_AT] is None:
            row[PANE_WINDOWS_AT] = windows
    return key, tuple(map(tuple, rows))


def _recorded(found: Iterable[tuple[bytes, bytes]], numbers: NumberedWindows | None) -> Records:
    unpacked = (_unpacked_rows(id, data, numbers) for id, data in found)
    entries = [(key, tuple(row[:-2] for row in rows)) for key, rows in unpacked]
    if numbers is None:
        return [WindowRecord(key, None, rows) for key, rows in entries]
    return WindowColumns.of([key for key, _ in entries], zip(*(row for _, (row,) in entries), strict=True))


_SLOTS = 16 + 8 * (len(WindowState.__slots__) + 2)


def _times_of(states: Sequence[WindowState]) -> Times:
    return (
        _least(state.event_time for state in states),
        _least(state.processing_time for state in states),
        _least(state.held for state in states),
    )


def _least(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)
