"""Throughput of a subtask, which bounds what may wait in its channels by the time that it takes (buffer debloating).

An aligned barrier waits for all records before it.  So the channels of a slow subtask hold about as much as it does in
half a second, and what it has taken is about as much again.  Source: Flink, FLIP-183.
"""

from __future__ import annotations

# Microseconds of work that may wait in the channels of a subtask.
_WORK = 500_000

# Microseconds of work by which the throughput is measured: older work counts half.
_MEMORY = 1_000_000

# Elements that may wait in a channel before anything is known.
FIRST = 32


class Throughput:
    """The elements that a subtask has processed, and the time that it took, that of waiting for receivers included.

    >>> throughput = Throughput()
    >>> throughput.took(50)
    >>> throughput.worked(500_000, is_behind=False)
    >>> throughput.capacity(channels=1), throughput.capacity(channels=5)
    (50, 10)
    """

    def __init__(self) -> None:
        self._elements = 0.0
        self._micros = 0.0

    def took(self, elements: int) -> None:
        """Count elements that it has taken."""
        self._elements += elements

    def worked(self, micros: int, is_behind: bool) -> None:
        """Count the time of a step, and of the wait before it.

        Args:
          is_behind: whether a part of the elements is left.
        """
        self._micros += micros
        if self._micros > _MEMORY and not is_behind:
            self._elements /= 2
            self._micros /= 2

    def capacity(self, channels: int) -> int:
        """Return how many elements may wait in each channel."""
        if not self._elements:
            return FIRST
        return max(1, int(self._elements * _WORK / max(1.0, self._micros) / channels))
