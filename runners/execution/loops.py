"""The heads of loops: what comes back, and how far the watermark behind them may go.

Nothing that is before the watermark may be in the loop.  In one task what comes back is taken
before the watermark is looked at, so nothing is.  Between tasks it is found out in rounds: barriers
go through everything, and if nothing has come back between two of them, what came in before
the first one has left the loop.
"""

from __future__ import annotations

from collections import deque

from ...sdk.bundle import Bundle
from ...windowing.timestamp import MIN_MICROS


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
    >>> loop.come_back(2), loop.mark(1, watermark=50)
    (None, 2)
    >>> loop.mark(2, watermark=60), loop.is_behind(60)
    (0, True)
    >>> loop.quiet(1), loop.watermark
    (None, 50)

    Attributes:
      watermark: how far it may go, in microseconds.
    """

    def __init__(self) -> None:
        self.watermark = MIN_MICROS
        self._came_back = 0
        # The watermark of what comes in, as it was at each barrier.
        self._marks: dict[int, int] = {}

    def come_back(self, elements: int) -> None:
        """So many elements have come back."""
        self._came_back += elements

    def mark(self, number: int, watermark: int) -> int:
        """A barrier goes by, with what comes in at this watermark; how many have come back since the last one."""
        self._marks[number] = watermark
        came_back, self._came_back = self._came_back, 0
        return came_back

    def quiet(self, number: int) -> None:
        """Nothing came back anywhere between this barrier and the next one."""
        self.watermark = max(self.watermark, self._marks.get(number, MIN_MICROS))
        self._marks = {n: mark for n, mark in self._marks.items() if n > number}

    def is_behind(self, watermark: int) -> bool:
        """Whether the watermark of what comes in is further."""
        return self.watermark < watermark
