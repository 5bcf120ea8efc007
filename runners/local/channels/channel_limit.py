"""Limit of the elements that wait in the channels of a subtask, by the time that they take (buffer debloating).

An aligned barrier waits for all records before it.  So the channels of a slow subtask hold about as much as it
processes in half a second, and what it has taken is about as much again.  Source: Flink, FLIP-183.

>>> channel = Channel(ChannelId(0, 0, 0))
>>> limit = ChannelLimit({channel.id: channel})
>>> channel.limit
32
>>> limit.took(20)
>>> limit.worked(500_000, has_pending=False)
>>> channel.limit
20
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .channel import MANY_ELEMENTS, Channel, ChannelId

# Microseconds of work that may wait in the channels of a subtask.
_WORK = 500_000

# Microseconds of work by which the throughput is measured: older work counts half.
_MEMORY = 1_000_000

# Elements that may wait in a channel before anything is known.
_FIRST = 32


class ChannelLimit:
    """Limit of a subtask's channels, which follows the subtask's throughput.

    It counts the elements that the subtask has processed, and the time that it took, that of waiting for receivers
    included.

    Args:
      channels: the subtask's inputs, by id; the mapping is the subtask's own.
      unlimited: those of them without a limit.
    """

    def __init__(self, channels: Mapping[ChannelId, Channel], unlimited: Collection[ChannelId] = ()) -> None:
        self._channels = channels
        self._unlimited = unlimited
        self._elements = 0.0
        self._micros = 0.0
        self._limit = _FIRST
        self.apply()

    def took(self, elements: int) -> None:
        """Count elements that the subtask has taken."""
        self._elements += elements

    def worked(self, micros: int, has_pending: bool) -> None:
        """Count the time of a step, and of the wait before it, and adapt the limit.

        Args:
          has_pending: True if there is more to be done for the elements.
        """
        self._micros += micros
        if self._micros > _MEMORY and not has_pending:
            self._elements /= 2
            self._micros /= 2
        fits = _FIRST
        if self._elements:
            fits = max(1, int(self._elements * _WORK / max(1.0, self._micros) / len(self._channels)))
        if 4 * fits < 3 * self._limit or (not has_pending and fits > self._limit + self._limit // 4):
            before, self._limit = self._limit, min(fits, MANY_ELEMENTS)
            if self._limit != before:
                self.apply()

    def apply(self) -> None:
        """Limit the channels, also those that have been replaced."""
        for id, channel in self._channels.items():
            if id not in self._unlimited:
                channel.limit_to(self._limit if self._limit < MANY_ELEMENTS else None)
