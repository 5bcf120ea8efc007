"""Left work: elements and due timers that a step leaves when its slice of time is over.

A step may process a large bundle in several slices, so that the task can answer heartbeats and barriers in between.
Left work is done before the task processes any other input.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

from ....sdk.bundle import Bundle
from ..time_slice import TimeSlice

# Elements, with the place of the next operation for them in a fused stage.
Left: TypeAlias = tuple[int, Bundle]


class LeavingStep:
    """A step that may leave work.

    Args:
      time_slice: the worker's; None if the step processes everything at once.
      behind: the steps of the task that have left work.

    Attributes:
      left: the elements that it has left, in their order.
      is_behind: True if it has left any work.
    """

    def __init__(self, time_slice: TimeSlice | None, behind: set[LeavingStep] | None) -> None:
        self.over = None if time_slice is None else time_slice.over
        self.left: deque[Left] = deque()
        self.is_behind = False
        self._behind = set() if behind is None else behind

    @property
    def waits(self) -> bool:
        """Return True if new elements have to wait."""
        return self.is_behind or bool(self.over)

    def put_off(self, bundle: Bundle, place: int = 0) -> None:
        """Queue elements behind those that wait already."""
        self.left.append((place, bundle))
        self.note()

    def leave(self, entries: Iterable[Left]) -> None:
        """Queue elements before those that wait already."""
        self.left.extendleft(reversed(list(entries)))
        self.note()

    def note(self, is_due: bool = False) -> None:
        """Update `is_behind`: True if elements are left, or `is_due`."""
        self.is_behind = is_due or bool(self.left)
        (self._behind.add if self.is_behind else self._behind.discard)(self)

    def resume(self) -> None:
        """Continue with the left work, until none remains or the slice is over."""
        raise NotImplementedError
