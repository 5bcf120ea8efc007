"""Keyed state: the values that a stateful ParDo keeps for each key and window.

It has a column for each window and state: a dictionary of values by key.  Values are immutable.  Containers (bags,
sets, maps) are changed in place, but never one that a snapshot has: the first change after a snapshot is made to a
copy.  So taking a snapshot costs no more than listing the values, and it can be written while processing continues.

>>> from penstock.sdk.userstate import BagStateSpec
>>> state = KeyedState(tracking=True)
>>> bag = BagStateSpec("seen").of(state, "window", "key")
>>> bag.add(1), bag.add(2)
(None, None)
>>> first = state.snapshot()
>>> bag.add(3)
>>> [(change.kind.name, change.value) for change in state.changes()]
[('APPEND', [3])]
>>> [(change.kind.name, list(change.value)) for change in first]
[('PUT', [1, 2])]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from ....persistence import stored_as
from ....sdk.errors import SerializationError
from ....sdk.userstate.bag import Chunks
from ....sdk.userstate.combining_value import Accumulator
from ....sdk.userstate.ordered_list import Timeline
from ....sdk.userstate.state_ttl import StateTtl
from ....sdk.userstate.store import ATOMS
from ....sdk.userstate.timer_spec import TimeDomain
from ..serialization.column_codec import encode_column
from ..user_errors import shortened
from .columns import ABSENT, Column
from .expiring import ExpiringColumn, ExpiryTimes, expiring_state, expiry_column


@stored_as("state-change", 1)
class ChangeKind(Enum):
    """A kind of change to a key's state."""

    # The key has this value now.
    PUT = "put"
    # These values were appended to its bag.
    APPEND = "append"
    # The key has no value any more.
    REMOVE = "remove"


class Change(NamedTuple):
    """A change of one state of a key, as plain data that can be pickled."""

    namespace: Any
    key: Any
    name: str
    kind: ChangeKind
    value: Any = None


class ColumnOfState(NamedTuple):
    """Values of a state at one moment.

    A million are listed in some milliseconds.  Values aren't changed in place afterwards, so what is asked for later
    is that of the moment.

    Attributes:
      namespace, name: the state's.
      keys, values: of each key its value.
    """

    namespace: Any
    name: str
    keys: list[Any]
    values: list[Any]

    def values_at(self, places: Iterable[int]) -> list[Change]:
        """Return the values at these places, of a column that has all values."""
        namespace, name, keys, values = self
        return [Change(namespace, keys[at], name, ChangeKind.PUT, values[at]) for at in places]

    def changes_at(self, places: Iterable[int]) -> list[Change]:
        """Return the changes at these places, of a column that has what has changed."""
        return [self._change(self.keys[at], self.values[at]) for at in places]

    def _change(self, key: Any, value: Any) -> Change:
        if value is ABSENT:
            return Change(self.namespace, key, self.name, ChangeKind.REMOVE)
        if type(value) is Chunks and value.shared:
            return Change(self.namespace, key, self.name, ChangeKind.APPEND, value.new)
        return Change(self.namespace, key, self.name, ChangeKind.PUT, value)


