"""Clocks: processing time, which follows a script or the wall clock, the monotonic clock, and the times of steps.

The wall clock may be set, forward or back, while a pipeline runs.  Intervals and time-outs follow the monotonic clock
and are unaffected.  Processing time follows the wall clock forward.  Where that is set back, processing time continues
at the pace of the monotonic clock.

>>> wall, steady = [5_000_000], [0]
>>> now = ProcessingTime(lambda: wall[0], lambda: steady[0])
>>> now()
5000000
>>> wall[0], steady[0] = 3_000_000, 1_000_000
>>> now(), now.ahead_of_wall()
(6000000, 3000000)
>>> wall[0] = 60_000_000
>>> now(), now.jumped
(60000000, 54000000)

A *step* is what a subtask does between two looks at barriers, commands and signals.  So that these needn't wait for
long, bundles are as large as steps of about 10 ms allow, by the time that the last ones took (`Pace`).

>>> pace = StepClock().pace(most=16_384)
>>> pace.took(pace.count, 100), pace.count
(None, 128)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import ClassVar

from ...sdk.elements.bundle import Bundle
from .wakeup import Wakeup

# The advance over the monotonic clock, in microseconds, from which the wall clock counts as set and not adjusted.
_JUMP = 100_000


class Clock:
    """Processing time, in microseconds.  It starts at zero, and its owner advances it."""

    __slots__ = ("now",)

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def advance(self, micros: int) -> None:
        """Advance by this much."""
        self.now += micros


def time_of_day() -> int:
    """Return the microseconds since 1970 of the wall clock."""
    return time.time_ns() // 1000


def steady_time() -> int:
    """Return the microseconds of the monotonic clock."""
    return time.monotonic_ns() // 1000


class ProcessingTime:
    """Microseconds since 1970 that never regress, in one thread.  Picklable: a copy continues from the same time.

    Args:
      wall: the wall clock, in microseconds since 1970.
      steady: the monotonic clock, in microseconds.

    Attributes:
      jumped: the microseconds by which the wall clock was set forward since the first call, in total.
    """

    __slots__ = ("_ahead", "_steady", "_wall", "jumped")

    def __init__(self, wall: Callable[[], int] = time_of_day, steady: Callable[[], int] = steady_time) -> None:
        self._wall = wall
        self._steady = steady
        # The difference of processing time and the monotonic clock; None before the first call.
        self._ahead: int | None = None
        self.jumped = 0

    @staticmethod
    def of(clock: Callable[[], int]) -> ProcessingTime:
        """Return the clock itself if it is one of these, otherwise one that follows `clock`."""
        return clock if isinstance(clock, ProcessingTime) else ProcessingTime(clock, clock)

    def __call__(self) -> int:
        # In this order a pause in between makes the difference too small, which the next call corrects.
        wall = self._wall()
        steady = self._steady()
        known, ahead = self._ahead, wall - steady
        if known is None:
            self._ahead = known = ahead
        elif ahead > known:
            if ahead - known >= _JUMP:
                self.jumped += ahead - known
            self._ahead = known = ahead
        return steady + known

    def go_on_from(self, micros: int) -> int:
        """Advance to at least `micros`, and return the time."""
        now = self()
        if micros > now:
            assert self._ahead is not None
            self._ahead += micros - now
        return max(micros, now)

    def ahead_of_wall(self) -> int:
        """Return the microseconds by which it is ahead of the wall clock: 0 unless that was set back."""
        now = self()
        return max(0, now - self._wall())

    def peek(self) -> int:
        """Return the time, in another thread than the one that calls this object."""
        return self._steady() + (self._ahead or 0)


# The time that a step takes, in microseconds.
STEP = 10_000

# That of a bounded run.  There panes may depend on how the input is cut into bundles, which should rarely depend on the
# speed of the machine.
LONG_STEP = 250_000

# The size of the first bundle of a pace.
_FIRST = 16


class StepClock:
    """Times the steps of the subtasks of this process.

    Args:
      length: the time that a step takes, in microseconds.
      clock: microseconds, of any beginning.

    Attributes:
      began: the time when the step began, in microseconds; None between steps.
      took: the microseconds of the last step.
      is_simulated: True if everything happens in one thread, by a seed.
      is_bounded: False if a step takes as long as it takes.
    """

    is_simulated: ClassVar[bool] = False
    is_bounded: ClassVar[bool] = True

    def __init__(self, length: int = STEP, clock: Callable[[], int] = steady_time) -> None:
        self.length = length
        self.clock = clock
        self.began: int | None = None
        self.took = 0

    @cached_property
    def wakeup(self) -> Wakeup:
        """The flag that ends the worker's wait, set when a call in the background has ended."""
        return Wakeup()

    def begin(self) -> None:
        """Begin a step."""
        self.began = self.clock()

    def must_yield(self) -> bool:
        """Return True if the step has taken its time, and others have their turn."""
        return self.began is not None and self.clock() - self.began >= self.length

    def rest(self) -> None:
        """End the step."""
        if self.began is not None:
            self.took = self.clock() - self.began
            self.began = None

    def pace(self, most: int, first: int = _FIRST) -> Pace:
        """Return the pace of one kind of bundles."""
        return Pace(most, first, self.length, growth=8, clock=self.clock)


class UnboundedSteps(StepClock):
    """Steps that process everything at once."""

    is_bounded = False

    def must_yield(self) -> bool:
        return False

    def pace(self, most: int, first: int = _FIRST) -> Pace:
        return Pace(sys.maxsize, sys.maxsize, sys.maxsize, clock=self.clock)


class Pace:
    """The number of elements of a bundle that takes about as long as a step.

    Args:
      most: the largest number.
      first: the number to begin with.
      target: microseconds.
      growth: the largest factor of growth at once.
      clock: microseconds, of any beginning.

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

    `begin` and `end` measure the time:

    >>> times = iter([0, 20_000])
    >>> pace = Pace(most=1_000, first=100, target=1_000, clock=lambda: next(times))
    >>> pace.begin(), pace.end(100), pace.count
    (None, None, 5)
    """

    __slots__ = ("_began", "_clock", "_growth", "_most", "_target", "count")

    def __init__(
        self,
        most: int,
        first: int = _FIRST,
        target: int = STEP,
        growth: int = 2,
        clock: Callable[[], int] = steady_time,
    ) -> None:
        self._began = 0
        self._clock = clock
        self._growth = growth
        self._most = most
        self._target = target
        self.count = min(most, first)

    def begin(self) -> None:
        """Begin to process elements."""
        self._began = self._clock()

    def end(self, elements: int) -> None:
        """Adjust the number to the time since `begin`, in which so many elements were processed."""
        self.took(elements, self._clock() - self._began)

    def parts(self, bundle: Bundle) -> Iterator[Bundle]:
        """Yield a bundle in parts, each of which is processed before the next is asked for.

        A bundle of columns isn't divided: its elements are processed together.
        """
        if type(bundle) is not Bundle:
            yield bundle
            return
        start, n = 0, len(bundle)
        while start < n:
            stop = min(n, start + self.count)
            self.begin()
            yield bundle if stop - start == n else bundle.part(start, stop)
            self.end(stop - start)
            start = stop

    def took(self, elements: int, micros: int) -> None:
        """Adjust the number to the time that these elements took."""
        if micros > 2 * self._target:
            self.count = max(1, min(self.count, elements * self._target // micros))
        elif elements >= self.count and 2 * micros < self._target:
            fits = self.count * self._target // max(1, micros)
            self.count = min(self._most, max(2 * self.count, min(self._growth * self.count, fits)))
