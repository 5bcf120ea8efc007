"""The contents of a side input, by window, with a log of the changes since the last snapshot.

A snapshot is a list of changes: the values of a window, then additions and removals, in their order.  A removed value
is identified by its index, because a value need not equal any other.  A retraction may come before its addition, which
it then cancels.  Windows that no main element can reach any more are freed, and later values for them are ignored.

>>> from penstock.windowing import IntervalWindow
>>> contents, window = SideInputContents(), IntervalWindow(0, 60)
>>> contents.add(window, 0, ["a", "b", "c"])
>>> whole = contents.snapshot()
>>> contents.add(window, 0, ["d"]), contents.retract(window, "b")
(None, None)
>>> [(change.window, change.kind.name, change.values) for change in contents.changes()]
[([0.0, 60.0), 'COME', ['d']), ([0.0, 60.0), 'GONE', [1])]
>>> contents.free(60_000_000), [(change.kind.name, change.values) for change in contents.changes()]
([[0.0, 60.0)], [('FREED', [60000000])])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from ....persistence import stored_as
from ....sdk.coders.coded_key import coded
from ....sdk.side_input_views import PanesSeen
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from ....windowing.windows import end_of_window
from ..windows.retractions import find_alike


@stored_as("side-input-change", 1)
class ViewChangeKind(Enum):
    """A kind of change to a window of a side input."""

    # The values are all values of the window so far, in a pane.
    ALL = "all"
    # The values are those of its latest pane.
    PANE = "pane"
    # The values were added, in a pane.
    COME = "come"
    # The values at these indices were removed, one after the other.
    GONE = "gone"
    # The values were retracted before they were added.
    EARLY = "early"
    # The windows that end at the value, a watermark in microseconds, or before were freed; of no window itself.
    FREED = "freed"


_ALL, _PANE, _COME, _GONE, _EARLY, _FREED = ViewChangeKind

# The number of values below which values of former panes are not looked for.
_FEW = 100


class ViewChange(NamedTuple):
    """A change of one window, as plain data that can be pickled.

    Attributes:
      values: values or indices, depending on the kind.
      pane: the index of the pane of the values.
    """

    window: Any
    kind: ViewChangeKind
    values: list[Any]
    pane: int = 0


class _Contents:
    """The contents of one window.

    Attributes:
      values, panes: all values, and the index of the pane of each.
      pane: the index of the last value's pane; None before the first one.
      early: values that were retracted before they were added.
      number_kept: the number of values after those of former panes were removed by key.
      changes: the changes since the last snapshot; None if the next one has to have all values.
      number_changed: the number of values in the changes.
    """

    __slots__ = ("changes", "early", "number_changed", "number_kept", "pane", "panes", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.panes: list[int] = []
        self.pane: int | None = None
        self.early: list[Any] = []
        self.number_kept = 0
        self.changes: list[ViewChange] | None = None
        self.number_changed = 0

    def add(self, pane: int, values: Sequence[Any]) -> None:
        self.values.extend(values)
        self.panes.extend([pane] * len(values))
        self.pane = pane

    def remove(self, index: int) -> None:
        del self.values[index], self.panes[index]

    def cancel_early(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the added values without those that were retracted before."""
        remaining = []
        for value in values:
            index = _index_of(self.early, value)
            if index is None:
                remaining.append(value)
            else:
                del self.early[index]
                self.changes = None
        return remaining

    def of_latest_pane(self) -> list[Any]:
        """Return the values at the end that are of one pane: panes of several keys have no common order."""
        of_pane = takewhile(lambda pane: pane == self.pane, reversed(self.panes))
        return self.values[len(self.values) - len(list(of_pane)) :]

    def of_latest_pane_by_key(self) -> list[Any]:
        """Return the pairs in the pane of each key's last pair; all values if some are no pairs.

        A step may have changed the keys, so that panes of one key are those of several keys of a grouping.
        """
        if len(set(self.panes)) <= 1:
            return self.values
        try:
            latest: dict[Any, int] = {}
            for (key, _), pane in zip(self.values, self.panes, strict=True):
                latest[coded(key)] = pane
            pairs = zip(self.values, self.panes, strict=True)
            return [value for value, pane in pairs if latest[coded(value[0])] == pane]
        except (TypeError, ValueError):
            # The view says that it expects pairs.
            return self.values

    def forget_former_panes(self, coming: int, seen: PanesSeen) -> None:
        """Remove the values that no view shows, before some of a pane come."""
        if seen is PanesSeen.LATEST:
            if self.values and coming != self.pane:
                self.values, self.panes, self.changes = [], [], None
        elif seen is PanesSeen.LATEST_BY_KEY and len(self.values) > 2 * self.number_kept + _FEW:
            kept = {id(value) for value in self.of_latest_pane_by_key()}
            remaining = [(v, pane) for v, pane in zip(self.values, self.panes, strict=True) if id(v) in kept]
            if len(remaining) < len(self.values):
                self.values, self.panes, self.changes = [v for v, _ in remaining], [pane for _, pane in remaining], None
            self.number_kept = len(self.values)

    def note(self, window: Any, kind: ViewChangeKind, values: Sequence[Any], pane: int = 0) -> None:
        """Add to the log of changes, unless writing all values would be shorter."""
        if self.changes is None:
            return
        self.number_changed += len(values)
        before = self.changes[-1] if self.changes else None
        if self.number_changed > len(self.values):
            self.changes = None
        elif before is not None and before.kind is kind and before.pane == pane:
            before.values.extend(values)
        else:
            self.changes.append(ViewChange(window, kind, list(values), pane))

    def forget_changes(self) -> None:
        self.changes, self.number_changed = [], 0

    def all(self, window: Any) -> Iterable[ViewChange]:
        start, kind = 0, _ALL
        for pane, own in groupby(self.panes):
            stop = start + len(list(own))
            yield ViewChange(window, kind, self.values[start:stop], pane)
            start, kind = stop, _COME
        if kind is _ALL:
            yield ViewChange(window, _ALL, [])
        if self.pane is not None and self.pane not in self.panes:
            yield ViewChange(window, _PANE, [], self.pane)
        if self.early:
            yield ViewChange(window, _EARLY, self.early)

    def restore(self, kind: ViewChangeKind, values: list[Any], pane: int) -> None:
        if kind is _ALL:
            self.values, self.panes, self.pane, self.early = [], [], None, []
            if values:
                self.add(pane, values)
        elif kind is _PANE:
            # Checkpoints of former versions have the values of the last pane twice.
            self.pane = pane
            twice = values[::-1]
            for number in reversed(range(len(self.values) if twice else 0)):
                index = _index_of(twice, self.values[number])
                if index is not None:
                    del twice[index]
                    self.panes[number] = pane
        elif kind is _COME:
            self.add(pane, values)
        elif kind is _EARLY:
            self.early.extend(values)
        else:
            for index in values:
                self.remove(index)


