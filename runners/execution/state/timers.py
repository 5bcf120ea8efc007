"""Timers: calls of a stateful ParDo at a time (MillWheel, section 4.3).

A timer belongs to a key and window, and there to a family (its spec's name) and a tag.  Each has one time; setting it
again moves it.  There are two time domains, each with a clock that the caller advances.

>>> timers = Timers()
>>> for at in (30, 10, 20):
...     timers.set(Timer(at, at, f"key {at}", "window", "alarm"), EVENT_TIME)
>>> timers.next(EVENT_TIME), timers.hold()
(10, 10)
>>> timers.pop(EVENT_TIME).key, timers.pop(EVENT_TIME).key
('key 10', 'key 20')

Changes since the last snapshot are tracked; a snapshot followed by its changes is a snapshot.

>>> whole = timers.snapshot()
>>> timers.set(Timer(40, 40, "key 40", "window", "alarm"), EVENT_TIME), timers.clear("window", "key 30", "alarm")
(None, None)
>>> changes = timers.changes()
>>> [(change.key, change.fire) for change in changes]
[('key 30', None), ('key 40', 40)]
>>> restored = Timers()
>>> restored.restore([*whole, *changes])
>>> restored.pop(EVENT_TIME).key, len(restored)
('key 40', 0)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, Protocol

from ....sdk.elements.bundle import Bundle
from ....sdk.userstate.timer_spec import TimeDomain
from ....triggers.pane import PANE_INFO_UNKNOWN, PaneInfo
from ..change_tracking import ChangeTracker
from ..spilling import rocksdb

EVENT_TIME, PROCESSING_TIME = TimeDomain.WATERMARK, TimeDomain.REAL_TIME

# The orders of timers on disk.
_ORDERS = {EVENT_TIME: rocksdb.EVENT_TIME, PROCESSING_TIME: rocksdb.PROCESSING_TIME}

# Fewer entries are not worth cleaning up.
_FEW = 64


class Timer(NamedTuple):
    """A timer that is set.

    Attributes:
      fire: the time at which it fires, in microseconds of its domain.
      output: the event time of its outputs, in microseconds; holds the watermark.
      key, window: the key and window that it belongs to.
      family: its spec's name.
      tag: distinguishes timers of a family.
      pane: the pane of the element that set it.
    """

    fire: int
    output: int
    key: Any
    window: Any
    family: str
    tag: str = ""
    pane: PaneInfo = PANE_INFO_UNKNOWN


class TimerChange(NamedTuple):
    """The setting of a timer, as plain data that can be pickled.

    Attributes:
      key, window, family, tag: identify the timer.
      fire: None if it is no longer set.
      output, pane, domain: of a timer that is set.
    """

    key: Any
    window: Any
    family: str
    tag: str
    fire: int | None = None
    output: int = 0
    pane: PaneInfo | None = None
    domain: TimeDomain | None = None


class _Entry:
    """A timer in the heaps, with a number that grows; `is_set` until it is cleared, moved or fired."""

    __slots__ = ("domain", "is_set", "number", "timer")

    def __init__(self, timer: Timer, domain: TimeDomain, number: int) -> None:
        self.timer = timer
        self.domain = domain
        self.number = number
        self.is_set = True


class _Heap:
    """Entries by time, and by the order of insertion where times are equal.

    An entry that is no longer set stays until it reaches the top, or until half of the entries are such.
    """

    __slots__ = ("_unset", "items")

    def __init__(self) -> None:
        self.items: list[tuple[int, int, _Entry]] = []
        self._unset = 0

    def first(self) -> tuple[int, int, _Entry] | None:
        """Return the first entry that is set."""
        items = self.items
        while items and not items[0][2].is_set:
            heappop(items)
            self._unset -= 1
        return items[0] if items else None

    def unset(self) -> None:
        """Note that an entry is no longer set."""
        self._unset += 1
        if self._unset > _FEW and 2 * self._unset > len(self.items):
            self.forget_unset()

    def forget_unset(self) -> None:
        """Remove the entries that are no longer set."""
        self.items = [item for item in self.items if item[2].is_set]
        heapify(self.items)
        self._unset = 0

    def in_order(self) -> list[tuple[int, int, _Entry]]:
        """Return the entries that are set, in order."""
        return sorted(item for item in self.items if item[2].is_set)


class TimersOnDisk(Protocol):
    """The timers that aren't in memory (`spilled_timers.py`)."""

    def windows(self) -> list[Any]:
        """Return the windows that have any."""

    def next(self, order: int) -> int | None:
        """Return the least time of an order."""

    def load_for(self, bundle: Bundle) -> None:
        """Load those of a bundle's keys."""

    def load_due(self, order: int, time: int, most: int) -> list[tuple[Any, Any]]:
        """Load those of the keys that are due first, at most so many; return their windows and keys."""

    def load_each(self, window: Any) -> Iterator[None]:
        """Load those of a window in portions; yield after each, of which some may be spilled then."""

    def spill_excess(self) -> None:
        """Spill timers if there are too many in memory."""


