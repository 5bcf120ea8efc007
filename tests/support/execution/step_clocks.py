"""Steps of which a test decides how much they do."""

from __future__ import annotations

from random import Random

from penstock.runners.execution.clock import Pace, StepClock


class DrawnSteps(StepClock):
    """Steps that end at random, in one of so many looks, with bundles of up to so many elements."""

    def __init__(self, most: int) -> None:
        super().__init__(clock=lambda: 0)
        self._most = most
        self._random = Random(most)

    def must_yield(self) -> bool:
        return self._random.randrange(self._most) == 0

    def pace(self, most: int, first: int = 0) -> Pace:
        return _DrawnPace(self._most, self._random)


class _DrawnPace(Pace):
    __slots__ = ("_random",)

    def __init__(self, most: int, random: Random) -> None:
        super().__init__(most, most)
        self._random = random
        self.took(0, 0)

    def took(self, elements: int, micros: int) -> None:
        self.count = self._random.randint(1, self._most)


class ShortSteps(StepClock):
    """Steps that do one thing each, or as much as there is.

    Attributes:
      are_over: whether they do one thing only.
      size: the largest number of elements of a bundle.
    """

    def __init__(self, size: int = 1) -> None:
        super().__init__(clock=lambda: 0)
        self.are_over = True
        self.size = size

    def must_yield(self) -> bool:
        return self.are_over

    def pace(self, most: int, first: int = 0) -> Pace:
        return _FixedPace(self.size, self.size)


class _FixedPace(Pace):
    __slots__ = ()

    def took(self, elements: int, micros: int) -> None:
        """Stay as it is."""
