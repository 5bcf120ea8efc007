"""Time slices: the time that a loop over elements may run before it is left between two of them.

A subtask handles barriers, commands and signals between its steps.  So that they needn't wait for a whole bundle, each
step has a slice of time.  Every loop over elements checks before each element whether the slice is over.  Then it
leaves, and the remaining elements wait in their order, and are part of a snapshot.  The check costs a few nanoseconds:
a thread ends the slice (`watch.py`) by making a list non-empty.

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

# The time that a step may take before its loops are left, in microseconds.
SLICE = 10_000

# The slice of a bounded run.  There panes may depend on how the input is cut into bundles, which should rarely depend
# on the speed of the machine.
LONG_SLICE = 250_000


class TimeSlice:
    """The slice of time of the current step of this process.

    Args:
      length: microseconds.
      clock: microseconds, of any beginning.

    Attributes:
      over: true once loops are to be left; the same object during the lifetime of this one.
      began: the time when the step began, in microseconds; None between steps.
      steps: the number of steps that have begun.
      task: the label of the step's task.
    """

    def __init__(self, length: int = SLICE, clock: Callable[[], int] = steady_time) -> None:
        self.length = length
        self.clock = clock
        self.over: Any = []
        self.began: int | None = None
        self.steps = 0
        self.task = ""

    def begin(self) -> None:
        """Begin a step."""
        self.steps += 1
        self.began = self.clock()
        self.over.clear()

    def end(self) -> None:
        """End the slice: loops are left."""
        if not self.over:
            self.over.append(True)

    def rest(self) -> None:
        """End the step."""
        self.began = None

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Give the loop in this block a slice of its own, within a step or between two.

        Then the step's slice continues.

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
    """The number of elements that take about as long as a slice.

    Args:
      most: the largest number.
      first: the number to begin with.
      target: microseconds.
      growth: the largest factor of growth at once.

    It grows while elements are fast, and drops to the number that fits once they are slow.

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
        """Adjust the number to the time that these elements took."""
        if micros > 2 * self._target:
            self.count = max(1, min(self.count, elements * self._target // micros))
        elif elements >= self.count and 2 * micros < self._target:
            fits = self.count * self._target // max(1, micros)
            self.count = min(self._most, max(2 * self.count, min(self._growth * self.count, fits)))