class Timers:
    """The timers of one worker's keys.

    Timers of the same time fire in the order in which they were set; those of different keys, some of which were on
    disk, in any order.

    Attributes:
      spilled: those on disk; None if all are in memory.
    """

    def __init__(self) -> None:
        self.spilled: TimersOnDisk | None = None
        # By window, then by key, family and tag.
        self._set: dict[Any, dict[tuple[Any, str, str], _Entry]] = {}
        # All families so far, and by window and key the families and tags of timers that have a tag.
        self._families: dict[str, None] = {}
        self._tagged: dict[tuple[Any, Any], dict[tuple[str, str], None]] = {}
        self._heaps = {EVENT_TIME: _Heap(), PROCESSING_TIME: _Heap()}
        self._holds = _Heap()
        self._count = 0
        # None before the first snapshot.  Moving a timer removes one entry and adds another.
        self._since: ChangeTracker[_Entry] | None = None

    def __len__(self) -> int:
        """Return the number of timers in memory."""
        return sum(map(len, self._set.values()))

    def set(self, timer: Timer, domain: TimeDomain) -> None:
        """Set a timer; one that is set already moves."""
        name = (timer.key, timer.family, timer.tag)
        own = self._set.get(timer.window)
        if own is None:
            own = self._set[timer.window] = {}
        else:
            before = own.get(name)
            if before is not None:
                if before.timer == timer:
                    return
                del own[name]
                self._unset(before)
        self._count += 1
        entry = own[name] = _Entry(timer, domain, self._count)
        self._families[timer.family] = None
        if timer.tag:
            self._tagged.setdefault((timer.window, timer.key), {})[timer.family, timer.tag] = None
        if self._since is not None:
            self._since.add(entry)
        heappush(self._heaps[domain].items, (timer.fire, self._count, entry))
        heappush(self._holds.items, (timer.output, self._count, entry))

    def clear(self, window: Any, key: Any, family: str, tag: str = "") -> None:
        """Clear a timer, if it is set."""
        if (key, family, tag) in self._set.get(window, ()):
            self._remove(window, (key, family, tag))

    def _remove(self, window: Any, name: tuple[Any, str, str]) -> None:
        own = self._set[window]
        self._unset(own.pop(name))
        if not own:
            del self._set[window]
        key, family, tag = name
        if tag:
            tagged = self._tagged[window, key]
            del tagged[family, tag]
            if not tagged:
                del self._tagged[window, key]

    def _unset(self, entry: _Entry) -> None:
        entry.is_set = False
        self._heaps[entry.domain].unset()
        self._holds.unset()
        if self._since is not None:
            self._since.remove(entry)

    def next(self, domain: TimeDomain) -> int | None:
        """Return the time of the first timer; None if none is set."""
        return self._with_spilled(self._heaps[domain].first(), _ORDERS[domain])

    def _with_spilled(self, first: tuple[int, int, _Entry] | None, order: int) -> int | None:
        time = None if first is None else first[0]
        spilled = None if self.spilled is None else self.spilled.next(order)
        return time if spilled is None else spilled if time is None else min(time, spilled)

    def pop(self, domain: TimeDomain) -> Timer:
        """Remove and return the first timer in memory: of all, if `load_due` was called before.

        Raises `IndexError` if none is set.
        """
        first = self._heaps[domain].first()
        if first is None:
            raise IndexError("no timer is set")
        timer = first[2].timer
        self._remove(timer.window, (timer.key, timer.family, timer.tag))
        return timer

    def get(self, window: Any, key: Any, family: str, tag: str = "") -> Timer | None:
        """Return a timer, if it is set."""
        entry = self._set.get(window, {}).get((key, family, tag))
        return None if entry is None else entry.timer

    def of(self, window: Any, domain: TimeDomain) -> list[Timer]:
        """Return the timers of a window and domain that are in memory, in the order in which they fire."""
        own = [entry.timer for entry in self._set.get(window, {}).values() if entry.domain is domain]
        # Timers of the same time are in the order in which they were set, and sorting is stable.
        return sorted(own, key=lambda timer: timer.fire)

    def each_of(self, window: Any, domain: TimeDomain) -> Iterator[Timer]:
        """Yield the timers of a window and domain, those in memory first, and those on disk in portions."""
        yield from self.of(window, domain)
        if self.spilled is not None:
            for _ in self.spilled.load_each(window):
                yield from self.of(window, domain)
                self.spilled.spill_excess()

    def free(self, window: Any) -> None:
        """Clear the timers of a window."""
        self._free_in_memory(window)
        if self.spilled is not None:
            for _ in self.spilled.load_each(window):
                self._free_in_memory(window)

    def _free_in_memory(self, window: Any) -> None:
        for name in list(self._set.get(window, ())):
            self._remove(window, name)

    def hold(self) -> int | None:
        """Return the earliest event time of a timer's output; None if none is set."""
        return self._with_spilled(self._holds.first(), rocksdb.HELD)

    def windows(self) -> list[Any]:
        """Return the windows that have any timer."""
        return list(dict.fromkeys([*self._set, *(() if self.spilled is None else self.spilled.windows())]))

    # Timers on disk

    def load_for(self, bundle: Bundle) -> None:
        """Load the timers of a bundle's keys."""
        if self.spilled is not None:
            self.spilled.load_for(bundle)

    def load_due(self, watermark: int, processing_time: int, most: int) -> list[tuple[Any, Any]]:
        """Load timers that are due and fire before those in memory; return their windows and keys.

        Args:
          most: how many keys may have timers among them; as many timers are fired at least before the next call.
        """
        if self.spilled is None:
            return []
        for domain, now in ((EVENT_TIME, watermark), (PROCESSING_TIME, processing_time)):
            spilled, in_memory = self.spilled.next(_ORDERS[domain]), self._heaps[domain].first()
            if spilled is not None and spilled <= now and (in_memory is None or spilled <= in_memory[0]):
                # Those that are loaded have to stay until they fire.
                self.spilled.spill_excess()
                return self.spilled.load_due(_ORDERS[domain], now, min(most, rocksdb.PORTION))
            if in_memory is not None and in_memory[0] <= now:
                # The other domain's come later, and might spill them.
                break
        return []

    def of_key(self, window: Any, key: Any) -> list[TimerChange]:
        """Return the timers of a key, in the order in which they were set."""
        own = self._set.get(window, {})
        names = [(key, family, "") for family in self._families]
        names += ((key, *tagged) for tagged in self._tagged.get((window, key), ()))
        found = [own[name] for name in names if name in own]
        return [_set_to(entry) for entry in sorted(found, key=lambda entry: entry.number)]

    def take_out(self, window: Any, key: Any) -> list[TimerChange]:
        """Remove the timers of a key to spill them; return them in the order in which they were set."""
        taken = self.of_key(window, key)
        for change in taken:
            self._remove(window, (key, change.family, change.tag))
        return taken

    def forget_unset(self) -> None:
        """Let go of the memory of timers that are no longer set."""
        for heap in (*self._heaps.values(), self._holds):
            heap.forget_unset()

    # Snapshots

    def snapshot(self) -> list[TimerChange]:
        """Return the timers, in the order in which they would fire, and start a new log of changes."""
        self.forget_changes()
        return [_set_to(entry) for heap in self._heaps.values() for _, _, entry in heap.in_order()]

    def changes(self) -> list[TimerChange]:
        """Return the changes since the last snapshot or changes, cleared timers first."""
        since = self._since
        if since is None:
            return self.snapshot()
        cleared = [TimerChange(*name) for name in map(_name, since.removed) if not self._is_set(*name)]
        newly_set = [_set_to(entry) for entry in since.added]
        self.forget_changes()
        return cleared + newly_set

    @property
    def number_changed(self) -> int:
        """Return the approximate number of timers that have changed since the last snapshot."""
        return len(self) if self._since is None else len(self._since)

    def forget_changes(self) -> list[dict[Any, None]]:
        """Start a new log of changes, because a forked child writes the snapshot; return the former log."""
        since, self._since = self._since, ChangeTracker()
        return [] if since is None else [since.added, since.removed]

    def restore(self, changes: Iterable[TimerChange]) -> None:
        """Restore timers of a snapshot and of the changes after it, which are no changes since then."""
        since, self._since = self._since, None
        self.apply(changes)
        self._since = ChangeTracker() if since is None else since

    def apply(self, changes: Iterable[TimerChange]) -> None:
        """Set and clear timers."""
        for key, window, family, tag, fire, output, pane, domain in changes:
            # A timer that is set again follows others of its time.
            self.clear(window, key, family, tag)
            if fire is not None:
                assert pane is not None
                assert domain is not None
                self.set(Timer(fire, output, key, window, family, tag, pane), domain)

    def _is_set(self, key: Any, window: Any, family: str, tag: str) -> bool:
        return self.get(window, key, family, tag) is not None


def _name(entry: _Entry) -> tuple[Any, Any, str, str]:
    _, _, key, window, family, tag, _ = entry.timer
    return key, window, family, tag


def _set_to(entry: _Entry) -> TimerChange:
    fire, output, key, window, family, tag, pane = entry.timer
    return TimerChange(key, window, family, tag, fire, output, pane, entry.domain)