class KeyedState:
    """The state of one worker's keys.

    Args:
      tracking: True if snapshots will be taken; then changes since the last one are tracked.
      ttls: those of the states that expire, by name.

    Attributes:
      tracking: as given.
      dirty: the columns that have changed since the last snapshot.
      has_ttls: whether any state expires.
      processing_time: that of the step, in microseconds.
    """

    def __init__(self, tracking: bool = False, ttls: Mapping[str, StateTtl] | None = None) -> None:
        self._ttls = ttls or {}
        self.has_ttls = bool(ttls)
        self.processing_time = 0
        self._columns: dict[Any, dict[str, Column]] = {}
        self.tracking = tracking
        self.dirty: list[Column] = []
        self._unchecked: list[tuple[str, Any, Any]] = []

    def __len__(self) -> int:
        """Return the number of values, not counting the times at which they expire."""
        return sum(len(column.values) for column in self._all() if type(column) is not ExpiryTimes)

    def _all(self) -> Iterator[Column]:
        for columns in self._columns.values():
            yield from columns.values()

    def column(self, namespace: Any, name: str) -> Column:
        """Return the values of a state in a namespace, by key; an empty column if there are none."""
        columns = self._columns.get(namespace)
        if columns is None:
            columns = self._columns[namespace] = {}
        column = columns.get(name)
        if column is None:
            column = columns[name] = self._made(namespace, name)
        return column

    def _made(self, namespace: Any, name: str) -> Column:
        if (ttl := self._ttls.get(name)) is not None:
            times = self.column(namespace, expiry_column(name, ttl))
            assert isinstance(times, ExpiryTimes)
            return ExpiringColumn(self, namespace, name, ttl, times)
        state = expiring_state(name)
        if state is not None and (ttl := self._ttls.get(state)) is not None:
            return ExpiryTimes(self, namespace, name, ttl)
        return Column(self, namespace, name)

    def _is_obsolete(self, name: str) -> bool:
        """Return True for the times of a state that doesn't expire any more, or in another time domain."""
        state = expiring_state(name)
        return state is not None and (state not in self._ttls or expiry_column(state, self._ttls[state]) != name)

    def free_namespace(self, namespace: Any) -> None:
        """Remove all values of a namespace."""
        for column in self._columns.pop(namespace, {}).values():
            if self.tracking:
                for key in column.values:
                    column.note(key)
            column.values.clear()

    def free_key(self, namespace: Any, key: Any) -> None:
        """Remove all values of a key in a namespace."""
        for column in self._columns.get(namespace, {}).values():
            column.remove(key)

    def namespaces(self) -> list[Any]:
        """Return the namespaces that have any value."""
        return [namespace for namespace, columns in self._columns.items() if any(c.values for c in columns.values())]

    def of_key(self, namespace: Any, key: Any) -> dict[str, Any]:
        """Return a key's values by the names of its states."""
        columns = self._columns.get(namespace, {})
        return {name: column.values[key] for name, column in columns.items() if key in column.values}

    def has_any(self, namespace: Any, key: Any) -> bool:
        """Return whether a key has any value in a namespace."""
        return any(key in column.values for column in self._columns.get(namespace, {}).values())

    def take_out(self, namespace: Any, keys: Sequence[Any]) -> list[dict[str, Any]]:
        """Remove the values of keys to spill them, which is no change; return those of each key by name.

        Empty columns stay until their window expires, since user code may have accessors to them.
        """
        taken: list[dict[str, Any]] = [{} for _ in keys]
        for name, column in self._columns.get(namespace, {}).items():
            for own, value in zip(taken, column.take(keys)):
                if value is not ABSENT:
                    own[name] = value
        return taken

    def put_back(self, namespace: Any, key: Any, taken: dict[str, Any]) -> None:
        """Load a key's values again; they count as changed."""
        for name, value in taken.items():
            if not self._is_obsolete(name):
                self.column(namespace, name).load(key, value)

    # State that expires

    def find_times(self) -> None:
        """Find again when values expire, after a restore."""
        for column in self._all():
            if isinstance(column, ExpiryTimes):
                column.find_again()

    def drop_expired(self, watermark: int, most: int) -> bool:
        """Remove values that have expired, at most so many; return True if there may be more."""
        for columns in self._columns.values():
            for name in self._ttls:
                column = columns.get(name)
                if isinstance(column, ExpiringColumn):
                    most -= column.drop_expired(watermark, most)
                    if most <= 0:
                        return True
        return False

    def due_times(self, values: Mapping[str, Any]) -> tuple[int | None, int | None]:
        """Return when the first of a key's values expires in event time, and in processing time; None if none does."""
        found: dict[TimeDomain, int] = {}
        for name, ttl in self._ttls.items():
            micros = values.get(expiry_column(name, ttl))
            if micros is not None:
                end = ExpiryTimes.end_of_range(micros, ttl)
                found[ttl.time_domain] = min(end, found.get(ttl.time_domain, end))
        return found.get(TimeDomain.WATERMARK), found.get(TimeDomain.REAL_TIME)

    # Snapshots

    def columns(self) -> list[ColumnOfState]:
        """Return all values, and start a new log of changes."""
        self.forget_changes()
        return [
            ColumnOfState(c.namespace, c.name, list(c.values), list(c.values.values())) for c in self._all() if c.values
        ]

    def changed_columns(self) -> list[ColumnOfState]:
        """Return the changes since the last snapshot or changes."""
        # A namespace that was freed may have been used again, by columns that follow.
        changed = zip(self.dirty, self.forget_changes(), strict=True)
        return [
            ColumnOfState(column.namespace, column.name, list(keys), [column.values.get(key, ABSENT) for key in keys])
            for column, keys in changed
        ]

    def snapshot(self) -> list[Change]:
        """Return all values, and start a new log of changes."""
        return [change for column in self.columns() for change in column.values_at(range(len(column.keys)))]

    def changes(self) -> list[Change]:
        """Return the changes since the last snapshot or changes."""
        return [change for column in self.changed_columns() for change in column.changes_at(range(len(column.keys)))]

    @property
    def number_changed(self) -> int:
        """Return the number of values that have changed since the last snapshot."""
        return sum(len(column.dirty or ()) for column in self.dirty)

    def forget_changes(self) -> list[dict[Any, None]]:
        """Start a new log of changes, because a forked child writes the snapshot; return the former log."""
        columns, self.dirty = self.dirty, []
        forgotten = [column.dirty or {} for column in columns]
        for column in columns:
            column.dirty = None
        return forgotten

    def restore(self, changes: Iterable[Change]) -> None:
        """Apply the changes of a snapshot."""
        for namespace, key, name, kind, value in changes:
            if self._is_obsolete(name):
                continue
            values = self.column(namespace, name).values
            if kind is ChangeKind.REMOVE:
                values.pop(key, None)
                if not values and name not in self._ttls and expiring_state(name) is None:
                    # Nothing has been run yet, so nothing refers to the column.
                    self._columns[namespace].pop(name)
                    if not self._columns[namespace]:
                        del self._columns[namespace]
            elif kind is ChangeKind.APPEND:
                values[key] = Chunks([*values.get(key, ()), *value])
            else:
                values[key] = value.copy() if type(value) in _CONTAINERS else value

    # Whether values can be pickled

    def wrote(self, name: str, key: Any, value: Any) -> None:
        """Note a value written to a state, or its container, for `check`."""
        if type(value) not in ATOMS:
            self._unchecked.append((name, key, value))
            if len(self._unchecked) >= _MANY_UNCHECKED:
                self.check()

    def check(self) -> None:
        """Check the values written since the last call.

        Raises `SerializationError`, naming the state, if one of them can't be pickled.
        """
        if not self._unchecked:
            return
        unchecked, self._unchecked = self._unchecked, []
        try:
            encode_column([value for _, _, value in unchecked])
        except Exception:
            for name, key, value in unchecked:
                try:
                    encode_column([value])
                except Exception as error:
                    raise SerializationError(
                        f"the state {name!r} of the key {shortened(key)} was given {shortened(value)} "
                        f"({type(value).__name__}), which can't be pickled for a checkpoint: "
                        f"{error.__cause__ or error}. "
                        "Keep the data that it is made of, and create it in DoFn.setup"
                    ) from error


_CONTAINERS = frozenset({Chunks, Accumulator, Timeline, dict})

# The number of values that are checked before the bundle ends, because they take memory.
_MANY_UNCHECKED = 1_000
