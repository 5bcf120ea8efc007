"""Slices of time that are over when a test says so."""

from __future__ import annotations

from random import Random

from penstock.runners.execution.clock import TimeSlice

# The steps in which user code was called; a function's own module may be a copy when it is called.
STEPS: set[str | None] = set()


class Looks(TimeSlice):
    """A slice that is over at some of the looks at it, as a seed has it: at one of so many."""

    def __init__(self, every: int) -> None:
        super().__init__(clock=lambda: 0)
        self.over = self
        self._every = every
        self._random = Random(every)

    def __bool__(self) -> bool:
        return self._random.randrange(self._every) == 0

    def end(self) -> None:
        """Do nothing: the seed ends it."""

    def clear(self) -> None:
        """A step begins: nothing changes."""


class AfterLooks(TimeSlice):
    """A slice that is over behind so many looks at it."""

    def __init__(self, looks: int) -> None:
        super().__init__(clock=lambda: 0)
        self.over = self
        self._looks = looks
        self._seen = 0

    def __bool__(self) -> bool:
        self._seen += 1
        return self._seen > self._looks

    def begin(self) -> None:
        self._seen = 0

    def end(self) -> None:
        """Do nothing: it is over behind the next looks."""
