"""A channel: what one subtask sends to another, first in, first out."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from .messages import Message

# How many messages may wait in a channel before whoever sends them has to wait.
CAPACITY = 32


class ChannelId(NamedTuple):
    """Which edge, from which of its subtasks, to which."""

    edge: int
    source: int
    target: int


class Channel:
    """A channel within a process; also each end of one between two.

    >>> channel = Channel(ChannelId(0, 0, 1))
    >>> channel.put("a"), channel.put("b"), channel.take(), channel.is_full
    (None, None, 'a', False)
    """

    __slots__ = ("id", "queue")

    def __init__(self, id: ChannelId) -> None:
        self.id = id
        self.queue: deque[Message] = deque()

    def put(self, message: Message) -> None:
        """Send a message; it is taken even if the channel is full."""
        self.queue.append(message)

    def take(self) -> Message:
        """The oldest message that waits."""
        return self.queue.popleft()

    @property
    def is_full(self) -> bool:
        """Whether the sender has to wait (backpressure)."""
        return len(self.queue) >= CAPACITY