class SideInputContents:
    """The contents of one side input, by window.

    Attributes:
      seen: the panes whose values some view shows; values of others are not kept.
      freed: the windows that end at this watermark, in microseconds, or before were freed.
    """

    def __init__(self) -> None:
        self.seen = PanesSeen.ALL
        self.freed = MIN_MICROS
        # The end of the window that is freed next, or an earlier time.
        self._next_end = MAX_MICROS
        self._is_freed_since = False
        self._windows: dict[Any, _Contents] = {}
        # The windows that have changed since the last snapshot; None before the first one.
        self._changed: dict[Any, None] | None = None

    def add(self, window: Any, pane: int, values: list[Any]) -> None:
        """Add values to a window, in the pane of that index."""
        if self._is_freed(window):
            return
        own = self._of(window)
        added: Sequence[Any] = own.cancel_early(values) if own.early else values
        if self.seen is not PanesSeen.ALL:
            own.forget_former_panes(pane, self.seen)
        own.add(pane, added)
        own.note(window, _COME, added, pane)

    def retract(self, window: Any, value: Any) -> None:
        """Remove a value; if it is not there yet, its addition will be ignored."""
        if self._is_freed(window):
            return
        own = self._of(window)
        index = _index_of(own.values, value)
        if index is None:
            own.early.append(value)
            own.note(window, _EARLY, [value])
        else:
            own.remove(index)
            own.note(window, _GONE, [index])

    def _of(self, window: Any) -> _Contents:
        if self._changed is not None:
            self._changed[window] = None
        try:
            return self._windows[window]
        except KeyError:
            own = self._windows[window] = _Contents()
            self._next_end = min(self._next_end, end_of_window(window))
            return own

    def _is_freed(self, window: Any) -> bool:
        return self.freed > MIN_MICROS and end_of_window(window) <= self.freed

    def free(self, through: int) -> list[Any]:
        """Remove the windows that end at a watermark, in microseconds, or before, and return them."""
        if through <= self.freed:
            return []
        self.freed, self._is_freed_since = through, True
        if self._next_end > through:
            return []
        gone = [window for window in self._windows if end_of_window(window) <= through]
        for window in gone:
            del self._windows[window]
            if self._changed is not None:
                self._changed.pop(window, None)
        self._next_end = min(map(end_of_window, self._windows), default=MAX_MICROS)
        return gone

    def __contains__(self, window: Any) -> bool:
        """Return True if a window has received any value."""
        return window in self._windows

    def __len__(self) -> int:
        """Return the number of values in all windows."""
        return sum(len(own.values) for own in self._windows.values())

    @property
    def number_of_windows(self) -> int:
        """Return the number of windows that have received any value, retracted or not."""
        return len(self._windows)

    def of(self, window: Any) -> list[Any]:
        """Return the values of a window."""
        own = self._windows.get(window)
        return [] if own is None else own.values

    def of_latest_pane(self, window: Any, by_key: bool = False) -> list[Any]:
        """Return the values in a window's latest pane, or the pairs in each key's."""
        own = self._windows.get(window)
        if own is None:
            return []
        return own.of_latest_pane_by_key() if by_key else own.of_latest_pane()

    # Snapshots

    def snapshot(self) -> list[ViewChange]:
        """Return all contents, and start a new log of changes.

        The result has to be written before anything is added.
        """
        whole = [change for window, own in self._windows.items() for change in own.all(window)]
        if self.freed > MIN_MICROS:
            whole.append(ViewChange(None, _FREED, [self.freed]))
        self._changed = None
        self.forget_changes()
        return whole

    def changes(self) -> list[ViewChange]:
        """Return the changes since the last snapshot or changes; to be written before anything is added."""
        if self._changed is None:
            return self.snapshot()
        found = [ViewChange(None, _FREED, [self.freed])] if self._is_freed_since else []
        for window in self._changed:
            own = self._windows[window]
            found += own.all(window) if own.changes is None else own.changes
        self.forget_changes()
        return found

    @property
    def number_changed(self) -> int:
        """Return the approximate number of values in the next changes."""
        if self._changed is None:
            return len(self)
        windows = [self._windows[window] for window in self._changed]
        return sum(len(own.values) if own.changes is None else own.number_changed for own in windows)

    def forget_changes(self) -> list[dict[Any, None]]:
        """Start a new log of changes, because a forked child writes the snapshot; return the former log."""
        changed = dict.fromkeys(self._windows) if self._changed is None else self._changed
        for window in changed:
            self._windows[window].forget_changes()
        self._changed, self._is_freed_since = {}, False
        return [changed]

    def restore(self, changes: Iterable[ViewChange]) -> None:
        """Restore a snapshot with the changes after it, and start a new log of changes."""
        self._windows, self._changed, self.freed, self._next_end = {}, None, MIN_MICROS, MAX_MICROS
        for window, kind, values, pane in changes:
            if kind is _FREED:
                self.free(*values)
            else:
                self._of(window).restore(kind, values, pane)
        self.forget_changes()


def freed_through(changes: Iterable[tuple[Any, ...]]) -> int:
    """Return the watermark, in microseconds, up to which a snapshot and the changes after it have freed windows."""
    return max((values[0] for _, kind, values, _ in changes if kind is _FREED), default=MIN_MICROS)


def _index_of(values: list[Any], value: Any) -> int | None:
    try:
        return values.index(value)
    except ValueError:
        # An array can't be compared as a whole.
        return find_alike(value, values)
