"""Snapshots of a grouping's windows, as plain data: all windows, or those that have changed (ABS, section 4.2).

A snapshot is a sequence of *records*, each for one key and window, or for all windows of a key where windows merge.
A later record of the same key and window replaces an earlier one: a snapshot followed by its changes is a snapshot.

Windows that don't merge can be very many, most of which differ in few slots.  Their records are columns; a column whose
entries are all the same has one entry.  That takes a third of the time, and of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import attrgetter, is_
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ....sdk.coders.key_encoding import KEY_GROUPS, key_groups
from ....sdk.elements.defensive_copy import IMMUTABLE
from ....windowing import BoundedWindow
from ..gc_tuning import rarely_collected
from .trigger_state import Decision
from .window_state import UniformWindow, WindowState
from .window_table import WindowTable

# The slots of a window's state that are plain data.
_PLAIN = (
    "windows",
    "end",
    "expiry",
    "accumulator",
    "has_new",
    "stamp",
    "held",
    "panes",
    "on_time_panes",
    "was_on_time",
    "pair",
    "timestamp",
    "pane_windows",
    "pane",
    "replaced",
)


_AreSame: TypeAlias = Callable[[Any], bool]


class WindowRecord(NamedTuple):
    """The state of a key in a window; removed if `states` is empty.

    Attributes:
      key: the key.
      window: the window; None where windows merge, for all windows of the key.
      states: of each window the trigger's state, whether it is finished, when to ask it again in both time domains, and
        the slots of the window's state.
    """

    key: Any
    window: BoundedWindow | None
    states: tuple[tuple[Any, ...], ...]


class WindowColumns:
    """Records of windows that don't merge, as columns.

    Args:
      keys: the keys, at least one; none of the windows is removed.
      columns: the columns of what `row_of` returns; one entry if all are the same.

    Attributes:
      keys: the key of each record.

    Iterating gives `WindowRecord`s.
    """

    __slots__ = ("_columns", "keys")

    def __init__(self, keys: list[Any], *columns: Sequence[Any]) -> None:
        self.keys = keys
        self._columns = columns

    @staticmethod
    def of(keys: list[Any], columns: Iterable[tuple[Any, ...]]) -> WindowColumns:
        """Return the records of columns with an entry for each key, and shorten those whose entries are the same."""
        shortened = (own[:1] if are_same(own) else own for are_same, own in zip(_ARE_SAME, columns, strict=True))
        return WindowColumns(keys, *shortened)

    @staticmethod
    def of_states(states: Sequence[WindowState]) -> WindowColumns:
        """Return the records of windows, which are at least one."""
        return WindowColumns.of([state.key for state in states], [tuple(map(get, states)) for get in _GETTERS])

    @staticmethod
    def of_uniform(window: UniformWindow, keys: list[Any]) -> WindowColumns:
        """Return the records of all keys of a uniform window, or of some in another order; of two keys at least."""
        (state,) = window.states(keys[:1])
        accumulators = window.accumulators
        is_whole = len(keys) == len(accumulators)
        own = list(accumulators.values() if is_whole else map(accumulators.__getitem__, keys))
        return WindowColumns.of_run(row_of(state), keys, own)

    @staticmethod
    def of_run(row: Sequence[Any], keys: list[Any], accumulators: list[Any]) -> WindowColumns:
        """Return the records of keys that differ from a row in their accumulators only."""
        columns: list[tuple[Any, ...]] = [(entry,) for entry in row]
        columns[ACCUMULATOR_AT] = tuple(accumulators)
        return WindowColumns(keys, *columns)

    def by_group(self, known: dict[Any, int] | None = None) -> Iterator[tuple[int, WindowColumns]]:
        """Yield the records by key group.

        Args:
          known: the groups of keys that other windows have, too; extended.
        """
        for group, places in _by_groups(self.keys, range(len(self.keys)), known):
            columns = [own if len(own) == 1 else tuple([own[at] for at in places]) for own in self._columns]
            yield group, WindowColumns([self.keys[at] for at in places], *columns)

    @property
    def is_fixed(self) -> bool:
        """Whether none of it can change: accumulators are numbers, text and the like, and no pane is current."""
        columns = self._columns
        return (
            IMMUTABLE.issuperset(map(type, columns[ACCUMULATOR_AT]))
            and columns[_PAIR_AT] == (None,)
            and columns[_REPLACED_AT] == ((),)
        )

    def columns(self) -> tuple[Any, ...]:
        """Return the keys and the columns, as plain data: the arguments of an equal object."""
        return (self.keys, *self._columns)

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[WindowRecord]:
        columns = [repeat(column[0]) if len(column) == 1 else column for column in self._columns]
        for key, *row in zip(self.keys, *columns):
            yield WindowRecord(key, row[WINDOWS_AT][0], (tuple(row),))


Records: TypeAlias = Sequence[WindowRecord] | WindowColumns

# The entries of a row.
_DECIDED = ("state", "is_finished", "event_time", "processing_time")
row_of: Callable[[WindowState], tuple[Any, ...]] = attrgetter(*(f"decision.{name}" for name in _DECIDED), *_PLAIN)
_GETTERS = [attrgetter(name) for name in (*(f"decision.{name}" for name in _DECIDED), *_PLAIN)]
# The indices of a window, of that of the current pane, of an accumulator, and of what is current.
WINDOWS_AT = len(_DECIDED) + _PLAIN.index("windows")
PANE_WINDOWS_AT = len(_DECIDED) + _PLAIN.index("pane_windows")
ACCUMULATOR_AT, _PAIR_AT, _REPLACED_AT = (
    len(_DECIDED) + _PLAIN.index(name) for name in ("accumulator", "pair", "replaced")
)


def is_first_row(row: Sequence[Any]) -> bool:
    """Return whether a row is that of a window before its first pane, and of nothing but an accumulator."""
    state = state_of(None, row)
    return state.has_new and not (
        state.panes
        or state.was_on_time
        or state.held is not None
        or state.stamp is not None
        or state.pane is not None
        or state.replaced
    )


def _is_one(column: Sequence[Any]) -> bool:
    """Return whether all entries are the same object; equal ones may be `1` and `True`."""
    return all(map(is_, column, repeat(column[0])))


def _is_equal(column: tuple[Any, ...]) -> bool:
    """Return whether all entries are equal; for columns of one type."""
    return column.count(column[0]) == len(column)


def _varies(column: tuple[Any, ...]) -> bool:
    return len(column) == 1


_OF_USERS = {"state": _is_one, "accumulator": _varies, "pair": _is_one, "replaced": _is_one}
_ARE_SAME: list[_AreSame] = [_OF_USERS.get(name, _is_equal) for name in (*_DECIDED, *_PLAIN)]

# The keys of a window from which on each key group has enough of them for columns of their own, most with one entry.
_OWN_COLUMNS = 16 * KEY_GROUPS


def snapshot(windows: WindowTable) -> list[WindowRecord]:
    """Return the records of all windows; `changes` are those since then."""
    return [record for records in by_group(windows, True) for record in records[1]]


def changes(windows: WindowTable) -> list[WindowRecord]:
    """Return the records of windows that have changed since the last snapshot or changes.

    Raises `RuntimeError` if there has been no snapshot.
    """
    return [record for records in by_group(windows, False) for record in records[1]]


def by_group(windows: WindowTable, is_whole: bool) -> list[tuple[int, Records]]:
    """Return the records of all windows, or of those that have changed, by key group.

    A group may be there several times.

    Raises `RuntimeError` for changes if there has been no snapshot.
    """
    found, fixed = in_parts(windows, is_whole)
    return [*found, *fixed]


def in_parts(windows: WindowTable, is_whole: bool) -> tuple[list[tuple[int, Records]], Iterator[tuple[int, Records]]]:
    """Return what `by_group` does in two parts, the second of which stays as it is, and may be asked for later."""
    if windows.changed is None and not is_whole:
        raise RuntimeError("there is no snapshot to return the changes since; call snapshot first")
    windows.separate_all(only_firing=True)
    states: Iterable[WindowState] = windows.states() if is_whole else windows.changed or ()
    # Records are many new objects, all of which stay.
    fixed: list[WindowColumns] = []
    with rarely_collected():
        found = _by_group(windows, states, is_whole, fixed)
    windows.forget_changes()
    return found, chain.from_iterable(columns.by_group() for columns in fixed)


def _by_group(
    windows: WindowTable, states: Iterable[WindowState], is_whole: bool, fixed: list[WindowColumns]
) -> list[tuple[int, Records]]:
    """Return records by key group, except for those that are added to `fixed`."""
    found: list[tuple[int, Records]] = []
    if windows.is_merging:
        keys = dict.fromkeys(state.key for state in states)
        merged = [WindowRecord(key, None, tuple(map(row_of, windows.of_key(key)))) for key in keys]
        found.extend(_grouped(merged))
        return found
    gone: list[WindowRecord] = []
    few: list[WindowState] = []
    of_windows = _by_window(states)
    # Most keys have several windows.
    known: dict[Any, int] | None = {} if len(of_windows) + len(windows.by_window) + len(windows.gone) > 1 else None
    if not is_whole:
        for window, emitted in windows.gone:
            gone.extend(map(_new, repeat(WindowRecord), zip(emitted, repeat(window), repeat(()))))
    for uniform in windows.by_window.values():
        wanted = list(uniform.accumulators if is_whole else uniform.changed)
        if len(wanted) < _OWN_COLUMNS:
            few.extend(uniform.states(wanted))
        elif (columns := WindowColumns.of_uniform(uniform, wanted)).is_fixed:
            fixed.append(columns)
        else:
            found.extend(columns.by_group(known))
    for window, own in of_windows.items():
        # As `WindowTable.has` says.
        there = windows.keyed.get(window, _NO_STATES)
        here = own if is_whole else [state for state in own if there.get(state.key) is state]
        if len(here) < len(own):
            removed = (state.key for state in own if there.get(state.key) is not state)
            gone.extend(map(_new, repeat(WindowRecord), zip(removed, repeat(window), repeat(()))))
        if len(here) < _OWN_COLUMNS:
            few.extend(here)
        else:
            found.extend((group, WindowColumns.of_states(kept)) for group, kept in _grouped(here, known))
    found.extend((group, WindowColumns.of_states(kept)) for group, kept in _grouped(few, known))
    # Removed windows come first: a window may have begun anew since.
    return [*_grouped(gone, known), *found]


_NO_STATES: dict[Any, WindowState] = {}
_new: Any = tuple.__new__


def _by_window(states: Iterable[WindowState]) -> dict[BoundedWindow, list[WindowState]]:
    """Return states by their window.  As a rule, those that have the same window share its tuple."""
    of_tuples: dict[int, list[WindowState]] = {}
    for state in states:
        of_tuple = of_tuples.get(id(state.windows))
        if of_tuple is None:
            of_tuples[id(state.windows)] = [state]
        else:
            of_tuple.append(state)
    found: dict[BoundedWindow, list[WindowState]] = {}
    for own in of_tuples.values():
        found.setdefault(own[0].windows[0], []).extend(own)
    return found


T = TypeVar("T")
_Keyed = TypeVar("_Keyed", WindowRecord, WindowState)


def _grouped(keyed: Sequence[_Keyed], known: dict[Any, int] | None = None) -> Iterable[tuple[int, list[_Keyed]]]:
    """Return windows by key group.

    Args:
      known: the groups of keys that other windows have, too; extended.
    """
    return _by_groups([one.key for one in keyed], keyed, known)


def _by_groups(keys: list[Any], things: Sequence[T], known: dict[Any, int] | None) -> Iterable[tuple[int, list[T]]]:
    groups: list[list[T]] = [[] for _ in range(KEY_GROUPS)]
    for group, thing in zip(key_groups(keys) if known is None else _groups_of(keys, known), things, strict=True):
        groups[group].append(thing)
    return [(group, own) for group, own in enumerate(groups) if own]


def indices_by_group(keys: list[Any]) -> Iterable[tuple[int, list[int]]]:
    """Return the indices of keys in a list, by key group."""
    return _by_groups(keys, range(len(keys)), None)


def _groups_of(keys: list[Any], known: dict[Any, int]) -> Iterable[int]:
    found = list(map(known.get, keys))
    if None not in found:
        return found  # type: ignore[return-value]
    new = [key for key in dict.fromkeys(keys) if key not in known]
    known.update(zip(new, key_groups(new), strict=True))
    return map(known.__getitem__, keys)


def restore(windows: WindowTable, records: Iterable[WindowRecord]) -> None:
    """Restore windows from records, of which the last for each key and window counts.

    `changes` are those since then.
    """
    if windows.changed is None:
        windows.changed = {}
    last = {(record.key, record.window): record.states for record in records}
    for (key, _), states in last.items():
        for row in states:
            windows.put(state_of(key, row))


def merge_runs(windows: WindowTable, records: Iterable[WindowRecord], merged: Callable[[list[Any]], Any]) -> None:
    """Restore windows from records of which a key and window may have several, besides what was restored before.

    Args:
      merged: merges accumulators, the oldest first.
    """
    runs: dict[tuple[Any, BoundedWindow | None], list[WindowState]] = {}
    for record in records:
        runs.setdefault((record.key, record.window), []).extend(state_of(record.key, row) for row in record.states)
    for (key, window), states in runs.items():
        before = windows.states_of(key, window)
        state = before[0] if before else states[0]
        parts = [*states, *before]
        if len(parts) > 1:
            state.accumulator = merged([part.accumulator for part in parts])
        if not before:
            windows.put(state)
        if windows.changed is not None:
            windows.changed[state] = None


def restore_uniform(windows: WindowTable, row: Sequence[Any]) -> UniformWindow:
    """Return a new uniform window with what a row says of a key."""
    state = state_of(None, row)
    uniform = UniformWindow(state.windows, state.end, state.expiry, state.decision)
    uniform.has_new, uniform.was_on_time, uniform.held = state.has_new, state.was_on_time, state.held
    uniform.panes, uniform.on_time_panes = state.panes, state.on_time_panes
    windows.by_window[state.windows[0]] = uniform
    windows.times.put(uniform)
    return uniform


def state_of(key: Any, row: Sequence[Any]) -> WindowState:
    """Return the window state that a row was made of."""
    trigger_state, is_finished, event_time, processing_time, *slots = row
    decision = Decision(False, trigger_state, is_finished, event_time, processing_time)
    plain = dict(zip(_PLAIN, slots, strict=True))
    state = WindowState(key, plain["windows"], plain["end"], plain["expiry"], plain["accumulator"], decision)
    for name, value in plain.items():
        setattr(state, name, value)
    return state
