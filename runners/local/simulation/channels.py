"""Channels of a simulation: of any capacity, and between slots with the same bytes as between processes.

Messages with an id may be delivered again, after later ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ..channels.channel import Channel, ChannelId, arrived, payloads_of
from ..channels.messages import Barrier, Message
from ..productions.production import Delivery, Taken


class ShortChannel(Channel):
    """Channel within a slot, with a capacity of the simulation's."""

    __slots__ = ("capacity",)

    def __init__(self, id: ChannelId, capacity: int) -> None:
        super().__init__(id)
        self.capacity = capacity

    @property
    def is_full(self) -> bool:
        return self.is_paused or len(self.queue) >= self.capacity


class _SendingSide(ShortChannel):
    """Sending end of a pipe to another slot.

    Attributes:
      frames: kinds and payloads in the pipe.
    """

    __slots__ = ("frames",)

    def __init__(self, id: ChannelId, capacity: int) -> None:
        super().__init__(id, capacity)
        self.frames: deque[tuple[int, bytes]] = deque()

    def put(self, message: Message) -> None:
        self.frames.extend(payloads_of(message))

    @property
    def is_full(self) -> bool:
        return len(self.frames) >= self.capacity


class Pipe:
    """Pipe between two slots.

    Args:
      repeats: decides whether a message is delivered a second time.

    Attributes:
      sending, receiving: its two ends.
    """

    def __init__(self, id: ChannelId, capacity: int, repeats: Callable[[str], bool]) -> None:
        self.sending = _SendingSide(id, capacity)
        self.receiving = ShortChannel(id, capacity)
        self._seen = -1
        self._repeats = repeats
        self._repeated: deque[Any] = deque()

    def deliver(self, expected: int) -> bool:
        """Deliver a message, if there is room for it, or an unaligned barrier is yet to arrive.

        Returns whether there was one.
        """
        if not self.sending.frames or (self.receiving.is_full and self._seen >= expected):
            return False
        message: Any = arrived(*self.sending.frames.popleft())
        if isinstance(message, Barrier):
            self._seen = message.number
        self.receiving.arrive(message)
        if _has_id(message) and self._repeats(f"{type(message).__name__} on {self.sending.id}"):
            self._repeated.append(message)
        return True

    def deliver_again(self) -> bool:
        """Deliver a message for the second time.  Return True if there was one."""
        if not self._repeated:
            return False
        self.receiving.arrive(self._repeated.popleft())
        return True


def _has_id(message: Any) -> bool:
    """Return True if a receiver recognizes the message; without productions no message is sent twice."""
    return isinstance(message, Taken) or (isinstance(message, Delivery) and message.sent[0].number > 0)
