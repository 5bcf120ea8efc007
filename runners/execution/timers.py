"""Timers: what a stateful ParDo wants to be called for, and when (MillWheel, section 4.3).

A timer belongs to a key and window, and there to a family (its spec's name) and a tag.  Each has one
time; setting it anew moves it.  There are two time domains with a clock each, which whoever
holds the timers moves: this file knows no clock.

>>> timers = Timers()
>>> for at in (30, 10, 20):
...     timers.set(Timer(at, at, f"key {at}", "window", "alarm"), EVENT_TIME)
>>> timers.next(EVENT_TIME), timers.hold()
(10, 10)
>>> [timer.key for timer in timers.fired(EVENT_TIME, 25)]
['key 10', 'key 20']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from ...sdk.userstate.timer_spec import TimeDomain
from ...triggers.pane import PANE_INFO_UNKNOWN, PaneInfo
from .due_times import Holds

EVENT_TIME, PROCESSING_TIME = TimeDomain.WATERMARK, TimeDomain.REAL_TIME


class Timer(NamedTuple):
    """A timer that is set.

    Attributes:
      fire: when it fires, in microseconds of its domain.
      output: the event time of what it puts out, in microseconds; holds the watermark.
      key, window: whose it is.
      family: its spec's name.
      tag: which one of its family.
      pane: the pane of the element that set it.
    """

    fire: int
    output: int
    key: Any
    window: Any
    family: str
    tag: str = ""
    pane: PaneInfo = PANE_INFO_UNKNOWN


class _Entry:
    """A timer in a heap; `is_set` until it is cleared, moved or fired."""

    __slots__ = ("domain", "is_set", "timer")

    def __init__(self, timer: Timer, domain: TimeDomain) -> None:
        self.timer = timer
        self.domain = domain
        self.is_set = True


class Timers:
    """The timers of one worker's keys.

    Those of one time fire in the order in which they were set.
    """

    def __init__(self) -> None:
        # By window, then by key, family and tag.
        self._set: dict[Any, dict[tuple[Any, str, str], _Entry]] = {}
        self._heaps: dict[TimeDomain, list[tuple[int, int, _Entry]]] = {EVENT_TIME: [], PROCESSING_TIME: []}
        self._stale: dict[TimeDomain, int] = {EVENT_TIME: 0, PROCESSING_TIME: 0}
        self._holds = Holds()
        self._count = 0

    def __len__(self) -> int:
        """How many are set."""
        return sum(map(len, self._set.values()))

    def set(self, timer: Timer, domain: TimeDomain) -> None:
        """Set a timer; if it was set already it moves."""
        name = (timer.key, timer.family, timer.tag)
        own = self._set.get(timer.window)
        if own is None:
            own = self._set[timer.window] = {}
        else:
            before = own.get(name)
            if before is not None:
                if before.timer == timer:
                    return
                self._unset(before)
        entry = own[name] = _Entry(timer, domain)
        self._count += 1
        heappush(self._heaps[domain], (timer.fire, self._count, entry))
        self._holds.add(timer.output)

    def clear(self, window: Any, key: Any, family: str, tag: str = "") -> None:
        """Have a timer not fire, if it is set."""
        own = self._set.get(window)
        entry = None if own is None else own.pop((key, family, tag), None)
        if entry is not None:
            if not own:
                del self._set[window]
            self._unset(entry)

    def _unset(self, entry: _Entry) -> None:
        """It stays in its heap until that is more than half full of such."""
        entry.is_set = False
        self._holds.remove(entry.timer.output)
        domain = entry.domain
        self._stale[domain] += 1
        heap = self._heaps[domain]
        if self._stale[domain] > 64 and 2 * self._stale[domain] > len(heap):
            heap[:] = [item for item in heap if item[2].is_set]
            heapify(heap)
            self._stale[domain] = 0

    def next(self, domain: TimeDomain) -> int | None:
        """When the first one fires; None if none is set."""
        heap = self._heaps[domain]
        while heap and not heap[0][2].is_set:
            heappop(heap)
            self._stale[domain] -= 1
        return heap[0][0] if heap else None

    def pop(self, domain: TimeDomain) -> Timer:
        """Take out the first one."""
        self.next(domain)
        _, _, entry = heappop(self._heaps[domain])
        timer = entry.timer
        entry.is_set = False
        self._holds.remove(timer.output)
        own = self._set[timer.window]
        del own[timer.key, timer.family, timer.tag]
        if not own:
            del self._set[timer.window]
        return timer

    def fired(self, domain: TimeDomain, time: int) -> Iterator[Timer]:
        """Take out, one by one, those whose time has come; those that are set meanwhile among them."""
        while (first := self.next(domain)) is not None and first <= time:
            yield self.pop(domain)

    def take(self, window: Any, domain: TimeDomain | None = None) -> list[Timer]:
        """Take out those of a window, of one domain or of both, in the order in which they would fire."""
        own = self._set.get(window, {})
        taken = [entry for entry in own.values() if domain in (None, entry.domain)]
        for entry in taken:
            timer = entry.timer
            self.clear(window, timer.key, timer.family, timer.tag)
        # Sorting is stable, and those of one time stand in the order in which they were set.
        return sorted((entry.timer for entry in taken), key=lambda timer: timer.fire)

    def hold(self) -> int | None:
        """The earliest event time that something may yet be put out at; None if none is set."""
        return self._holds.least()

    def windows(self) -> list[Any]:
        """The windows that have any timer."""
        return list(self._set)

    # Snapshots

    def snapshot(self) -> list[tuple[Timer, TimeDomain]]:
        """Those that are set, as plain data, in the order in which they would fire."""
        return [
            (entry.timer, domain)
            for domain, heap in self._heaps.items()
            for _, _, entry in sorted(item for item in heap if item[2].is_set)
        ]

    def restore(self, timers: Iterable[tuple[Timer, TimeDomain]]) -> None:
        """Set those of a snapshot."""
        for timer, domain in timers:
            self.set(timer, domain)
