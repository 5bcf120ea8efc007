"""DueTimes: what is due when, many things at one time.

Windows end together, and aligned processing-time triggers fire together; so a heap of
distinct times with a list for each costs little more than a list.  An entry isn't removed
when it is no longer wanted: whoever is told that it is due looks whether it still is.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")


class DueTimes(Generic[T]):
    """Things by the time, in microseconds, at which they are due.

    >>> due = DueTimes()
    >>> due.add(20, "b"), due.add(10, "a"), due.add(20, "c")
    (None, None, None)
    >>> due.next(), due.pop(), due.pop()
    (10, ['a'], ['b', 'c'])
    """

    __slots__ = ("_at", "_times")

    def __init__(self) -> None:
        self._times: list[int] = []
        self._at: dict[int, list[T]] = {}

    def add(self, time: int, thing: T) -> None:
        """Have a thing become due."""
        at = self._at.get(time)
        if at is None:
            self._at[time] = [thing]
            heappush(self._times, time)
        else:
            at.append(thing)

    def next(self) -> int | None:
        """The earliest time at which anything is due."""
        return self._times[0] if self._times else None

    def pop(self) -> list[T]:
        """Take out what is due at that time, in the order in which it was added."""
        return self._at.pop(heappop(self._times))

    def keep(self, is_wanted: Callable[[T, int], bool]) -> None:
        """Forget the entries that are no longer wanted at their time."""
        kept = ((time, [thing for thing in things if is_wanted(thing, time)]) for time, things in self._at.items())
        self._at = {time: things for time, things in kept if things}
        self._times = sorted(self._at)


class Holds:
    """Timestamps that hold the watermark back; the least of them counts.

    >>> holds = Holds()
    >>> holds.add(7), holds.add(5), holds.remove(5), holds.least()
    (None, None, None, 7)
    """

    __slots__ = ("_counts", "_times")

    def __init__(self) -> None:
        self._times: list[int] = []
        self._counts: dict[int, int] = {}

    def add(self, time: int) -> None:
        """Hold the watermark at this time."""
        count = self._counts.get(time)
        if count is None:
            heappush(self._times, time)
            count = 0
        self._counts[time] = count + 1

    def remove(self, time: int) -> None:
        """Let go of one hold at this time."""
        self._counts[time] -= 1

    def least(self) -> int | None:
        """The earliest time that is held."""
        times, counts = self._times, self._counts
        while times and not counts[times[0]]:
            del counts[heappop(times)]
        return times[0] if times else None
