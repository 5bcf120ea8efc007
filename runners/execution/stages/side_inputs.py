"""The contents of a side input, by window, with a log of the changes since the last snapshot.

A snapshot is a list of changes: the values of a window, then additions and removals, in their order.  A removed value
is identified by its place, because a value need not equal any other.

>>> contents = SideInputContents()
>>> contents.add("window", 0, ["a", "b", "c"])
>>> whole = contents.snapshot()
>>> contents.add("window", 0, ["d"]), contents.retract("window", "b")
(None, None)
>>> [(change.window, change.kind.name, change.values) for change in contents.changes()]
[('window', 'COME', ['d']), ('window', 'GONE', [1])]
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

from ....sdk.errors import PenstockError
from ....stored import stored_as
from ..user_errors import shortened
from ..windows.retractions import find_alike


@stored_as("side-input-change", 1)
class ViewChangeKind(Enum):
    """A kind of change to a window of a side input."""

    # The values are all values of the window.
    ALL = "all"
    # The values are those of its last pane.
    PANE = "pane"
    # The values were added, in a pane.
    COME = "come"
    # The values at these places were removed, one after the other.
    GONE = "gone"


_ALL, _PANE, _COME, _GONE = ViewChangeKind


class ViewChange(NamedTuple):
    """A change of one window, as plain data that can be pickled.

    Attributes:
      values: values or places, depending on the kind.
      pane: the index of the pane of the values.
    """

    window: Any
    kind: ViewChangeKind
    values: list[Any]
    pane: int = 0


class _Contents:
    """The contents of one window.

    Attributes:
      values: all values.
      pane: the highest index of a pane so far; None before the first one.
      last: the values of that pane.
      changes: the changes since the last snapshot; None if the next one has to have all values.
      number_changed: the number of values in the changes.
    """

    __slots__ = ("changes", "last", "number_changed", "pane", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.pane: int | None = None
        self.last: list[Any] = []
        self.changes: list[ViewChange] | None = None
        self.number_changed = 0

    def add(self, pane: int, values: list[Any]) -> None:
        self.values.extend(values)
        if self.pane is None or pane > self.pane:
            self.pane, self.last = pane, list(values)
        elif pane == self.pane:
            self.last.extend(values)

    def note(self, window: Any, kind: ViewChangeKind, values: list[Any], pane: int = 0) -> None:
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
        yield ViewChange(window, _ALL, self.values)
        if self.pane is not None:
            yield ViewChange(window, _PANE, self.last, self.pane)


class SideInputContents:
    """The contents of one side input, by window."""

    def __init__(self) -> None:
        self._windows: dict[Any, _Contents] = {}
        # The windows that have changed since the last snapshot; None before the first one.
        self._changed: dict[Any, None] | None = None

    def add(self, window: Any, pane: int, values: list[Any]) -> None:
        """Add values to a window, in the pane of that index."""
        own = self._of(window)
        own.add(pane, values)
        own.note(window, _COME, values, pane)

    def retract(self, window: Any, value: Any) -> None:
        """Remove a value.

        Raises `PenstockError` if the window doesn't have it.
        """
        own = self._of(window)
        place = _place(own.values, value)
        del own.values[place]
        own.note(window, _GONE, [place])

    def _of(self, window: Any) -> _Contents:
        if self._changed is not None:
            self._changed[window] = None
        try:
            return self._windows[window]
        except KeyError:
            own = self._windows[window] = _Contents()
            return own

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

    def last_pane(self, window: Any) -> list[Any]:
        """Return the values in a window's pane of the highest index."""
        own = self._windows.get(window)
        return [] if own is None else own.last

    # Snapshots

    def snapshot(self) -> list[ViewChange]:
        """Return all contents, and start a new log of changes.

        The result has to be written before anything is added.
        """
        whole = [change for window, own in self._windows.items() for change in own.all(window)]
        self._changed = None
        self.forget_changes()
        return whole

    def changes(self) -> list[ViewChange]:
        """Return the changes since the last snapshot or changes; to be written before anything is added."""
        if self._changed is None:
            return self.snapshot()
        found: list[ViewChange] = []
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
        self._changed = {}
        return [changed]

    def restore(self, changes: Iterable[ViewChange]) -> None:
        """Restore a snapshot with the changes after it, and start a new log of changes."""
        self._windows, self._changed = {}, None
        for window, kind, values, pane in changes:
            own = self._of(window)
            if kind is _ALL:
                own.values, own.pane, own.last = list(values), None, []
            elif kind is _PANE:
                own.pane, own.last = pane, list(values)
            elif kind is _COME:
                own.add(pane, values)
            else:
                for place in values:
                    del own.values[place]
        self.forget_changes()


def _place(values: list[Any], value: Any) -> int:
    try:
        return values.index(value)
    except ValueError:
        # An array can't be compared as a whole.
        place = find_alike(value, values)
    if place is None:
        raise PenstockError(f"a side input got a retraction of {shortened(value)}, which it doesn't have")
    return place
