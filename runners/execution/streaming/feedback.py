"""The heads of loops: what comes back, and how far the watermark behind them may go.

Nothing that is before the watermark may be in the loop.  In one task what comes back is taken
before the watermark is looked at, so nothing is.  Between tasks it is found out in rounds: barriers
go through everything, one after the other, so what was in the loop at one of them has come back
before the next, or never will.  The earliest of what has come back holds the watermark; if nothing has, what came
in before the first one has left the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ....sdk.bundle import Bundle
from ....windowing.timestamp import MIN_MICROS


def earliest_of(times: Iterable[int | None]) -> int | None:
    """The least of those that there are."""
    return min((time for time in times if time is not None), default=None)


class LoopInTask:
    """A loop that begins and ends in one task.

    Attributes:
      waiting: what has come back.
    """

    def __init__(self) -> None:
        self.waiting: deque[Bundle] = deque()


class LoopBetweenTasks:
    """The head of a loop that ends in another task.

    >>> loop = LoopBetweenTasks()
    >>> loop.come_back(Bundle(["a", "b"], [40, 45])), loop.mark(1, watermark=50)
    (None, 40)
    >>> loop.come_back(Bundle(["b"], [45])), loop.mark(2, watermark=60), loop.is_behind(60)
    (None, 45, True)
    >>> loop.has_gone_round(1, earliest=45, floor=45), loop.watermark
    (None, 45)
    >>> loop.mark(3, watermark=60), loop.has_gone_round(2, earliest=None, floor=60), loop.watermark
    (None, None, 60)

    Attributes:
      watermark: how far it may go, in microseconds.
    """

    def __init__(self) -> None:
        self.watermark = MIN_MICROS
        # The earliest of what has come back since the last barrier, and what is late wherever it is: that holds nobody.
        self._earliest: int | None = None
        self._floor = MIN_MICROS
        # The watermark of what comes in, as it was at each barrier.
        self._marks: dict[int, int] = {}

    def come_back(self, bundle: Bundle) -> None:
        """Elements have come back."""
        times = bundle.timestamps
        if isinstance(times, int):
            times = [times]
        self._earliest = earliest_of([self._earliest, *(time for time in times if time >= self._floor)])

    def mark(self, number: int, watermark: int) -> int | None:
        """A barrier goes by, with what comes in at this watermark; the earliest that came back since the last one."""
        self._marks[number] = watermark
        earliest, self._earliest = self._earliest, None
        return earliest

    def has_gone_round(self, number: int, earliest: int | None, floor: int) -> None:
        """What was in the loops at this barrier has come back before the next one, or has left them.

        Args:
          earliest: of all that came back in between, anywhere; None if nothing did.
          floor: so far are all heads of all loops then; what is earlier is late.
        """
        mark = self._marks.get(number, MIN_MICROS)
        self.watermark = max(self.watermark, mark if earliest is None else min(mark, earliest))
        self._floor = max(self._floor, floor)
        self._marks = {n: mark for n, mark in self._marks.items() if n > number}

    def is_behind(self, watermark: int) -> bool:
        """Whether the watermark of what comes in is further."""
        return self.watermark < watermark
