"""Time slices: how long a loop over elements may run before it is left between two of them.

A barrier, a command and a signal are looked at between the steps of a subtask.  So that they needn't wait for a
bundle, each step has a slice of time.  Every loop over elements looks before each element whether the slice is over;
it then leaves, and the elements that it has not come to wait in their order, and are part of a snapshot.  The look
costs a few nanoseconds: the slice is ended by a thread (`watch.py`), and a loop sees a list that is empty no more.

>>> slice = TimeSlice()
>>> slice.begin()
>>> bool(slice.over)
False
>>> slice.end()
>>> bool(slice.over)
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .clock import steady_time

# How long a step may take before its loops are left, in microseconds.
SLICE = 10_000

# The same in a bounded run: there panes may depend on how the input is cut into bundles, and that is to depend on
# how fast the machine is as rarely as may be.
LONG_SLICE = 250_000


class TimeSlice:
    """The slice of time of the step that is being taken in this process.

    Args:
      length: microseconds.
      clock: microseconds, of any beginning.

    Attributes:
      over: true once loops are to be left; one object for as long as this lives.
      began: when the step began, in microseconds; None between steps.
      steps: how many steps have begun.
      task: the label of the task whose step it is.
    """

    def __init__(self, length: int = SLICE, clock: Callable[[], int] = steady_time) -> None:
        self.length = length
        self.clock = clock
        self.over: Any = []
        self.began: int | None = None
        self.steps = 0
        self.task = ""

    def begin(self) -> None:
        """A step begins."""
        self.steps += 1
        self.began = self.clock()
        self.over.clear()

    def end(self) -> None:
        """Have the loops be left."""
        if not self.over:
            self.over.append(True)

    def rest(self) -> None:
        """No step is being taken."""
        self.began = None

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Give the loop in this block a slice of its own, within a step or between two; the step's goes on behind it.

        >>> slice = TimeSlice()
        >>> slice.begin(), slice.end()
        (None, None)
        >>> with slice.renewed():
        ...     bool(slice.over)
        False
        >>> bool(slice.over)
        True
        """
        began, was_over = self.began, bool(self.over)
        self.begin()
        try:
            yield
        finally:
            self.began = began
            if was_over:
                self.end()


class Pace:
    """How many elements to take at a time, so that they take about as long as a slice.

    Args:
      most: the largest number.
      first: the number to begin with.
      target: microseconds.
      growth: by how much it grows at once, at most.

    It grows while elements are fast, and is what fits once they are slow.

    >>> pace = Pace(most=1_000, first=400, target=10_000)
    >>> pace.took(400, 1_000), pace.count
    (None, 800)
    >>> pace.took(800, 80_000), pace.count
    (None, 100)
    >>> pace.took(100, 9_000), pace.count
    (None, 100)
    >>> pace.took(100, 10_000_000), pace.count
    (None, 1)
    """

    __slots__ = ("_growth", "_most", "_target", "count")

    def __init__(self, most: int, first: int, target: int = SLICE, growth: int = 2) -> None:
        self._growth = growth
        self._most = most
        self._target = target
        self.count = min(most, first)

    def took(self, elements: int, micros: int) -> None:
        """So many elements took so long."""
        if micros > 2 * self._target:
            self.count = max(1, min(self.count, elements * self._target // micros))
        elif elements >= self.count and 2 * micros < self._target:
            fits = self.count * self._target // max(1, micros)
            self.count = min(self._most, max(2 * self.count, min(self._growth * self.count, fits)))
