"""Alignment: a subtask waits at a barrier for all of its inputs (ABS, algorithm 1).

>>> alignment = Alignment(["left", "right"])
>>> alignment.arrived("left"), alignment.is_blocked("left"), alignment.is_blocked("right")
(False, True, False)
>>> alignment.arrived("right"), alignment.is_blocked("left")
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
    """

    def __init__(self, inputs: Collection[Hashable]) -> None:
        self._count = len(inputs)
        self._blocked: set[Hashable] = set()

    def is_blocked(self, channel: Hashable) -> bool:
        """Whether an input has to wait."""
        return channel in self._blocked

    def arrived(self, channel: Hashable) -> bool:
        """Block an input at its barrier, or unblock all inputs if it is the last one.

        Returns whether the barrier has now arrived on all inputs.
        """
        self._blocked.add(channel)
        if len(self._blocked) < self._count:
            return False
        self._blocked.clear()
        return True

    def cancel(self) -> None:
        """Unblock all inputs: the barrier will not arrive on the others."""
        self._blocked.clear()
