"""Time slices that end when a test decides."""

from __future__ import annotations

from random import Random

from penstock.runners.execution.clock import TimeSlice

# The steps in which user code was called; a function's own module may be a copy when it is called.
STEPS: set[str | None] = set()


class Looks(TimeSlice):
    """A time slice that ends at random, at one of so many checks on average."""

    def __init__(self, every: int) -> None:
        super().__init__(clock=lambda: 0)
        self.over = self
        self._every = every
        self._random = Random(every)

    def __bool__(self) -> bool:
        return self._random.randrange(self._every) == 0

    def end(self) -> None:
        """Do nothing: the random generator ends the slice."""

    def clear(self) -> None:
        """Do nothing at the start of a step."""


class AfterLooks(TimeSlice):
    """A time slice that ends after so many checks."""

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
        """Do nothing: the number of checks ends the slice."""
