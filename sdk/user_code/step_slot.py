"""The slot of a thread, which says what step of a pipeline the thread is in.

Whatever runs steps stores into it, once for each bundle and step.  Whatever watches a run reads it: reports of calls
that don't return, the time of each step, and the scopes of metrics.

A kernel runs several steps together, and a clock in its loop would cost more than most functions.  So the loop is timed
for some elements now and then, and the time of all is split in the same shares (`StepTimes`).

>>> slot = here.slot
>>> with slot.spending({}) as seconds:
...     before = slot.enter("Parse")
...     inner = slot.enter("Count")
...     _ = slot.enter(inner), slot.enter(before)
>>> sorted(seconds), slot.step
(['Count', 'Parse'], None)
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from time import perf_counter
from types import CodeType
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

# Seconds for an element, beside which it costs nothing to note it.
SLOW = 0.000_1


class FusedSteps(Protocol):
    """Several steps that a thread is in together: one function, generated from theirs.

    Attributes:
      label: the label of all together.
      code: the function's code.
      times: how their time is split.
    """

    @property
    def label(self) -> str: ...

    @property
    def code(self) -> CodeType: ...

    @property
    def times(self) -> StepTimes: ...

    def label_at(self, line: int) -> str:
        """Return the label of the step that a line of the function belongs to."""


class Profile(Protocol):
    """A profile of a thread."""

    def switched(self, before: str | FusedSteps | None, step: str | FusedSteps | None, seconds: float) -> None:
        """Note, on the thread, that it is in another step now, and how long it has been in the one before."""


class StepSlot:
    """What a thread is in.

    Attributes:
      thread: the thread's identity.
      step: the label of its step, or those of fused ones; None between steps.
      moves: grows with each step, and with each element of a slow one.
      since: when the last step began or ended, in seconds of `time.perf_counter`.
      watches: what watches this thread; the last one, of the innermost run, reports.
      profile: what profiles this thread, if anything does.
    """

    __slots__ = ("_seconds", "moves", "profile", "since", "step", "thread", "watches")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.step: str | FusedSteps | None = None
        self.moves = 0
        self.since = 0.0
        # By label.
        self._seconds: dict[str, float] = {}
        self.watches: list[Any] = []
        self.profile: Profile | None = None

    def enter(self, step: str | FusedSteps | None) -> str | FusedSteps | None:
        """Note that the thread is in a step from now on; return what it has been in, to be entered again."""
        before, now = self.step, perf_counter()
        if isinstance(before, str):
            seconds = self._seconds
            seconds[before] = seconds.get(before, 0.0) + now - self.since
        elif before is not None:
            before.times.spend(self._seconds, now - self.since)
        if self.profile is not None:
            self.profile.switched(before, step, now - self.since)
        self.step, self.since = step, now
        self.moves += 1
        return before

    def spend_for(self, seconds: dict[str, float]) -> None:
        """Add the time of steps to these seconds, by label, from now on."""
        self._seconds = seconds

    @contextmanager
    def spending(self, seconds: dict[str, float]) -> Iterator[dict[str, float]]:
        """Add the time of steps to these seconds, by label, within the block, which is in no step at first.

        The step around the block takes the time of the block.
        """
        outer, before = self._seconds, self.enter(None)
        began = self.since
        self._seconds = seconds
        try:
            yield seconds
        finally:
            self.enter(None)
            self._seconds = outer
            self.enter(before)
            self.since = began if before is not None else self.since

    def noting(self, elements: Iterable[T]) -> Iterator[T]:
        """Yield elements; the slot moves with each one."""
        for element in elements:
            self.moves += 1
            yield element


class _Here(threading.local):
    """The slot of the calling thread."""

    def __init__(self) -> None:
        self.slot = StepSlot()


here = _Here()


# The elements that are timed at once.
TIMED = 32

# Seconds of a kernel's time between two samples.
_SELDOM = 0.5

# A bundle of few elements isn't timed until the kernel has taken so many seconds: it may be the only one, and the
# kernel that times has two loops.
_FEW, _SHORT = 10, 0.01

# Seconds that are split at once.
_SPLIT = 0.001

# What belongs to no step.
NO_STEP = -1


class StepTimes:
    """The times of a stage's steps.

    Args:
      labels: the steps' labels.

    >>> times = StepTimes(["Parse", "Count"])
    >>> elements = iter(range(100))
    >>> for _ in times.first(elements):
    ...     _ = times.mark(0), times.mark(1)
    >>> seconds: dict[str, float] = {}
    >>> len(list(times.rest(elements))), times.spend(seconds, 1.0), sorted(seconds)
    (68, None, ['Count', 'Parse'])

    Attributes:
      are_slow: whether so much is done for an element that the slot of the thread moves with it.
    """

    __slots__ = (
        "_began",
        "_current",
        "_first",
        "_labels",
        "_measured",
        "_since",
        "_spent",
        "_timed",
        "_total",
        "_unsplit",
        "are_slow",
    )

    def __init__(self, labels: Sequence[str]) -> None:
        self.are_slow = False
        self._labels = tuple(labels)
        # By step, the seconds of its timed elements.
        self._measured = [0.0] * len(labels)
        self._total = 0.0
        self._current = NO_STEP
        self._since = self._began = 0.0
        # The elements that have been timed since the seconds below began to be counted, and before this bundle.
        self._timed = self._first = 0
        self._spent = self._unsplit = 0.0

    def are_due(self, elements: int) -> bool:
        """Return True if the first elements of a bundle are to be timed."""
        if self.are_slow or self._spent >= _SELDOM:
            return True
        return self._timed < TIMED and (elements > _FEW or self._spent >= _SHORT)

    def first(self, elements: Iterator[T]) -> Iterator[T]:
        """Yield the elements of a bundle that are to be timed."""
        if self._timed >= TIMED:
            self._timed, self._spent = 0, 0.0
        self._current, self._began, self._first = NO_STEP, perf_counter(), self._timed
        for element in here.slot.noting(islice(elements, TIMED)):
            self._timed += 1
            yield element

    def rest(self, elements: Iterator[T]) -> Iterator[T]:
        """Return the elements of the bundle behind those that were timed."""
        self.mark(NO_STEP)
        self._total = sum(self._measured)
        self.are_slow = self._since - self._began > SLOW * (self._timed - self._first)
        return here.slot.noting(elements) if self.are_slow else elements

    def mark(self, step: int) -> int:
        """Note that a step begins; return that of the last mark, which ends."""
        now, last = perf_counter(), self._current
        if last != NO_STEP:
            self._measured[last] += now - self._since
        self._current, self._since = step, now
        return last

    def items(self, step: int, outputs: Iterable[T]) -> Iterator[T]:
        """Yield the outputs of a step, which computes them meanwhile."""
        iterator = iter(outputs)
        while True:
            self.mark(step)
            try:
                output = next(iterator)
            except StopIteration:
                return
            yield output

    def took(self, seconds: float, elements: int) -> None:
        """Note how long a bundle has taken."""
        self.are_slow = seconds > SLOW * elements

    def spend(self, seconds: dict[str, float], time: float) -> None:
        """Add time, in seconds, to that of the steps by label, in the shares of their timed elements."""
        self._spent += time
        self._unsplit += time
        if self._unsplit < _SPLIT:
            return
        time, self._unsplit = self._unsplit, 0.0
        total, labels = self._total, self._labels
        for label, measured in zip(labels, self._measured, strict=True):
            share = measured / total if total else 1 / len(labels)
            seconds[label] = seconds.get(label, 0.0) + time * share
