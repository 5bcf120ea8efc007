"""Alignment: a subtask waits at a barrier for all of its inputs (ABS, algorithm 1).

>>> alignment = Alignment(["left", "right"])
>>> alignment.arrived("left", 1), alignment.is_blocked("left"), alignment.is_blocked("right")
(False, True, False)
>>> alignment.arrived("right", 1), alignment.is_blocked("left")
(True, False)
"""

from __future__ import annotations

from collections.abc import Collection, Hashable


class Alignment:
    """Which inputs are blocked by a barrier.

    What is before the barrier on one input is processed, while what is behind it on another waits;
    so no record that comes after the barrier is in the snapshot, and none before it is missing.

    Args:
      inputs: the channels.
      aligns: False takes the first barrier for all of them: only to show that the results are
        wrong then.
    """

    def __init__(self, inputs: Collection[Hashable], aligns: bool = True) -> None:
        self._count = len(inputs)
        self._aligns = aligns
        self._blocked: set[Hashable] = set()
        self._last = -1

    def is_blocked(self, channel: Hashable) -> bool:
        """Whether an input has to wait."""
        return channel in self._blocked

    def arrived(self, channel: Hashable, number: int) -> bool:
        """A barrier has come on an input; whether it has now come on all, which are unblocked then."""
        if not self._aligns:
            is_first, self._last = number > self._last, number
            return is_first
        self._blocked.add(channel)
        if len(self._blocked) < self._count:
            return False
        self._blocked.clear()
        return True
