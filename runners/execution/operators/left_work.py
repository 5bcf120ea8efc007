"""Work that a step has left because its slice of time was over: done before anything else comes to the task."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

from ....sdk.bundle import Bundle
from ..time_slice import TimeSlice

# Elements, with the place of the operation that is next for them, in a step of several.
Left: TypeAlias = tuple[int, Bundle]


class LeavingStep:
    """A step that may leave its loops.

    Args:
      time_slice: of the worker; None if the step does everything at once.
      behind: the steps of the task that have left something.

    Attributes:
      left: the elements that it has not come to, in their order.
      is_behind: whether it has left anything.
    """

    def __init__(self, time_slice: TimeSlice | None, behind: set[LeavingStep] | None) -> None:
        self.over = None if time_slice is None else time_slice.over
        self.left: deque[Left] = deque()
        self.is_behind = False
        self._behind = set() if behind is None else behind

    @property
    def waits(self) -> bool:
        """Whether elements that come now have to wait."""
        return self.is_behind or bool(self.over)

    def put_off(self, bundle: Bundle, place: int = 0) -> None:
        """Have elements wait behind those that wait already."""
        self.left.append((place, bundle))
        self.note()

    def leave(self, entries: Iterable[Left]) -> None:
        """Have elements wait before those that wait already."""
        self.left.extendleft(reversed(list(entries)))
        self.note()

    def note(self, is_due: bool = False) -> None:
        """Note whether anything is left: elements, or work that is due."""
        self.is_behind = is_due or bool(self.left)
        (self._behind.add if self.is_behind else self._behind.discard)(self)

    def resume(self) -> None:
        """Go on with what was left, until that is all or the slice is over."""
        raise NotImplementedError
