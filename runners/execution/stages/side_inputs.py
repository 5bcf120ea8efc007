"""What has come of a side input, by window; and what of it has come, or was taken back, since the last snapshot.

A snapshot is a list of changes: what a window has, and then what came to it and what was taken out of
it, in that order.  What was taken out is told by its place: a value may equal nothing.

>>> contents = SideInputContents()
>>> contents.come("window", 0, ["a", "b", "c"])
>>> whole = contents.snapshot()
>>> contents.come("window", 0, ["d"]), contents.take_back("window", "b")
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
    """What happened to a window of a side input."""

    # It has these values now, of which there are no others.
    ALL = "all"
    # These are those of its last pane.
    PANE = "pane"
    # These were added to it, in a pane.
    COME = "come"
    # Those at these places were taken out of it, one after the other.
    GONE = "gone"


_ALL, _PANE, _COME, _GONE = ViewChangeKind


class ViewChange(NamedTuple):
    """A change of one window, as plain data that can be pickled.

    Attributes:
      values: or places, as its kind says.
      pane: the index of the pane that they came in.
    """

    window: Any
    kind: ViewChangeKind
    values: list[Any]
    pane: int = 0


class _Contents:
    """What there is of one window.

    Attributes:
      values: all of it.
      pane: the highest index of a pane so far; None before there was one.
      last: the values of that pane.
      changes: since the last snapshot; None if all of it has to be in the next one.
      number_changed: how many values there are in the changes.
    """

    __slots__ = ("changes", "last", "number_changed", "pane", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.pane: int | None = None
        self.last: list[Any] = []
        self.changes: list[ViewChange] | None = None
        self.number_changed = 0

    def come(self, pane: int, values: list[Any]) -> None:
        self.values.extend(values)
        if self.pane is None or pane > self.pane:
            self.pane, self.last = pane, list(values)
        elif pane == self.pane:
            self.last.extend(values)

    def note(self, window: Any, kind: ViewChangeKind, values: list[Any], pane: int = 0) -> None:
        """Remember a change, unless there are so many that writing everything is shorter."""
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
    """Everything that has come of one side input."""

    def __init__(self) -> None:
        self._windows: dict[Any, _Contents] = {}
        # Those that have changed since the last snapshot; None before there is one.
        self._changed: dict[Any, None] | None = None

    def come(self, window: Any, pane: int, values: list[Any]) -> None:
        """These have come for a window, in the pane of that index."""
        own = self._of(window)
        own.come(pane, values)
        own.note(window, _COME, values, pane)

    def take_back(self, window: Any, value: Any) -> None:
        """Take one out again.  Raises `PenstockError` if there is none."""
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
        """Whether anything has come for a window."""
        return window in self._windows

    def __len__(self) -> int:
        """How many values there are, in all windows."""
        return sum(len(own.values) for own in self._windows.values())

    @property
    def number_of_windows(self) -> int:
        """For how many windows anything has come, though it may have been taken back."""
        return len(self._windows)

    def of(self, window: Any) -> list[Any]:
        """What there is of a window."""
        own = self._windows.get(window)
        return [] if own is None else own.values

    def last_pane(self, window: Any) -> list[Any]:
        """What has come of a window in the pane of the highest index."""
        own = self._windows.get(window)
        return [] if own is None else own.last

    # Snapshots

    def snapshot(self) -> list[ViewChange]:
        """Everything that there is; what changes from here on is the next `changes`.

        It has to be written before anything else comes.
        """
        whole = [change for window, own in self._windows.items() for change in own.all(window)]
        self._changed = None
        self.forget_changes()
        return whole

    def changes(self) -> list[ViewChange]:
        """What has changed since the last snapshot, or the last changes; to be written before anything else comes."""
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
        """How many values the next changes have, about."""
        if self._changed is None:
            return len(self)
        windows = [self._windows[window] for window in self._changed]
        return sum(len(own.values) if own.changes is None else own.number_changed for own in windows)

    def forget_changes(self) -> list[dict[Any, None]]:
        """What has changed so far is in a snapshot that somebody else takes; what it was, to be let go."""
        changed = dict.fromkeys(self._windows) if self._changed is None else self._changed
        for window in changed:
            self._windows[window].forget_changes()
        self._changed = {}
        return [changed]

    def restore(self, changes: Iterable[ViewChange]) -> None:
        """Take over a snapshot, with the changes that came after it; what changes from here on is the next ones."""
        self._windows, self._changed = {}, None
        for window, kind, values, pane in changes:
            own = self._of(window)
            if kind is _ALL:
                own.values, own.pane, own.last = list(values), None, []
            elif kind is _PANE:
                own.pane, own.last = pane, list(values)
            elif kind is _COME:
                own.come(pane, values)
            else:
                for place in values:
                    del own.values[place]
        self.forget_changes()


def _place(values: list[Any], value: Any) -> int:
    try:
        return values.index(value)
    except ValueError:
        # Or an array, which can't be compared as a whole.
        place = find_alike(value, values)
    if place is None:
        raise PenstockError(f"a side input was to take back {shortened(value)}, which never came")
    return place
