"""Windows that are spilled to RocksDB, since memory has no room for them.

The unit of spilling is an entry: a key's window, or all windows of a key where windows merge.  An entry is loaded
before an element of its key is processed, when it is due, and before all windows are processed.  So the window operator
finds in memory every window that it looks for.

A snapshot has the windows that are in memory, and links to the files of RocksDB with the others.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import ceil
from typing import Any

from ....sdk.coders.key_encoding import key_groups
from ....sdk.elements.bundle import Bundle, expanded
from ....windowing import BoundedWindow
from ..serialization.records import pickled
from ..spilling.memory import average, memory_of
from ..spilling.rocksdb import PORTION, Times, portions_of
from ..spilling.spilled_step import NumberedWindows, SpillContext, SpilledStep
from .snapshots import PANE_WINDOWS_AT, WINDOWS_AT, Records, WindowColumns, WindowRecord, restore, row_of, state_of
from .window_state import WindowState
from .window_table import WindowTable

# The number of due entries that are loaded together.
DUE = 10_000

# The memory of a window's places in dictionaries and lists.
_PLACES = 170

# A window; or a key, where windows merge.
Entry = Any


class SpilledWindows(SpilledStep):
    """The spilled windows of a grouping.

    Args:
      windows: the table of the grouping's windows.
    """

    def __init__(self, windows: WindowTable, context: SpillContext) -> None:
        super().__init__(context)
        self._windows = windows
        # The entries in memory, the least recently used first, and their size when last measured.
        self._used: dict[Entry, None] = {}
        self._average = 0.0
        self._measured = 0
        # The windows that have been removed or spilled since the last snapshot.
        self._gone: dict[tuple[Any, BoundedWindow | None], None] = {}
        # By window, the keys whose cells have been spilled since then.
        self._gone_cells: list[tuple[BoundedWindow, list[Any]]] = []
        if windows.changed is None:
            # Without a snapshot every window counts as changed.
            windows.changed = {}
        windows.spilled = self
        windows.times.spilled = context.entries

    def __contains__(self, window: BoundedWindow) -> bool:
        return window in self._numbers

    # Loading

    def load_for(self, bundle: Bundle) -> None:
        """Load the entries that a bundle has elements of."""
        if self._windows.cells is not None:
            try:
                self._windows.cells.load_for(bundle)
            except (TypeError, ValueError):
                # As below.
                return
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

    def load_states(self, keys: list[Any], window: BoundedWindow) -> None:
        """Load a window of these keys."""
        if keys and window in self._numbers:
            self._load(self._numbers.ids_in(window, keys))

    def forget(self, states: Iterable[WindowState]) -> None:
        """Forget windows in memory, which have become uniform."""
        for state in states:
            self._used.pop(state, None)

    def _load(self, ids: Sequence[bytes]) -> None:
        self._restore_entries(self._entries.take_all(ids))

    def _restore_entries(self, found: Iterable[tuple[bytes, bytes]]) -> None:
        windows = self._windows
        for id, data in found:
            key, states = self._unpacked(id, data)
            if not windows.is_merging:
                self._numbers.remove_entry(id)
            for state in states:
                windows.put_back(state)
                # The last snapshot doesn't have it among those in memory.
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
        count = self._number
        if not self._measured / 2 < count < self._measured * 2:
            self.measure()
        return round(count * self._average)

    def measure(self) -> None:
        """Measure another sample."""
        self.use()
        self._average, self._measured = average(self._used, len(self._used), self._memory_of), self._number

    @property
    def _number(self) -> int:
        """Return the number of windows in memory, or of keys where they merge, that have states."""
        return len(self._windows) - self._windows.number_uniform

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
        self._note_keys([key for key, _, _ in found])
        spilled: list[tuple[bytes, Times, bytes]] = []
        for id, (key, window, states) in zip(ids, found):
            spilled.append((id, _times_of(states), self._packed(key, states)))
            # Where windows merge, the change of one is a change of the key's entry.
            for state in states if changed is None else changed.get(key, ()):
                changes.pop(state, None)
            self._gone[key, window] = None
            for state in states:
                windows.let_go(state)
        self._entries.put(spilled)

    # Snapshots

    def note_gone(self, window: BoundedWindow, keys: list[Any]) -> None:
        """Note that cells of a uniform window, which are in the last snapshot, aren't in memory any more."""
        self._gone_cells.append((window, keys))

    def removed(self) -> Iterator[tuple[int, list[WindowRecord]]]:
        """Return the records of windows that have been removed or spilled since the last snapshot, by key group.

        They are those of now, also if they are asked for later, in another thread.
        """
        # Their keys may have windows again.
        removed = [entry for entry in self._gone if not self._is_here(*entry)]
        for window, keys in self._gone_cells:
            removed += [(key, window) for key in keys if not self._is_here(key, window)]
        self._forget_gone()

        def by_group() -> Iterator[tuple[int, list[WindowRecord]]]:
            found: dict[int, list[WindowRecord]] = {}
            for group, (key, window) in zip(key_groups([key for key, _ in removed]), removed):
                found.setdefault(group, []).append(WindowRecord(key, window, ()))
            yield from found.items()

        return by_group()

    def records(self) -> Iterator[tuple[int, Records]]:
        """Return an iterator over the records of all spilled windows by key group.

        They are those of now, also if they are asked for later, in another thread.
        """
        self._forget_gone()
        windows = NumberedWindows.of(self._numbers.plain())
        return ((group, records_in(entries, windows)) for group, entries in self._entries.by_group())

    def _is_here(self, key: Any, window: BoundedWindow | None) -> bool:
        """Return whether a key has a window in memory, with a state or as a cell of a uniform one."""
        uniform = None if window is None else self._windows.by_window.get(window)
        return (uniform is not None and key in uniform.accumulators) or self._windows.has_any(key, window)

    def _forget_gone(self) -> None:
        self._gone.clear()
        self._gone_cells.clear()

    def restore(self, records: Records) -> None:
        """Restore windows from records, in place of present windows of the same keys."""
        windows = self._windows
        if windows.cells is not None:
            records = windows.cells.restore_cells(records)
        for portion in portions_of(records, PORTION):
            known = [r for r in portion if windows.is_merging or r.window in self._numbers]
            self._load(self._numbers.ids([r.key for r in known], [r.window for r in known]))
            for state in dict.fromkeys(state for r in portion for state in windows.states_of(r.key, r.window)):
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
        key, rows = _unpacked_rows(id, data, self._numbers, self._loads)
        states = []
        for *row, event_time, processing_time in rows:
            state = state_of(key, row)
            state.event_time, state.processing_time = event_time, processing_time
            states.append(state)
        return key, states


