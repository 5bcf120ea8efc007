"""Cells of uniform windows that are spilled to RocksDB, since memory has no room for them.

Nothing looks at a cell before its window is complete: elements are only added to it.  So a cell on disk is not loaded
when an element of its key comes.  The key begins another cell in memory, and both are merged when the window fires.

What is spilled at a time is a *run* for each key group: an entry of RocksDB with keys and their accumulators.  Runs of
a key group are merged when there are many, in levels as those of a log-structured merge tree are.  A window on disk
fires one key group after the other.  If it doesn't close then, the cells that have had their pane are written again.

Late elements for a window that is complete need the states of their keys.  So their key groups are *separated* before
such a bundle is processed: each key has a `WindowState` from there on.

A snapshot has links to the files of RocksDB with the runs, and the cells in memory as those of other windows.  Of a
window that is complete it has runs only.  What all keys of a window have in common is noted with the links.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import ceil
from typing import Any, NamedTuple, TypeAlias

from ....sdk.coders.key_encoding import key_groups
from ....sdk.elements.bundle import Bundle, expanded
from ....windowing import BoundedWindow
from ..serialization.records import pickled
from ..spilling.memory import average, memory_of
from ..spilling.rocksdb import EVENT_TIME, PORTION, Times, portions_of
from ..spilling.spilled_step import NUMBERED, Numbered, NumberedWindows, SpillContext, SpilledStep
from .combining import Fold, merge_into
from .snapshots import (
    ACCUMULATOR_AT,
    Records,
    WindowColumns,
    WindowRecord,
    indices_by_group,
    is_first_row,
    merge_runs,
    restore_uniform,
    row_of,
    state_of,
)
from .triggered_operator import may_be_uniform
from .window_state import UniformWindow
from .window_table import WindowTable

# What follows the number of the window in an id: the run's own number, the number of cells, the level, and whether they
# have had their pane.
_RUN = struct.Struct(">QIB?")

# As many runs of a level are merged into one of the next.
_MERGED = 8

# The memory of a cell's places in dictionaries: that of accumulators, and that of changes.
_PLACES = 104


class _Run(NamedTuple):
    """A run of a window and key group."""

    id: bytes
    size: int
    level: int
    has_fired: bool

    @staticmethod
    def of(id: bytes) -> _Run:
        _, size, level, has_fired = _RUN.unpack_from(id, NUMBERED)
        return _Run(id, size, level, has_fired)


class SpilledCells(SpilledStep):
    """The spilled cells of a grouping's uniform windows.

    Args:
      windows: the table of the grouping's windows.
      fold: merges accumulators.
      note_gone: called with a window and keys whose cells are in the last snapshot, but no longer in memory.
    """

    def __init__(
        self,
        windows: WindowTable,
        fold: Fold,
        note_gone: Callable[[BoundedWindow, list[Any]], None],
        context: SpillContext,
    ) -> None:
        super().__init__(context)
        self._windows = windows
        self._fold = fold
        self._is_uniform = may_be_uniform(fold)
        self._note_gone = note_gone
        # By window and key group, the runs, the oldest first.
        self._runs: dict[BoundedWindow, dict[int, list[_Run]]] = {}
        self._last = 0
        # Of restored windows that aren't in the table yet, what is noted of them.
        self._restored: dict[BoundedWindow, _Rows] = {}
        # While a chain is restored, what the records of a window have in common.
        self._chained: dict[BoundedWindow, tuple[Any, ...]] = {}
        self._average = 0.0
        self._measured = 0
        windows.cells = self

    @property
    def number_spilled(self) -> int:
        return sum(run.size for groups in self._runs.values() for runs in groups.values() for run in runs)

    # Spilling

    def memory(self) -> int:
        """Return the approximate memory of the cells in memory, by the average of a sample."""
        count = self._windows.number_uniform
        if not self._measured / 2 < count < self._measured * 2:
            self.measure()
        return round(count * self._average)

    def measure(self) -> None:
        """Measure another sample."""
        cells = (cell for window in self._windows.by_window.values() for cell in window.accumulators.items())
        self._measured = self._windows.number_uniform
        self._average = average(cells, self._measured, _memory_of)

    def spill(self, share: float) -> None:
        """Spill a share of the cells in memory: of the windows with the most, the keys that came last.

        The first ones tend to be those that come again, and are in the last snapshot.
        """
        if self._chained:
            for window in list(self._windows.by_window.values()):
                self._separate_restored(window)
            return
        count = ceil(self._windows.number_uniform * share)
        for window in sorted(self._windows.by_window.values(), key=lambda window: -len(window.accumulators)):
            if count > 0 and not window.is_firing and window.accumulators:
                spilled = min(count, len(window.accumulators))
                self._spill(window, spilled)
                count -= spilled

    def _spill(self, window: UniformWindow, count: int) -> None:
        """Spill the last cells of a window, none of which has had its pane."""
        cells = window.accumulators
        if count == len(cells):
            keys, accumulators = list(cells), list(cells.values())
            window.accumulators, window.changed = {}, {}
        else:
            # A dictionary without its first entries would have to be made anew.
            spilled = [cells.popitem() for _ in range(count)]
            keys, accumulators = [key for key, _ in reversed(spilled)], [own for _, own in reversed(spilled)]
            for key in keys:
                window.changed.pop(key, None)
        recorded = window.recorded - len(window.accumulators)
        if recorded > 0:
            self._note_gone(window.windows[0], keys[:recorded])
            window.recorded -= recorded
        self._put(window, keys, accumulators, False)

    def _put(self, window: UniformWindow, keys: list[Any], accumulators: list[Any], has_fired: bool) -> None:
        """Write cells as runs."""
        window.is_on_disk = True
        self._note_keys(keys)
        for group, indices in indices_by_group(keys):
            own = [keys[i] for i in indices], [accumulators[i] for i in indices]
            self._put_run(window.windows[0], group, *own, has_fired)
            if not has_fired:
                self._merge_levels(window.windows[0], group)

    def _put_run(
        self,
        window: BoundedWindow,
        group: int,
        keys: list[Any],
        accumulators: list[Any],
        has_fired: bool,
        level: int = 0,
    ) -> None:
        self._last += 1
        number = self._numbers.add_entry(window)
        id = bytes([group]) + number + _RUN.pack(self._last, len(keys), min(level, 255), has_fired)
        data = pickled((keys, accumulators), self._label, "State has to be data.")
        self._entries.put([(id, (window.max_micros, None, None), data)])
        self._runs.setdefault(window, {}).setdefault(group, []).append(_Run.of(id))

    def _merge_levels(self, window: BoundedWindow, group: int) -> None:
        """Merge the newest runs of a key group while there are enough of one level."""
        while True:
            runs = self._runs[window][group]
            newest = runs[-_MERGED:]
            level = newest[-1].level
            if len(newest) < _MERGED or any(run.level != level or run.has_fired for run in newest):
                return
            cells = self._take(window, group, newest)
            self._put_run(window, group, list(cells), list(cells.values()), False, level + 1)

    def _take(self, window: BoundedWindow, group: int, runs: Sequence[_Run]) -> dict[Any, Any]:
        """Remove runs of a key group, the oldest first; return their cells, merged."""
        held: dict[Any, Any] = {}
        for data in self._entries.read([run.id for run in runs]):
            keys, accumulators = self._loads(data)
            merge_into(self._fold, held, keys, accumulators)
        self._remove(window, group, runs)
        return held

    def _remove(self, window: BoundedWindow, group: int, runs: Sequence[_Run]) -> None:
        self._entries.discard([run.id for run in runs], (window.max_micros, None, None))
        for run in runs:
            self._numbers.remove_entry(run.id)
        groups = self._runs[window]
        remaining = [run for run in groups[group] if run not in runs]
        if remaining:
            groups[group] = remaining
        else:
            del groups[group]
        if not groups:
            del self._runs[window]

    # Firing

    def load_group(self, window: UniformWindow) -> bool:
        """Load the cells of the next key group that hasn't had its pane; return False if there is none."""
        if window.accumulators:
            self._spill(window, len(window.accumulators))
        for group, runs in self._runs.get(window.windows[0], {}).items():
            unfired = [run for run in runs if not run.has_fired]
            if unfired:
                window.accumulators = self._take(window.windows[0], group, unfired)
                return True
        return False

    def end_group(self, window: UniformWindow) -> None:
        """Let go of the cells of a key group, all of which have had their pane."""
        cells, window.accumulators = window.accumulators, {}
        if not window.closes:
            self._put(window, list(cells), list(cells.values()), True)

    def has_fired(self, window: BoundedWindow) -> bool:
        """Return whether any cell of a window has had its pane."""
        return any(run.has_fired for runs in self._runs.get(window, {}).values() for run in runs)

    def remove(self, window: UniformWindow) -> None:
        """Remove the cells of a window that has expired."""
        for group, runs in list(self._runs.get(window.windows[0], {}).items()):
            self._remove(window.windows[0], group, runs)

    def prepare_snapshot(self) -> None:
        """Write the cells in memory of windows that are complete, before a snapshot is taken."""
        for window in list(self._windows.by_window.values()):
            if window.is_on_disk and self._windows.times.is_complete(window):
                self._write_complete(window)

    def _write_complete(self, window: UniformWindow) -> None:
        if window.unfired is None:
            if window.accumulators:
                self._spill(window, len(window.accumulators))
            return
        # A firing is under way, of one key group.
        cells, fired = window.accumulators, window.fired
        window.accumulators, window.unfired, window.fired = {}, None, 0
        of_fired, rest = list(islice(cells.items(), fired)), list(islice(cells.items(), fired, None))
        for has_fired, own in ((True, [] if window.closes else of_fired), (False, rest)):
            if own:
                self._put(window, [key for key, _ in own], [accumulator for _, accumulator in own], has_fired)

    # States of keys

    def load_for(self, bundle: Bundle) -> None:
        """Separate the key groups that a bundle has elements of, in windows that are complete.

        Raises `TypeError` and `ValueError` for elements that aren't pairs, and keys that can't be encoded.
        """
        times, by_window = self._windows.times, self._windows.by_window
        complete = {each for each in self._runs if each in by_window and times.is_complete(by_window[each])}
        if not complete:
            return
        late: dict[BoundedWindow, dict[Any, None]] = {}
        for (key, _), windows in zip(bundle.values, expanded(bundle.windows, len(bundle)), strict=True):
            for window in complete.intersection(windows):
                late.setdefault(window, {})[key] = None
        for window, keys in late.items():
            self._write_complete(by_window[window])
            for group in dict.fromkeys(key_groups(list(keys))):
                self._separate(by_window[window], group)

    def separate(self, window: UniformWindow) -> None:
        """Make a state for each key of a window on disk, of which memory may have no room for all."""
        self._write_complete(window)
        for group in list(self._runs.get(window.windows[0], ())):
            self._separate(window, group)
            assert self._windows.spilled is not None
            self._windows.spilled.spill_excess()

    def _separate(self, window: UniformWindow, group: int) -> None:
        windows, runs = self._windows, self._runs.get(window.windows[0], {}).get(group, ())
        for has_fired in (False, True):
            own = [run for run in runs if run.has_fired is has_fired]
            cells = self._take(window.windows[0], group, own) if own else {}
            assert windows.spilled is not None
            windows.spilled.load_states(list(cells), window.windows[0])
            for key, accumulator in cells.items():
                before = windows.states_of(key, window.windows[0])
                if before:
                    # Restored from a chain of which a part was beyond memory.
                    (state,) = before
                    state.accumulator = self._fold.merged([accumulator, state.accumulator])
                else:
                    state = window.state(key, accumulator, has_fired and window.is_firing)
                    windows.put(state)
                assert windows.changed is not None
                windows.changed[state] = None

    # Restoring

    def adopt(self, number: int, count: int, windows: NumberedWindows) -> None:
        super().adopt(number, count, windows)
        for id in self._entries.ids(EVENT_TIME):
            self._add(id)
        self._restored = {window: windows.rows[windows.number_of(window)] for window in self._runs}

    def take_over(self, entries: Iterable[tuple[bytes, Times, bytes]], windows: NumberedWindows) -> None:
        runs: list[tuple[bytes, Times, bytes]] = []
        for id, times, data in entries:
            of_id, rows = windows.windows(id), windows.rows[id[1:NUMBERED]]
            assert of_id is not None
            (window,) = of_id
            if self._restored.setdefault(window, rows) != rows:
                # Another subtask's, in which other panes have been emitted.
                self._restore_states(records_in([(id, data)], windows, self._loads))
                continue
            _, *described = _RUN.unpack_from(id, NUMBERED)
            self._last += 1
            own = self._numbers.take_over(id, windows)[:NUMBERED] + _RUN.pack(self._last, *described)
            self._add(own)
            runs.append((own, times, data))
        self._entries.put(runs)

    def _add(self, id: bytes) -> None:
        self._last = max(self._last, *_RUN.unpack_from(id, NUMBERED)[:1])
        windows = self._numbers.windows(id)
        assert windows is not None
        self._runs.setdefault(windows[0], {}).setdefault(id[0], []).append(_Run.of(id))

    def restore(self, records: Iterable[WindowRecord]) -> None:
        """Restore records of a key and window of which there may be several, as states."""
        for portion in portions_of(records, PORTION):
            self._restore_states(portion)
            assert self._windows.spilled is not None
            self._windows.spilled.spill_excess()

    def _restore_states(self, records: Iterable[WindowRecord]) -> None:
        by_window: dict[BoundedWindow, list[WindowRecord]] = {}
        for record in records:
            assert record.window is not None
            by_window.setdefault(record.window, []).append(record)
        for window, own in by_window.items():
            if window in self._windows.by_window:
                self._separate_restored(self._windows.by_window[window])
            assert self._windows.spilled is not None
            self._windows.spilled.load_states(list(dict.fromkeys(record.key for record in own)), window)
            merge_runs(self._windows, own, self._fold.merged)

    def restore_cells(self, records: Records) -> Records:
        """Restore cells from records of a chain, the last of which counts for a key and window; return the others."""
        if not self._is_uniform:
            return records
        windows, others = self._windows, list[WindowRecord]()
        for record in records:
            window = record.window
            assert window is not None
            uniform = windows.by_window.get(window)
            if len(record.states) == 1 and not windows.has_states(window):
                (row,) = record.states
                common = (*row[:ACCUMULATOR_AT], *row[ACCUMULATOR_AT + 1 :])
                if uniform is None and is_first_row(row) and not windows.times.is_complete(state_of(None, row)):
                    uniform = restore_uniform(windows, row)
                    self._chained[window] = common
                if uniform is not None and self._chained.get(window) == common:
                    uniform.accumulators[record.key] = row[ACCUMULATOR_AT]
                    continue
            if uniform is not None:
                uniform.accumulators.pop(record.key, None)
            others.append(record)
        return others

    def _separate_restored(self, uniform: UniformWindow) -> None:
        """Make states of restored cells, of which later records may replace some: runs couldn't be replaced."""
        windows, window = self._windows, uniform.windows[0]
        self._chained.pop(window, None)
        windows.separate(uniform)
        assert windows.changed is not None
        windows.changed.update(dict.fromkeys(windows.keyed.get(window, {}).values()))

    def register(self) -> None:
        """Add the windows of restored runs to the table."""
        self._chained.clear()
        windows = self._windows
        cells = {window: uniform.accumulators for window, uniform in windows.by_window.items()}
        for window in cells:
            if window in self._runs or not cells[window]:
                # The chain's windows may be older than what is noted, and all of their cells removed since.
                uniform = windows.by_window.pop(window)
                windows.times.cancel(uniform)
                windows.times.release(uniform)
            else:
                windows.by_window[window].recorded = len(cells[window])
        for window in self._runs:
            row, of_fired = self._restored[window]
            restored = restore_uniform(windows, row)
            restored.is_on_disk = True
            restored.accumulators = cells.get(window, {})
            restored.recorded = len(restored.accumulators)
            if of_fired is not None:
                restored.is_firing, restored.fired_decision = True, state_of(None, of_fired).decision
        self._restored.clear()

    # Snapshots

    def removed(self) -> Iterator[tuple[int, list[WindowRecord]]]:
        """Return the records of cells that were removed: none, since no record is of a cell on disk."""
        return iter(())

    def noted(self) -> tuple[int, int, list[Numbered]]:
        self._numbers.rows = {
            self._numbers.number_of(window): _rows_of(self._windows.by_window[window]) for window in self._runs
        }
        return super().noted()

    def records(self) -> Iterator[tuple[int, list[WindowRecord]]]:
        """Return an iterator over the records of all runs by key group: those of now, however late it is asked for."""
        _, _, plain = self.noted()
        windows = NumberedWindows.of(plain)
        return (
            (group, records_in([entry], windows)) for group, entries in self._entries.by_group() for entry in entries
        )


# What is noted of a window: the row of keys that haven't had their pane in a firing that is under way, or of all keys;
# and that of those that have.
_Rows: TypeAlias = tuple[tuple[Any, ...], tuple[Any, ...] | None]


def _rows_of(window: UniformWindow) -> _Rows:
    first, second = (row_of(window.state(None, None, has_fired)) for has_fired in (False, True))
    return first, second if window.is_firing else None


def _memory_of(cell: tuple[Any, Any]) -> int:
    return _PLACES + memory_of(*cell)


def records_in(
    entries: Iterable[tuple[bytes, bytes]], windows: NumberedWindows, loads: Callable[[Any], Any] = pickle.loads
) -> list[WindowRecord]:
    """Return the records of runs: a key and window may have several, whose accumulators are to be merged.

    Args:
      loads: reads a pickle.
    """
    found: list[WindowRecord] = []
    for id, data in entries:
        row, of_fired = windows.rows[id[1:NUMBERED]]
        if of_fired is not None and _Run.of(id).has_fired:
            row = of_fired
        found += WindowColumns.of_run(row, *loads(data))
    return found
