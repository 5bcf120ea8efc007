"""Feedback of loops: re-injected records, and the watermark behind a loop's head.

No record in the loop may be before the watermark.  Within one task feedback is processed before the watermark advances,
so none is.  Between tasks it is established in rounds: barriers pass through the whole pipeline one after the other, so
the records in the loop at one barrier have come back before the next, or have left the loop.  The earliest record that
has come back holds the watermark.  If none has, the input before the first barrier has left the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ....sdk.elements.bundle import Bundle
from ....windowing.timestamp import MIN_MICROS


def earliest_of(times: Iterable[int | None]) -> int | None:
    """Return the minimum of the times that are not None; None if there are none."""
    return min((time for time in times if time is not None), default=None)


class LoopInTask:
    """A loop that begins and ends in one task.

    Attributes:
      waiting: the feedback to process.
    """

    def __init__(self) -> None:
        self.waiting: deque[Bundle] = deque()


class LoopBetweenTasks:
    """The head of a loop that ends in another task.

    >>> loop = LoopBetweenTasks()
    >>> loop.add_feedback(Bundle(["a", "b"], [40, 45])), loop.mark(1, watermark=50)
    (None, 40)
    >>> loop.add_feedback(Bundle(["b"], [45])), loop.mark(2, watermark=60), loop.is_behind(60)
    (None, 45, True)
    >>> loop.complete_round(1, earliest=45, floor=45), loop.watermark
    (None, 45)
    >>> loop.mark(3, watermark=60), loop.complete_round(2, earliest=None, floor=60), loop.watermark
    (None, None, 60)

    Attributes:
      watermark: the watermark behind the head, in microseconds.
    """

    def __init__(self) -> None:
        self.watermark = MIN_MICROS
        # The earliest feedback since the last barrier; earlier records than the floor are late everywhere and hold
        # nothing.
        self._earliest: int | None = None
        self._floor = MIN_MICROS
        # The watermark of the loop's input at each barrier.
        self._marks: dict[int, int] = {}

    def add_feedback(self, bundle: Bundle) -> None:
        """Note the timestamps of feedback."""
        times = bundle.timestamps
        if isinstance(times, int):
            times = [times]
        self._earliest = earliest_of([self._earliest, *(time for time in times if time >= self._floor)])

    def mark(self, number: int, watermark: int) -> int | None:
        """Note that a barrier has passed, with the input at this watermark.

        Returns the timestamp of the earliest feedback since the last barrier.
        """
        self._marks[number] = watermark
        earliest, self._earliest = self._earliest, None
        return earliest

    def complete_round(self, number: int, earliest: int | None, floor: int) -> None:
        """Advance the watermark: the records in the loop at this barrier have come back before the next, or have left.

        Args:
          earliest: the timestamp of the earliest feedback in between, of all loops; None if there was none.
          floor: the least watermark of all heads of loops at the barrier; earlier records are late.
        """
        mark = self._marks.get(number, MIN_MICROS)
        self.watermark = max(self.watermark, mark if earliest is None else min(mark, earliest))
        self._floor = max(self._floor, floor)
        self._marks = {n: mark for n, mark in self._marks.items() if n > number}

    def is_behind(self, watermark: int) -> bool:
        """Return True if the watermark of the input is further."""
        return self.watermark < watermark