def _unpacked_rows(
    id: bytes, data: bytes, numbers: NumberedWindows, loads: Callable[[Any], Any]
) -> tuple[Any, tuple[tuple[Any, ...], ...]]:
    """Return the key and the rows of an entry, each of which ends with the times at which the window is due."""
    key, rows = loads(data)
    windows = numbers.windows(id)
    if windows is not None:
        (row,) = rows
        row[WINDOWS_AT] = windows
        if row[PANE_WINDOWS_AT] is None:
            row[PANE_WINDOWS_AT] = windows
    return key, tuple(map(tuple, rows))


def records_in(
    entries: Iterable[tuple[bytes, bytes]], numbers: NumberedWindows, loads: Callable[[Any], Any] = pickle.loads
) -> Records:
    """Return the records of spilled windows, of which each has an id and data.

    Args:
      loads: reads a pickle.
    """
    ids = [id for id, _ in entries]
    unpacked = [_unpacked_rows(id, data, numbers, loads) for id, data in entries]
    found = [(key, tuple(row[:-2] for row in rows)) for key, rows in unpacked]
    if numbers.windows(ids[0]) is None:
        return [WindowRecord(key, None, rows) for key, rows in found]
    return WindowColumns.of([key for key, _ in found], zip(*(row for _, (row,) in found), strict=True))


_SLOTS = 16 + 8 * (len(WindowState.__slots__) + 2)


def _times_of(states: Sequence[WindowState]) -> Times:
    return (
        _least(state.event_time for state in states),
        _least(state.processing_time for state in states),
        _least(state.held for state in states),
    )


def _least(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)
